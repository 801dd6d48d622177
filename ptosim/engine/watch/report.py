"""The findings of the sanitizers: both places, both byte ranges, the rule, and text to paste."""

from __future__ import annotations

from typing import Any

from ptosim.engine.core.bound import Inst
from ptosim.engine.watch.access import EVERY, Access, Clocks
from ptosim.engine.watch.definedness import Cause, Step, Trail
from ptosim.engine.watch.repair import Nesting, Repairs, in_branches, is_inserted, mistaken
from ptosim.engine.watch.shadow import Atom, Entry, Footprint
from ptosim.ground.diagnostics.model import Diagnostic, Label, Sink
from ptosim.ground.ir.core import Operation
from ptosim.ground.ir.program import ResolvedModule
from ptosim.ground.isa.schema import EXECUTED
from ptosim.ground.isa.targets import Alignment, MachineDef
from ptosim.ground.records import dataclass, replace
from ptosim.ground.source import Span
from ptosim.machine.core import Core, Machine
from ptosim.machine.effects.account import CLOBBERED, DEFINED, HIDDEN, PADDING, REGISTER, SCRATCHED
from ptosim.machine.effects.storage import written_name

FlagKey = tuple[int, str, str, int]
"""A flag of a core: the core, the pipes that set and wait for it, its event id."""

MOST_ENDS = 3
"""Stores of what was computed of bytes without a value that a finding names."""

_DID = {
    "allocated": "{} is made here",
    "left": "left them so",
    "reused": "they are still what {} was given here",
    "copied": "copied to {} as they are",
    "pushed": "pushed them so",
    "computed": "{} is computed of them",
}
_RACES = {
    "read": ("PTO5201", "reads", "wrote", "may not have written yet"),
    "overwrite": ("PTO5202", "overwrites", "read", "may still be reading"),
    "write": ("PTO5203", "writes", "wrote", "may still be writing"),
}


@dataclass(eq=False)
class Reporter:
    """Makes findings and hands them on."""

    resolved: ResolvedModule
    machine: Machine
    sink: Sink
    clocks: Clocks

    def __post_init__(self) -> None:
        self.nesting = Nesting(self.resolved)
        self.repairs = Repairs(self.resolved, self.nesting)
        self._copied = False  # a copy of bytes that nothing wrote was told

    def span(self, op: Operation) -> Span:
        """Return the place of an operation's name."""
        return Span(self.resolved.module.source, op.start, op.name_end)

    # -- races ------------------------------------------------------------------------------------

    def race(
        self,
        kind: str,
        earlier: Entry,
        later: Entry,
        print_: Footprint,
        extent: tuple[int, int],
        *,
        is_equal: bool = False,
    ) -> None:
        """Two conflicting accesses that nothing orders; `is_equal`: both write the same values."""
        code, verb, did, may = _RACES[kind]
        one, two = earlier[2], later[2]
        source, target = self._pipe(earlier), self._pipe(later)
        same_core = one.core is two.core
        if not same_core:
            code = "PTO5206" if is_equal else "PTO5205"
        elif source == target:
            unsure = "PTO5221" if self.resolved.target == "a2a3" else "PTO5218"
            code = "PTO5204" if source == "V" else unsure
        other = _operand_at(one, print_, extent)
        where = _place(print_, extent)
        names = _who(one.core, two.core)
        message = (
            f"data race: '{two.inst.op.name}'{names[1]} {verb} {where}, which "
            f"'{one.inst.op.name}'{names[0]} {may}"
        )
        repair = self.repairs.between(one.inst.op, two.inst.op, source, target, same_core)
        text = _APART.format(repair.text) if one.core.cluster is not two.core.cluster else None
        schedule = self._schedule(one, two, source)
        wrong = mistaken(self.resolved, one)
        replays = f"`run --schedule {schedule}` has them the other way round"
        self.sink.report(
            code,
            message,
            self.span(two.inst.op),
            label=f"{operand_name(two, print_)}: {_range(print_)}"
            f"{self._when(two, later[3], target)}",
            more=(
                Label(
                    self.span(one.inst.op),
                    f"{did} {operand_name(one, other)}: {_range(other)}"
                    f"{self._when(one, earlier[3], source)}",
                ),
            ),
            notes=(
                *_rule(code, source, target, one.core.cluster is two.core.cluster),
                *((replays,) if schedule is not None else ()),
                *(in_branches(one, two, source, target) if same_core else ()),
                *wrong,
            ),
            help=_OWN_FLAGS.format(repair.text) if wrong else text or repair.text,
            fixes=repair.fixes if not wrong else (),
            context={
                "kind": kind,
                "space": print_.shadow.name,
                "bytes": list(extent),
                "schedule": schedule,
                "first": self._side(one, earlier[3], source, other),
                "second": self._side(two, later[3], target, print_),
            },
        )

    def _schedule(self, one: Access, two: Access, source: str) -> int | None:
        """The number of a schedule in which the second access comes first; None for none that is
        known. A function into which flags are inserted keeps its order."""
        from ptosim.engine.core.schedule import number_of  # most programs have no race

        if one.core is two.core:
            is_same = one.inst.pipe == two.inst.pipe
            return (
                None
                if is_inserted(self.resolved, one) or is_same
                else number_of(source, same_core=True)
            )
        return number_of(source, same_core=False) if one.core.index < two.core.index else None

    def left_out(self, earlier: Entry, later: Entry, print_: Footprint) -> None:
        """A barrier that the assembler would leave out, and so does the program."""
        one, two = earlier[2].inst.operation, later[2].inst.operation
        self.sink.report(
            "PTO5213",
            f"nothing but the length of '{one.name}' keeps '{two.name}' from reading too early",
            self.span(two),
            label=f"reads all that it writes, {print_.bytes:,} bytes",
            more=(Label(self.span(one), "16 repeats or more"),),
            notes=("the assembler relies on this: it inserts no barrier here",),
            help="`pto.barrier <PIPE_V>` between them is safe in any case",
        )

    def _pipe(self, entry: Entry) -> str:
        agent = self.clocks.by_index[entry[0]]
        pipe = "S" if agent is None else agent.pipe
        if pipe == EVERY:
            pipe = entry[2].inst.pipe
        return "S" if pipe.startswith("S") else pipe

    def _when(self, access: Access, execution: int, pipe: str) -> str:
        core = f", core {access.core.index}" if len(self.machine.cores) > 1 else ""
        if len(self.machine.clusters) > 1:
            core += f", {_block(access.core)}"
        loops = self.nesting.iterations(access.inst.operation, execution) or ()
        count = f", execution {execution}" if execution > 1 else ""
        if loops:
            count = f"{count or ', execution 1'}: {', '.join(map(str, loops))}"
        return f" (PIPE_{pipe}{core}{count})"

    def _side(self, access: Access, execution: int, pipe: str, print_: Footprint) -> dict[str, Any]:
        low, high = print_.span
        loops = self.nesting.iterations(access.inst.operation, execution)
        return {
            "op": access.inst.operation.name,
            "core": access.core.index,
            "block": access.core.cluster.block,
            "rank": access.core.cluster.rank,
            "pipe": pipe,
            "execution": execution,
            "iterations": None if loops is None else {i.variable: i.number for i in loops},
            "operand": print_.name,
            "tile": operand_name(access, print_),
            "bytes": [low, high],
        }

    # -- undefined bytes --------------------------------------------------------------------------

    def undefined(self, atom: Atom, entry: Entry, print_: Footprint, trail: Trail) -> Cause:
        """A read of bytes without a meaningful value, that came there on a trail."""
        access = entry[2]
        op = access.inst.operation
        low, high = print_.shadow.extent(atom)
        low, high = max(low, print_.span[0]), min(high, print_.span[1])
        name = operand_name(access, print_)
        where = f"{print_.shadow.name} [{low:#x}, {high:#x})"
        definition = self.machine.definition
        code, what, notes, cure = _undefined_text(atom, trail, name, where, definition)
        if code in ("PTO7101", "PTO7108") and op.has("copies_out"):
            cure = "copy only what the kernel has written"
            if not self._is_wrong(print_):
                if self._copied:
                    return Cause(None)
                self._copied, code = True, "PTO7107"
        steps = (*trail.steps, Step(_word(access), op, name))
        outputs = [{"output": n, "steps": self._steps(steps)} for n in _outputs(access)[:1]]
        known = len(self.sink)
        self.sink.report(
            code,
            f"'{op.name}' {what}",
            self.span(op),
            label=f"operand {print_.name}{self._when(access, entry[3], self._pipe(entry))}",
            more=self._labels(trail.steps),
            notes=notes,
            help=cure,
            context={
                "operand": print_.name,
                "space": print_.shadow.name,
                "bytes": [low, high],
                "origin": self._steps(trail.steps),
                "outputs": outputs,
            },
        )
        return Cause(self.sink.diagnostics[-1] if len(self.sink) > known else None)

    def _is_wrong(self, print_: Footprint) -> bool:
        """True for a copy of which no byte has a value, where all that may write is executed."""
        if any(atom.defined == DEFINED for atom in print_.atoms()):
            return False
        target = self.resolved.target
        rows = (op.definition for op in self.resolved.ops)
        return all(row is None or row.status[target] in EXECUTED for row in rows)

    def went_out(self, trail: Trail, access: Access) -> None:
        """What was computed of bytes without a value, told of before, goes to global memory."""
        cause, op = trail.cause, access.inst.op
        if cause is None or cause.told is None or op is None or op in cause.ends:
            return
        if len(cause.ends) >= MOST_ENDS:
            return
        cause.ends.append(op)
        name = _outputs(access)[0]
        told: Diagnostic = cause.told
        steps = self._steps((*trail.steps, Step("stored", op, name)))
        outputs = [*told.context["outputs"], {"output": name, "steps": steps}]  # type: ignore[misc]
        found = replace(
            told,
            labels=(*told.labels, Label(self.span(op), f"stored to `{name}`")),
            context={**told.context, "outputs": outputs},
        )
        if self.sink.put(told, found):
            cause.told = found

    def _labels(self, steps: tuple[Step, ...]) -> tuple[Label, ...]:
        return tuple(
            Label(self.span(step.op), _DID[step.did].format(step.name)) for step in steps if step.op
        )

    def _steps(self, steps: tuple[Step, ...]) -> list[dict[str, Any]]:
        return [
            {
                "did": step.did,
                "op": step.op.name,
                "name": step.name,
                "line": self.span(step.op).line,
            }
            for step in steps
            if step.op
        ]

    def misaligned(self, inst: Inst, address: int, need: Alignment, where: str) -> None:
        """A register is loaded or stored at an address that is no multiple of what it has to be."""
        op = inst.operation
        self.sink.report(
            "PTO6430" if need.is_certain else "PTO6431",
            f"'{op.name}' is misaligned: address {address:#x} of {where}, a multiple of "
            f"{need.bytes} is needed",
            self.span(op),
            notes=(
                *((_ADDRESS,) if op.has("loads") or op.has("stores") else ()),
                "simulators of the chip say error 340: UB address is not aligned",
            ),
            help=need.cure or None,
            context={"address": address, "multiple": need.bytes},
        )

    def overwritten(self, atom: Atom, entry: Entry, print_: Footprint) -> None:
        """A read of a buffer of which another one has overwritten a part."""
        access, writer = entry[2], atom.write[2]
        low, high = print_.shadow.extent(atom)
        low, high = max(low, print_.span[0]), min(high, print_.span[1])
        other, mine = f"%{atom.owner.name}", operand_name(access, print_)
        more = ()
        if writer is not None:  # not the values that an input has from the start
            more = (Label(self.span(writer.inst.op), f"{other} overwrites them here"),)
        self.sink.report(
            "PTO7104",
            f"'{access.inst.operation.name}' reads {mine} in {print_.shadow.name} "
            f"[{low:#x}, {high:#x}), which {other} has overwritten",
            self.span(access.inst.operation),
            label=f"operand {print_.name} still needs its bytes",
            more=more,
            notes=(
                "the two overlap and are in use at the same time",
                *(() if writer is not None else (f"{other} has its values from the start",)),
            ),
            help=f"place {other} and {mine} apart, or leave out the addresses (level 2 plans them)",
            context={"space": print_.shadow.name, "bytes": [low, high], "by": other},
        )

    # -- flags ------------------------------------------------------------------------------------

    def set_twice(self, core: Core, inst: Inst, earlier: Inst, key: FlagKey) -> None:
        """A flag is set that is set already."""
        self.sink.report(
            "PTO5210",
            f"{_flag(key)} is set while it is still set",
            self.span(inst.operation),
            label="set again",
            more=(Label(self.span(earlier.operation), "set here, not waited for yet"),),
            notes=("a flag is one bit: what a second set does before the wait is undocumented",),
            help="wait for the flag first, or use another event id",
        )

    def self_flag(self, inst: Inst, key: FlagKey) -> None:
        """A pipe sets a flag for itself: the vector pipe of A5 then stops for good (seen on
        boards), elsewhere it is not known to be of use."""
        _, pipe, _, _ = key
        is_fatal = pipe == "V" and self.machine.definition.architecture == "a5"
        self.sink.report(
            "PTO5214" if is_fatal else "PTO5215",
            f"{_flag(key)} hangs on A5" if is_fatal else f"{_flag(key)} is a flag to itself",
            self.span(inst.operation),
            label="a pipe sets a flag for itself",
            help="remove the flag and its wait: A5 keeps the order of vector operations"
            if is_fatal
            else f"use `pto.barrier <PIPE_{pipe}>` instead of the flag and its wait",
        )

    def left_set(self, inst: Inst, key: FlagKey, count: int) -> None:
        """A flag is set when the program ends."""
        times = f" ({count} times)" if count > 1 else ""
        _, source, target, number = key
        self.sink.report(
            "PTO5211",
            f"{_flag(key)} is left set{times}",
            self.span(inst.operation),
            label="set here, never waited for",
            notes=("a flag that stays set can satisfy a wait of the next kernel",),
            help=f"add `pto.wait_flag[<PIPE_{source}>, <PIPE_{target}>, <EVENT_ID{number}>]`, "
            "or drop the set",
        )

    def library_flag(self, core: Core, inst: Inst, earlier: Inst, key: FlagKey) -> None:
        """The library uses a flag inside an operation that the program has set."""
        self.sink.report(
            "PTO5212",
            f"'{inst.operation.name}' uses {_flag(key)} itself while the program has it set",
            self.span(inst.operation),
            more=(Label(self.span(earlier.operation), "set here, not waited for yet"),),
            notes=(
                "the library's code for this operation sets and waits for this event between its "
                "own steps",
            ),
            help="use another event id between these pipes",
        )


def _flag(key: FlagKey) -> str:
    _, source, target, number = key
    return f"PIPE_{source} -> PIPE_{target} EVENT_ID{number}"


def hidden_note(machine: MachineDef) -> str:
    """Return what is known of the scratch that the library takes without being told."""
    hidden = machine.scratch[0]
    return (
        "A2/A3: the library's code without a scratch tile takes "
        f"{hidden.bytes >> 10} KiB at {hidden.start >> 10} KiB"
    )


_FILL_IT = "load or fill the tile first, or make the valid region smaller"
_SPOILED = {
    CLOBBERED: (
        "destroyed it",
        "the library's code works in place in this source",
        "keep a copy of the tile, or load it again",
    ),
    SCRATCHED: (
        "used it as scratch",
        "what the library leaves in its scratch tile is of no use",
        "give the operation a tile of its own as scratch, or write the tile again",
    ),
}


def _undefined_text(
    atom: Atom, trail: Trail, name: str, where: str, machine: MachineDef
) -> tuple[str, str, tuple[str, ...], str]:
    reused = next((step.name for step in trail.steps if step.did == "reused"), None)
    is_copy = any(step.did == "copied" for step in trail.steps)
    if reused is not None:
        return (
            "PTO7108",
            f"reads {name} in {where}, {'a copy of ' if is_copy else ''}what {reused} left there",
            ("one buffer has these bytes after the other: a content is not handed on",),
            _FILL_IT,
        )
    if atom.defined == PADDING:
        return (
            "PTO7102",
            f"reads padding of {name} in {where} that no pad value fills",
            ("a load writes whole 32-byte blocks; after the valid elements they are undefined",),
            "give the tile a pad value (`pad=1`), or read the valid part only",
        )
    if atom.defined in _SPOILED:
        did, why, cure = _SPOILED[atom.defined]
        return "PTO7103", f"reads {name} in {where} after an operation has {did}", (why,), cure
    if atom.defined == HIDDEN:
        return (
            "PTO7105",
            f"reads {name} in {where}, which the library has used as scratch of its own",
            (hidden_note(machine),),
            f"place the tile below {machine.scratch[0].start:#x}, or give the operation that used "
            "it a `tmp` tile",
        )
    what = "a copy of bytes that" if is_copy else "which"
    left = ("memory holds whatever the last kernel left there",)
    return "PTO7101", f"reads {name} in {where}, {what} nothing has written", left, _FILL_IT


def _outputs(access: Access) -> list[str]:
    """The buffers of global memory that an operation writes."""
    return [p.shadow.name for p in access.writes if p.shadow.is_global]


def _word(access: Access) -> str:
    return "stored" if _outputs(access) else "computed"


def _operand_at(access: Access, print_: Footprint, extent: tuple[int, int]) -> Footprint:
    """The operand of an access that the bytes belong to."""
    every = [*access.writes, *access.reads, *(p for p, _ in access.spoils)]
    for found in every:
        low, high = found.span
        if found.shadow is print_.shadow and low < extent[1] and extent[0] < high:
            return found
    return every[0] if every else print_


def operand_name(access: Access, print_: Footprint) -> str:
    """Return the name that the program gives an operand, or its own."""
    return written_name(access.inst.operation, print_.name)


def _range(print_: Footprint) -> str:
    if print_.shadow.name.startswith(REGISTER):
        return print_.shadow.name
    low, high = print_.span
    gaps = f", {print_.bytes} bytes in rows" if print_.bytes != high - low else ""
    return f"{print_.shadow.name} [{low:#x}, {high:#x}){gaps}"


def _place(print_: Footprint, extent: tuple[int, int]) -> str:
    if print_.shadow.name.startswith(REGISTER):
        return print_.shadow.name
    low, high = max(extent[0], print_.span[0]), min(extent[1], print_.span[1])
    what = "global memory" if print_.shadow.is_global else print_.shadow.name
    name = f" `{print_.shadow.name}`" if print_.shadow.is_global else ""
    return f"{what}{name} [{low:#x}, {high:#x})"


_ADDRESS = "whatever the mask leaves out, the address counts"
_OWN_FLAGS = (
    "assemble with 0.63 (`--compat 2026-09`), or write all flags of the function yourself, for "
    "these two {}"
)
_APART = "give each block bytes of its own (`pto.get_block_idx` says which one it is), or {}"


def _block(core: Core) -> str:
    cluster = core.cluster
    rank = f" of rank {cluster.rank}" if cluster.has_ranks else ""
    return f"block {cluster.block}{rank}"


def _who(one: Core, two: Core) -> tuple[str, str]:
    """The words that tell two accesses apart, where their blocks do."""
    if one.cluster is two.cluster:
        return "", ""
    return f" of {_block(one)}", f" of {_block(two)}"


def _rule(code: str, source: str, target: str, same_block: bool) -> tuple[str, ...]:
    if code == "PTO5206":
        return (
            "both write the same values here, so that the order does not show",
            "cores run independently: only a cross-core signal orders them",
        )
    if code == "PTO5205" and not same_block:
        return (
            "blocks run in any order or at once, whatever `sync` is: only a cross-core signal "
            "orders them",
        )
    if code == "PTO5205":
        return ("cores run independently: only a cross-core signal orders them",)
    if code == "PTO5204":
        return (
            "the vector pipe of A2/A3 may begin an instruction before the one ahead is done",
            "the A5 hardware and the public CPU simulator never show this",
        )
    if code == "PTO5221":
        return ("that A2/A3 keeps the order of such stores nobody has said; A5 does not",)
    if code == "PTO5218":
        return (f"on A5 stores of PIPE_{source} to the same bytes may change places",)
    return (
        f"PIPE_{source} and PIPE_{target} run independently: only a flag or a barrier orders them",
    )
