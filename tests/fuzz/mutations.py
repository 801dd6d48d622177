"""Changes of program texts: of tokens, of lines, and of the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from random import Random

Mutation = Callable[[str, Random, Sequence[str]], str]
"""A text, and other texts to take from, to a changed text."""

TOKEN = re.compile(
    r"\s+|//[^\n]*|\"[^\"\n]*\"|![\w.]+|#[\w.]+|%[\w$.\-#]+|@[\w.]+|\^\w+|->"
    r"|-?\d[\w.]*(?:[eE][+-]?\d+)?|[A-Za-z_][\w.]*|.",
    re.DOTALL,
)
KINDS = (
    re.compile(r"%[\w$.\-#]+"),
    re.compile(r"![\w.]+"),
    re.compile(r"#[\w.]+"),
    re.compile(r"-?\d.*"),
    re.compile(r"\w+\.[\w.]+"),
    re.compile(r"[A-Za-z_]\w*"),
    re.compile(r'"[^"\n]*"'),
)
"""Tokens that take each other's place: values, types, attributes, numbers, operations, words."""
NUMBERS = (
    "0", "-1", "1", "2", "7", "63", "65537", "2147483648", "-2147483649", "4294967296", "1e400",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "99999999999999999999999",
    "0x7FC00000", "0xFFFFFFFFFFFFFFFFFF", "-0.0", "1.0e-45", "0.5", "nan", "inf", "9" * 400, "9" * 4500,
    "1_000", "0b1", "00", "٣", "²", "1.2.3", "-", "?", "1024", "16", "48", "3", "true",
)  # fmt: skip
STRANGE = (
    "\0", "\ufeff", "\u2028", "\u200b", "é", "名", "🙂", "\x0b", "\x0c", "\x85", "\x1a", "\t", "\\",
    "'", '"', '"""', "`", "%", "%%", "#", "#pto", "#pto<", "!", "!pto", "!pto.", "@", '@"', "^", "^bb0:",
    "$", "->", "<", ">", "<<<", ">>>", "{", "}", "(", ")", "[", "]", ",", "=", ":", "::", "//", "/*",
    "dense<", "array<i64:", "affine_map<(d0) -> (d0)>", "loc(", "//--- x.pto\n", "else", "%0:2", "%a#1",
    "!quant.uniform<i8:f32, 1.0>", "vector<", "tensor<*xf32>", "memref<?x", "!pto.ptr<", "none", "-0x1",
    "{a = 1}", "unit", "f8E4M3FN", "i0", "i99999", "f128", "index", "0xfx1", "?x?xf32", "32x64xf32",
)  # fmt: skip
BRACKETS = ("()", "[]", "{}", "<>")


def tokens(text: str) -> list[str]:
    """Return the tokens of a text, blanks and comments among them; joined they are the text."""
    return TOKEN.findall(text)


def mutated(text: str, rng: Random, others: Sequence[str]) -> str:
    """Return the text after one to four changes."""
    for _ in range(rng.choice((1, 1, 1, 2, 2, 3, 4))):
        change = rng.choices(_CHANGES, _WEIGHTS)[0]
        text = change(text, rng, others)
    return text


def thinned(text: str, rng: Random, kept: float) -> str:
    """Return the text with only a share of the lines that neither open, close nor define."""
    lines = text.split("\n")
    structure = re.compile(r"[{}=]|^\s*(?:return|func|//)")
    return "\n".join(x for x in lines if structure.search(x) or rng.random() < kept)


def _places(words: Sequence[str]) -> list[int]:
    return [i for i, w in enumerate(words) if not w.isspace() and not w.startswith("//")] or [0]


def _on_tokens(change: Callable[[list[str], Random], None]) -> Mutation:
    def changed(text: str, rng: Random, others: Sequence[str]) -> str:
        words = tokens(text) or [" "]
        change(words, rng)
        return "".join(words)

    return changed


def _on_lines(change: Callable[[list[str], Random], None]) -> Mutation:
    def changed(text: str, rng: Random, others: Sequence[str]) -> str:
        lines = text.split("\n")
        change(lines, rng)
        return "\n".join(lines)

    return changed


def _delete(parts: list[str], rng: Random) -> None:
    at = rng.choice(_places(parts))
    del parts[at : at + rng.choice((1, 1, 1, 2, 3, 8))]


def _double(parts: list[str], rng: Random) -> None:
    at = rng.choice(_places(parts))
    count = rng.choice((1, 1, 2, 5))
    parts[at:at] = parts[at : at + count] * rng.choice((1, 1, 2, 40))


def _swap(parts: list[str], rng: Random) -> None:
    one, other = rng.choice(_places(parts)), rng.choice(_places(parts))
    parts[one], parts[other] = parts[other], parts[one]


def _same_kind(words: list[str], rng: Random) -> None:
    """Another value, type, number, operation or word of the text in the place of one."""
    at = rng.choice(_places(words))
    kind = next((k for k in KINDS if k.fullmatch(words[at])), None)
    if kind is not None:
        words[at] = rng.choice([w for w in words if kind.fullmatch(w)])


def _number(words: list[str], rng: Random) -> None:
    known = [i for i, w in enumerate(words) if w[0].isdigit() or (w[0] == "-" and w != "->")]
    words[rng.choice(known or _places(words))] = rng.choice(NUMBERS)


def _dimension(words: list[str], rng: Random) -> None:
    """A number inside a shape (`32x64xf32` is one token)."""
    known = [i for i, w in enumerate(words) if re.match(r"\d+x", w)]
    if known:
        at = rng.choice(known)
        parts = words[at].split("x")
        parts[rng.randrange(len(parts))] = rng.choice((*NUMBERS, "f16", "i8", "f32", "", "i4"))
        words[at] = "x".join(parts)


def _strange(words: list[str], rng: Random) -> None:
    at = rng.choice(_places(words))
    words[at : at + rng.randrange(2)] = [rng.choice(STRANGE)]


def _nest(words: list[str], rng: Random) -> None:
    at = rng.choice(_places(words))
    depth = rng.choice((1, 2, 30, 255, 300, 3000))
    opening, closing = rng.choice(BRACKETS)
    if words[at].endswith("ptr") or rng.random() < 0.2:
        opening, closing = "!pto.ptr<", ">"
    words[at] = opening * depth + words[at] + (closing * depth if rng.random() < 0.8 else "")


def _without_group(words: list[str], rng: Random) -> None:
    """Drop what is between a bracket and the next one that closes, or only the brackets."""
    known = [i for i, w in enumerate(words) if w in ("(", "[", "{", "<")]
    if not known:
        return
    start = rng.choice(known)
    closing = {"(": ")", "[": "]", "{": "}", "<": ">"}[words[start]]
    end = next((i for i in range(start, len(words)) if words[i] == closing), len(words) - 1)
    keeps = rng.random() < 0.5
    words[start : end + 1] = words[start + 1 : end] if keeps else []


def _foreign_line(text: str, rng: Random, others: Sequence[str]) -> str:
    lines, taken = text.split("\n"), rng.choice(others).split("\n")
    at = rng.randrange(len(lines) + 1)
    lines[at:at] = [rng.choice(taken)]
    return "\n".join(lines)


def _foreign_token(text: str, rng: Random, others: Sequence[str]) -> str:
    words = tokens(text) or [" "]
    at = rng.choice(_places(words))
    kind = next((k for k in KINDS if k.fullmatch(words[at])), KINDS[-2])
    known = [w for w in tokens(rng.choice(others)) if kind.fullmatch(w)]
    words[at] = rng.choice(known or STRANGE)
    return "".join(words)


def _cut(text: str, rng: Random, others: Sequence[str]) -> str:
    at = rng.randrange(len(text) + 1)
    return text[:at] if rng.random() < 0.7 else text[at:]


def _line_ends(text: str, rng: Random, others: Sequence[str]) -> str:
    return text.replace("\n", rng.choice(("\r\n", "\r", "\n\n", "\u2028", " ")))


_WEIGHTED: tuple[tuple[int, Mutation], ...] = (
    (8, _on_tokens(_delete)),
    (4, _on_tokens(_double)),
    (4, _on_tokens(_swap)),
    (14, _on_tokens(_same_kind)),
    (10, _on_tokens(_number)),
    (5, _on_tokens(_dimension)),
    (6, _on_tokens(_strange)),
    (2, _on_tokens(_nest)),
    (4, _on_tokens(_without_group)),
    (6, _on_lines(_delete)),
    (4, _on_lines(_double)),
    (4, _on_lines(_swap)),
    (8, _foreign_line),
    (8, _foreign_token),
    (1, _cut),
    (1, _line_ends),
)
_WEIGHTS = [weight for weight, _ in _WEIGHTED]
_CHANGES = [change for _, change in _WEIGHTED]
