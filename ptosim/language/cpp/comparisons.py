"""Comparisons that the grammar takes for arguments of a template: of `n < m && m > -1` it cannot
know that `n` is none. Such a `<` is parsed as `<=`, which begins no arguments and binds alike."""

from __future__ import annotations

import re

from ptosim.language.cpp.forms import row_of
from ptosim.language.cpp.library import TYPES

_MAY_BE = re.compile(r"\b([A-Za-z_]\w*)\s*?([ \t]?)<(?![<=])([ \t]?)(?=[^;{}]{0,300}?>)")
"""A name, and what may be the begin of its arguments: a `>` follows in the same statement. So many
characters are looked at that a text without an end of a statement takes no longer."""
_OWNED = re.compile(r"(?:\.|->|\btemplate\s|\b(?:std|pto|comm)\s*::)\s*$")
"""What is in front of a member, which the grammar reads well, or of a name of the libraries."""
_NEAR = 20
_LAST = re.compile(r"\b([A-Za-z_]\w*)\s*$")
_LONGEST = 60
_BEFORE, _MOST = 200, 8
"""Characters, and comparisons in them, that are looked at in front of one."""
_HEAD = re.compile(r"\btemplate\s*<")
_ANGLE = re.compile(r"[<>();{}]")
_DECLARED = re.compile(r"[(){};=]")
_NAME = re.compile(r"[A-Za-z_]\w*")
_VALUE = re.compile(r"\b([A-Za-z_]\w*)(?=\s*(?:[;,(){}\[\]?+/%^|&*.>-]|=(?!=)|:(?!:)))")
"""A name that is used as a value, by what follows it."""
_FUNCTIONS = frozenset(
    ("min", "max", "get", "clamp", "move", "forward", "swap", "exchange", "bit_cast", "abs",
     "operator", "template", "static_cast", "reinterpret_cast", "const_cast", "dynamic_cast",
     "typename", "class", "return")
)  # fmt: skip
"""Templates of the standard library, and words, besides those that end as traits do."""
_TRAIT = re.compile(r"\w+_[tv]")


class Comparisons:
    """Which names of a text are no templates, of those in front of `<`."""

    def __init__(self, text: str) -> None:
        words = {found[1] for found in _MAY_BE.finditer(text)}
        words = {w for w in words if not _is_of_library(w)}
        words -= _templates(text) if words else words
        self._values = words.intersection(_VALUE.findall(text)) if words else words

    def told(self, text: str) -> str:
        """Return a text of the same length in which these names are compared."""
        if not self._values:
            return text
        chars: list[str] = []
        for found in _MAY_BE.finditer(text):
            if found[1] not in self._values:
                continue
            if _OWNED.search(text[max(found.start() - _NEAR, 0) : found.start()]):
                continue
            at = found.end() - 1
            if found[2] or found[3]:
                _put(chars, text, at - 1, "<=")
            elif not self._is_inside(text, found.start()):
                _put(chars, text, at, ">")  # it binds alike, too
        return "".join(chars) if chars else text

    def _is_inside(self, text: str, at: int) -> bool:
        """May a name be among the arguments of a template, and in no parentheses there?"""
        depth = compared = 0
        for i in range(at - 1, max(at - _BEFORE, -1), -1):
            char = text[i]
            if char == ")":
                depth += 1
            elif char == "(":
                if not depth:
                    return False
                depth -= 1
            elif char in ";{}":
                return False
            elif char == "<" and not depth:
                compared += 1
                if compared > _MOST or not self._compares(text, i):
                    return True
        return at > _BEFORE

    def _compares(self, text: str, at: int) -> bool:
        """Is a name in front of it that is no template?"""
        found = _LAST.search(text[max(at - _LONGEST, 0) : at])
        return found is not None and found[1] in self._values


def _put(chars: list[str], text: str, at: int, words: str) -> None:
    """Write over a text, which is made a list of characters when that is needed."""
    if not chars:
        chars.extend(text)
    chars[at : at + len(words)] = words


def _is_of_library(word: str) -> bool:
    if word in TYPES or word in _FUNCTIONS or _TRAIT.fullmatch(word):
        return True
    return row_of(word) is not None


def _templates(text: str) -> set[str]:
    """Return the names that a text declares as templates, and some besides."""
    found: set[str] = set()
    head = _HEAD.search(text)
    while head is not None:
        end = _end_of(text, head.end())
        given = text[head.end() : end]
        if "template" in given or given[-1:] != ">":  # one is a template, or they are not seen
            found.update(_NAME.findall(given))
        outside, end = _outside(text, end)
        found.update(_NAME.findall(outside))
        head = _HEAD.search(text, end)
    return found


def _end_of(text: str, at: int) -> int:
    """Return where the parameters of a template end that begin there."""
    depth, inside = 1, 0  # of angles, of parentheses in them
    for found in _ANGLE.finditer(text, at):
        if found[0] in "()":
            inside += 1 if found[0] == "(" else -1
        elif found[0] in ";{}":
            return found.start()
        elif not inside:
            depth += 1 if found[0] == "<" else -1
        if not depth:
            return found.end()
    return len(text)


def _outside(text: str, at: int) -> tuple[str, int]:
    """Return a declaration from there on to its body or value, without what is in parentheses (the
    names of parameters are no templates), and where it ends."""
    parts: list[str] = []
    depth = 0
    for found in _DECLARED.finditer(text, at):
        if not depth:
            parts.append(text[at : found.start()])
            if found[0] in "{};=":
                return " ".join(parts), found.start()
        depth += {"(": 1, ")": -1}.get(found[0], 0)
        at = found.end()
    return " ".join((*parts, text[at:])), len(text)
