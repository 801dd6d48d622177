"""Which findings a report shows: by code or family, and at most so many."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.ground.words import nearest

_WORD = re.compile(r"PTO\d{0,4}")


@dataclass(frozen=True, slots=True)
class Selection:
    """Codes to show and codes to leave out, as prefixes (`PTO52` represents all of them).

    The longest prefix decides, so `--ignore PTO5 --select PTO5201` shows PTO5201."""

    selected: tuple[str, ...] = ()
    ignored: tuple[str, ...] = ()

    def takes(self, code: str) -> bool:
        """Return True if findings of a code are shown."""
        chosen = _longest(code, self.selected)
        left_out = _longest(code, self.ignored)
        return (chosen > left_out) if self.selected else left_out < 0

    def split(self, diagnostics: Sequence[Diagnostic]) -> tuple[list[Diagnostic], list[Diagnostic]]:
        """Return the findings to show, and those to leave out."""
        shown = [d for d in diagnostics if self.takes(d.code)]
        return shown, [d for d in diagnostics if not self.takes(d.code)]


def _longest(code: str, prefixes: Sequence[str]) -> int:
    return max((len(p) for p in prefixes if code.startswith(p)), default=-1)


def selection(select: Sequence[str], ignore: Sequence[str]) -> Selection:
    """Return the selection of the words of `--select` and `--ignore`, which may hold several codes
    separated by commas. Raises UsageError for an unknown code, or one that is in both."""
    selected, ignored = _codes(select, "--select"), _codes(ignore, "--ignore")
    both = sorted(set(selected) & set(ignored))
    if both:
        raise UsageError(
            f"--select and --ignore contradict each other on {', '.join(both)}",
            help="name the code in one of them",
        )
    return Selection(selected, ignored)


def _codes(texts: Sequence[str], option: str) -> tuple[str, ...]:
    words = [w.strip().upper() for text in texts for w in text.split(",") if w.strip()]
    for word in words:
        _check_known(word, option)
    return tuple(dict.fromkeys(words))


def _check_known(word: str, option: str) -> None:
    from ptosim.ground.diagnostics.catalog import catalog

    known = catalog()
    if _WORD.fullmatch(word) and any(code.startswith(word) for code in known):
        return
    raise UsageError(
        f"{option}: there is no diagnostic code `{word}`",
        help=nearest(word, known, "`ptosim explain` lists all codes"),
    )


class Known:
    """Findings that one asks for others in: of thousands only those with one code and text at one
    place are compared as a whole."""

    def __init__(self, found: Iterable[Diagnostic] = ()) -> None:
        self._alike: dict[tuple[Any, ...], list[Diagnostic]] = {}
        for one in found:
            self.add(one)

    def add(self, one: Diagnostic) -> None:
        """Take in a finding."""
        self._alike.setdefault(_place(one), []).append(one)

    def __contains__(self, one: Diagnostic) -> bool:
        return one in self._alike.get(_place(one), ())


def without_repeats(
    found: Iterable[Diagnostic], known: Iterable[Diagnostic] = ()
) -> list[Diagnostic]:
    """Return the findings that are not among the known ones, each once, in their order."""
    seen, kept = Known(known), []
    for one in found:
        if one not in seen:
            seen.add(one)
            kept.append(one)
    return kept


def _place(one: Diagnostic) -> tuple[Any, ...]:
    return one.code, one.message, one.span.start if one.span is not None else None


def cap(
    diagnostics: Sequence[Diagnostic], most: int | None
) -> tuple[list[Diagnostic], list[Diagnostic]]:
    """Return the first `most` findings, the worst ones, in the order in which they were found, and
    the rest."""
    if most is None or len(diagnostics) <= most:
        return list(diagnostics), []
    order = sorted(range(len(diagnostics)), key=lambda i: (-diagnostics[i].severity, i))
    kept = set(order[:most])
    shown = [d for i, d in enumerate(diagnostics) if i in kept]
    return shown, [d for i, d in enumerate(diagnostics) if i not in kept]


def rest_line(rest: Sequence[Diagnostic]) -> str:
    """Return what is said of findings beyond `--max-findings`."""
    errors = sum(1 for d in rest if d.is_error)
    count = f"{len(rest)} more finding{'s' if len(rest) != 1 else ''}"
    return f"{count} ({errors} error{'s' if errors != 1 else ''}) not shown; raise --max-findings"
