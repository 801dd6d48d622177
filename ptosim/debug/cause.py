"""Why an output is not what was expected: the operation at which its value left the expected one.

The element is followed back through the operations that made it. Then, the first that holds:
bytes of the chain that nothing wrote, or that belong to another tile than the one that is read; a
fault of a sanitizer at one of its operations; a value that rounding, clipping or a conversion took
away from what the same run gives in f64, if that is what was expected. If none does, every
operation computes what the text says, and the text says something else than was meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ptosim.debug.exact import MOST_STEPS, Exact
from ptosim.debug.names import brief
from ptosim.debug.reading import Place, Reading, element_index, element_place, read_buffer
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.tables.origin import Chain, Link, Node, index_of
from ptosim.debug.writes import Write
from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.machine.effects.storage import WRITTEN, bound_values

DEPTH = 24
MOST = 64
"""How deep an element is followed, and to how many elements."""
NEAR = 0.25
"""The part of the difference to the expected value that the f64 result may still have."""


class Cause(NamedTuple):
    """Where a value left the expected one: the operation's line and text, what happened there, and
    how that is known: `unwritten`, `overwritten`, `finding`, `numeric`, `text`, `none`."""

    kind: str
    line: int | None
    operation: str
    what: str

    @property
    def sentence(self) -> str:
        """The cause in one line."""
        where = f"line {self.line} (`{self.operation}`): " if self.line is not None else ""
        return where + self.what


@dataclass(frozen=True, slots=True)
class Step:
    """An element of the chain as it is and as f64 has it, from the operands as they are (`local`)
    and from the beginning of the run (`exact`); None where no formula is known."""

    name: str
    line: int | None
    operation: str
    got: Any
    local: float | None
    exact: float | None


@dataclass(slots=True)
class Story:
    """An element followed back: the chain as a table, its steps in the order of the run, and the
    cause; `cause` is None where nothing was expected."""

    element: str
    got: Any
    expected: Any
    chain: Sheet
    steps: Sequence[Step]
    cause: Cause | None
    ops: Sequence[Operation] = ()
    """The operations of the chain, from the last one back."""


def why(session: Debugger, element: str, expected: Any = None) -> Story:
    """Follow an element of an output (`y[3, 0]`) of a run that is at its end. Raises UsageError if
    there is none."""
    node = _node(session, element)
    end = session.position
    chain = Chain(session, DEPTH, MOST)
    try:
        chain.follow(node, end)
        exact = _exact(session, chain, end)
        session.walker.goto(end)
        steps = list(_steps(session, chain, exact))
        cause = None if expected is None else _cause(session, chain, exact, steps, expected)
    finally:
        session.walker.goto(end)
    events = (link.write.event for link in chain.links)
    ops = [e.inst.op for e in events if e is not None and e.inst.op is not None]
    return Story(node.name, node.number, expected, chain.sheet, steps, cause, ops)


def mended(session: Debugger, op: Operation, instead: str) -> Cause:
    """Return the cause of a program whose values would be right with another operation."""
    what = f"with `{instead}` in its place every output is as expected"
    return Cause("text", session.names.line(op), brief(op), what)


def _node(session: Debugger, element: str) -> Node:
    name, bracket, rest = element.strip().partition("[")
    name = name.strip().lstrip("%")
    if not bracket or not name:
        raise UsageError("`why` takes one element", help=f"{name or 'y'}[0, 0]")
    reading = _reading(session, name)
    index = element_index(session.evaluate(f"({rest.rstrip().removesuffix(']')},)"))
    place = element_place(session.core, reading, index)
    if len(index) != reading.numbers.ndim:
        index = tuple(int(i) for i in np.unravel_index(index[0], reading.numbers.shape))
    shown = f"{name}[{', '.join(map(str, index))}]"
    return Node(shown, place, reading.numbers[index])


def _reading(session: Debugger, name: str) -> Reading:
    for buffer in session.launch.machine.buffers:
        if buffer.name == name:
            return read_buffer(buffer)
    return session.reading(name)


def _exact(session: Debugger, chain: Chain, end: int) -> Exact | None:
    """The run in f64; None where it is too long for that."""
    if end > MOST_STEPS:
        return None
    wanted: dict[int, list[Place]] = {}
    for link in chain.links:
        if link.write.event is not None:
            wanted.setdefault(link.write.before, []).append(link.node.place)
    exact = Exact(session, wanted=wanted)
    exact.follow(end)
    return exact


def _steps(session: Debugger, chain: Chain, exact: Exact | None) -> Iterator[Step]:
    seen: set[tuple[int, Place]] = set()
    for link in sorted(chain.links, key=lambda each: each.write.before):
        key = (link.write.before, link.node.place)
        if link.write.event is None or key in seen:
            continue
        seen.add(key)
        local, ideal = (exact.local.get(key), exact.exact.get(key)) if exact else (None, None)
        yield Step(link.node.name, *_place(session, link.write), link.node.number, local, ideal)


def _place(session: Debugger, write: Write | None) -> tuple[int | None, str]:
    op = write.event.inst.op if write is not None and write.event is not None else None
    return (session.names.line(op), brief(op)) if op is not None else (None, "")


# -- causes ----------------------------------------------------------------------------------------


def _cause(
    session: Debugger, chain: Chain, exact: Exact | None, steps: Sequence[Step], expected: Any
) -> Cause:
    found = _never_written(session, chain) or _overwritten(session, chain)
    found = found or _finding(session, chain)
    return found or _numeric(chain, exact, steps, expected) or _by_the_text(session, chain, steps)


def _never_written(session: Debugger, chain: Chain) -> Cause | None:
    """Bytes that nothing wrote: an output's that no store reached, or a tile's."""
    first = chain.links[0]
    if first.write.event is None:
        what = f"no operation writes {first.node.name}: it has what the launch gave it"
        return Cause("unwritten", None, "", what)
    for link in chain.links[1:]:
        if link.write.event is None and link.node.place.space != "gm":
            line, text = _place(session, link.reader)
            return Cause("unwritten", line, text, f"reads {link.node.name}, which nothing wrote")
    return None


def _overwritten(session: Debugger, chain: Chain) -> Cause | None:
    """An element of a tile that was written as its own, and then as one of another tile. Bytes that
    were only ever written under another name are the same tile by two names."""
    for link in chain.links:
        value, writer = link.node.value, _written_as(link.write, link.node.place)
        if value is None or writer is None or _root(writer) is _root(value):
            continue
        if not _was_its_own(session, link, _root(value)):
            continue
        reads, op = _place(session, link.reader)
        line, text = _place(session, link.write)
        what = (
            f"reads {link.node.name}, whose bytes line {line} (`{text}`) overwrote as those of "
            f"%{writer.name}"
        )
        return Cause("overwritten", reads, op, what)
    return None


def _was_its_own(session: Debugger, link: Link, root: Value) -> bool:
    before = link.write.before
    for _ in range(MOST):
        earlier = session.writes.last_write(link.node.place, before)
        if earlier.event is None:
            return False
        writer = _written_as(earlier, link.node.place)
        if writer is not None and _root(writer) is root:
            return True
        before = earlier.before
    return False


def _written_as(write: Write, place: Place) -> Value | None:
    """What the writer of an element calls the tile that it writes."""
    event = write.event
    if event is None or event.binding is None or place.space == "gm":
        return None
    op = event.binding.op
    for name, role, _ in bound_values(op, event.binding.values):
        if role in WRITTEN and index_of(event.binding, event.core, place) is not None:
            return getattr(op.bound.get(name), "value", None) or op.result_values.get(name)
    return None


def _root(value: Value) -> Value:
    """The tile that a part or another form of it was made of."""
    for _ in range(MOST):
        made = value.owner
        named = [o.value for _, o in made.operands() if o.value is not None] if made else []
        if made is None or made.name == "pto.alloc_tile" or not named:
            return value
        value = named[0]
    return value


def _finding(session: Debugger, chain: Chain) -> Cause | None:
    """What a sanitizer says of an operation of the chain: the worst of it."""
    lines = {}
    for link in chain.links:
        for write in (link.write, link.reader):
            line, text = _place(session, write)
            if line is not None:
                lines[line] = text
    found = [
        (d, line)
        for d in session.findings
        for line in _lines_of(d)
        if line in lines and d.severity > Severity.NOTE
    ]
    if not found:
        return None
    worst, line = max(found, key=lambda each: each[0].severity)
    return Cause("finding", line, lines[line], f"{worst.code}: {worst.message}")


def _lines_of(found: Diagnostic) -> Iterator[int]:
    for span in found.spans:
        yield span.source.line_column(span.start)[0]


def _numeric(
    chain: Chain, exact: Exact | None, steps: Sequence[Step], expected: Any
) -> Cause | None:
    """The first step at which most of the difference is there, if f64 gives what was expected."""
    first = chain.links[0]
    ideal = exact.exact.get((first.write.before, first.node.place)) if exact else None
    got, wanted = float(first.node.number), float(expected)
    if ideal is None or not _is_near(ideal, wanted, got):
        return None
    share = _apart(got, ideal)
    for step in steps:
        if step.exact is None or _apart(float(step.got), step.exact) < share / 2:
            continue
        told = f"gives {_short(step.got)} where f64 has {_short(step.exact)}"
        alone = step.local is not None and _apart(float(step.got), step.local) >= share / 4
        how = "" if alone else ", because the differences of its operands add up or cancel"
        return Cause("numeric", step.line, step.operation, f"{told}{how}")
    return None


def _is_near(ideal: float, expected: float, got: float) -> bool:
    """True if f64 has the expected value, and what the run has is farther away."""
    with np.errstate(all="ignore"):
        if np.isnan(expected):
            return bool(np.isnan(ideal))
        if not np.isfinite(ideal):
            return ideal == expected
        least = 0.5 if float(expected).is_integer() and float(got).is_integer() else 0.0
        apart = abs(got - expected) if np.isfinite(got) else np.inf
        return abs(ideal - expected) <= max(NEAR * apart, least if apart > 2 * least else 0.0)


def _apart(value: float, exact: float) -> float:
    """How far two values are apart, in parts of the larger one."""
    if value == exact or (value != value and exact != exact):
        return 0.0
    if not (np.isfinite(value) and np.isfinite(exact)):
        return 1.0
    return abs(value - exact) / max(abs(value), abs(exact))


def _by_the_text(session: Debugger, chain: Chain, steps: Sequence[Step]) -> Cause:
    """Nothing went wrong in any operation: the last one that computes is where to look."""
    moved = ("pto.tstore", "pto.tmov", "pto.tload")
    for link in chain.links:
        event = link.write.event
        if event is None or event.inst.op is None or event.inst.op.name in moved:
            continue
        line, text = _place(session, link.write)
        known = any(s.exact is not None for s in steps)
        how = "as f64 has it" if known else "from what it reads"
        what = (
            f"computes {link.node.name} = {_short(link.node.number)} {how}: the operations above "
            "do what the text says, and something else is expected"
        )
        return Cause("text", line, text, what)
    line, text = _place(session, chain.links[0].write)
    return Cause(
        "text", line, text, "moves a value that is an argument; it is not the expected one"
    )


def _short(value: Any) -> str:
    return short_number(value) if not isinstance(value, str) else value
