"""A few operations of a program with what they need: the values and aliases they name, the regions
they are in and the ends of these. Short texts are tried many times faster than whole programs."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from random import Random

_NOISE = re.compile(r'//.*|"[^"\n]*"')
_NAME = re.compile(r"%[\w$.\-]+|[!#@][A-Za-z_]\w*")
_DEFINED = re.compile(r"\s*((?:[%!#][\w$.\-]+(?::\d+)?(?:\s*,\s*)?)+)\s*=(?!=)")
_FUNCTION = re.compile(r"\bfunc(?:\.func)?\s.*?(@\w+)")
_WRITTEN = re.compile(r"outs\(\s*(%[\w$.\-]+)")
_END = re.compile(r"^\s*(?:func\.)?return\b|^\s*[\w.]+\.(?:yield|return|condition)\b")


@dataclass(frozen=True)
class Statement:
    """A statement, or the line that opens, divides or closes a region; `parent` is the number of the
    one that opens the region it is in, -1 for none."""

    text: str
    parent: int
    shape: str  # "plain", "open", "divide" or "close"
    defines: frozenset[str]
    uses: frozenset[str]
    writes: str


def sliced(text: str, rng: Random) -> str:
    """Return one to three operations of a text with what they need; the text if it is none whose
    regions can be told."""
    known = statements(text)
    work = [n for n, s in enumerate(known) if s.shape == "plain" and s.parent >= 0]
    if not work:
        return text
    wanted = rng.choices(work, k=rng.choice((1, 1, 1, 2, 2, 3)))
    return "\n".join(known[n].text for n in _closed(known, wanted, rng.random() < 0.5))


def with_needs(known: tuple[Statement, ...], at: int) -> list[int]:
    """Return the numbers of a statement and of all that it needs, in the order of the text."""
    return _closed(known, [at], True)


def _closed(known: tuple[Statement, ...], wanted: list[int], writers: bool) -> list[int]:
    """What the wanted statements need, in the order of the text; with the statements before them
    that write the tiles they name if `writers`."""
    kept: set[int] = set()
    while wanted:
        at = wanted.pop()
        if at in kept or at < 0:
            continue
        kept.add(at)
        statement = known[at]
        wanted.append(statement.parent)
        wanted += (_definition(known, name, at) for name in statement.uses)
        if writers:
            wanted += (_writer(known, name, at) for name in statement.uses)
        if statement.shape == "open":
            wanted += _ends(known, at)
    return sorted(kept)


def _definition(known: tuple[Statement, ...], name: str, at: int) -> int:
    """The number of the nearest statement before that defines a name; -1 for none."""
    if name[0] == "%":
        return next((n for n in range(at - 1, -1, -1) if name in known[n].defines), -1)
    return next((n for n, s in enumerate(known) if name in s.defines), -1)


def _writer(known: tuple[Statement, ...], name: str, at: int) -> int:
    return next((n for n in range(at - 1, -1, -1) if known[n].writes == name), -1)


def _ends(known: tuple[Statement, ...], opened: int) -> Iterator[int]:
    """What divides, ends and closes the region of a statement."""
    for n in range(opened + 1, len(known)):
        statement = known[n]
        if statement.parent == opened and (
            statement.shape != "plain" or _END.match(statement.text)
        ):
            if statement.shape != "open":
                yield n
            if statement.shape == "close":
                return


@lru_cache(maxsize=1024)
def statements(text: str) -> tuple[Statement, ...]:
    """The statements of a text; none if a region is closed that is not open, or the reverse."""
    found: list[Statement] = []
    regions: list[int] = []
    for lines, bare in _logical(text):
        closes, opens = bare.startswith("}"), bare.endswith("{")
        if closes and not regions:
            return ()
        if not closes and bare.count("{") - bare.count("}") != opens:
            return ()
        parent = regions[-1] if regions else -1
        shape = ("divide" if opens else "close") if closes else "open" if opens else "plain"
        found.append(_statement(lines, bare, parent, shape))
        if shape == "open":
            regions.append(len(found) - 1)
        elif shape == "close":
            regions.pop()
    return () if regions else tuple(found)


def _statement(lines: str, bare: str, parent: int, shape: str) -> Statement:
    head = _DEFINED.match(bare)
    defines = set(_NAME.findall(head.group(1).replace(":", " "))) if head else set()
    if function := _FUNCTION.search(bare):
        defines.add(function.group(1))
    if shape == "open":  # arguments and counters
        defines |= {name for name in _NAME.findall(bare) if name[0] == "%"}
    uses = frozenset(_NAME.findall(bare)) - (defines if shape != "open" else frozenset())
    written = _WRITTEN.search(bare)
    return Statement(
        lines, parent, shape, frozenset(defines), uses, written.group(1) if written else ""
    )


def _logical(text: str) -> Iterator[tuple[str, str]]:
    """Lines of a text, joined as long as a bracket is open: as written, and without comments."""
    lines: list[str] = []
    bare = ""
    for line in text.split("\n"):
        plain = _NOISE.sub("", line).strip()
        if not plain and not lines:
            continue
        lines.append(line)
        bare = f"{bare} {plain}".strip()
        if sum(bare.count(c) for c in "([") <= sum(bare.count(c) for c in ")]"):
            yield "\n".join(lines), bare
            lines, bare = [], ""
    if lines:
        yield "\n".join(lines), bare
