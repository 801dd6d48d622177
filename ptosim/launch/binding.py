"""The arguments of a launch: in buffers, tiles and slots of the cores, for each rank."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from ptosim.engine.core.bound import DecodedProgram
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import OpFault, UnsizedError, UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.program import Function
from ptosim.ground.ir.types import (
    REGISTERS,
    DType,
    MaskType,
    MemRefType,
    PtrType,
    ScalarType,
    TileType,
    VectorType,
    ViewType,
    VirtualMaskType,
)
from ptosim.ground.limits import current
from ptosim.ground.records import NamedTuple
from ptosim.launch import arguments, generated, results
from ptosim.launch.generated import (
    LazyArray,
    Needed,
    Used,
    is_lazy,
    missing_scalars,
    needed_elements,
    only_read,
    squeezed,
    uses_of_pointers,
)
from ptosim.launch.prepared import NORMAL, Prepared, RunOptions
from ptosim.launch.results import Unmade, unmade
from ptosim.machine.core import Core, Machine
from ptosim.machine.gm import GmBuffer, five_dims, view_spec
from ptosim.machine.pages import LARGE, Origin, as_bytes, from_bytes
from ptosim.machine.tile import store_tile
from ptosim.machine.values import GmView
from ptosim.ops.scalar.global_views import contiguous, default_value, memref_view

if TYPE_CHECKING:
    from ptosim.launch.on_chip import OnChip


class Argument(NamedTuple):
    """The memory of an argument: the number of its buffer, its first byte there, its bytes,
    elements and shape."""

    number: int
    offset: int
    size: int
    elem: DType
    shape: tuple[int, ...]


def _of_rank(given: Mapping[str, Any], rank: int) -> dict[str, Any]:
    """The arguments of a rank by their plain names: its own, else those of every rank. An array of
    every rank is one for each."""
    plain = {n: _own(v) for n, v in given.items() if "@" not in n}
    own = {n.rpartition("@")[0]: v for n, v in given.items() if n.endswith(f"@{rank}")}
    return {**plain, **own}


def _own(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


class Binding:
    """The arguments of a launch, in its machine: those that are left out are generated."""

    def __init__(
        self,
        prepared: Prepared,
        program: DecodedProgram,
        machine: Machine,
        options: RunOptions,
        sink: Sink,
    ) -> None:
        self.function, self.launched = prepared.function, prepared.launched
        self.program, self.machine, self.options, self.sink = program, machine, options, sink
        self.generated = dict(prepared.assumed)
        """What was left out, and what stands for it in words."""
        self.used: dict[Function, list[Used]] = {}
        """How functions use their pointers: known to all bindings of a launch."""
        self.tile_inputs: dict[str, np.ndarray] = {}
        """The tiles that have content from the start."""
        self.arrays: dict[str, Argument] = {}
        """Where the arrays of arguments are, by name (of several ranks `name@rank`)."""
        self.on_chip: OnChip | None = None
        """Arrays of arguments in memories of the core, if there are some."""
        self.rank_slots: list[dict[int, Any]] = []
        """What the cores of each rank begin with, where that differs from the program's values."""
        self._is_cpp = prepared.front.source.is_cpp
        self._rank = 0
        self._parts: dict[str, arguments.Part] = {}
        self._shared: dict[int, int] = {}
        self._aliases: list[tuple[int, Value, arguments.Alias]] = []

    @cached_property
    def rng(self) -> np.random.Generator:
        """Random numbers of the seed, for arguments that are left out; without any NumPy need not
        load what makes them."""
        return np.random.default_rng(self.options.seed)

    def bind(self, given: Mapping[str, Any]) -> None:
        """Take the arguments, by name. Raises UsageError for what does not fit."""
        args = [dict(given) for _ in range(self.options.ranks)]
        if len(args) > 1:
            args = [_of_rank(given, rank) for rank in range(len(args))]
        self._parts = arguments.shared_parts(
            {self._key(n, r): a for r, one in enumerate(args) for n, a in one.items()}
        )
        for rank, one in enumerate(args):
            self._rank = rank
            current().look()
            before = set(self.generated)
            self.rank_slots.append(self._bind_rank(one))
            for name in set(self.generated) - before if len(args) > 1 else ():
                self.generated[self._key(name, rank)] = self.generated.pop(name)
        self._bind_aliases()
        self._report_shared()

    def _hard(self, name: str, elem: DType, shape: tuple[int, ...]) -> Any:
        """Hard data for an argument that is left out; None where data is normal, and for places."""
        if self.options.inputs == NORMAL:
            return None
        from ptosim.launch.hard import of_argument  # most runs have normal data

        return of_argument(self.launched, name, elem, shape, self.options)

    def fill_tiles(self, core: Core) -> None:
        """Put the content of tiles into a core. Raises UsageError where one has no room."""
        for name, array in self.tile_inputs.items():
            slot = self.program.tiles[name][0]
            try:
                store_tile(core, core.slots[slot], array)
            except OpFault as fault:
                raise UsageError(
                    f"argument `{name}`: {fault.message}", help=fault.details.get("help")
                ) from None
        if self.on_chip is not None:
            self.on_chip.fill(core)

    def _needed(self, given: Mapping[str, Any]) -> dict[str, Needed]:
        """What the functions that are launched together reach of each pointer: the most of them."""
        found: dict[str, Needed] = {}
        open_: set[str] = set()  # of which one of them does not say how much it reaches
        for function in self.launched:
            if function not in self.used:
                self.used[function] = uses_of_pointers(function)
            reached = needed_elements(function, given, self.used[function])
            open_ |= {v.name for v in function.args if isinstance(v.type, PtrType)} - set(reached)
            for name, needed in reached.items():
                if name not in found or needed.elements > found[name].elements:
                    found[name] = needed
        return {n: r for n, r in found.items() if r.elements or n not in open_}

    @cached_property
    def _fixed(self) -> dict[str, Needed]:
        """What the text alone says of it."""
        return self._needed({})

    def _key(self, name: str, rank: int) -> str:
        return f"{name}@{rank}" if self.options.ranks > 1 else name

    def _bind_rank(self, given: dict[str, Any]) -> dict[int, Any]:
        """Bind the arguments of a rank; return the slots that its cores begin with."""
        reached = self._needed(given)
        slots: dict[int, Any] = {}
        bound: dict[str, Any] = {}
        for value in (v for f in self.launched for v in f.args):
            type_, slot = value.type, self.program.slots[value]
            if value.name in bound:  # kernels of a pair share the arguments that share a name
                slots[slot] = bound[value.name]
                continue
            alias = given.get(value.name)
            if isinstance(alias, arguments.Alias):
                self._aliases.append((self._rank, value, alias))
                continue
            if isinstance(type_, ScalarType):
                slots[slot] = self._scalar(value, type_, given)
            elif self._is_on_chip(value, type_, given):
                slots[slot] = self._on_chip(value, type_, given)
            elif isinstance(type_, (PtrType, MemRefType, ViewType)):
                type_ = arguments.of_array(value, type_, given)
                # Of an array that is given only what the text alone fixes is asked for: that a view
                # whose extents are values reaches beyond it is what the program does.
                is_given = value.name in given
                known = self._fixed if is_given else {**self.options.sizes, **reached}
                needed = _all_of(type_) or known.get(value.name)
                self._buffer(value, type_, given, needed)
                slots[slot] = self._pointer(type_, self._key(value.name, self._rank))
            elif isinstance(type_, TileType):
                self._tile_input(value, type_, given)
            elif isinstance(type_, VectorType) and type_.kind == "tensor":
                slots[slot] = self._tensor(value, type_, given)
            elif isinstance(type_, REGISTERS):
                slots[slot] = self._register(value, type_, given)
            else:
                raise UsageError(f"argument `{value.name}` of type {type_} cannot be launched with")
            bound[value.name] = slots.get(slot, self.program.initial[slot])
        return slots

    def _is_on_chip(self, value: Value, type_: Any, given: dict[str, Any]) -> bool:
        if not isinstance(type_, (PtrType, MemRefType)) or type_.space in (None, "gm"):
            return False
        from ptosim.launch.on_chip import OnChip, is_on_chip  # most runs have none

        self.on_chip = self.on_chip or OnChip(self.machine)
        return is_on_chip(self.launched, value, type_, given)

    def _on_chip(self, value: Value, type_: Any, given: dict[str, Any]) -> Any:
        """A pointer to, or a view of, an array in a memory of the core."""
        needed, key = _all_of(type_), self._key(value.name, self._rank)
        if value.name in given:
            array = arguments.array_argument(value.name, type_.elem, given[value.name])
        elif needed is not None:
            array = self._made_on_chip(value, type_, needed)
        else:
            raise UsageError(
                f"argument `{value.name}` is left out and {type_} does not fix its size",
                help=self._to_paste(value, type_.elem, given),
            )
        if needed is not None and array.size < needed.elements:
            had = f"argument `{value.name}` has {array.size} elements"
            raise UsageError(f"{had}; {type_} has {needed.elements}")
        assert self.on_chip is not None
        return self.on_chip.place(key, type_, array)

    def _made_on_chip(self, value: Value, type_: MemRefType, needed: Needed) -> np.ndarray:
        self.generated[value.name] = _in_words(needed, type_.elem, "random")
        return generated.random_array(type_.elem, needed.shape, self.rng)

    def _pointer(self, type_: PtrType | MemRefType | ViewType, key: str) -> Any:
        """A pointer to, or a view of, the array of an argument."""
        array = self.arrays[key]
        if isinstance(type_, ViewType):
            dims = tuple(d or 1 for d in type_.dims)
            spec = view_spec(*five_dims(dims, contiguous(dims)), type_.elem, "nd")
            return GmView(spec, array.number, array.offset * 8 // type_.elem.bits)
        start = default_value(type_, array.number)
        if isinstance(start, GmView):
            return start._replace(offset=start.offset + array.offset * 8 // type_.elem.bits)
        return start._replace(byte=start.byte + array.offset)

    def _bind_aliases(self) -> None:
        for rank, value, alias in self._aliases:
            other = self._key(alias.name, rank if alias.rank is None else alias.rank)
            type_ = value.type
            if other not in self.arrays or not isinstance(type_, (PtrType, MemRefType)):
                raise UsageError(
                    f"argument `{self._key(value.name, rank)}` is in the place of `{other}`, "
                    "which is no array",
                    help=f"arrays: {', '.join(self.arrays) or 'none'}",
                )
            self.arrays[self._key(value.name, rank)] = self.arrays[other]
            held = self._pointer(type_, other)
            for function in self.launched:
                for same in (v for v in function.args if v.name == value.name):
                    self.rank_slots[rank][self.program.slots[same]] = held

    def _report_shared(self) -> None:
        """Say which arguments share memory; what points to a rank that the caller names is meant
        to."""
        meant = {self._key(v.name, r) for r, v, alias in self._aliases if alias.rank is not None}
        by_buffer: dict[int, list[str]] = {}
        for name, array in self.arrays.items():
            if name in meant:
                continue
            by_buffer.setdefault(array.number, []).append(name)
        for names in by_buffer.values():
            if len(names) > 1:
                listed = ", ".join(f"`{name}`" for name in names)
                self.sink.report("PTO6041", f"arguments {listed} share global memory", None)

    def _scalar(self, value: Value, type_: ScalarType, given: dict[str, Any]) -> Any:
        if value.name in given:
            return arguments.scalar_argument(value.name, type_, given[value.name])
        chosen = generated.random_scalar(type_)
        self.generated[value.name] = f"{chosen}"
        return chosen

    def _tensor(self, value: Value, type_: VectorType, given: dict[str, Any]) -> np.ndarray:
        """A tensor is an array; only operations of other dialects (quant) work on it."""
        if value.name not in given:
            shape = arguments.tensor_shape(self.function, value, type_)
            self.generated[value.name] = f"random elements of {type_}"
            return generated.random_array(type_.elem, shape, self.rng)
        array = arguments.array_argument(value.name, type_.elem, given[value.name])
        if type_.is_unranked:
            return array
        if array.ndim != len(type_.dims) or any(
            want not in (None, have) for want, have in zip(type_.dims, array.shape, strict=True)
        ):
            raise UsageError(f"argument `{value.name}` has shape {array.shape}, not {type_}")
        return array

    def _register(self, value: Value, type_: Any, given: dict[str, Any]) -> Any:
        """The lanes of a register; a predicate that is left out has all of them active."""
        from ptosim.launch import on_chip  # most programs load their registers

        lanes, elem = type_.lanes, on_chip.elem_of(type_)
        if value.name in given:
            return on_chip.held_of(value, given[value.name])
        if isinstance(type_, (MaskType, VirtualMaskType)):
            self.generated[value.name] = f"all {lanes} lanes"
            return on_chip.held_of(value, np.ones(lanes, np.uint8))
        self.generated[value.name] = f"{lanes} random elements of {elem}"
        return on_chip.held_of(value, generated.random_array(elem, (lanes,), self.rng))

    def _buffer(
        self,
        value: Value,
        type_: PtrType | MemRefType | ViewType,
        given: dict[str, Any],
        needed: Needed | None,
    ) -> None:
        elem = type_.elem
        if value.name not in given:
            self._generate(value, elem, given, needed)
            return
        held = given[value.name]
        if self._is_cpp:
            elem, held, needed = arguments.as_given(elem, held, needed)
        is_lazy = isinstance(held, LazyArray) and held.elem == elem
        array = held if is_lazy else arguments.array_argument(value.name, elem, held)
        self._note_shape(value, array.shape, needed_elements(self.function, given))
        if needed is not None and array.size < needed.elements:
            raise UsageError(
                f"argument `{value.name}` has {array.size} elements; the program's views reach "
                f"{needed.elements}",
                help=f"pass at least {needed.elements} elements of {elem}",
            )
        if isinstance(array, LazyArray):
            self._add_lazy(value, elem, array.origin(), array.shape)
            return
        data = as_bytes(array, elem)
        is_own = not np.may_share_memory(data, held) if isinstance(held, np.ndarray) else True
        is_own |= self.options.in_place and data.flags.writeable
        if len(data) >= LARGE and value.name in self._only_read and not self._shares(data, given):
            data, is_own = data.view(), True
            data.flags.writeable = False  # the caller's own: nothing is copied
        self._add_buffer(value, elem, data, array.shape, is_own=is_own)

    @cached_property
    def _only_read(self) -> set[str]:
        return only_read(self.launched)

    def _shares(self, data: np.ndarray, given: dict[str, Any]) -> bool:
        """True if another argument is the same array, which has an address of its own."""
        is_alias = any(isinstance(other, arguments.Alias) for other in given.values())
        return is_alias or any(np.may_share_memory(data, b.content) for b in self.machine.buffers)

    def _generate(
        self, value: Value, elem: DType, given: dict[str, Any], needed: Needed | None
    ) -> None:
        """Make the data of an array that is left out: of a large one where something reads it."""
        if needed is None:
            raise UnsizedError(
                f"argument `{value.name}` is left out and no view fixes its size",
                help=self._to_paste(value, elem, given),
            )
        key = self._key(value.name, self._rank)
        made = self._hard(value.name, elem, needed.shape)
        self.generated[value.name] = _in_words(needed, elem, "random" if made is None else "hard")
        if made is None and not is_lazy(elem, needed.shape):
            made = generated.random_array(elem, needed.shape, self.rng)
        if isinstance(made, np.ndarray):
            self._add_buffer(value, elem, as_bytes(made, elem), made.shape, is_own=True)
        else:
            pages = generated.random_pages(elem, needed.shape, key, self.options.seed)
            self._add_lazy(value, elem, made.origin() if made is not None else pages, needed.shape)
        self.machine.buffers[self.arrays[key].number].made_up = True

    def _note_shape(
        self, value: Value, shape: tuple[int, ...], needed: Mapping[str, Needed]
    ) -> None:
        """Say that the views of the program see an array in another shape than it has."""
        reached = needed.get(value.name)
        if reached is None or not reached.in_order or math.prod(shape) != reached.elements:
            return
        one, other = squeezed(shape), squeezed(reached.shape)
        if one != other and len(one) == len(other):
            had, seen = ("x".join(map(str, s)) for s in (shape, reached.shape))
            self.sink.report(
                "PTO6043",
                f"argument `{value.name}` is {had}, and the program sees {seen}",
                notes=("the elements are taken in their order in memory",),
                help="transpose or reshape the array if that is not meant",
            )

    def _to_paste(self, value: Value, elem: DType, given: dict[str, Any]) -> str:
        """The argument as it is written on the command line."""
        array = f"`--arg {value.name}=randn:{elem}:64x64` (or another shape)"
        scalars = missing_scalars(self.function, value, given)
        if not scalars:
            return f"give it: {array}"
        words = " ".join(f"--arg {name}=64" for name in scalars)
        return f"its views depend on {', '.join(scalars)}: give `{words}`; or give it: {array}"

    def _add_buffer(
        self, value: Value, elem: DType, data: np.ndarray, shape: tuple[int, ...], *, is_own: bool
    ) -> None:
        """Make the memory of an array, or put it into that which it shares with others. It is made
        of the bytes themselves if they are the launch's own."""
        key, buffers = self._key(value.name, self._rank), self.machine.buffers
        part = self._parts.get(key)
        if part is not None and part.group in self._shared:
            number = self._shared[part.group]
            buffers[number].data[part.offset : part.offset + len(data)] = data
            self.arrays[key] = Argument(number, part.offset, len(data), elem, shape)
            return
        offset, number = 0, len(buffers)
        if part is not None:
            self._shared[part.group] = number
            content, offset = np.zeros(part.size, np.uint8), part.offset
            content[offset : offset + len(data)] = data
            buffers.append(GmBuffer(number, key, content, elem, shape))
        elif is_own:
            buffers.append(GmBuffer(number, key, data, elem, shape))
        else:
            buffers.append(GmBuffer.copy_of(number, key, data, elem, shape))
        self.arrays[key] = Argument(number, offset, len(data), elem, shape)

    def _add_lazy(self, value: Value, elem: DType, origin: Origin, shape: tuple[int, ...]) -> None:
        """Make memory that gets its content where something reaches it."""
        key, number = self._key(value.name, self._rank), len(self.machine.buffers)
        self.machine.buffers.append(GmBuffer.lazy(number, key, origin, elem, shape))
        self.arrays[key] = Argument(number, 0, origin.size, elem, shape)

    def held(self, argument: Argument, *, at_end: bool) -> np.ndarray | Unmade:
        """Return what the array of an argument holds: a copy, except of a large one. Of that it is
        at the end the memory of the launch and, where nothing was written, the caller's own,
        read-only; of generated data it makes what the run did not reach when it is asked for."""
        buffer, end = self.machine.buffers[argument.number], argument.offset + argument.size
        kept = buffer.pages.kept if buffer.pages is not None else None
        if kept is not None and buffer.pages is not None and not buffer.pages.is_changed():
            origin = from_bytes(kept, argument.elem, argument.shape, copy=False)
            origin.flags.writeable = False
            return origin
        if at_end and buffer.pages is not None and kept is None:
            return unmade(buffer, argument.elem, argument.shape)
        data = buffer.part(argument.offset, end)
        copy = not at_end or (len(data) < LARGE and not self.options.in_place)
        return from_bytes(data, argument.elem, argument.shape, copy=copy)

    def _tile_input(self, value: Value, type_: TileType, given: dict[str, Any]) -> None:
        rows = type_.rows if type_.v_row is None else type_.v_row
        cols = type_.cols if type_.v_col is None else type_.v_col
        if value.name in given:
            array = arguments.array_argument(value.name, type_.dtype, given[value.name])
            if array.size == rows * cols:
                array = array.reshape(rows, cols)
            elif array.size == type_.rows * type_.cols:
                array = array.reshape(type_.rows, type_.cols)
            else:
                raise UsageError(
                    f"argument `{value.name}` has shape {array.shape}; the tile is "
                    f"{rows}x{cols} (static {type_.rows}x{type_.cols})"
                )
        elif results.is_output(self.function, value):
            return
        else:
            array, kind = self._hard(value.name, type_.dtype, (rows, cols)), "hard"
            if array is None:
                array, kind = generated.random_array(type_.dtype, (rows, cols), self.rng), "random"
                if type_.dtype.is_float and results.is_scale(self.function, value):
                    array, kind = generated.positive(array), "positive random"
            self.generated[value.name] = f"{rows}x{cols} {kind} elements of {type_.dtype}"
        self.tile_inputs[value.name] = array


def _in_words(needed: Needed, elem: DType, kind: str) -> str:
    if not needed.elements:
        return "nothing: the program does not use it"
    return f"{'x'.join(map(str, needed.shape))} {kind} elements of {elem.name}"


def _all_of(type_: PtrType | MemRefType | ViewType) -> Needed | None:
    """The elements that a memref or a view of a known shape reaches; None for anything else."""
    if isinstance(type_, ViewType):
        dims = tuple(d or 1 for d in type_.dims)
        return Needed(math.prod(dims), dims)
    if not isinstance(type_, MemRefType) or None in type_.dims:
        return None
    dims = tuple(d or 1 for d in type_.dims)
    view = memref_view(type_, 0)
    elements = view.offset + view.spec.high + 1
    return Needed(elements, dims if elements == math.prod(dims) else (elements,))
