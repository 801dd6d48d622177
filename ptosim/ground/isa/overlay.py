"""Overlays of the cost table: a board's own figures, as `ptosim calibrate` writes them.

An overlay is a TOML file beside the project. It names a chip, where its figures come from, and for
each number that it replaces the row, the new value and the one that was replaced. The figures of
`isa/costs` stay as they are; a table with an overlay carries its name, so that every report can say
whose figures it shows.

    schema = 1
    kind = "cost overlay"
    chip = "910B3"
    source = "op_summary_0.csv: 120 rows"

    [figure."instruction.vadd"]
    slope = 2.4
    source = "op_summary_0.csv: TADD f32, 24 points"
    [figure."instruction.vadd".was]
    slope = 2.11

    [[error]]
    class = "binary"
    points = 12
    mean = 0.011
    worst = 0.034
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from ptosim.ground import files
from ptosim.ground.errors import IsaDataError, UsageError
from ptosim.ground.files import read_bytes
from ptosim.ground.isa.cache import read_toml
from ptosim.ground.isa.costs import Accuracy, CostTable, Overlay
from ptosim.ground.records import NamedTuple, replace
from ptosim.ground.source import with_line_feeds

MOST = 1e12
LEAST = 1e-12
"""Of a figure that is not 0; beyond, times are no numbers that floats and cycles count with."""

_DIVISORS = frozenset(("mhz", "gib_per_second", "bytes_per_cycle"))
_PLACES = frozenset(
    f"window.{name}"
    for name in (
        "dispatch.width", "port.depth", "port.width", "in_flight.count", "loads.ports",
        "stores.ports",
    )
)  # fmt: skip
"""What a vector instruction has to find for itself to go on: whole, and one at least."""


def wanted_instead(key: str, value: float) -> str:
    """Return in words what a figure may be that is not this value; nothing if the value is right.
    `key` is the full name of the figure."""
    if key in _PLACES and not 1 <= value <= MOST:
        return f"a number from 1 to {MOST:g}"
    if LEAST <= value <= MOST:
        return ""
    if key.rpartition(".")[2] in _DIVISORS:
        return f"a positive number, from {LEAST:g} to {MOST:g}"
    return "" if value == 0 else f"0 or a positive number, from {LEAST:g} to {MOST:g}"


KIND = "cost overlay"
CONFIDENCE = "fitted"


def read_overlay(path: str | Path) -> Overlay:
    """Return the overlay in a file. Raises UsageError (PTO7520) for what is no overlay."""
    path = Path(path)
    try:
        content = files.read(with_line_feeds(read_bytes(path).decode("utf-8-sig")))
    except ValueError as problem:  # no UTF-8, no TOML, or a number of thousands of digits
        raise UsageError(f"PTO7520: {path} is no cost overlay: {problem}", help=_HELP) from problem
    try:
        return _overlay(path.name, content)
    except (KeyError, TypeError, AttributeError, ValueError) as problem:
        raise UsageError(
            f"PTO7520: {path} is no cost overlay: it has no usable {problem}", help=_HELP
        ) from problem


_HELP = "an overlay is what `ptosim calibrate --from TABLE … -o board.toml` writes"


def _overlay(name: str, content: dict[str, Any]) -> Overlay:
    if content.get("kind") != KIND or content.get("schema") != 1:
        raise ValueError(f'`kind = "{KIND}"` with `schema = 1`')
    figures: dict[str, float] = {}
    sources: dict[str, str] = {}
    for row, fields in content["figure"].items():
        sources[row] = str(fields["source"])
        for key, value in fields.items():
            if key in ("source", "was"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise ValueError(f"number `{row}.{key}`")
            if wanted := wanted_instead(f"{row}.{key}", value):
                raise ValueError(f"value of `{row}.{key}`: {value} is not {wanted}")
            figures[f"{row}.{key}"] = float(value)
    errors = tuple(_accuracy(row, str(content["chip"])) for row in content.get("error", ()))
    return Overlay(name, str(content["chip"]), str(content["source"]), figures, sources, errors)


def _accuracy(row: dict[str, Any], chip: str) -> Accuracy:
    mean = float(row["mean"])
    median = float(row.get("median", mean))
    return Accuracy(chip, row["class"], int(row["points"]), mean, median, float(row["worst"]))


def overlaid(table: CostTable, overlay: Overlay) -> CostTable:
    """Return a cost table with the figures of an overlay in their places. Raises UsageError
    (PTO7521) for an overlay of another chip, or one with a figure that the chip does not have."""
    if overlay.chip != table.chip:
        raise UsageError(
            f"PTO7521: {overlay.name} has figures of the {overlay.chip}, and the program is timed "
            f"on the {table.chip}",
            help=f"time it on that chip: --target {overlay.chip.lower()}",
        )
    known = set(table.keys())
    for key, value in overlay.figures.items():
        if key not in known:
            raise UsageError(f"PTO7521: {overlay.name}: the {table.chip} has no figure {key}")
        row, _, number = key.rpartition(".")
        source = overlay.sources[row]
        table = table.changed(key, value, confidence=CONFIDENCE, source=source)
        changed = table[row]
        if number not in changed.fitted:
            rows = {**table.rows, row: replace(changed, fitted=changed.fitted | {number})}
            table = replace(table, rows=rows)
    return replace(table, overlay=overlay)


def overlay_text(overlay: Overlay, before: CostTable, notes: tuple[str, ...] = ()) -> str:
    """Return the TOML text of an overlay; `before` has the figures that it replaces."""
    lines = [
        "# Figures of a board, as `ptosim calibrate` found them: `ptosim cost --costs` takes them.",
        "# The figures that they replace are in `was`; isa/costs is unchanged.",
        *(f"# {note}" for note in notes),
        "schema = 1",
        f"kind = {_quoted(KIND)}",
        f"chip = {_quoted(overlay.chip)}",
        f"source = {_quoted(overlay.source)}",
    ]
    rows: dict[str, dict[str, float]] = {}
    for key, value in sorted(overlay.figures.items()):
        row, _, number = key.rpartition(".")
        rows.setdefault(row, {})[number] = value
    if not rows:
        lines += ["", "[figure]"]
    for row, numbers in rows.items():
        lines += ["", f"[figure.{_quoted(row)}]"]
        lines += [f"{_key(n)} = {_number(v)}" for n, v in numbers.items()]
        lines += [f"source = {_quoted(overlay.sources[row])}", f"[figure.{_quoted(row)}.was]"]
        lines += [f"{_key(n)} = {_number(before[row][n])}" for n in numbers]
    for error in overlay.errors:
        lines += [
            "",
            "[[error]]",
            f"class = {_quoted(error.class_name)}",
            f"points = {error.points}",
        ]
        lines += [f"{n} = {getattr(error, n):.4f}" for n in ("mean", "median", "worst")]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else " " for c in escaped) + '"'


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else _quoted(name)


def _number(value: float) -> str:
    return repr(round(float(value), 6))


# What the stages of cast chains do, wait for and why they cost what they do:
# `isa/costs/stages.toml`.

TARGETS = ("a2a3", "a5")


class Side(NamedTuple):
    """A stage on one target: what it waits for, why it costs what it does, and where that is
    from."""

    waits: str
    why: str
    source: str


class StageText(NamedTuple):
    """A stage: its names (of forms), other words for it, what it does, and its sides by target."""

    names: tuple[str, ...]
    also: tuple[str, ...]
    what: str
    sides: Mapping[str, Side]


@lru_cache(maxsize=1)
def stage_texts() -> tuple[StageText, ...]:
    """Return all stages in the order of the data. Raises IsaDataError for one without a target."""
    found = []
    for key, row in read_toml("costs/stages.toml")["stage"].items():
        sides = {t: Side(**row[t]) for t in TARGETS if t in row}
        if not sides:
            raise IsaDataError(f"isa/costs/stages.toml: {key} is on no target")
        found.append(StageText(tuple(row["names"]), tuple(row["also"]), row["what"], sides))
    return tuple(found)


def stage_text(name: str) -> StageText | None:
    """Return the stage of a name, or of another word for it; None if there is none. Arrows mean
    "to"."""
    for arrow in ("->", "→"):
        name = name.replace(arrow, " to ")
    word = " ".join(name.lower().split())
    every = stage_texts()
    if _STEP.fullmatch(word):
        word = "tile operation"
    return next(
        (s for s in every if word in s.names), next((s for s in every if word in s.also), None)
    )


_STEP = re.compile(r"t[a-z]+ \S+ to \S+")
