"""The files that msprof and msopprof write, read by the names of their columns.

- `op_summary_*.csv` (msprof): one row for each executed operator.
- `PipeUtilization.csv` (msopprof): one row for each block and core of a kernel.
- `trace.json` (msopprof, `ptosim cost --trace`): Chrome trace events, a process for each core, a
  thread for each pipe.

Which columns there are depends on product and options. A column that is not known is listed and
otherwise left alone. Source: the vendor's public documents of msprof (CANN 8, MindStudio 7) and
msopprof.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import with_line_feeds

OP_SUMMARY = "op_summary"
PIPE_UTILIZATION = "PipeUtilization"
TRACE = "trace"

_HELP = "calibrate reads op_summary_*.csv (msprof), PipeUtilization.csv and trace.json (msopprof)"

# Column words of pipes: op_summary says `mac`, msopprof `cube`; older products have no prefix.
PIPES = {
    "vec": "V", "mac": "M", "cube": "M", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3",
    "fixpipe": "FIX", "scalar": "S",
}  # fmt: skip
_PIPE_COLUMN = re.compile(
    rf"(?:(ai[cv])_)?({'|'.join(PIPES)})_?(time|ratio)?(?:\((us|ms|ns|%)\))?$", re.IGNORECASE
)
_CORE_COLUMN = re.compile(r"(aic|aiv|aicore)_time\((us|ms)\)$|(?:(aic|aiv)_)?total_cycles$", re.I)
_KNOWN = frozenset((
    "device_id", "model name", "model id", "task id", "stream id", "op name", "op type",
    "op state", "task type", "task start time(us)", "task duration(us)", "task wait time(us)",
    "block dim", "block num", "mix block dim", "mix block num", "hf32 eligible", "input shapes",
    "input data types", "input formats", "output shapes", "output data types", "output formats",
    "context id", "infer id", "infer id(iteration)", "block_id", "sub_block_id",
    "cube_utilization(%)", "vector_fops", "cube_fops", "index id",
))  # fmt: skip
_KNOWN_END = ("_icache_miss_rate", "_active_bw(gb/s)", "_wait_ratio", "_extra_time(us)")

LEAST, MOST = 1e-9, 1e18
"""Figures that profilers write, of any unit, are between these; so are the elements of arrays."""

Words = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Reading:
    """A row of a table, or the slices of a trace that belong together.

    `cycles` are by core kind (`aic`, `aiv`, or empty where the product has one kind) and pipe,
    `total` the cycles of a core, `us` the time of the task on the device. `name` is the operator's
    or the instruction's, `kind` its type. `block` numbers the block and core of the row."""

    file: str
    place: str
    form: str
    name: str = ""
    kind: str = ""
    cycles: Mapping[tuple[str, str], float] = field(default_factory=dict)
    total: Mapping[str, float] = field(default_factory=dict)
    us: float | None = None
    blocks: int | None = None
    block: str = ""
    inputs: tuple[tuple[int, ...], ...] = ()
    outputs: tuple[tuple[int, ...], ...] = ()
    input_types: tuple[str, ...] = ()
    output_types: tuple[str, ...] = ()
    mhz: float | None = None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class ProfilerFile:
    """What a file says: its form, its readings, and the columns that are not known."""

    name: str
    form: str
    readings: tuple[Reading, ...]
    unknown: tuple[str, ...] = ()


def read_profile(path: str | Path, mhz: float) -> ProfilerFile:
    """Return what a profiler's file says; times become cycles at the clock that the row's own
    cycles and time tell, else at `mhz`. Raises UsageError (PTO7522) for a file of another kind."""
    path = Path(path)
    try:
        text = with_line_feeds(read_bytes(path).decode("utf-8-sig"))
    except UnicodeDecodeError as problem:
        raise UsageError(f"PTO7522: {path} is no text in UTF-8", help=_HELP) from problem
    if text.lstrip()[:1] in ("{", "["):
        return _trace(path, text, mhz)
    return _table(path, text, mhz)


# -- tables ----------------------------------------------------------------------------------------


def _table(path: Path, text: str, mhz: float) -> ProfilerFile:
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as problem:
        raise UsageError(f"PTO7522: {path} is no CSV table: {problem}", help=_HELP) from problem
    columns = [c.strip() for c in rows[0]] if rows else []
    low = [c.lower() for c in columns]
    if "op name" in low and ("op type" in low or "task duration(us)" in low):
        form = OP_SUMMARY
    elif "block_id" in low and any(_PIPE_COLUMN.match(c) and c != "block_id" for c in low):
        form = PIPE_UTILIZATION
    else:
        raise UsageError(f"PTO7522: {path} has the columns of no table that is read", help=_HELP)
    readings = []
    for number, cells in enumerate(rows[1:], 2):
        if not any(cells):
            continue
        words = {c: cell.strip() for c, cell in zip(low, cells, strict=False)}
        readings.append(_reading(path.name, number, form, words, mhz))
    unknown = tuple(c for c, word in zip(columns, low, strict=True) if word and not _is_known(word))
    return ProfilerFile(path.name, form, tuple(readings), unknown)


def _is_known(word: str) -> bool:
    return (
        word in _KNOWN
        or word.endswith(_KNOWN_END)
        or _PIPE_COLUMN.match(word) is not None
        or _CORE_COLUMN.match(word) is not None
    )


def _reading(file: str, number: int, form: str, words: Words, mhz: float) -> Reading:
    place = f"line {number}"
    total = {
        kind: cycles
        for kind in ("aic", "aiv", "")
        if (cycles := _number(words, f"{kind}_total_cycles".lstrip("_")))
    }
    times = {kind: _core_time(words, kind) for kind in ("aic", "aiv", "")}
    clocks = [c / t for kind, c in total.items() if (t := times.get(kind))]
    clock = clocks[0] if clocks else None
    cycles = _pipe_cycles(words, times, total, clock or mhz)
    blocks = _number(words, "block dim") or _number(words, "block num")
    us = _number(words, "task duration(us)")
    block = f"{words.get('block_id', '')} {words.get('sub_block_id', '')}".strip()
    return Reading(
        file, place, form, words.get("op name", ""), words.get("op type", ""), cycles, total, us,
        int(blocks) if blocks else None, block,
        _shapes(words.get("input shapes", "")), _shapes(words.get("output shapes", "")),
        _types(words.get("input data types", "")), _types(words.get("output data types", "")),
        clock,
    )  # fmt: skip


def _core_time(words: Words, kind: str) -> float | None:
    names = (f"{kind}_time(us)",) if kind else ("aicore_time(us)", "time(us)")
    return next((t for name in names if (t := _number(words, name))), None)


def _pipe_cycles(
    words: Words, times: Mapping[str, float | None], total: Mapping[str, float], mhz: float
) -> dict[tuple[str, str], float]:
    """Busy cycles by core kind and pipe: from a time where there is one, else from a ratio."""
    found: dict[tuple[str, str], float] = {}
    for column in words:
        match = _PIPE_COLUMN.match(column)
        value = _number(words, column)
        if match is None or value is None:
            continue
        kind, pipe = (match[1] or "").lower(), PIPES[match[2].lower()]
        if match[3] != "ratio":
            scale = {"ms": 1e3, "ns": 1e-3}.get(match[4] or "us", 1.0)
            found[kind, pipe] = value * scale * mhz
            continue
        core = total.get(kind) or (times.get(kind) or 0) * mhz
        share = value / 100 if match[4] == "%" else value
        if core:
            found.setdefault((kind, pipe), share * core)
    return found


def _number(words: Words, column: str) -> float | None:
    """A cell as a number; None for one that is empty or says N/A."""
    try:
        value = float(words.get(column, "").replace(",", ""))
    except ValueError:
        return None
    return value if _is_figure(value) else None


def _is_figure(value: float) -> bool:
    """True for what a profiler can have counted: nothing, or a number with which one can
    calculate."""
    return value == 0 or LEAST <= value < MOST


def _shapes(text: str) -> tuple[tuple[int, ...], ...]:
    """`"64,64;64,1"` with or without quotes; an empty shape is a scalar."""
    parts = [re.sub(r'["\[\]() ]', "", p) for p in text.split(";")] if text else []
    shapes = []
    for part in parts:
        shape = _shape(re.split(r"[,x*]", part))
        if shape is None:
            return ()
        shapes.append(shape)
    return tuple(shapes)


def _shape(words: Iterable[str]) -> tuple[int, ...] | None:
    """The dimensions of a shape; None if one is no number, or beyond every memory."""
    given = [w for w in words if w]
    if not all(w.isdecimal() and len(w) < 10 for w in given):
        return None
    shape = tuple(map(int, given))
    return shape if prod(d or 1 for d in shape) < MOST else None


def _types(text: str) -> tuple[str, ...]:
    return tuple(w.strip().strip('"') for w in text.split(";")) if text else ()


# -- traces ----------------------------------------------------------------------------------------

_THREADS = {
    "VEC": "V", "VECTOR": "V", "V": "V", "CUBE": "M", "M": "M", "MAC": "M", "MTE1": "MTE1",
    "MTE2": "MTE2", "MTE3": "MTE3", "FIXP": "FIX", "FIXPIPE": "FIX", "FIX": "FIX", "SCALAR": "S",
    "S": "S",
}  # fmt: skip
_SLICE = re.compile(r"([A-Za-z_.0-9]+)\s*(?:\((\d+(?:x\d+)+)\s*,\s*([A-Za-z0-9]+)\))?")


def _trace(path: Path, text: str, mhz: float) -> ProfilerFile:
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as problem:
        raise UsageError(f"PTO7522: {path} is no JSON: {problem}", help=_HELP) from problem
    events = content.get("traceEvents") if isinstance(content, dict) else content
    if not isinstance(events, list):
        raise UsageError(f"PTO7522: {path} has no traceEvents", help=_HELP)
    rows = [e for e in events if isinstance(e, dict)]
    threads = {_track(e): _name_in(e) for e in rows if e.get("name") == "thread_name"}
    cores = {_core(e): _name_in(e) for e in rows if e.get("name") == "process_name"}
    readings, unknown = [], set()
    for event in rows:
        if event.get("ph") != "X" or not _is_number(event.get("dur")):
            continue
        thread = str(threads.get(_track(event), event.get("tid", "")))
        pipe = _pipe_of(thread)
        if pipe is None:
            unknown.add(f"thread {thread}")
            continue
        readings.append(_slice(path.name, event, pipe, cores.get(_core(event), ""), mhz))
    if not readings:
        raise UsageError(f"PTO7522: {path} has no slices on pipes", help=_HELP)
    return ProfilerFile(path.name, TRACE, tuple(readings), tuple(sorted(unknown)))


def _core(event: Mapping[str, Any]) -> str:
    return str(event.get("pid"))


def _track(event: Mapping[str, Any]) -> tuple[str, str]:
    return _core(event), str(event.get("tid"))


def _name_in(event: Mapping[str, Any]) -> str:
    args = event.get("args")
    return str(args.get("name", "")) if isinstance(args, dict) else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _is_figure(value)


def _pipe_of(thread: str) -> str | None:
    words = re.split(r"[^A-Za-z0-9]+", thread.upper())
    return next((_THREADS[w] for w in words if w in _THREADS), None)


def _busy(event: Mapping[str, Any], mhz: float) -> float:
    """The cycles of a slice: our own traces say them, whatever their unit of time is."""
    args = event.get("args")
    said = args.get("busy") if isinstance(args, dict) else None
    return said if isinstance(said, int) and _is_number(said) else event["dur"] * mhz


def _slice(file: str, event: Mapping[str, Any], pipe: str, core: str, mhz: float) -> Reading:
    name = str(event.get("name", ""))
    match = _SLICE.match(name)
    shape = (_shape(match[2].split("x")) if match and match[2] else None) or ()
    args = event.get("args")
    line = args.get("line") if isinstance(args, dict) else None
    kind = "aic" if "AIC" in core.upper() else "aiv" if "AIV" in core.upper() else ""
    return Reading(
        file, f"slice at {event.get('ts')} us of {core or event.get('pid')}", TRACE,
        name, match[1] if match else name, {(kind, pipe): _busy(event, mhz)},
        inputs=(shape,) if shape else (), input_types=(match[3],) if match and match[3] else (),
        block=core, line=line if isinstance(line, int) else None,
    )  # fmt: skip
