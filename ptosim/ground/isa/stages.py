"""What the stages of cast chains do, wait for and why they cost what they do:
`isa/costs/stages.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.data import read_toml
from ptosim.ground.records import NamedTuple

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
