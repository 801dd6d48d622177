"""Changes in turn instead of by chance: every number, attribute, token or character of the statements
of the corpus, each in a text of its own with what it needs; the words of the types of such a text,
and its lines. What random changes meet once in a million, such as one size that no memory has in
one operation, is met at once."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from random import Random

from tests.fuzz import kinds
from tests.fuzz.case import Case
from tests.fuzz.commands import entries
from tests.fuzz.corpus import Seed
from tests.fuzz.mutations import STRANGE
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


def _strange(line: str, rng: Random) -> Iterator[str]:
    """With what does not belong there in the place of each token, and before it."""
    for token in _TOKEN.finditer(line):
        for word in rng.sample(STRANGE, 6):
            yield line[: token.start()] + word + line[token.end() :]
        for word in rng.sample(STRANGE, 3):
            yield f"{line[: token.start()]}{word} {line[token.start() :]}"


def _characters(line: str, rng: Random) -> Iterator[str]:
    """Without each character, with it twice, and with another one for it."""
    for at, character in enumerate(line):
        if not character.isspace():
            yield line[:at] + line[at + 1 :]
            yield line[:at] + character + line[at:]
            yield line[:at] + rng.choice(_OTHER_CHARACTERS) + line[at + 1 :]


_OTHER_CHARACTERS = '?0-9x.%!#@<>[](){},:="e_ \n/é'


def _types(lines: list[str], at: int, rng: Random) -> Iterator[list[str]]:
    """With another word for one of a type, everywhere in the text: types stay the same with each
    other."""
    text = "\n".join(lines)
    words = {word for type_ in _TYPE.findall(text) for word in _WORD.findall(type_)}
    for word in sorted(words):
        whole = re.compile(rf"(?<![\w.%@]){re.escape(word)}(?![\w.])")
        for other in TYPE_WORDS:
            yield whole.sub(other.replace("\\", r"\\"), text).split("\n")


_TYPE = re.compile(r"(?:!?\w[\w.]*<[^\n]*?>+|(?<=[:,]) *[fiu]+\d+|\bindex\b)")
_WORD = re.compile(r"(?<![\w.%@])(?:\d+x[\w?]+|[A-Za-z][\w.]*|\d+)")
TYPE_WORDS = (
    "f32", "f16", "bf16", "i1", "i8", "ui8", "i32", "i64", "f8E4M3FN", "index", "0", "1", "3", "?",
    "0xf32", "1xf32", "3x5xi8", "?xf32", "16x16x16xf16", "vec", "ub", "gm", "mat", "row_major",
    "vector<2xf16>", "!pto.ptr<f32, ub>", "!pto.vreg<64xf32>", "tensor<4xf32>", "memref<4xf32>",
    "!quant.uniform<i8:f32, 0.5>", "!pto.mask<b32>", "4294967296",
)  # fmt: skip


def _arguments(lines: list[str], at: int, rng: Random) -> Iterator[list[str]]:
    """With a number for each scalar argument of a function, in its place."""
    for n, line in enumerate(lines):
        for found in _SCALAR.finditer(line) if "func.func" in line else ():
            head = line[: found.start()] + line[found.end() :]
            name, type_ = found.groups()
            for number in NUMBERS if type_[0] != "f" and type_ != "bf16" else FLOATS:
                made = f"{name} = arith.constant {number} : {type_}"
                yield [
                    *lines[:n],
                    head.replace("(, ", "(").replace(", )", ")"),
                    made,
                    *lines[n + 1 :],
                ]


_SCALAR = re.compile(r"(%\w+)\s*:\s*(index|[su]?i\d+|f\d+|bf16)\s*,?\s*")
FLOATS = (
    "0.0",
    "-0.0",
    "1.0e38",
    "1.0e-45",
    "65505.0",
    "0x7F800000",
    "0x7C00",
    "0x7FC00001",
    "-1.5",
)


def _lines(lines: list[str], at: int, rng: Random) -> Iterator[list[str]]:
    """Without each line, with it twice, before its neighbour; and the statement in each region."""
    for n in range(len(lines)):
        yield lines[:n] + lines[n + 1 :]
        yield lines[:n] + lines[n : n + 1] + lines[n:]
        yield lines[:n] + lines[n : n + 2][::-1] + lines[n + 2 :]
    for before, after in REGIONS:
        yield [*lines[:at], before, lines[at], after, *lines[at + 1 :]]
        yield [*lines[:at], before, lines[at], lines[at], after, *lines[at + 1 :]]


_BOUNDS = "".join(f"%zz{n} = arith.constant {n} : index\n" for n in (0, 1, 3))
REGIONS = (
    ("pto.vecscope {", "}"),
    ("pto.strict_vecscope() {", "} : () -> ()"),
    ("pto.section.cube {", "}"),
    ("pto.section.vector {", "}"),
    (f"{_BOUNDS}scf.for %zz = %zz0 to %zz3 step %zz1 {{", "}"),
    (f"{_BOUNDS}scf.for %zz = %zz3 to %zz0 step %zz1 {{", "}"),
    (f"{_BOUNDS}scf.for %zz = %zz0 to %zz3 step %zz1 {{\npto.vecscope {{", "}\n}"),
    ("%zt = arith.constant true\nscf.if %zt {", "} else {\n}"),
    ("%zt = arith.constant false\nscf.while : () -> () {\nscf.condition(%zt)\n} do {", "scf.yield\n}"),
    ("%zt = arith.constant 1 : index\nscf.index_switch %zt case 1 {", "scf.yield\n} default {\n}"),
    ("pto.fusion_region {", "pto.yield\n}"),
    ("scf.execute_region {", "scf.yield\n}"),
    ("return\n}\nfunc.func @zz() {", "return\n}\nfunc.func @zy() {"),
    ("return\n}\nfunc.func @zz() attributes {pto.simt_entry} {", ""),
)  # fmt: skip
"""What opens and closes a region around a statement."""

SWEEPS: dict[str, Callable[[str, Random], Iterable[str]]] = {
    "numbers": _numbers,
    "attributes": _attributes,
    "tokens": _tokens,
    "characters": _characters,
    "strange": _strange,
}
"""Changes of a statement."""
FILES = "files"
"""The sweep of the texts that are no programs."""
ALL = "commands"
"""The sweep that changes nothing, and tries every command."""
TEXTS: dict[str, Callable[[list[str], int, Random], Iterable[list[str]]]] = {
    "types": _types,
    "arguments": _arguments,
    "lines": _lines,
    ALL: lambda lines, at, rng: [lines],
}
KINDS = (*SWEEPS, *TEXTS, FILES)
"""Changes of a statement of a text, of the whole text, or of a file of another kind."""


def swept(kind: str, seeds: list[Seed], rng: Random) -> Iterator[Case]:
    """The changed texts of a sweep, statements in an order of chance."""
    if kind == FILES:
        yield from _files(rng)
        return
    places = list(_places(seeds))
    rng.shuffle(places)
    for seed, known, at in places:
        for lines in _texts(kind, known, at, rng):
            content = "\n".join(lines).encode("utf-8", "replace")
            entry = rng.choice(names) if len(names := entries("\n".join(lines))) > 1 else None
            yield Case(content, "program", rng.choice(seed.targets), seed.compat, entry)


def _files(rng: Random) -> Iterator[Case]:
    """Each change of each line of a file that is no program, in an order of chance."""
    changes = list(SWEEPS.values())
    places = [
        (kind, lines, at, change)
        for kind, texts in kinds.TEXTS.items()
        for lines in (text.split("\n") for text in texts)
        for at in range(kinds.STEADY.get(kind, 0), len(lines))
        for change in changes
    ]
    rng.shuffle(places)
    for kind, lines, at, change in places:
        for line in change(lines[at], rng):
            text = "\n".join((*lines[:at], line, *lines[at + 1 :]))
            yield Case(kinds.content_of(kind, text), kind)


def _texts(kind: str, known: tuple[Statement, ...], at: int, rng: Random) -> Iterator[list[str]]:
    kept = with_needs(known, at)
    lines = [known[n].text for n in kept]
    if kind in TEXTS:
        yield from TEXTS[kind](lines, kept.index(at), rng)
        return
    for n, number in enumerate(kept):
        if number != at and (kind != "numbers" or "constant" not in lines[n]):
            continue  # a constant is a number of what needs it
        for line in SWEEPS[kind](lines[n], rng):
            yield [*lines[:n], line, *lines[n + 1 :]]


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
