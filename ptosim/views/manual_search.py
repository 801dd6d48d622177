"""What the manual has on words that are no topic: sections whose heading has them, else every place
that does."""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.records import NamedTuple
from ptosim.views import manual

_WORD = re.compile(r"[A-Za-z0-9_]+")
_HEADING = re.compile(r"^(#+) (.*)$")
SHOWN = 12
"""Places of the text that are listed."""


class Part(NamedTuple):
    """A section of a page: its heading, the line of the page that it is in (from 1), and its
    Markdown with the heading."""

    page: str
    title: str
    line: int
    text: str


class Place(NamedTuple):
    """A line of a page that has the words, and the heading it is under."""

    page: str
    title: str
    line: int
    text: str


@lru_cache(maxsize=1)
def sections() -> list[Part]:
    """Return the sections of all pages, each up to the next heading of its level or above."""
    found = []
    for page, text in manual.pages().items():
        lines = text.splitlines()
        heads = list(_heads(lines))
        for number, (at, level, title) in enumerate(heads):
            after = (a for a, next_level, _ in heads[number + 1 :] if next_level <= level)
            body = lines[at : next(after, len(lines))]
            found.append(Part(page, _plain(title), at + 1, "\n".join(body) + "\n"))
    return found


def _heads(lines: list[str]) -> list[tuple[int, int, str]]:
    """The headings: line, level, title; lines of code are none."""
    heads, is_code = [], False
    for at, line in enumerate(lines):
        is_code ^= line.startswith("```")
        found = None if is_code else _HEADING.match(line)
        if found is not None:
            heads.append((at, len(found[1]), found[2]))
    return heads


def headed(topic: str) -> list[Part]:
    """Return the sections that have all words of a topic in their heading, small ones first where a
    heading is about nothing else."""
    asked = _words(topic)
    if not asked:
        return []
    found = [s for s in sections() if asked <= _words(s.title)]
    return sorted(found, key=lambda s: len(_words(s.title)))


def mentioned(topic: str) -> list[Place]:
    """Return the lines that have all words of a topic, in the order of the pages."""
    asked = _words(topic)
    places = []
    for page, text in manual.pages().items():
        lines = text.splitlines()
        heads = _heads(lines)
        for at, line in enumerate(lines):
            if asked and asked <= _words(line):
                title = next((t for a, _, t in reversed(heads) if a <= at), page)
                places.append(Place(page, _plain(title), at + 1, _plain(line)))
    return places


def heading_words() -> set[str]:
    """Return the words that headings are found by."""
    return {word for s in sections() for word in _words(s.title) if len(word) > 2}


def _words(text: str) -> frozenset[str]:
    """The words of a text as they are compared: small letters, one and many alike."""
    return frozenset(_one(word.lower()) for word in _WORD.findall(text))


def _one(word: str) -> str:
    if len(word) <= 3 or not word.endswith("s") or word.endswith("ss"):
        return word
    return word.removesuffix("s")


def _plain(text: str) -> str:
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text).replace("`", "").strip(" |-*")
