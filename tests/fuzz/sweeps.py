"""Changes in turn instead of by chance: every number, attribute or token of the statements of the
corpus, each in a text of its own with what it needs. What random changes meet once in a million,
such as one size that no memory has in one operation, is met at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random

from tests.fuzz.case import Case
from tests.fuzz.corpus import Seed
from tests.fuzz.slices import Statement, statements, with_needs

MOST = 2
"""Statements of each operation."""
NUMBERS = (
    "0", "-1", "1", "255", "65536", str(2**31), str(2**32), str(2**40), str(2**63 - 1),
    str(-(2**63)), str(2**64 - 1), "1" + 30 * "0",
)  # fmt: skip
VALUES = (
    "[1, 2]", "{a = 1}", '"x"', "1.5", "true", "@s", "#pto<x y>", "#pto.pipe<PIPE_V>", "f32", "-1",
    "99999999999999999999", "dense<[1]> : tensor<1xi8>", "array<i32: 1>", "<a>",
)  # fmt: skip
_OPERATION = re.compile(r"\b(?:pto|arith|scf|memref|math|llvm|cf|quant|vmi|builtin|func)\.[\w.]+")
_NUMBER = re.compile(r"(?<![\w.%!#])-?\d+(?:\.\d+)?(?![\w.])")
_ATTRIBUTE = re.compile(r"=\s*([^,{}()\[\]<>=\n]+|#pto[^,}>]*>|<\w+>|\[[^\]]*\])(?=[,}])")
_TOKEN = re.compile(r'%[\w$.\-]+|[!#@]?[A-Za-z_][\w.]*|"[^"\n]*"|\d+(?:\.\d+)?|->|[^\s]')


def _numbers(line: str, rng: Random) -> Iterator[str]:
    for found in _NUMBER.finditer(line):
        for number in NUMBERS:
            yield line[: found.start()] + number + line[found.end() :]


def _attributes(line: str, rng: Random) -> Iterator[str]:
    for found in _ATTRIBUTE.finditer(line):
        for value in VALUES:
            yield line[: found.start(1)] + value + line[found.end(1) :]


def _tokens(line: str, rng: Random) -> Iterator[str]:
    """Without each token, with it twice, before its neighbour, and with another one for it."""
    found = list(_TOKEN.finditer(line))
    for at, token in enumerate(found):
        start, end = token.span()
        yield line[:start] + line[end:]
        yield f"{line[:end]} {token.group()}{line[end:]}"
        if at + 1 < len(found):
            other = found[at + 1]
            between = line[end : other.start()]
            yield line[:start] + other.group() + between + token.group() + line[other.end() :]
        yield line[:start] + rng.choice(found).group() + line[end:]


SWEEPS: dict[str, Callable[[str, Random], Iterable[str]]] = {
    "numbers": _numbers,
    "attributes": _attributes,
    "tokens": _tokens,
}


def swept(kind: str, seeds: list[Seed], rng: Random) -> Iterator[Case]:
    """The changed texts of a sweep, statements in an order of chance."""
    places = list(_places(seeds))
    rng.shuffle(places)
    for seed, known, at in places:
        kept = with_needs(known, at)
        for number in kept:
            if number != at and (kind != "numbers" or "constant" not in known[number].text):
                continue  # a constant is a number of what needs it
            for line in SWEEPS[kind](known[number].text, rng):
                lines = (line if n == number else known[n].text for n in kept)
                content = "\n".join(lines).encode("utf-8", "replace")
                yield Case(content, "program", rng.choice(seed.targets), seed.compat)


def _places(seeds: list[Seed]) -> Iterator[tuple[Seed, tuple[Statement, ...], int]]:
    seen: Counter[str] = Counter()
    for seed in seeds:
        known = statements(seed.text)
        for at, statement in enumerate(known):
            found = _OPERATION.search(statement.text)
            name = found.group() if found else statement.text.strip()[:12]
            if (statement.parent >= 0 or statement.shape == "plain") and seen[name] < MOST:
                seen[name] += 1
                yield seed, known, at
