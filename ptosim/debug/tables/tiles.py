"""Tiles: all of them, one as values, hex, codes, physical layout or heat map, and what changed."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ptosim.debug.names import brief
from ptosim.debug.reading import Reading, read_buffer, read_tile, shape_text, unwritten
from ptosim.debug.session import Debugger
from ptosim.debug.sheet import Sheet, short_number
from ptosim.debug.writes import tiles_of
from ptosim.engine.core.bound import Kind
from ptosim.ground.errors import UsageError
from ptosim.machine.pages import POISON
from ptosim.machine.tile import Tile, TileRef

ROWS = 16
"""Rows of a tile that are shown unless more are asked for."""
FORMS = ("value", "hex", "codes", "phys", "heat")
BLANK = "·"
"""Stands for an element that nothing has written."""
_SHADES = " .:-=+*#%@"


def live_tiles(session: Debugger) -> list[tuple[str, TileRef]]:
    """Return the tiles of the current function that exist, by name, in order of definition."""
    slots = session.core.slots
    found: dict[str, TileRef] = {}
    for value in session.values():
        content = slots[session.launch.program.slots[value]]
        if isinstance(content, TileRef):
            found[value.name] = content
    return list(found.items())


def tiles(session: Debugger) -> Sheet:
    """All tiles of the function: place, type, shape, layout, range of values, what the last step
    wrote."""
    sheet = Sheet(
        "tiles",
        ("name", "place", "type", "shape", "layout", ">min", ">max", ">NaN", "state"),
        whole=("name", "state"),
        drop=("layout", "NaN", "shape", "place", "type"),
        empty="no tile exists yet",
    )
    written = _just_written(session)
    for name, ref in live_tiles(session):
        place = f"{ref.type.loc} {ref.addr:#x}"
        try:
            reading = read_tile(session.core, ref)
        except UsageError as problem:
            sheet.add(
                f"%{name}",
                place,
                str(ref.type.dtype),
                shape_text(ref),
                "",
                "",
                "",
                "",
                str(problem),
            )
            continue
        layout = Tile(ref, session.core.space(ref.type.loc).data).layout.name
        state, low, high, nans = _summary(session, reading)
        if (ref.type.loc, ref.addr) in written:
            state = "just written"
        sheet.add(
            f"%{name}", place, str(ref.type.dtype), shape_text(ref), layout, low, high, nans, state,
            mark=state == "just written",
        )  # fmt: skip
    return sheet


def _just_written(session: Debugger) -> set[tuple[str, int]]:
    """The tiles that the last tile operation wrote, if it was one of this core."""
    walker, core = session.walker, session.core
    here = walker.position
    op = session.motion.to_previous_operation()
    inst, turn = walker.upcoming(), walker.turn
    found: set[tuple[str, int]] = set()
    if op is not None and inst is not None and inst.kind is Kind.EXEC and turn is core:
        binding = walker.engine.bound(core, inst).binding
        found = {(t.type.loc, t.addr) for _, t in tiles_of(binding, written=True)}
    walker.goto(here)
    return found


def _summary(session: Debugger, reading: Reading) -> tuple[str, str, str, str]:
    """State, least and largest number, count of NaN."""
    raw = reading.codes.tobytes()
    if session.launch.options.uninit == "poison" and raw.count(POISON) == len(raw) and raw:
        return "not written", "", "", ""
    numbers = reading.numbers
    if numbers.size == 0:
        return "empty", "", "", ""
    if numbers.dtype.kind != "f":
        return "", short_number(numbers.min()), short_number(numbers.max()), ""
    nan = np.isnan(numbers) & ~unwritten(reading, session.launch.options.uninit)
    kept = numbers[~np.isnan(numbers)]
    count = str(int(nan.sum())) if nan.any() else ""
    if not kept.size:
        return "", "nan", "nan", count
    return "", short_number(kept.min()), short_number(kept.max()), count


# -- one tile --------------------------------------------------------------------------------------


def tile(session: Debugger, text: str, width: int) -> Sheet:
    """A tile, view or argument: `%x`, `%x[r0:r1, c0:c1]`, with one of the forms after it."""
    target, form = _form(text)
    name, bracket, rest = target.partition("[")
    reading = session.reading(name.strip())
    title = _title(name.strip(), reading)
    if reading.codes.ndim == 0:
        return Sheet(f"{title}: {reading.codes}")
    if form == "phys":
        return _physical(session, title, reading)
    window = _window(session, reading, rest.rstrip().removesuffix("]") if bracket else "")
    if form == "heat":
        return _heat(title, reading, window, width)
    blank = unwritten(reading, session.launch.options.uninit)
    return _cells(title, reading, window, form, width, _matrix(blank))


def _form(text: str) -> tuple[str, str]:
    words = text.split()
    form = "value"
    if words and words[-1].lstrip("-") in (*FORMS, "raw"):
        form = words.pop().lstrip("-")
    if not words:
        raise UsageError("a tile is missing", help="for example `tile %x[0:4, 0:8] hex`")
    return " ".join(words), "hex" if form == "raw" else form


def _title(name: str, reading: Reading) -> str:
    where = f" {reading.place}" if reading.place is not None else ""
    shape = "x".join(map(str, reading.codes.shape))
    if reading.kind == "tile":
        shape = shape_text(reading.ref)
    return f"{name}: {reading.dtype} {shape}{where}"


Window = tuple[range, range]


def _window(session: Debugger, reading: Reading, text: str) -> Window:
    """The rows and columns asked for; all of them where nothing is."""
    shape = _matrix(reading.codes).shape
    if not text.strip():
        return range(min(shape[0], ROWS)), range(shape[1])
    parts = session.evaluate(f"np.s_[{text}]")
    parts = parts if isinstance(parts, tuple) else (parts,)
    if len(parts) == 1 and shape[0] == 1:
        parts = (slice(None), *parts)
    parts = (*parts, slice(None))[:2]
    rows, cols = (_range(p, n) for p, n in zip(parts, shape, strict=True))
    if not rows or not cols:
        raise UsageError(f"[{text}] has no element of {shape[0]}x{shape[1]}")
    return rows, cols


def _range(part: Any, size: int) -> range:
    """The rows or columns that an index or a slice names. Raises UsageError for one of neither."""
    try:
        if isinstance(part, slice):
            return range(*part.indices(size))
        index = operator.index(part)
    except (TypeError, ValueError) as problem:  # a step of zero
        raise UsageError(f"`{part}` is no index: whole numbers and slices of them are") from problem
    if not -size <= index < size:
        raise UsageError(f"index {index} is out of range 0..{size - 1}")
    return range(index % size, index % size + 1)


def _matrix(array: np.ndarray) -> np.ndarray:
    """Any array as rows and columns."""
    if array.ndim <= 1:
        return array.reshape(1, -1)
    return array.reshape(-1, array.shape[-1])


def _cells(
    title: str, reading: Reading, window: Window, form: str, width: int, blank: np.ndarray
) -> Sheet:
    """The elements of a window; `blank` ones, which nothing has written, have no value."""
    rows, cols = window
    codes, numbers = _matrix(reading.codes), _matrix(reading.numbers)
    texts = [
        [
            BLANK if form == "value" and blank[r, c]
            else _cell(codes[r, c], numbers[r, c], reading, form)
            for c in cols
        ]
        for r in rows
    ]  # fmt: skip
    fitting = _fitting(texts, cols, width)
    shown = [*cols][:fitting]
    cut = len(cols) > fitting
    sheet = Sheet(title, [">", *(f">{c}" for c in shown), *(["…"] if cut else [])])
    for r, line in zip(rows, texts, strict=True):
        sheet.add(str(r), *line[:fitting], *(["…"] if cut else []))
    left = codes.shape[0] - len(rows)
    if form == "value" and blank[np.ix_(rows, cols)].any():
        sheet.notes.append(f"{BLANK} not written")
    if cut or left > 0:
        sheet.notes.append(
            f"rows {rows[0]}..{rows[-1]} of {codes.shape[0]}, columns {shown[0]}..{shown[-1]} of "
            f"{codes.shape[1]}"
        )
    return sheet


def _fitting(texts: list[list[str]], cols: range, width: int) -> int:
    """Columns that fit: each as wide as its widest cell, three blanks between them."""
    used = 8
    for at, col in enumerate(cols):
        used += max(len(str(col)), *(len(line[at]) for line in texts)) + 3
        if used > width and at:
            return at
    return len(cols)


def _cell(code: Any, number: Any, reading: Reading, form: str) -> str:
    if form == "value":
        return short_number(number)
    digits = max(reading.dtype.bits // 4, 1)
    size = code.dtype.itemsize
    raw = int.from_bytes(code.tobytes()[:size], "little") & ((1 << reading.dtype.bits) - 1)
    if form == "hex":
        return f"{raw:0{digits}x}"
    return f"{raw:0{digits}x}={short_number(number)}"


def _physical(session: Debugger, title: str, reading: Reading) -> Sheet:
    """Lines of 32 bytes in address order, with the elements that are in them."""
    if reading.kind != "tile":
        raise UsageError("only a tile has a physical layout")
    ref: TileRef = reading.ref
    bound = Tile(ref, session.core.space(ref.type.loc).data)
    per_line = 32 * 8 // reading.dtype.bits
    places = {
        bound.layout.offset(r, c): (r, c)
        for r in range(min(bound.v_row, 64))
        for c in range(min(bound.v_col, 512))
    }
    sheet = Sheet(f"{title} {bound.layout.name}", ("address", "elements", "bytes"), wrap=False)
    for line in range(min(ROWS, -(-len(places) // per_line))):
        held = [places[i] for i in range(line * per_line, (line + 1) * per_line) if i in places]
        start = ref.addr + line * 32
        raw = bytes(bound.buffer[start : start + 32]).hex(" ", 8)
        names = f"{_at(held[0])} … {_at(held[-1])}" if held else "none"
        sheet.add(f"{start:#06x}", names, raw)
    return sheet


def _at(element: tuple[int, int]) -> str:
    return f"[{element[0]},{element[1]}]"


def _heat(title: str, reading: Reading, window: Window, width: int) -> Sheet:
    rows, cols = window
    numbers = np.abs(_matrix(reading.numbers)[np.ix_(rows, cols)].astype(np.float64))
    step = max(1, -(-numbers.shape[1] // max(width - 12, 16)))
    padded = np.pad(numbers, ((0, 0), (0, -numbers.shape[1] % step)), constant_values=0.0)
    blocks = padded.reshape(padded.shape[0], -1, step)
    nan = np.asarray(np.isnan(blocks).any(axis=2))
    largest = np.where(np.isnan(blocks), 0.0, blocks).max(axis=2)
    top = float(largest[np.isfinite(largest)].max(initial=0.0)) or 1.0
    levels = np.clip(np.nan_to_num(largest / top, posinf=1.0) * 9, 0, 9).astype(int)
    sheet = Sheet(f"{title}  |value|", (">", "columns"), wrap=False)
    for r, line, bad in zip(rows, levels, nan, strict=True):
        sheet.add(str(r), "".join("N" if b else _SHADES[v] for v, b in zip(line, bad, strict=True)))
    sheet.notes.append(f"blank 0 … @ {short_number(top)}, N NaN; {step} columns a character")
    return sheet


# -- what changed ----------------------------------------------------------------------------------


def diff(session: Debugger) -> Sheet:
    """What the last tile operation changed."""
    walker = session.walker
    here, after = walker.position, _memory(session)
    op = session.motion.to_previous_operation()
    before = _memory(session)
    walker.goto(here)
    if op is None:
        return Sheet("", notes=["no tile operation was executed yet"])
    sheet = Sheet(
        f"changed by line {session.names.line(op)}: {brief(op)}",
        ("what", ">elements", "first", ">before", ">after"),
        empty="no tile and no argument has changed",
    )
    for name, new in after.items():
        old = before.get(name)
        if old is None or old.codes.shape != new.codes.shape:
            continue
        differs = _raw(old.codes) != _raw(new.codes)
        if not differs.any():
            continue
        first = tuple(int(i) for i in np.argwhere(differs)[0])
        uninit = session.launch.options.uninit
        numbers = (
            BLANK if unwritten(r, uninit)[first] else short_number(r.numbers[first])
            for r in (old, new)
        )
        count = f"{int(differs.sum())} of {differs.size}"
        sheet.add(name, count, f"[{', '.join(map(str, first))}]", *numbers)
    return sheet


def _raw(codes: np.ndarray) -> np.ndarray:
    """Bits to compare: NaN is equal to itself, and the zeros differ."""
    return np.ascontiguousarray(codes).view(f"u{codes.dtype.itemsize}")


def _memory(session: Debugger) -> dict[str, Reading]:
    """Every tile and every argument as it is now."""
    found: dict[str, Reading] = {}
    for name, ref in live_tiles(session):
        try:
            found[f"%{name}"] = read_tile(session.core, ref)
        except UsageError:
            continue
    for buffer in session.launch.machine.buffers:
        found[f"gm {buffer.name}"] = read_buffer(buffer)
    return found
