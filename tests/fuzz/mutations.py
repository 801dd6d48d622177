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
    "\x1b]0;t\x07", "\x1b[31m", "\x9b31m", "\r", "\u202e", "\\1B", "\\u001b", "\0", "\ufeff", "\u2028", "\u200b", "é", "名", "🙂", "\x0b", "\x0c", "\x85", "\x1a", "\t", "\\",
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


def mutated_bytes(content: bytes, rng: Random) -> bytes:
    """Return bytes after one to four changes."""
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 3, 4))):
        at = rng.randrange(len(data) + 1)
        count = rng.choice((1, 1, 2, 4, 16, 64))
        match rng.randrange(6):
            case 0:
                data[at : at + count] = rng.randbytes(count)
            case 1:
                del data[at : at + count]
            case 2:
                data[at:at] = data[at : at + count] * rng.choice((1, 2, 50))
            case 3 if data:
                data[at % len(data)] ^= 1 << rng.randrange(8)
            case 4:
                data[at : at + count] = rng.choice(_BYTES)
            case _:
                del data[at:]
    return bytes(data)


_BYTES = (
    b"\0\0\0\0", b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"(True, 8)", b"(-1,)",
    b"'|O'", b"'<M8[s]'", b"99999999999999", b"1e999", b"null", b"[[[[", b"{", b"\r\n\r\n",
    b"Content-Length: 5\r\n\r\n", b"Content-Length: 999999999999\r\n\r\n", b"\xc3\x28", b"\xed\xa0\x80",
)  # fmt: skip


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


# -- changes that most often leave a program one that runs ----------------------------------------


def nudged(text: str, rng: Random, others: Sequence[str]) -> str:
    """Return the text after one or two changes of a kind after which programs often still run."""
    for _ in range(rng.choice((1, 1, 2))):
        change = rng.choices(_NUDGES, _NUDGE_WEIGHTS)[0]
        text = change(text, rng, others)
    return text


def _constant(words: list[str], rng: Random) -> None:
    """Another number where a constant is defined."""
    known = [i + 2 for i in range(len(words) - 2) if words[i] == "arith.constant"]
    known = [i for i in known if words[i][:1].isdigit() or words[i][:1] == "-"]
    if not known:
        return
    at = rng.choice(known)
    old = words[at]
    if "." in old or "e" in old.lower():
        words[at] = rng.choice(
            ("0.0", "-0.0", "1.0", "-3.5", "1.0e30", "1.0e-30", "65504.0", "0.1")
        )
    else:
        words[at] = rng.choice(("0", "1", "2", "3", "8", "16", "31", "64", "-1", "128", "100"))


def _other_operation(words: list[str], rng: Random) -> None:
    """An operation that takes the same operands in the place of one."""
    known = [i for i, w in enumerate(words) if w in _ALIKE]
    if known:
        at = rng.choice(known)
        words[at] = rng.choice(_ALIKE[words[at]])


def _families(*families: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for family in families:
        names = family.split()
        found |= dict.fromkeys(names, names)
    return found


_ALIKE = _families(
    "pto.tadd pto.tsub pto.tmul pto.tmax pto.tmin pto.tdiv pto.tand pto.tor pto.txor pto.trem",
    "pto.tadds pto.tsubs pto.tmuls pto.tdivs pto.tmaxs pto.tmins pto.tands pto.tors",
    "pto.tabs pto.texp pto.tlog pto.tsqrt pto.trsqrt pto.tneg pto.trelu pto.trecip pto.tmov pto.tnot",
    "pto.trowsum pto.trowmax pto.trowmin pto.tcolsum pto.tcolmax pto.tcolmin",
    "pto.trowexpandmul pto.trowexpandsub pto.trowexpandadd pto.trowexpanddiv pto.tcolexpandmul",
    "pto.vadd pto.vsub pto.vmul pto.vmax pto.vmin pto.vand pto.vor pto.vxor pto.vdiv",
    "pto.vabs pto.vneg pto.vexp pto.vln pto.vsqrt pto.vrelu pto.vnot pto.vrec",
    "pto.vmi.vadd pto.vmi.vsub pto.vmi.vmul pto.vmi.vmax pto.vmi.vmin pto.vmi.vdiv pto.vmi.vand",
    "pto.vmi.vabs pto.vmi.vneg pto.vmi.vexp pto.vmi.vsqrt pto.vmi.vrelu pto.vmi.vnot pto.vmi.vln",
    "arith.addi arith.subi arith.muli arith.minsi arith.maxsi arith.andi arith.ori arith.xori "
    "arith.divsi arith.remsi arith.shli arith.shrsi arith.ceildivsi arith.floordivsi",
    "arith.addf arith.subf arith.mulf arith.divf arith.maximumf arith.minimumf arith.remf",
    "PIPE_V PIPE_MTE1 PIPE_MTE2 PIPE_MTE3 PIPE_M PIPE_FIX PIPE_S PIPE_ALL",
    "EVENT_ID0 EVENT_ID1 EVENT_ID2 EVENT_ID7",
    "row_major col_major none_box", "true false", "eq ne slt sle sgt sge ult ugt",
    "pto.load pto.ldg", "pto.store pto.stg", "scf.if scf.if",
)  # fmt: skip


def _line_of(kind: re.Pattern[str]) -> Callable[[list[str], Random], int | None]:
    def find(lines: list[str], rng: Random) -> int | None:
        known = [i for i, line in enumerate(lines) if kind.search(line)]
        return rng.choice(known) if known else None

    return find


_any_work = _line_of(re.compile(r"^\s*pto\.(?!make|partition|alloc|section|vecscope)[^{]*$"))
_any_sync = _line_of(re.compile(r"pto\.(?:\w*flag|barrier|\w*_buf|sync|mem_bar|wait|set_|comm)"))


def _drop_work(lines: list[str], rng: Random) -> None:
    at = (_any_sync if rng.random() < 0.6 else _any_work)(lines, rng)
    if at is not None:
        del lines[at]


def _double_work(lines: list[str], rng: Random) -> None:
    at = _any_work(lines, rng)
    if at is not None:
        lines.insert(at, lines[at])


def _move_work(lines: list[str], rng: Random) -> None:
    """An operation one line up or down."""
    at = _any_work(lines, rng)
    if at is not None:
        other = min(max(at + rng.choice((-1, 1)), 0), len(lines) - 1)
        lines[at], lines[other] = lines[other], lines[at]


def _operands(words: list[str], rng: Random) -> None:
    """Two values of one line exchanged."""
    ends = [i for i, w in enumerate(words) if "\n" in w]
    start = rng.choice(ends or [0])
    end = next((i for i in ends if i > start), len(words))
    values = [i for i in range(start, end) if words[i].startswith("%")]
    if len(values) > 1:
        one, other = rng.sample(values, 2)
        words[one], words[other] = words[other], words[one]


def _target(text: str, rng: Random, others: Sequence[str]) -> str:
    return re.sub(r'"a(?:5|2a3)"', rng.choice(('"a5"', '"a2a3"')), text)


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
    depth = rng.choices((1, 2, 30, 255, 300, 3000), (40, 20, 10, 5, 5, 1))[0]
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
_NUDGED: tuple[tuple[int, Mutation], ...] = (
    (8, _on_tokens(_constant)),
    (8, _on_tokens(_other_operation)),
    (4, _on_tokens(_operands)),
    (5, _on_lines(_drop_work)),
    (3, _on_lines(_double_work)),
    (4, _on_lines(_move_work)),
    (1, _target),
)
_NUDGE_WEIGHTS = [weight for weight, _ in _NUDGED]
_NUDGES = [change for _, change in _NUDGED]
_WEIGHTS = [weight for weight, _ in _WEIGHTED]
_CHANGES = [change for _, change in _WEIGHTED]
