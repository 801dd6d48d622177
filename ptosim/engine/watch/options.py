"""Which sanitizers run."""

from __future__ import annotations

from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Operand, Operation
from ptosim.ground.nearest import nearest
from ptosim.ground.records import dataclass, replace

QUANTISING = frozenset(("makes_codes", "makes_numbers", "converts", "fixpipe"))
"""Traits of operations that the kind `quant` watches."""


def may_quantise(op: Operation) -> bool:
    """True for an operation that the kind `quant` watches: what goes through the fixpipe comes from
    an accumulator."""
    traits = op.traits & QUANTISING
    if traits != {"fixpipe"}:
        return bool(traits)
    source = op.bound.get("src")
    return isinstance(source, Operand) and getattr(source.type, "loc", None) == "acc"


KINDS = ("races", "bounds", "defined", "budget", "flags", "quant")


@dataclass(frozen=True, slots=True)
class Sanitize:
    """The sanitizers that are on. Bounds and budget are checked by every run."""

    races: bool = True
    bounds: bool = True
    defined: bool = True
    budget: bool = True
    flags: bool = True
    quant: bool = True

    @property
    def is_needed(self) -> bool:
        """True if one is on that has to watch the run."""
        return self.races or self.defined or self.flags or self.quant

    def without_flags(self) -> Sanitize:
        """Return the same without the checks of a program's own flags."""
        return replace(self, flags=False)


def parse(text: str) -> Sanitize:
    """Return the sanitizers of a word list: `all`, `none`, or names separated by commas. Raises
    UsageError for an unknown name, or for `all` and `none` beside others."""
    words = [w.strip() for w in text.split(",") if w.strip()]
    if words == ["all"]:
        return Sanitize()
    if words == ["none"] or not words:
        return Sanitize(**dict.fromkeys(KINDS, False))
    for word in words:
        if word in ("all", "none"):
            raise UsageError(f"sanitizers: `{word}` is given alone, not in `{text}`")
        if word not in KINDS:
            raise UsageError(
                f"there is no sanitizer `{word}`",
                help=nearest(word, KINDS, f"all, none, {', '.join(KINDS)}"),
            )
    return Sanitize(**{kind: kind in words for kind in KINDS})
