"""A file of several programs: parts between lines `//--- name.pto`, each a program of its own."""

from __future__ import annotations

import re
from collections.abc import Callable

from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source

_SEPARATOR = re.compile(r"^//---[ \t]*(\S+)[ \t]*\r?$\n?", re.MULTILINE)
_CHARACTER = re.compile(r"[^\r\n]")
_COMMENT = re.compile(r"\s*(//.*)?")


def parts(source: Source) -> list[Source]:
    """Return the programs of a file: the file itself where nothing separates it. What is before the
    first separator is one only if it is more than comments; it has the name `head`."""
    found = list(_SEPARATOR.finditer(source.text))
    if not found or source.part:
        return [source]
    made = []
    if not all(_COMMENT.fullmatch(line) for line in source.text[: found[0].start()].splitlines()):
        made.append(_part(source, "head", 0, found[0].start()))
    ends = [*(m.start() for m in found[1:]), len(source.text)]
    made += [_part(source, m[1], m.end(), end) for m, end in zip(found, ends, strict=True)]
    return made


def _part(source: Source, name: str, start: int, end: int) -> Source:
    text = source.text
    before, after = text[:start], text[end:]
    blanks = [_CHARACTER.sub(" ", around) for around in (before, after)]
    return Source(source.name, f"{blanks[0]}{text[start:end]}{blanks[1]}", name, (before, after))


def part_named(source: Source, name: str) -> Source:
    """Return a part of a file by its name, the end `.pto` may be left out; raises UsageError if
    there is none."""
    known = parts(source)
    for part in known:
        if part.part and name in (part.part, part.part.removesuffix(".pto")):
            return part
    names = ", ".join(part.label for part in known if part.part)
    what = f"parts: {names}" if names else "the file has no lines `//--- name.pto`"
    raise UsageError(f"{source.name} has no part `{name}`", help=what)


def the_only(source: Source) -> Source:
    """Return the program of a file; raises UsageError, with the list, if it has several."""
    known = parts(source)
    if len(known) > 1:
        raise UsageError(
            f"{source.name} has {len(known)} parts; name one",
            help=f"parts: {', '.join(part.label for part in known)}",
        )
    return known[0]


def by_part(source: Source, change: Callable[[Source], str]) -> str:
    """Return the text of a file (or of the part that is meant) after a change of each program; what
    separates them stays."""
    known = parts(source)
    if known == [source] and not source.part:
        return change(source)
    texts = [change(part).lstrip("\n") for part in known]
    if source.part:
        return texts[0]
    made, at = [], 0
    for part, text in zip(known, texts, strict=True):
        start = len(part.around[0])
        made += [source.text[at:start], text]
        at = start + len(part.own)
    return "".join(made)
