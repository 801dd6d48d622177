"""Persistent fragments: memory of each thread that lives from one SIMT section of a kernel to the
next. The assembler keeps them in the words that threads keep, so that it must know each access (PTO
micro-instruction specification, SIMT: persistent fragments)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from ptosim.ground.diagnostics.model import Diagnostic, Label, finding
from ptosim.ground.ir.core import Operand, Operation, Value
from ptosim.ground.ir.program import Function, ResolvedModule
from ptosim.ground.ir.types import ScalarType, Type, VectorType
from ptosim.ground.isa.targets import unit_rules
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.bind.units import mark_of
from ptosim.machine.vector import SLOTS

CODE = "PTO2220"
PERSISTENT = "pto.persistent"
UNROLL = "pto.unroll"
MAX_ROUNDS = 4096
"""Rounds of one unrolled loop."""
MAX_NESTED_ROUNDS = 65536
"""Rounds of an unrolled loop in others, counted over all of theirs."""


@dataclass(eq=False, slots=True)
class _Access:
    """One load or store of a section, of each round of an unrolled loop."""

    op: Operation
    section: Operation
    offset: int
    lanes: int
    stores: bool


@dataclass(eq=False, slots=True)
class _Fragment:
    op: Operation
    elem: Type
    size: int  # bytes of an element
    bytes: int
    accesses: list[_Access] = field(default_factory=list)

    @property
    def bits(self) -> int:
        """Bits of an element."""
        return 8 * self.size


Places = dict[Value, tuple[_Fragment, int | None]]
"""Pointers into fragments, with their offset in bytes; None where that has been reported."""


def fragments(resolved: ResolvedModule, level: int) -> Iterator[Diagnostic]:
    """Report wrong fragments and accesses of them."""
    for function in resolved.functions.values():
        made = [op for op in function.ops if op.has("allocates_private")]
        if any(PERSISTENT in op.attrs for op in made):
            checker = _Checker(function, resolved)
            checker.run(made)
            yield from checker.found


class _Checker:
    """The fragments of one function."""

    def __init__(self, function: Function, resolved: ResolvedModule) -> None:
        self.function = function
        self.source: Source = resolved.module.source
        self.is_entry = mark_of(function.op, unit_rules(resolved.date)) is not None
        self.found: list[Diagnostic] = []
        self.places: Places = {}
        self.rounds = 1  # of the unrolled loops around what is looked at

    def _report(self, op: Operation, text: str, more: tuple[Label, ...] = ()) -> None:
        self.found.append(finding(CODE, f"'{op.name}' op {text}", op.span(self.source), more=more))

    def run(self, made: list[Operation]) -> None:
        persistent = [op for op in made if PERSISTENT in op.attrs and op.results]
        known = [f for op in persistent if (f := self._declared(op))]
        for fragment in known:
            self.places[fragment.op.results[0]] = (fragment, 0)
        self._walk(self.function.body, {}, None, inside=False)
        if self.found:
            return
        initialised = [(f, self._initialised(f)) for f in known]
        if not self.found:
            self._slots(initialised)

    # -- declarations -----------------------------------------------------------------------------

    def _declared(self, op: Operation) -> _Fragment | None:
        attr = op.attrs[PERSISTENT]
        elem = op.attributes.get("elem")
        count = getattr(op.bound.get("count"), "const", None)
        size = _element_bytes(elem)
        text = None
        if attr.atom is not None:
            text = "'pto.persistent' must be a unit attribute"
        elif not self.is_entry:
            text = "persistent SIMT fragment must be defined in a PTO kernel entry"
        elif op.inside("simt_region") is not None:
            text = "persistent SIMT fragment must be defined outside pto.section.simt"
        elif not isinstance(count, int) or count <= 0:
            text = "persistent SIMT fragment element count must be positive"
        elif size is None:
            text = (
                "persistent SIMT fragment element must be an integer of at most 64 bits, f16, "
                f"bf16 or f32, got {elem}"
            )
        if text is not None or size is None or elem is None or not isinstance(count, int):
            self._report(op, text or "persistent SIMT fragment element count must be positive")
            return None
        return _Fragment(op, elem, size, size * count)

    # -- accesses ---------------------------------------------------------------------------------

    def _walk(
        self,
        ops: Iterable[Operation],
        numbers: Mapping[Value, int],
        section: Operation | None,
        *,
        inside: bool,
    ) -> None:
        """Look at operations in order; `inside` a section, but not at the top of its body."""
        for op in ops:
            self._one(op, numbers, section, inside=inside)

    def _one(
        self,
        op: Operation,
        numbers: Mapping[Value, int],
        section: Operation | None,
        *,
        inside: bool,
    ) -> None:
        if any(value in self.places for value in op.operand_values()):
            pointer = getattr(op.bound.get("ptr"), "value", None)
            if op.has("private_address") and pointer in self.places:
                self._address(op, numbers)
            elif (
                op.has("private_access")
                and pointer in self.places
                and self._stored_pointer(op) is None
            ):
                self._access(op, section, inside=inside)
            else:
                self._report(
                    op, f"unsupported use of persistent SIMT fragment pointer by '{op.name}'"
                )
        if not op.regions:
            return
        if op.has("simt_region"):
            self._walk(op.inner(), numbers, op, inside=False)
            return
        rounds = None if section is None or inside else self._unrolled(op)
        if rounds is None:
            self._walk(op.inner(), numbers, section, inside=section is not None)
            return
        variable, around = op.regions[0].blocks[0].values[0], self.rounds
        self.rounds *= len(rounds)
        for number in rounds:
            before = len(self.found)
            self._walk(op.inner(), {**numbers, variable: number}, section, inside=False)
            if len(self.found) > before:
                break
        self.rounds = around

    def _unrolled(self, op: Operation) -> range | None:
        """The rounds of a loop that are looked at one by one: it is unrolled and uses fragments."""
        rounds = _rounds(op)
        if rounds is None or self.rounds * len(rounds) > MAX_NESTED_ROUNDS:
            return None
        used = (value in self.places for inner in op.walk() for value in inner.operand_values())
        return rounds if any(used) else None

    def _stored_pointer(self, op: Operation) -> Value | None:
        """The pointer itself as what is stored."""
        value = getattr(op.bound.get("value"), "value", None)
        return value if value in self.places else None

    def _address(self, op: Operation, numbers: Mapping[Value, int]) -> None:
        base = op.bound["ptr"].value
        fragment, offset = self.places[base]
        index = _number(op.bound["index"], numbers)
        unit = _bytes(op.attributes.get("unit"))
        if index is None:
            self._report(
                op, "persistent SIMT fragment index must be a compile-time integer constant"
            )
            place = None
        else:
            place = None if offset is None else offset + index * unit
        self.places[op.results[0]] = (fragment, place)

    def _access(self, op: Operation, section: Operation | None, *, inside: bool) -> None:
        fragment, offset = self.places[op.bound["ptr"].value]
        text = None
        if section is None:
            text = "persistent SIMT fragment access must be inside pto.section.simt"
        elif inside:
            text = (
                "persistent SIMT fragment access must be directly inside the single top-level "
                "block of the pto.section.simt body"
            )
        type_ = _accessed(op)
        lanes = _lanes(type_)
        text = text or self._wrong_type(op, fragment, type_)
        if text is None and offset is not None:
            text = _wrong_place(fragment, offset, lanes)
        if text is not None:
            self._report(op, text, (Label(fragment.op.span(self.source), "the fragment"),))
        elif section is not None and offset is not None:
            stores = op.bound.get("value") is not None
            fragment.accesses.append(_Access(op, section, offset, lanes, stores))

    def _wrong_type(self, op: Operation, fragment: _Fragment, type_: Type | None) -> str | None:
        is_odd = op.bound.get("volatile") is True or "ordering" in op.attrs
        if isinstance(type_, VectorType):
            if is_odd:
                return "persistent SIMT fragment vector access cannot be volatile or atomic"
            if type_.dims not in ((2,), (4,)):
                return (
                    "persistent SIMT fragment currently supports only 2- or 4-lane vector "
                    f"accesses, got {_lanes(type_)} lanes"
                )
        elem = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
        wanted = getattr(fragment.elem, "dtype", None)
        if elem is not None and elem == wanted:
            return None
        return (
            f"persistent SIMT fragment access type {type_} must match its element type "
            f"{fragment.elem}"
        )

    # -- initialisation ---------------------------------------------------------------------------

    def _initialised(self, fragment: _Fragment) -> list[int]:
        """Check the order of the sections that use a fragment; return the offsets of elements that
        the first of them stores, in order."""
        if not fragment.accesses:
            self._report(
                fragment.op,
                "persistent SIMT fragment requires at least one llvm.load or llvm.store inside "
                "pto.section.simt",
            )
            return []
        using = list(dict.fromkeys(a.section for a in fragment.accesses))
        first = next((s for s in using if all(t is s or dominates(s, t) for t in using)), None)
        if first is None:
            self._report(
                fragment.op,
                "persistent SIMT fragment requires a unique init section that dominates every "
                "access section",
            )
            return []
        stored = self._stored(fragment, first)
        self._resident(fragment, first, stored)
        self._dimensions(fragment, first)
        return sorted(stored)

    def _stored(self, fragment: _Fragment, first: Operation) -> set[int]:
        stored: set[int] = set()
        for access in fragment.accesses:
            if access.section is not first:
                continue
            places = _offsets(access, fragment)
            missing = [p for p in places if p not in stored and not access.stores]
            if missing:
                self._report(
                    access.op,
                    f"persistent SIMT fragment element offset {missing[0] // fragment.size} must "
                    "be initialized by a store before its first load in the init section",
                )
            stored.update(places)
        return stored

    def _resident(self, fragment: _Fragment, first: Operation, stored: set[int]) -> None:
        for access in fragment.accesses:
            missing = [p for p in _offsets(access, fragment) if p not in stored]
            if access.section is not first and missing:
                self._report(
                    access.op,
                    f"persistent SIMT fragment element offset {missing[0] // fragment.size} is "
                    "not initialized by the init section and is not part of residentElements",
                )

    def _dimensions(self, fragment: _Fragment, first: Operation) -> None:
        """Every section after the first one has its threads, also one that uses no fragment."""
        wanted = _dims(first)
        for op in self.function.ops:
            if op.has("simt_region") and dominates(first, op) and _dims(op) != wanted:
                self._report(
                    op,
                    f"persistent SIMT fragment carry section launch dimensions {_shape(_dims(op))} "
                    f"must match init section dimensions {_shape(wanted)}",
                    (Label(first.span(self.source), "the init section"),),
                )

    # -- slots ------------------------------------------------------------------------------------

    def _slots(self, initialised: list[tuple[_Fragment, list[int]]]) -> None:
        """Elements take the words that threads keep, one after the other."""
        slot = 0
        for fragment, offsets in initialised:
            words = 2 if fragment.bits > 32 else 1
            for offset in offsets:
                slot += slot % 2 if words == 2 else 0
                if slot + words > SLOTS:
                    self._report(
                        fragment.op,
                        f"slot allocation in function '{self.function.symbol}' exceeds the "
                        f"{SLOTS}-slot limit: element offset {offset // fragment.size} of type "
                        f"{fragment.elem} needs {words} slot(s), next candidate slot is {slot}",
                    )
                    return
                slot += words


def _element_bytes(elem: Type | None) -> int | None:
    """Bytes of an element that a fragment may have."""
    if not isinstance(elem, ScalarType):
        return None
    kind = elem.dtype
    fits = kind.family in ("f16", "bf16", "f32") or (kind.is_integer and kind.bits <= 64)
    return max(kind.bits // 8, 1) if fits else None


def _bytes(type_: Type | None) -> int:
    elem = getattr(type_, "dtype", None) or getattr(type_, "elem", None)
    return max(getattr(elem, "bits", 8) // 8, 1) * _lanes(type_)


def _lanes(type_: Type | None) -> int:
    """Lanes of what is accessed; one of a number, of a vector without dimensions, and where the
    type does not say how many."""
    if not isinstance(type_, VectorType) or not type_.dims:
        return 1
    return type_.dims[0] or 1


def _accessed(op: Operation) -> Type | None:
    if op.results:
        return op.results[0].type
    return getattr(op.bound.get("value"), "type", None)


def _offsets(access: _Access, fragment: _Fragment) -> list[int]:
    return [access.offset + k * fragment.size for k in range(access.lanes)]


def _wrong_place(fragment: _Fragment, offset: int, lanes: int) -> str | None:
    if offset < 0 or offset % fragment.size:
        return (
            f"persistent SIMT fragment byte offset {offset} must be non-negative and aligned to "
            f"element byte size {fragment.size}"
        )
    if offset + lanes * fragment.size > fragment.bytes:
        several = f" with {lanes} scalar lane(s)" if lanes > 1 else ""
        return (
            f"persistent SIMT fragment access at byte offset {offset}{several} exceeds "
            f"allocation size {fragment.bytes}"
        )
    return None


def _number(operand: Operand, numbers: Mapping[Value, int]) -> int | None:
    """An index that the text fixes: a constant, or the variable of an unrolled loop, cast."""
    if isinstance(operand.const, int):
        return operand.const
    value = operand.value
    while value is not None and value not in numbers:
        owner = value.owner
        inner = owner.bound.get("operand") if owner is not None else None
        if not isinstance(inner, Operand) or not _is_integer(inner.type):
            return None
        if isinstance(inner.const, int):
            return inner.const
        value = inner.value
    return numbers[value] if value is not None else None


def _is_integer(type_: Type | None) -> bool:
    return isinstance(type_, ScalarType) and type_.dtype.is_integer


def _rounds(op: Operation) -> range | None:
    """The values of a loop that is unrolled before fragments are looked at."""
    if not op.has("counted") or UNROLL not in op.attrs:
        return None
    if "lower" not in op.bound:
        return None  # its operands are wrong, which has been reported
    low, high, step = (op.bound[n].const for n in ("lower", "upper", "step"))
    if not all(isinstance(n, int) for n in (low, high, step)) or step <= 0:
        return None
    is_short = -(-(high - low) // step) <= MAX_ROUNDS
    return range(low, high, step) if is_short else None


def _dims(section: Operation) -> tuple[int, ...]:
    return tuple(o.const for o in section.bound.get("launch") or ())


def _shape(dims: tuple[int, ...]) -> str:
    return f"({', '.join(map(str, dims))})"


def dominates(first: Operation, other: Operation) -> bool:
    """True if an operation is executed before another one wherever that is executed."""
    block = _block(first)
    at: Operation | None = other
    while at is not None and at not in block:
        at = at.parent
    return at is not None and at is not first and block.index(first) < block.index(at)


def _block(op: Operation) -> list[Operation]:
    parent = op.parent
    blocks = [b.ops for r in parent.regions for b in r.blocks] if parent is not None else []
    return next((ops for ops in blocks if op in ops), [op])
