"""Flags, barriers, Events, cross-core signals and FIFOs."""

from __future__ import annotations

import math
from typing import Any

from ptosim.ground.ir.core import Node
from ptosim.language.build import Typed
from ptosim.language.cpp.declared import text
from ptosim.language.cpp.forms import pipes_of_ops
from ptosim.language.cpp.kinds import (
    INT,
    LONG,
    SCALARS,
    Event,
    EventType,
    Global,
    Member,
    Num,
    Pipe,
    PipeType,
    Pointer,
    Recorded,
    Tile,
    number,
)
from ptosim.language.cpp.operators import Operators
from ptosim.language.cpp.state import CppError, refused

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
_MOST_IDS = 8
_MEETING = {"AIVOnly": "aiv_only", "AICOnly": "aic_only", "Mix": "mix"}
"""The kinds of cores that SYNCALL names."""
PEER = "kernel_"
"""How the function of a kind of core is called where there are two."""


def pipe_of(op: str) -> str:
    """Return the pipe of an operation that an Event names."""
    return pipes_of_ops().get(op, "V")


class Sync(Operators):
    """Synchronisation."""

    core: str | None = None
    """The kind of core that this program is for; None for a file that asks nothing."""

    orders = False
    """Does the kernel order its pipes itself?"""

    def prepare(self) -> None:
        """Begin the counts of Events, one for each pair of pipes."""
        self.counters = {
            (a, b): self.cell(number(0, INT), INT) for a in PIPES for b in PIPES if a != b
        }

    def grid(self, word: str, node: Any) -> Num:
        """Return the number of this block, or how many there are."""
        self.here(node)

        def make(name: str) -> None:
            self.make.op(f"pto.{word}", results=[name])

        name = self.converted(self.once((word,), make), "i64", "index", LONG).name
        self.small.add(name)
        return Num(LONG, None, name)

    # -- flags -------------------------------------------------------------------------------------

    def flag(self, word: str, source: str, target: str, id_: Num) -> None:
        """Append `set_flag` or `wait_flag`; an id of the run makes the dynamic form."""
        if self.is_auto:
            return
        self.orders = True
        pipes = [f"<PIPE_{source}>", f"<PIPE_{target}>"]
        if id_.is_known:
            if not 0 <= id_.const < _MOST_IDS:
                raise CppError(self.make.at, f"the event id {id_.const} is none of 0 to 7")
            item: Any = f"<EVENT_ID{id_.const}>"
            self.make.op(f"pto.{word}", [self.make.listed([*pipes, item])], [])
            return
        pipes = [f"#pto.pipe{p}" for p in pipes]
        items = [*pipes, self.index(id_)]
        self.make.op(f"pto.{word}_dyn", [self.make.listed(items)], [])

    def barrier(self, pipe: str) -> None:
        """Append a barrier of a pipe."""
        if self.is_auto:
            return
        self.orders = True
        self.make.op("pto.barrier", [f"#pto.pipe<PIPE_{pipe}>"], [])

    def i_set_flag(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`set_flag(PIPE_A, PIPE_B, id)`."""
        if len(args) != 3 or not all(isinstance(a, Member) for a in args[:2]):
            raise CppError(node, f"{word} takes two pipes and an event id")
        source, target = (a.name.removeprefix("PIPE_") for a in args[:2])
        self.flag(word, source, target, self.num(args[2], node))

    i_wait_flag = i_set_flag

    def i_pipe_barrier(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`pipe_barrier(PIPE_X)`."""
        self.barrier(args[0].name.removeprefix("PIPE_"))

    def i_ptosetwaitflag(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """Set, then wait."""
        source, target = (t.name.removeprefix("PIPE_") for t in targs[:2])
        ids = [self.num(a, node) for a in args] or [number(0)]
        self.flag("set_flag", source, target, ids[0])
        self.flag("wait_flag", source, target, ids[-1])

    # -- events ------------------------------------------------------------------------------------

    def new_event(self, type_: EventType, args: list[Any], node: Any) -> Event:
        """Return an Event: it takes the next of eight ids of its pair of pipes."""
        source, target = pipe_of(type_.source), pipe_of(type_.target)
        if source == target or not type_.auto:
            event = Event(type_, self.cell(number(type_.id)))
        else:
            counter = self.counters[source, target]
            count = counter.value
            event = Event(type_, self.cell(self.binary("&", count, number(7), node)))
            counter.set(self.binary("+", count, number(1), node))
            if counter.value.is_known:
                counter.value = number(counter.value.const % _MOST_IDS)
        for value in args:
            if isinstance(value, Recorded):
                self.record(event, node)
        return event

    def record(self, event: Event, node: Any) -> None:
        """Set the flag of an Event."""
        source, target = pipe_of(event.type.source), pipe_of(event.type.target)
        if event.far is not None:
            self._far("set", source, event.far, other=self.core == "cube")
        elif source != target:
            self.flag("set_flag", source, target, self.read(event.id, node))

    def wait_event(self, event: Event, node: Any) -> None:
        """Wait for the flag of an Event; of one pipe alone it is a barrier."""
        source, target = pipe_of(event.type.source), pipe_of(event.type.target)
        if event.far is not None:
            self._far("wait", target, event.far, other=self.core == "cube")
        elif source != target:
            self.flag("wait_flag", source, target, self.read(event.id, node))
        else:
            self.barrier(source)

    def event_member(
        self, event: Event, word: str, args: list[Any], targs: list[Any], node: Any
    ) -> Any:
        """Call a member function of an Event."""
        if targs and word in ("Init", "Wait", "Record"):
            if event.type.auto:
                raise CppError(
                    node,
                    f"Event::{word}<id> is for events between cores, with AutoToken false",
                    "declare `Event<Op::A, Op::B, false>`",
                )
            event.far = self.num(targs[0], node)
        if word == "Wait":
            self.wait_event(event, node)
        elif word == "Record":
            self.record(event, node)
        elif word == "Init":
            return
        elif word != "InitAddr":
            raise CppError(node, f"an Event has no member function `{word}`")

    def from_value(self, type_: Any, found: Any, node: Any, word: str) -> Any:
        """`Event<…> e = TLOAD(…);`"""
        if isinstance(type_, EventType) and isinstance(found, Recorded):
            return self.new_event(type_, [found], node)
        return super().from_value(type_, found, node, word)

    def assign(self, target: Any, value: Any, node: Any) -> None:
        """Give a variable another value; an Event is recorded."""
        held = getattr(target, "value", target)
        if isinstance(held, Event) and isinstance(value, Recorded):
            self.record(held, node)
        elif isinstance(held, (Tile, Global)) and target is not held:
            self._object(target, held, value, node)
        else:
            super().assign(target, value, node)

    def _object(self, cell: Any, held: Any, value: Any, node: Any) -> None:
        """`out = g.data()` does nothing; an object takes over what another one is."""
        if isinstance(value, type(held)):
            self.assigned(held, value, node)

    def i_tsync(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TSYNC(e1, e2)` waits, `TSYNC<Op::X>()` is a barrier of X's pipe."""
        for event in args:
            if isinstance(event, Event):
                self.wait_event(event, node)
        for op in targs:
            pipe = pipe_of(op.name)
            if self.arch == "a2a3" or pipe in ("MTE2", "MTE3", "ALL"):
                self.barrier(pipe)

    # -- cross core --------------------------------------------------------------------------------

    def _signal(
        self, word: str, pipe: str, id_: Num, attrs: Any = None, name: str | None = None
    ) -> None:
        item: Any = str(id_.const) if id_.is_known else self.typed(id_, "i32")
        types = [] if id_.is_known else ["i32"]
        row = f"pto.{name or f'sync.{word}'}"
        self.make.op(row, [f"<PIPE_{pipe}>", item], types, attrs=attrs)

    def _far(self, word: str, pipe: str, id_: Num, *, other: bool) -> None:
        """Signal between cores for an Event; on A5 the cube core has a flag for each vector core,
        16 apart."""
        self._signal(word, pipe, id_)
        if other and self.arch == "a5":
            self._signal(word, pipe, self.binary("+", id_, number(16), self.make.at))

    def i_ffts_cross_core_sync(
        self, args: list[Any], targs: list[Any], node: Any, word: str
    ) -> None:
        """`ffts_cross_core_sync(pipe, 1 | mode << 4 | id << 8)`."""
        message = self.num(args[1], node)
        pipe = args[0].name.removeprefix("PIPE_")
        if message.is_known:
            mode, id_ = (message.const >> 4) & 3, number(message.const >> 8 & 15)
        else:
            raise refused(
                node,
                word,
                "its message depends on values of the run",
                "write mode and flag as constants",
            )
        self._signal("set", pipe, id_, {"ffts_mode": f"{mode}"} if mode != 2 else None)

    def message(self, args: list[Num], node: Any) -> Num:
        """`getFFTSMsg(mode, id, base = 1)`: the word that `ffts_cross_core_sync` takes."""
        mode, id_, base = [*args, number(1)][:3]
        shifted = self.binary("|", base, self.binary("<<", mode, number(4), node), node)
        return self.binary("|", shifted, self.binary("<<", id_, number(8), node), node)

    def i_wait_flag_dev(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`wait_flag_dev(id)`."""
        pipe = args[0].name.removeprefix("PIPE_") if isinstance(args[0], Member) else "S"
        self._signal("wait", pipe, self.num(args[-1], node))

    def i_set_intra_block(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`set_intra_block(pipe, id)`."""
        self._of_one_core(word, args, node)

    def i_wait_intra_block(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`wait_intra_block(pipe, id)`."""
        self._of_one_core(word, args, node)

    def _of_one_core(self, word: str, args: list[Any], node: Any) -> None:
        """Signal by a flag of one vector core, ids from 16 on of the second; `sync.set` means both
        cores where nothing else in the program tells them apart."""
        pipe, id_ = args[0].name.removeprefix("PIPE_"), self.num(args[1], node)
        self._signal(word.split("_")[0], pipe, id_, name=word if self.arch == "a5" else None)

    def i_syncall(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`SYNCALL<SyncCoreType = AIVOnly>()`, or `<SyncAllMode::Soft, Core>(gm, cores)`."""
        words = {t.enum: t.name for t in targs if isinstance(t, Member)}
        mode = words.get("SyncAllMode", "Hard").lower()
        given = words.get("SyncCoreType", "AIVOnly")
        core = _MEETING.get(given)
        if core is None:
            name, cure = f"SyncCoreType::{given}", f"write one of {', '.join(_MEETING)}"
            raise refused(node, name, "no kind of cores of that name is known", cure)
        operands = [self.view(a, node) if isinstance(a, Global)
                    else self.typed(a) if isinstance(a.type, Pointer) else self.typed(a, "i32")
                    for a in args if isinstance(a, (Num, Global))]  # fmt: skip
        parts: list[Any] = [self.make.item(operand) for operand in operands]
        if operands:
            parts += [self.make.tok(":", "COLON"), *self.make.types(o.type for o in operands)]
        items = [Node("paren", parts, self.make.at),
                 self.make.keyword("mode", f"#pto.sync_all_mode<{mode}>"),
                 self.make.keyword("core_type", f"#pto.sync_core_type<{core}>")]  # fmt: skip
        self.make.op("pto.syncall", items, [])

    # -- FIFOs -------------------------------------------------------------------------------------

    def new_pipe(self, type_: PipeType, args: list[Any], node: Any) -> Pipe:
        """Return a FIFO object; its end on this core is set up here."""
        if self.core is None:
            raise refused(
                node,
                "TPipe",
                "the file does not ask for which core it is compiled",
                "put the halves in `#ifdef __DAV_CUBE__` and `#ifdef __DAV_VEC__`",
            )
        cure = "use DIR_C2V, DIR_V2C or DIR_BOTH"
        if type_.mask not in (1, 2, 3):
            raise refused(node, "TPipe", "this direction has no form in the IR", cure)
        if type_.direction > 4 and self.arch == "a2a3":
            raise refused(node, "TPipe", "the headers of A2/A3 have no such direction", cure)
        known = self.pipe_ids.setdefault((node.start_byte, type_), len(self.pipe_ids))
        name = "aic" if self.core == "cube" else "aiv"
        attrs = {"id": str(known), "dir_mask": str(type_.mask),
                 "slot_size": str(type_.slot_size), "slot_num": str(type_.slot_num)}  # fmt: skip
        if self.arch == "a2a3" and type_.local:
            attrs["local_slot_num"] = str(min(type_.local, type_.slot_num))
        if type_.nosplit:
            attrs["nosplit"] = "true"
        self.fifos += 1
        before = len(self.make.ops)
        slots = self._slots_of(args, node)
        parts = self._consumers(type_, slots, args, node, known)
        self.make.op(f"pto.{name}_initialize_pipe", [attrs, Node("paren", parts, self.make.at)], [])
        set_up = self.make.ops, self.make.ops[before:], attrs
        return Pipe(type_, known, slots, set_up)

    def _slots_of(self, args: list[Any], node: Any) -> Any:
        slots = self.read(args[0].pointer, node) if args and isinstance(args[0], Global) else None
        return slots or (args[0] if args else None)

    def _set_up_for_views(self, pipe: Pipe, entry: Global, sizes: list[int], split: int) -> None:
        """The first entry that is a global tensor says that all are: the FIFO is in global memory
        alone."""
        if pipe.set_up is None:
            return
        block, ops, attrs = pipe.set_up
        pipe.set_up = None
        if not isinstance(pipe.slots, Num) or pipe.slots.is_known:
            raise CppError(self.make.at, "the FIFO has no pointer to slots in global memory")
        rows, cols = sizes
        if self.core == "vector" and split:
            rows, cols = (rows * 2, cols) if split in (1, 3) else (rows, cols * 2)
        at = block.index(ops[0])
        with self.apart() as made:
            slots = self.cast(pipe.slots, Pointer(entry.type.dtype), self.make.at)
            extents, strides = [number(rows), number(cols)], [number(cols), number(1)]
            typed = self.viewed(slots, extents, strides, entry.type)
            parts = [self.make.keyword("gm_slot_tensor", typed), self.make.tok(":", "COLON"),
                     *self.make.types([typed.type])]  # fmt: skip
            name = "aic" if self.core == "cube" else "aiv"
            attrs = {k: v for k, v in attrs.items() if k != "local_slot_num"}
            paren = Node("paren", parts, self.make.at)
            self.make.op(f"pto.{name}_initialize_pipe", [attrs, paren], [])
        kept = [op for op in block if not any(op is other for other in ops)]
        block[:] = [*kept[:at], *made, *kept[at:]]

    pipe_ids: dict[Any, int]

    def _consumers(
        self, type_: PipeType, slots: Any, args: list[Any], node: Any, id_: int
    ) -> list[Any]:
        given: list[tuple[str, Typed]] = []
        if isinstance(slots, Num) and isinstance(slots.type, Pointer) and not slots.is_known:
            if slots.type.to == SCALARS["void"]:
                slots = self.cast(slots, Pointer(SCALARS["float"]), node)
            given.append(("gm_slot_buffer", self.typed(slots)))
        for bit, word, value in zip((1, 2), ("c2v", "v2c"), args[1:], strict=False):
            if type_.mask & bit:
                address = self.known(value, node, "the address of a FIFO's slots")
                given.append((f"{word}_consumer_buf", self._slots(type_, word, address, id_)))
        parts: list[Any] = []
        for key, value in given:
            parts += [self.make.keyword(key, value), self.make.tok(":", "COLON"),
                      *self.make.types([value.type])]  # fmt: skip
        return parts

    def _slots(self, type_: PipeType, word: str, address: int, id_: int) -> Typed:
        """Reserve the slots on the core that pops, or import those of the other one."""
        name, result = f'"{word}{id_}"', self.fresh("slots")
        owner = "vector" if word == "c2v" else "cube"
        if self.core == owner:
            count = type_.local if self.arch == "a2a3" else type_.slot_num
            place = "vec" if owner == "vector" else "mat"
            attrs: dict[str, Any] = {
                "name": name, "size": str(type_.slot_size * count),
                "location": f"#pto.address_space<{place}>", "auto": "false", "base": str(address),
            }  # fmt: skip
            self.make.op("pto.reserve_buffer", [attrs], [], results=[result], arrow=["i32"])
        else:
            attrs = {"name": name, "peer_func": f"@{PEER}{owner}"}
            self.make.op("pto.import_reserved_buffer", [attrs], [], results=[result], arrow=["i32"])
        return Typed(result, "i32")

    def _ends(
        self, args: list[Any], targs: list[Any], node: Any
    ) -> tuple[Pipe, Any, dict[str, Any]]:
        pipe = next((a for a in args if isinstance(a, Pipe)), None)
        if pipe is None:
            raise CppError(node, "no TPipe is among the arguments")
        entry = next((a for a in args if isinstance(a, (Tile, Global))), None)
        split = next(
            (t.const for t in targs if isinstance(t, Member) and t.enum == "TileSplitAxis"), 0
        )
        return pipe, entry, {"id": str(pipe.id), "split": str(split)}

    def i_tpush(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TPUSH<split>(pipe, tile)`."""
        self._no_grid(targs, word, node)
        _, entry, attrs = self._ends(args, targs, node)
        self._refuse_part_of_another(args, attrs["split"], word, node)
        operand = self.tile(entry, node) if isinstance(entry, Tile) else self._slot(entry, node)
        other = "aiv" if self.core == "cube" else "aic"
        self.make.op(f"pto.tpush_to_{other}", [self._in_brackets(operand), attrs], [])

    def _refuse_part_of_another(self, args: list[Any], split: str, word: str, node: Any) -> None:
        """The third argument is the vector core whose part of the slot is written."""
        given = [a for a in args if isinstance(a, Num)]
        if not given or split == "0" or self.core == "cube":
            return
        own = self.grid("get_subblock_idx", node)
        if given[-1] != self.cast(own, given[-1].type, node):
            why = "it writes the part of a slot that is not this vector core's own"
            raise refused(node, word, why, "leave the number out, or give get_subblockid()")

    def _in_brackets(self, operand: Typed) -> Node:
        parts = [
            self.make.item(operand),
            self.make.tok(":", "COLON"),
            *self.make.types([operand.type]),
        ]
        return Node("paren", parts, self.make.at)

    def _slot(self, entry: Any, node: Any) -> Typed:
        """Return the slot that a global tensor is."""
        if not isinstance(entry, Global) or entry.slot is None:
            raise CppError(
                node,
                "this is no slot of a FIFO",
                "TALLOC or TPOP makes it one",
            )
        return entry.slot

    def i_talloc(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TALLOC<split>(pipe, global)`: the global tensor is the next free slot."""
        self._no_grid(targs, word, node)
        pipe, entry, attrs = self._ends(args, targs, node)
        if not isinstance(entry, Global):
            raise CppError(node, "TALLOC takes a global tensor: slots of tiles are taken by TPUSH")
        self._become_slot(pipe, entry, "talloc_to", attrs, node)

    def _become_slot(
        self, pipe: Pipe, entry: Global, word: str, attrs: dict[str, str], node: Any
    ) -> None:
        """Make a global tensor the slot that an operation returns; a slot is dense."""
        sizes = [self.known(self.read(c, node), node, "a size of a slot") for c in entry.sizes]
        strides = [self.known(self.read(c, node), node, "a stride of it") for c in entry.strides]
        if math.prod(sizes[:3]) != 1 or strides[4] != 1:
            raise refused(node, text(node)[:30], "a slot has rows and columns, one after the other",
                          "give it three sizes of 1 in front, and ND")  # fmt: skip
        self._set_up_for_views(pipe, entry, sizes[3:], int(attrs["split"]))
        other = "aiv" if self.core == "cube" else "aic"
        extents = [number(s) for s in sizes[3:]]
        name = self.fresh("slot")
        whole = f"!pto.tensor_view<{sizes[3]}x{sizes[4]}x{entry.type.dtype.ir}>"
        self.make.op(f"pto.{word}_{other}", [attrs], [], results=[name], arrow=[whole])
        entry.slot = Typed(name, whole)
        entry.view.set(self.window(entry.slot, extents, entry.type))

    def _no_grid(self, targs: list[Any], word: str, node: Any) -> None:
        if any(isinstance(t, Member) and t.enum == "GridDirection" for t in targs):
            raise refused(node, word, "GridPipe has no form in the IR", "use TPipe")

    def i_tpop(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TPOP<split>(pipe, tile)`: the tile is where the slot is."""
        self._no_grid(targs, word, node)
        pipe, entry, attrs = self._ends(args, targs, node)
        if isinstance(entry, Global):
            self._become_slot(pipe, entry, "tpop_from", attrs, node)
            return
        if entry is None:
            raise CppError(node, "TPOP takes a FIFO and a tile, or a global tensor")
        other = "aiv" if self.core == "cube" else "aic"
        name = self.fresh(entry.label or "tile")
        items: list[Any] = [attrs]
        for axis, size in enumerate((entry.type.v_row, entry.type.v_col)):
            if size < 0:
                items = [self.index(self.extent(entry, axis, node)), *items]
        self.make.op(f"pto.tpop_from_{other}", items, [], results=[name], arrow=[entry.type.ir])
        entry.name.set(name)
        entry.is_moved = True
        entry.made = entry.made or self.make.ops[-1]
        entry.address.set(None)
        self.side_of(entry)

    def i_tfree(self, args: list[Any], targs: list[Any], node: Any, word: str) -> None:
        """`TFREE<split>(pipe)`."""
        self._no_grid(targs, word, node)
        _, entry, attrs = self._ends(args, targs, node)
        other = "aiv" if self.core == "cube" else "aic"
        items = [self._in_brackets(self._slot(entry, node))] if isinstance(entry, Global) else []
        self.make.op(f"pto.tfree_from_{other}", [*items, attrs], [])
