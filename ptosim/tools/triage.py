"""Whose fault is a wrong value: the golden's, the kernel's, the board's, or nobody's?

Three results of one launch are held against one another: what the simulator gives, with the band
that other orders of accumulation allow (`bands.py`); the same program in f64 without rounding
(`debug/exact.py`); and what somebody else has, a golden file or a board. What is inside of the band
is the order of a sum. A golden outside of it is right where f64 of the program agrees with it and
the run does not (the kernel loses digits), where a sanitizer has found a fault, where the kernel
leaves part of its input out, or where another operation in one place gives all of it: then the
kernel is wrong. Else the golden is: neither an order nor the reference has its values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ptosim.debug.cause import Story, why
from ptosim.debug.exact import MOST_STEPS, Exact
from ptosim.debug.motion import repaired
from ptosim.debug.session import Debugger, session_of
from ptosim.ground.diagnostics.model import Diagnostic, Origin, Severity, Trap
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.isa.dates import switches
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.place.cores import peer_functions
from ptosim.launch.compare import Choices
from ptosim.launch.description import Tolerance
from ptosim.launch.hard import uses
from ptosim.launch.program import LoadedProgram
from ptosim.machine.pages import has_numbers
from ptosim.tools.bands import Bands, bands
from ptosim.tools.triage_numbers import (
    ROUNDINGS,
    SLACK,
    counts_of,
    element_text,
    given_twice,
    is_close,
    is_near,
    is_tie,
    moved,
    narrower,
    others,
    same,
    step_of,
    tolerated,
    unaffected,
    variants,
)

GOLDEN, KERNEL, BOARD, ORDER = "golden", "kernel", "board", "order"
_ORDERS = {
    "sum": "the order of this sum",
    "tie": "a value near a tie, which the order of a sum decides",
    "boundary": "values too near to be put in order",
    "unknown": "no rule for values that are open: anything",
}


@dataclass(frozen=True, slots=True)
class Group:
    """Elements of an output that differ for one reason. `of` is what they are of, `golden` or
    `board`; `element`, `op` and `line` are the first one and the operation where it parts."""

    verdict: str
    of: str
    output: str
    count: int
    element: str
    op: str | None
    line: int | None
    why: str

    def to_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        first = {"element": self.element, "op": self.op, "line": self.line}
        return {
            "verdict": self.verdict, "of": self.of, "output": self.output, "count": self.count,
            "first": first, "why": self.why,
        }  # fmt: skip


@dataclass(frozen=True, slots=True)
class Triage:
    """What came out: groups, outputs that are equal, findings of the run."""

    groups: list[Group]
    equal: Mapping[str, int]
    """Elements of each output that are the same everywhere."""
    findings: list[Diagnostic] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 if all that differs is the order of sums."""
        return int(any(group.verdict != ORDER for group in self.groups))


def split_inputs(
    program: LoadedProgram, entry: str, given: Mapping[str, np.ndarray]
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Return the arrays of a golden file that are inputs, and those that the program writes. Raises
    UsageError for a name that the program does not have."""
    resolved = program.front.resolved
    known = uses(peer_functions(resolved, resolved.functions[entry]))
    unknown = next((name for name in given if name not in known), None)
    if unknown is not None:
        raise UsageError(
            f"`{entry}` has no array `{unknown}`", help=f"its arrays: {', '.join(known) or 'none'}"
        )
    inputs = {n: v for n, v in given.items() if not known[n].written}
    return inputs, {n: v for n, v in given.items() if known[n].written}


def triage(
    choices: Choices,
    golden: Mapping[str, np.ndarray],
    board: Mapping[str, np.ndarray] | None = None,
    tolerance: Tolerance | None = None,
) -> Triage:
    """Say whose fault it is that outputs differ from a golden, and from a board's. `golden` and
    `board` are arrays by name; those of arguments that the program only reads are what it is run
    on. Raises UsageError for arrays that do not fit, and what a run raises."""
    return _Case(choices, golden, board or {}, tolerance or Tolerance()).judged()


class _Case:
    """One launch, and what others have of it."""

    def __init__(
        self,
        choices: Choices,
        golden: Mapping[str, np.ndarray],
        board: Mapping[str, np.ndarray],
        tolerance: Tolerance,
    ) -> None:
        self.program = choices.program()
        self.entry = self.program.entry(choices.entry)
        inputs, self.golden = split_inputs(self.program, self.entry, golden)
        more, self.board = split_inputs(self.program, self.entry, board)
        self.args = {**choices.arguments(), **more, **inputs}
        self.choices, self.tolerance = choices, tolerance
        self.how = choices.run_options("block_num", "seed")
        self.bands: Bands
        self.session: Debugger | None = None
        self.exact: Exact | None = None

    def judged(self) -> Triage:
        """Run, and put every element that differs into a group."""
        if not self.golden and not self.board:
            raise UsageError("neither a golden nor a board has an output of the program")
        result = self.program.run(self.args, entry=self.entry, timing=False, **self.how)
        self.findings = result.findings
        self.bands = bands(self.program, self.args, entry=self.entry, **self.how)
        self._follow()
        groups = [g for n, a in self.golden.items() for g in self._golden(n, self._fit(n, a))]
        groups += [g for n, a in self.board.items() for g in self._board(n, self._fit(n, a))]
        equal = {n: b.value.size for n, b in self.bands.outputs.items()
                 if n in self.golden or n in self.board}  # fmt: skip
        for name in equal:
            equal[name] -= sum(g.count for g in groups if g.output == name)
        return Triage(groups, equal, self.findings)

    # -- what there is to compare with ------------------------------------------------------------

    def _fit(self, name: str, array: np.ndarray) -> np.ndarray:
        """An array in type and shape of the output; a wider one is rounded to it."""
        if name not in self.bands.outputs:
            raise UsageError(f"`{name}` shares its memory, or has elements of four bits")
        value = self.bands.outputs[name].value
        given = np.asarray(array)
        if given.size != value.size:
            raise UsageError(
                f"`{name}` has {given.size:,} elements, the output of the program {value.size:,}"
            )
        given = given.reshape(value.shape)
        if given.dtype == value.dtype:
            return given
        if not has_numbers(given.dtype) and given.dtype.itemsize == value.dtype.itemsize:
            return given.view(value.dtype)
        with np.errstate(all="ignore"):
            return given.astype(value.dtype)

    def _follow(self) -> None:
        """The run in the debugger, and in f64; neither where it is too long for that."""
        try:
            options = replace(self.choices, inputs=None)
            session = session_of(options, self.args)
            session.continue_()
            end = session.position
            if session.walker.trap is None and end <= MOST_STEPS:
                self.session, self.exact = session, Exact(session)
                self.exact.follow(end)
                session.walker.goto(end)
        except Trap:
            self.session = None

    def _reference(self, name: str) -> np.ndarray | None:
        """An output in f64; NaN where it is not known."""
        if self.exact is None or self.session is None:
            return None
        buffers = self.session.launch.machine.buffers
        number = next((b.number for b in buffers if b.name == name), None)
        known = self.exact.memories.get(("gm", number)) if number is not None else None
        if known is None:
            return None
        value = self.bands.outputs[name].value
        at = np.arange(value.size) * value.dtype.itemsize
        found = np.where(known.known[at], known.numbers[at], np.nan)
        return found.reshape(value.shape)

    # -- groups -----------------------------------------------------------------------------------

    def _parts(self, name: str, array: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Where an array differs and is inside of the band, and where it is outside."""
        band = self.bands.outputs[name]
        equal = same(array, band.value) | tolerated(array, band.value, self.tolerance)
        inside = band.holds(array)
        return inside & ~equal, ~inside & ~equal

    def _golden(self, name: str, array: np.ndarray) -> Iterator[Group]:
        inside, outside = self._parts(name, array)
        yield from self._ordered(name, inside, GOLDEN)
        rounded = outside & self._rounded(name, array)
        if rounded.any():
            told = "the rounding of the type: f64 of the program is as near to both"
            yield self._group(ORDER, GOLDEN, name, rounded, array, told)
        wrong = outside & ~rounded
        if not wrong.any():
            return
        kernel = self._kernel_is_wrong(name, array, wrong)
        if kernel is not None:
            yield kernel
            return
        yield self._group(GOLDEN, GOLDEN, name, wrong, array, *self._explained(name, array, wrong))

    def _board(self, name: str, array: np.ndarray) -> Iterator[Group]:
        inside, outside = self._parts(name, array)
        yield from self._ordered(name, inside, BOARD)
        if not outside.any():
            return
        told = "outside of what any order of accumulation gives"
        golden = self.golden.get(name)
        if golden is not None and same(array, self._fit(name, golden))[outside].all():
            told += "; the golden has the same, so that the simulator may be what is wrong"
        fault = self._fault()
        if fault is not None:
            told = f"the kernel may do anything here: {fault.code}, {fault.message}"
            yield self._group(KERNEL, BOARD, name, outside, array, told, _line(fault))
            return
        yield self._group(BOARD, BOARD, name, outside, array, told)

    def _ordered(self, name: str, where: np.ndarray, of: str) -> Iterator[Group]:
        """What is inside of the band, by the operation that decides it."""
        band = self.bands.outputs[name]
        for number in np.unique(band.owner[where]):
            here = where & (band.owner == number)
            decisions = self.bands.decisions
            decision = decisions[number - 1] if 0 < number <= len(decisions) else None
            line = decision.line if decision is not None else None
            op = decision.op.name if decision is not None else None
            told = _ORDERS[decision.kind] if decision is not None else "a switch that is open"
            yield Group(ORDER, of, name, int(here.sum()), element_text(name, here), op, line, told)

    def _group(
        self, verdict: str, of: str, name: str, where: np.ndarray, array: np.ndarray, told: str,
        line: int | None = None,
    ) -> Group:  # fmt: skip
        element = element_text(name, where)
        story = self._story(element, array[tuple(np.argwhere(where)[0])])
        op, place = _operation(self.session, story, line)
        count = int(where.sum())
        return Group(verdict, of, name, count, element, op, line or place, told)

    def _story(self, element: str, expected: Any) -> Story | None:
        if self.session is None:
            return None
        try:
            return why(self.session, element, expected)
        except PtosimError:
            return None

    # -- the kernel -------------------------------------------------------------------------------

    def _fault(self) -> Diagnostic | None:
        """A finding that the machine may do something else than the text says."""
        for found in self.findings:
            if found.is_error or (
                found.origin is Origin.HARDWARE and found.severity > Severity.NOTE
            ):
                return found
        return None

    def _rounded(self, name: str, array: np.ndarray) -> np.ndarray:
        """Where both the run and the golden are what f64 gives, but for the rounding of f32 and of
        the type. A value exactly half way between two results has one rounding."""
        reference = self._reference(name)
        value = self.bands.outputs[name].value
        if reference is None or not has_numbers(value.dtype):
            return np.zeros(value.shape, bool)
        near = is_near(array, reference) & is_near(value, reference)
        if value.dtype.kind in "iu":
            halves = np.abs(reference - np.floor(reference) - 0.5)
            return near & (halves > 0) & (halves <= SLACK * np.maximum(np.abs(reference), 1.0))
        return near & ~is_tie(array, value, reference)

    def _kernel_is_wrong(self, name: str, array: np.ndarray, wrong: np.ndarray) -> Group | None:
        fault = self._fault()
        if fault is not None:
            told = f"{fault.code}: {fault.message}"
            return self._group(KERNEL, GOLDEN, name, wrong, array, told, _line(fault))
        reference, value = self._reference(name), self.bands.outputs[name].value
        if reference is not None and has_numbers(value.dtype):
            right = is_near(array, reference)[wrong]
            if right.all() and not is_near(value, reference)[wrong].any():
                told = "f64 of the program has what the golden has: the kernel loses it in rounding"
                return self._group(KERNEL, GOLDEN, name, wrong, array, told)
        told = self._left_out()
        if told:
            return self._group(KERNEL, GOLDEN, name, wrong, array, told)
        return self._repaired(name, array, wrong)

    def _left_out(self) -> str:
        """Which part of an input no output depends on."""
        for name, given in self._inputs():
            columns = given.shape[-1] if given.ndim else 0
            if columns < 8:
                continue
            part = given.copy()
            first = columns - columns // 8
            part[..., first:] = others(part[..., first:])
            if self._outputs({name: part}) == {}:
                return f"nothing depends on the last columns (from {first}) of %{name}"
        return ""

    def _inputs(self) -> Iterator[tuple[str, np.ndarray]]:
        """The arrays that the program only reads."""
        resolved = self.program.front.resolved
        known = uses(peer_functions(resolved, resolved.functions[self.entry]))
        for name, band in self.bands.outputs.items():
            use = known.get(name)
            if use is None or use.written or use.places or not use.read:
                continue
            if has_numbers(band.value.dtype):
                yield name, band.value

    def _outputs(self, changed: Mapping[str, np.ndarray]) -> dict[str, np.ndarray] | None:
        """The outputs that change with other inputs; None where the program stops."""
        try:
            found = self.program.run(
                {**self.args, **changed}, entry=self.entry, timing=False, sanitize="none",
                **self.how,
            ).outputs  # fmt: skip
        except PtosimError:
            return None
        return {
            n: found[n]
            for n in self.bands.outputs
            if n not in changed and found[n].tobytes() != self.bands.outputs[n].value.tobytes()
        }

    def _repaired(self, name: str, array: np.ndarray, wrong: np.ndarray) -> Group | None:
        """Another operation in one place of the text that gives all of the golden."""
        if self.session is None or self.choices.file == "-":
            return None
        element = element_text(name, wrong)
        story = self._story(element, array[tuple(np.argwhere(wrong)[0])])
        if story is None:
            return None

        def is_right(outputs: Mapping[str, Any]) -> bool:
            wanted = ((n, self._fit(n, a)) for n, a in self.golden.items())
            return all(n in outputs and is_close(outputs[n], a) for n, a in wanted)

        found = repaired(self.choices, self.session.names.source, story.ops, is_right, self.args)
        if found is None:
            return None
        line = self.session.names.line(found.op)
        told = (
            f"with `{found.instead}` in the place of `{found.op.name}` it has the golden's values"
        )
        count = int(wrong.sum())
        return Group(KERNEL, GOLDEN, name, count, element, found.op.name, line, told)

    # -- the golden -------------------------------------------------------------------------------

    def _explained(self, name: str, array: np.ndarray, wrong: np.ndarray) -> tuple[str, int | None]:
        """What would give the golden's values, and the line where that is."""
        value = self.bands.outputs[name].value
        found = self._by_a_switch(name, array, wrong) or self._by_a_rounding(name, array, wrong)
        found = found or moved(array, value)
        if found:
            return found, None
        found = self._by_part_of_a_sum(name, array, wrong)
        if found:
            return found, self._sum_line()
        found = self._by_another_input(name, array) or narrower(array, value)
        found = found or given_twice(array, value)
        return found or "outside of every order, and not what f64 of the program gives", None

    def _sum_line(self) -> int | None:
        module = self.program.front.resolved.module
        families = ("reduce", "matmul")
        for op in self.program.front.resolved.functions[self.entry].ops:
            if op.definition is not None and op.definition.family in families:
                return module.span(op).line
        return None

    def _by_a_switch(self, name: str, array: np.ndarray, wrong: np.ndarray) -> str:
        for setting, counts in self.bands.switches.items():
            switch, _, value = setting.partition("=")
            if name not in counts or switch not in switches():
                continue
            given = {**self.choices.switches, switch: value}
            try:
                program = replace(self.choices, switches=given).program()
                other = bands(program, self.args, entry=self.entry, each_switch=False, **self.how)
            except PtosimError:
                continue
            if other.outputs[name].holds(array)[wrong].all():
                return f"it is what `--set {setting}` gives"
        return ""

    def _by_part_of_a_sum(self, name: str, array: np.ndarray, wrong: np.ndarray) -> str:
        """Columns of an input, or rows, that the golden leaves out."""
        for source, given in self._inputs():
            for axis in sorted({given.ndim - 1, max(given.ndim - 2, 0)}, reverse=True):
                size = given.shape[axis] if given.ndim else 0
                for count in counts_of(size):
                    told = self._without(name, array, wrong, source, axis, count)
                    if told is not None:
                        what = "columns" if axis == given.ndim - 1 else "rows"
                        whole = f"the first {count} of {size} {what} of %{source} give{told}"
                        return f"it is what {whole}"
        return ""

    def _without(
        self, name: str, array: np.ndarray, wrong: np.ndarray, source: str, axis: int, count: int
    ) -> str | None:
        """'' if part of an input gives the golden; what it is multiplied by, if a mean of less."""
        given = self.bands.outputs[source].value
        for neutral in (0.0, -np.inf) if given.dtype.kind not in "iu" else (0,):
            part = given.copy()
            rest = [slice(None)] * part.ndim
            rest[axis] = slice(count, None)
            part[tuple(rest)] = neutral
            found = self._outputs({source: part})
            if not found or name not in found:
                continue
            here = wrong & unaffected(wrong.shape, given.shape, axis, count)
            if not (found[name] != self.bands.outputs[name].value)[here].any():
                continue
            if is_close(found[name][here], array[here]):
                return ""
            size = given.shape[axis]
            if neutral == 0.0 and array.dtype.kind not in "iu":
                mean = (found[name][here].astype(np.float64) * size / count).astype(array.dtype)
                if is_close(mean, array[here]):
                    return f", times {size}/{count}"
        return None

    def _by_another_input(self, name: str, array: np.ndarray) -> str:
        """An input that is transposed, is off by a row or a column, or has been rounded."""
        if is_close(self.bands.outputs[name].value, array):
            return ""
        for source, given in self._inputs():
            for told, changed in variants(given):
                found = self._outputs({source: changed}) or {}
                if name in found and is_close(found[name], array):
                    return f"it is what %{source} {told} gives"
        return ""

    def _by_a_rounding(self, name: str, array: np.ndarray, wrong: np.ndarray) -> str:
        """The golden is rounded in another way: to the neighbour of each value."""
        reference, value = self._reference(name), self.bands.outputs[name].value
        if reference is None or not has_numbers(value.dtype):
            return ""
        step, exact = step_of(reference, value.dtype)[wrong], reference[wrong]
        given, own = (each.astype(np.float64)[wrong] for each in (array, value))
        far, same = np.abs(given - exact), np.abs(own - exact)
        if value.dtype.kind in "iu":
            is_next = far <= 1.0 + SLACK * np.abs(exact)
        else:
            is_next = (far <= 1.01 * step) & (same <= 0.51 * step)
        if not is_next.all():
            return ""
        way = next((told for told, f in ROUNDINGS if (f(exact / step) * step == given).all()), "")
        return f"it is rounded {way or 'in another way'}"


def _line(found: Diagnostic) -> int | None:
    return found.spans[0].line if found.spans else None


def _operation(
    session: Debugger | None, story: Story | None, line: int | None
) -> tuple[str | None, int | None]:
    """The operation of a line, else the one at which the value left the expected one."""
    if session is None or story is None:
        return None, line
    wanted = line
    if wanted is None and story.cause is not None:
        wanted = story.cause.line
    for op in (*story.ops, *session.launch.function.ops):
        if wanted is not None and session.names.line(op) == wanted:
            return op.name, wanted
    return (story.ops[0].name if story.ops else None), wanted
