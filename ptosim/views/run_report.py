"""The report of a run: what it ran on, arguments, outputs, comparisons."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ptosim.engine.core.dump import Dump
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.launch.compare import Comparison
from ptosim.launch.program import LoadedProgram
from ptosim.launch.results import Outputs, Result, Schedules, Unmade
from ptosim.time.report.totals import CostReport
from ptosim.views import cost_tables
from ptosim.views.frames import count_line
from ptosim.views.header import header, header_line
from ptosim.views.report import Findings, Report, Section
from ptosim.views.table import Part, Table, Text, table, verdict

SHOWN_VALUES = 6
_MOST_ULP = 10_000
"""Farther apart than this, values have nothing to do with each other."""
_CHUNK = 1 << 20
"""Elements of an output that are looked at together."""


@dataclass(slots=True)
class Ran:
    """A run: the program, its result, how outputs compare with what was expected, and dumps."""

    program: LoadedProgram
    entry: str
    result: Result
    compared: Sequence[Comparison]
    dumps: Sequence[Dump] = ()
    bands: Mapping[str, Any] | None = None
    """What `ptosim.tools.bands` says of the outputs, as JSON data."""


def run_report(ran: Ran, args: Mapping[str, Any], command: str, *, costs: bool = False) -> Report:
    """Return the report of a run on arguments; text has tables of what it costs where `costs` are
    asked for."""
    result, program = ran.result, ran.program
    head = header_line(header(program, ran.entry))

    def page() -> list[Section]:
        from ptosim.views.program_page import Known, Timed, sections

        timed = [Timed(program, result.cost, args)] if result.cost is not None else []
        shown = values(result, ran.compared)
        known = Known(list(result.findings), shown, ran.compared, timed)
        return sections(known, [head], command)

    return Report(
        [Section("", lambda _: _parts(ran, costs=costs))],
        lambda: to_json(ran),
        page=page,
        title=f"{ran.entry} on {program.target}",
        heads=[head],
        because=program.front.settings.reasons,
        findings=Findings(result.findings),
        aside=result.findings,
        is_quiet=True,
    )


def _parts(ran: Ran, *, costs: bool) -> list[Part]:
    program, result = ran.program, ran.result
    parts: list[Part] = []
    if program.sidecar is not None:
        parts.append(Text(f"arguments and expectations: {program.sidecar.path.name}"))
    if result.generated:
        parts += [Text(), Text("left out, data generated:")]
        parts += [Text(f"  {name}: {what}") for name, what in result.generated.items()]
    if result.prints:
        parts += [
            Text(),
            Text("printed by the program:", style="bold"),
            Text("".join(result.prints)),
        ]
    parts += values(result, ran.compared, ran.dumps)
    if ran.bands is not None:
        parts += _bands(ran.bands)
    if not costs and result.cost is not None:
        parts += cost_tables.unknown(result.cost)
    if costs and result.cost is not None:
        parts += [Text(), *cost_tables.brief(result.cost)]
    return parts


def values(
    result: Result, comparisons: Sequence[Comparison], dumps: Sequence[Dump] = ()
) -> list[Part]:
    """Return outputs, dumps, and how they compare with what was expected."""
    parts: list[Part] = [_arrays("outputs", result.outputs)]
    parts += map(Text, _partly_made(result.outputs))
    for name in result.outputs:
        count = defined_in_part(result, name)
        if count is not None:
            size = result.outputs[name].size
            parts.append(Text(f"{name}: the run wrote values to {count:,} of {size:,} elements"))
    if dumps:
        parts.append(_arrays("dumps", {_dump_name(d): d.array for d in dumps}))
    if comparisons:
        parts.append(_comparisons(comparisons))
    parts.append(Text(f"{result.executed:,} instructions executed"))
    if result.schedules is not None:
        parts += _schedules(result.schedules)
    if result.in_order:
        parts.append(Text(f"blocks one after the other: {result.in_order}"))
    return parts


_MOST_COUNTED = 1 << 24
"""Elements of an output that are counted one by one."""


def defined_in_part(result: Result, name: str) -> int | None:
    """Return how many elements of an output were written with values, where some were and others
    were not; None if it was all or none, or is not known. That it was none counts where a finding
    names the output."""
    if name not in result.definedness or _part(result.outputs, name) is not None:
        return None
    size = result.outputs[name].size
    if size > _MOST_COUNTED:
        return None
    count = int(np.count_nonzero(result.definedness[name]))
    if count == 0 and not any(name in _stored_by(d) for d in result.findings):
        return None
    return count if count < size else None


def _stored_by(finding: Diagnostic) -> list[Any]:
    """The outputs that bytes without a value decide, as a finding has them."""
    outputs = finding.context.get("outputs")
    return [o.get("output") for o in outputs] if isinstance(outputs, list) else []


def _bands(found: Mapping[str, Any]) -> list[Part]:
    """What other orders of accumulation allow, and which operations decide it."""
    outputs = found["outputs"]
    rows = [
        (name, f"{band['elements']:,}", f"{band['open']:,}", f"{band['widest']:.3g}")
        for name, band in outputs.items()
    ]
    title = "what other orders of accumulation allow"
    columns = ("name", ">elements", ">with several values", ">apart at most")
    parts: list[Part] = [Text(), table(title, columns, rows, essential=("name",))]
    decided = [
        (d["line"], d["op"], _KINDS[d["kind"]], name, f"{count:,}")
        for d in found["decided"]
        for name, count in d["outputs"].items()
    ]
    if decided:
        columns = (">line", "operation", "what is open", "output", ">elements")
        parts.append(table("decided by", columns, decided, essential=("line", "operation")))
    parts += [
        Text(f"line {u['line']}: `{u['op']}` has no rule for values that are open")
        for u in found["unfollowed"]
    ]
    parts += [
        Text(f"--set {name} changes {', '.join(f'{c:,} of {n}' for n, c in counts.items())}")
        for name, counts in found["switches"].items()
    ]
    return parts


_KINDS = {
    "sum": "the order of a sum",
    "tie": "a rounding near a tie",
    "boundary": "the order of near values",
    "unknown": "anything: no rule",
}


def _schedules(found: Schedules) -> list[Part]:
    """What the orders that were tried gave, and how many others there are."""
    tried = f"{len(found.tried)} other orders tried"
    if not found.pairs:
        left = "nothing is left open, every order gives these bytes"
    else:
        pairs = f"of {found.pairs:,} pairs of accesses that nothing orders"
        left = f"{pairs} {found.both:,} came both ways"
    shown: list[Part] = [Text(f"{tried}: {left}")]
    if not found.changed:
        return [*shown, Text("no output changed")]
    rows = [(c.schedule, name, f"{n:,}") for c in found.changed for name, n in c.differ.items()] + [
        (c.schedule, f"stopped by {c.stopped}", "") for c in found.changed if c.stopped
    ]
    return [*shown, table("orders that change outputs", ("schedule", "output", ">elements"), rows)]


def _dump_name(dump: Dump) -> str:
    return dump.title if dump.count == 1 else f"{dump.title} (last of {dump.count})"


def _arrays(title: str, arrays: Mapping[str, np.ndarray]) -> Table:
    rows = []
    for name in arrays:
        about = _about(arrays, name)
        shape = "x".join(map(str, about.shape)) or "scalar"
        first = " ".join(f"{v:g}" for v in about.first)
        first += " …" if math.prod(about.shape) > SHOWN_VALUES else ""
        rows.append((name, about.dtype, shape, *about.extremes, first))
    columns = ("name", "type", "shape", ">min", ">max", ">NaN", "first values")
    essential, drop = ("name", "type", "shape"), ("first values", "min", "max")
    return table(title, columns, rows, essential=essential, drop=drop)


def _partly_made(arrays: Mapping[str, np.ndarray]) -> list[str]:
    """Say of which arrays the extremes are not those of all elements."""
    parts = {name: _part(arrays, name) for name in arrays}
    return [
        f"{name}: the run reached pages of {sum(p.size for p in part.pieces()):,} of "
        f"{math.prod(part.shape):,} generated elements; the extremes are theirs"
        for name, part in parts.items()
        if part is not None
    ]


def _part(arrays: Mapping[str, np.ndarray], name: str) -> Unmade | None:
    return arrays.part(name) if isinstance(arrays, Outputs) else None


class _About(NamedTuple):
    """An array in short. `seen` is how many elements its extremes are of, where that is not all."""

    dtype: np.dtype
    shape: tuple[int, ...]
    extremes: tuple[str, str, int]
    first: list[float]
    seen: int | None = None


def _about(arrays: Mapping[str, np.ndarray], name: str) -> _About:
    """Look at an array; of generated data at the parts that the run reached."""
    part = _part(arrays, name)
    if part is None:
        array = arrays[name]
        flat = array.reshape(-1)
        return _About(array.dtype, array.shape, _extremes([flat]), _first(flat))
    pieces = list(part.pieces())
    seen = sum(piece.size for piece in pieces)
    first = _first(part.first(SHOWN_VALUES))
    return _About(part.dtype, part.shape, _extremes(pieces), first, seen)


def extremes(array: np.ndarray) -> tuple[str, str, int]:
    """Return the least and the largest number of an array as text, and how many NaN it has."""
    return _extremes([array.reshape(-1)])


def _extremes(pieces: Iterable[np.ndarray]) -> tuple[str, str, int]:
    low, high, nans, count = np.inf, -np.inf, 0, 0
    for flat in pieces:
        count += flat.size
        for at in range(0, flat.size, _CHUNK):
            wide = flat[at : at + _CHUNK].astype(np.float64)
            with np.errstate(invalid="ignore"):
                least, most = wide.min(), wide.max()
            if least != least:  # NaN: look at the others
                kept = wide[~np.isnan(wide)]
                nans += wide.size - kept.size
                least, most = kept.min(initial=np.inf), kept.max(initial=-np.inf)
            low, high = min(low, least), max(high, most)
    if not count:
        return "", "", 0
    if nans == count:
        return "nan", "nan", nans
    return f"{low:g}", f"{high:g}", nans


def _first(flat: np.ndarray) -> list[float]:
    return [float(v) for v in flat[:SHOWN_VALUES]]


def _comparisons(comparisons: Sequence[Comparison]) -> Table:
    floats = any(c.max_ulp is not None for c in comparisons)
    rows = []
    for c in comparisons:
        where = ""
        if c.first is not None:
            place = ",".join(map(str, c.first))
            where = f"[{place}]: {c.got} instead of {c.expected}"
        said = verdict(c.passed, "ok" if c.passed else "DIFFERS")
        far = (f"{c.max_difference:.3g}", *((_ulp(c),) if floats else ()))
        rows.append((c.name, said, f"{c.count:,}", f"{c.mismatches:,}", *far, c.tolerance, where))
    columns = ("name", "verdict", ">elements", ">differ", ">by at most", *((">ulp",) * floats),
               "tolerance", "at")  # fmt: skip
    drop = ("elements", "ulp", "by at most")
    return table("expected values", columns, rows, essential=("name", "verdict"), drop=drop)


def _ulp(comparison: Comparison) -> str:
    if comparison.max_ulp is None:
        return ""
    return f"{comparison.max_ulp:,}" if comparison.max_ulp < _MOST_ULP else "far"


def to_json(ran: Ran) -> dict[str, object]:
    """Return the report as JSON data."""
    result = ran.result
    return {
        **header(ran.program, ran.entry),
        "generated": result.generated,
        "made_up": result.generated,  # its earlier name
        "prints": result.prints,
        "outputs": {name: _output(result, name) for name in result.outputs},
        "dumps": {d.title: {**summary_of(d.array), "count": d.count} for d in ran.dumps},
        "expected": [c.to_dict() for c in ran.compared],
        **({"bands": ran.bands} if ran.bands is not None else {}),
        "executed": result.executed,
        **({"in_order": result.in_order} if result.in_order else {}),
        **({"schedules": _schedules_json(found)} if (found := result.schedules) else {}),
        "cycles": result.cycles,
        "cost": result.cost.to_dict() if result.cost is not None else None,
        "findings": [d.to_dict() for d in result.findings],
    }


def _output(result: Result, name: str) -> dict[str, object]:
    found, count = _summary(_about(result.outputs, name)), defined_in_part(result, name)
    return found if count is None else {**found, "defined": count}


def _schedules_json(found: Schedules) -> dict[str, object]:
    """The orders that were tried, as JSON data; `covered` is a part of 1."""
    return {
        "tried": found.tried,
        "pairs": found.pairs,
        "both": found.both,
        "covered": found.covered,
        "changed": [
            {"schedule": c.schedule, "differ": c.differ, "stopped": c.stopped or None}
            for c in found.changed
        ],
    }


def summary_of(array: np.ndarray) -> dict[str, object]:
    """Return an array in short, as JSON data."""
    return _summary(_about({"": array}, ""))


def _summary(about: _About) -> dict[str, object]:
    """An array in short. Of generated data that were made where the run read them, `seen` is how
    many elements there are."""
    low, high, nans = about.extremes
    found = {
        "dtype": str(about.dtype),
        "shape": list(about.shape),
        "min": low,
        "max": high,
        "nan": nans,
        "first": about.first,
    }
    return found if about.seen is None else {**found, "seen": about.seen}


# What the last line of a report says of a run: how outputs differ, what was found, its time.


def difference(found: Comparison) -> str:
    """Return in words where an output differs, and by what."""
    place = ", ".join(map(str, found.first or ()))
    return (
        f"{found.name} differs in {found.mismatches:,} of {found.count:,} elements, "
        f"first at [{place}] (expected {found.expected}, got {found.got})"
    )


def differences(compared: Sequence[Comparison]) -> str:
    """Return in words how outputs differ: the first one in full; "" if none does."""
    wrong = [c for c in compared if not c.passed]
    if not wrong:
        return ""
    others = list(dict.fromkeys(c.name for c in wrong[1:]))
    more = f"; {', '.join(others)} differ{'s' if len(others) == 1 else ''} too" if others else ""
    return difference(wrong[0]) + more


def found(diagnostics: Sequence[Diagnostic]) -> str:
    """Return in words what was found: the first of the worst in full."""
    first = max(diagnostics, key=lambda d: d.severity)
    place = f" at {first.span}" if first.span is not None else ""
    count = f"{count_line(diagnostics)}, first " if len(diagnostics) > 1 else ""
    return f"{count}{first.code}{place}: {first.message}"


def equal(compared: Sequence[Comparison]) -> str:
    """Return in words which outputs are as expected."""
    if not compared:
        return "ran to its end, nothing was expected of its outputs"
    names = ", ".join(dict.fromkeys(c.name for c in compared))
    how = "; ".join(dict.fromkeys(str(c.tolerance) for c in compared))
    some = f"{sum(c.count for c in compared):,} elements"
    return f"{names} as expected ({some}, {how})"


def time_of(cost: CostReport | None) -> str:
    """Return the cycles of a run, between which it is sure to lie, and its time."""
    if cost is None:
        return ""
    low, high = cost.error_bar.low, cost.error_bar.high
    return f"; {cost.cycles:,} cycles ({low:,} to {high:,}), {cost.least_microseconds:,.2f} us"
