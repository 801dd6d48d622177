"""Conversions of vector registers since August: which attributes each pair of types has, and every pair
with every rounding, saturation and part, against one number at a time."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest

import ptosim
from tests.ops.micro.data import lane, masks
from tests.oracle import lanes as one
from tests.oracle import numerics
from tests.oracle.lanes import Pattern
from tests.support.micro import Lanes, mask_type

pytestmark = pytest.mark.sampled(8)

BATCHES = 4
CODES = {"f8E4M3FN": 8, "f8E5M2": 8, "hif8": 8, "f4E1M2x2": 4, "f4E2M1x2": 4}
"""Bits of a number of the types that hold codes."""

# Source, destination, letters of the rounding (any: RAFCZO), whether it says how it saturates.
TABLE = """
f32 f8E4M3FN RAZ sat; f32 f8E5M2 RAZ sat; f32 hif8 A sat; f32 f16 any sat; f32 bf16 any sat;
f32 si16 any sat; f32 si64 any sat; f32 si32 any sat;
f16 f8E4M3FN RAFZC sat; f16 f8E5M2 RAFZC sat; f16 hif8 A sat; f16 f32; f16 si32 any; f16 si16 any sat;
f16 si8 any sat; f16 ui8 any sat;
bf16 f8E4M3FN RAFZC sat; bf16 f8E5M2 RAFZC sat; bf16 f4E1M2x2 RAFZC; bf16 f4E2M1x2 RAFZC;
bf16 f16 any sat; bf16 f32; bf16 si32 any sat;
ui8 f16; ui8 ui16; ui8 ui32; si8 f16; si8 si16; si8 si32;
ui16 ui32; si16 f32; si16 ui32; si16 si32; si16 f16 any; ui16 ui8 sat; si16 ui8 sat;
ui32 ui8 sat; ui32 ui16 sat; ui32 si16 sat; si32 ui8 sat; si32 ui16 sat; si32 si16 sat; si32 f32 any;
si32 si64; si64 f32 any; si64 si32 sat;
f8E4M3FN f32; f8E5M2 f32; hif8 f32; f4E1M2x2 bf16; f4E2M1x2 bf16"""
PAIRS = [" ".join(entry.split()) for entry in TABLE.split(";")]


def width(name: str) -> int:
    """Bytes of a lane."""
    return 1 if name in CODES else one.bits_of(name) // 8


def register_type(name: str) -> str:
    elem = f"!pto.{name}" if name in ("hif8", "f4E1M2x2", "f4E2M1x2") else name
    return f"!pto.vreg<{256 // width(name)}x{elem}>"


def parts(src: str, dst: str) -> list[str | None]:
    narrow, wide = sorted(CODES.get(n) or one.bits_of(n) for n in (src, dst))
    return {1: [None], 2: ["EVEN", "ODD"], 4: ["P0", "P1", "P2", "P3"]}[wide // narrow]


def read(entry: str) -> tuple[str, str, str, bool]:
    """Source, destination, letters, whether there is a saturation."""
    src, dst, *words = entry.split()
    letters = "".join("RAFCZO" if w == "any" else w for w in words if w != "sat")
    return src, dst, letters, "sat" in words


def attributes(letter: str | None, sat: str | None, part: str | None) -> str:
    named = [("rnd", letter), ("sat", sat), ("part", part)]
    text = ", ".join(f'{name} = "{value}"' for name, value in named if value)
    return f" {{{text}}}" if text else ""


# -- one number ------------------------------------------------------------------------------------


def _values(name: str) -> list[tuple[Fraction, int]]:
    """Non-negative finite values of a format of codes in rising order, with their codes."""
    top = 0x80 if CODES.get(name) != 4 else 8
    form = {"f4E1M2x2": "f4E1M2FN", "f4E2M1x2": "f4E2M1FN"}.get(name, name)
    decoded = [(numerics.decode(c, form), c) for c in range(top)]
    return sorted((v, c) for v, c in decoded if not isinstance(v, str))


_LADDERS = {name: _values(name) for name in CODES}
_INFINITE = {"f8E4M3FN": 0x7F, "f8E5M2": 0x7C, "hif8": 0x6F}
_NAN = {"f8E4M3FN": (0x7F, 0xFF), "f8E5M2": (0x7E, 0xFE), "hif8": (0x80, 0x80)}
_NEXT = {"f8E4M3FN": 480, "f8E5M2": 65536, "hif8": 49152, "f4E1M2x2": 2, "f4E2M1x2": 8}
"""The value that would follow the largest."""


def to_code(value: numerics.Value, name: str, letter: str, saturate: bool) -> int:
    """The code of a number: found by going through all values of the format."""
    four = CODES[name] == 4
    negative = one.is_negative(value)
    if one.is_nan(value):
        return 0 if saturate or four else _NAN[name][negative]
    ladder, sign = _LADDERS[name], 8 if four else 0x80
    largest = ladder[-1][1]
    beyond = largest if saturate or four else _INFINITE[name]
    magnitude = one.finite(value)
    if magnitude is None:
        return beyond | sign * negative
    steps = [*ladder, (Fraction(_NEXT[name]), beyond)]
    code = _chosen(abs(magnitude), steps, letter, negative)
    return 0 if name == "hif8" and code == 0 else code | sign * negative


def _chosen(size: Fraction, steps: list, letter: str, negative: bool) -> int:
    above = next((i for i, (v, _) in enumerate(steps) if v >= size), len(steps) - 1)
    if steps[above][0] == size:
        return steps[above][1] if above < len(steps) - 1 or letter in "RA" else _away(steps, letter, negative)  # fmt: skip
    if size > steps[-1][0]:
        return steps[-1][1] if letter in "RA" else _away(steps, letter, negative)
    low, high = steps[above - 1], steps[above]
    if letter in "RA":
        twice = 2 * size - low[0] - high[0]
        even = low[1] % 2 == 0
        down = twice < 0 or (twice == 0 and letter == "R" and even)
        return (low if down else high)[1]
    up = {"F": negative, "C": not negative, "Z": False}[letter]
    return (high if up else low)[1]


def _away(steps: list, letter: str, negative: bool) -> int:
    up = {"F": negative, "C": not negative, "Z": False}[letter]
    return steps[-1 if up else -2][1]


def from_code(code: int, name: str, dst: str) -> Pattern:
    value = numerics.decode(code, name)
    return None if one.is_nan(value) else numerics.encode_exact(value, dst)


# -- one register ----------------------------------------------------------------------------------


def expected(
    data: bytes, mask: one.Bits, src: str, dst: str, letter: str, sat: bool, part: str | None
) -> list[Pattern]:
    """The lanes of the result: those of 4 bits, two a byte, are converted one nibble after the other."""
    k = {None: 0, "EVEN": 0, "ODD": 1, "P0": 0, "P1": 1, "P2": 2, "P3": 3}[part]
    on = one.active(mask, width(src))
    lanes = one.split(data, width(src))
    lanes = [lane if active else 0 for lane, active in zip(lanes, on, strict=True)]
    result: list[Pattern] = [0] * (256 // width(dst))
    if CODES.get(dst) == 4:
        for j in range(64):
            low, high = (
                to_code(one.read(lanes[2 * j + i], src), dst, letter, True) for i in (0, 1)
            )
            result[4 * j + k] = low | high << 4
        return result
    if CODES.get(src) == 4:
        form = {"f4E1M2x2": "f4E1M2FN", "f4E2M1x2": "f4E2M1FN"}[src]
        for j in range(64):
            byte = lanes[4 * j + k]
            result[2 * j] = from_code(byte & 15, form, dst)
            result[2 * j + 1] = from_code(byte >> 4, form, dst)
        return result
    step = max(width(src), width(dst)) // min(width(src), width(dst))
    for i in range(256 // max(width(src), width(dst))):
        source = step * i + k if width(dst) > width(src) else i
        target = step * i + k if width(dst) < width(src) else i
        if on[source]:
            result[target] = _converted(lanes[source], src, dst, letter, sat)
    return result


def _converted(lane: int, src: str, dst: str, letter: str, sat: bool) -> Pattern:
    if dst in CODES:
        return to_code(one.read(lane, src), dst, letter, sat)
    if src in CODES:
        return from_code(lane, src, dst)
    return one.convert(lane, src, dst, letter, saturate=sat)


def _register(rng: random.Random, name: str) -> bytes:
    """Codes of every kind; of wider types also values near the range of the codes."""
    if name in CODES:
        return rng.randbytes(256)
    lanes = []
    for _ in range(256 // width(name)):
        if one.is_float(name) and rng.random() < 0.5:
            near = rng.choice(_LADDERS[rng.choice(list(CODES))])[0]
            near += rng.choice((0, 0, 1, -1)) * near / rng.choice((8, 16, 32, 1 << 12))
            pattern = one.pack(near, name)
            lanes.append((pattern or 0) | rng.getrandbits(1) << (8 * width(name) - 1))
        else:
            lanes.append(lane(rng, name))
    return one.join(lanes, width(name))


@pytest.mark.sampled(3, 25)
@pytest.mark.parametrize("entry", PAIRS)
def test_every_pair(entry):
    src, dst, letters, saturates = read(entry)
    rng = random.Random(entry)
    a, m = [_register(rng, src) for _ in range(BATCHES)], masks(entry, width(src), BATCHES)
    bits = 8 * min(width(src), 4)
    cases = [
        (letter, sat, part)
        for letter in letters or [None]
        for sat in (("SAT", "NOSAT") if saturates else (None,))
        for part in parts(src, dst)
    ]
    program = Lanes().input("w", "ui8", a).mask("m", bits, m)
    lines = [f"%a = pto.vbitcast %w : !pto.vreg<256xui8> -> {register_type(src)}"]
    for number, case in enumerate(cases):
        program.result(f"r{number}", "ui8")
        lines += [
            f"%q{number} = pto.vcvt %a, %m{attributes(*case)} : {register_type(src)}, "
            f"{mask_type(bits)} -> {register_type(dst)}",
            f"%r{number} = pto.vbitcast %q{number} : {register_type(dst)} -> !pto.vreg<256xui8>",
        ]
    found = program.run(*lines)
    for number, (letter, sat, part) in enumerate(cases):
        for batch in range(BATCHES):
            want = expected(
                a[batch], one.mask_bits(m[batch]), src, dst, letter or "R", sat != "NOSAT", part
            )
            got = one.split(found[f"r{number}"][batch], width(dst))
            for i, (g, w) in enumerate(zip(got, want, strict=True)):
                nan = w is None and one.is_nan(one.read(g, dst))
                assert g == w or nan, f"{letter} {sat} {part} batch {batch} lane {i}: {g:#x}, {w}"


# -- special values, as the specification states them ----------------------------------------------

F32 = {
    "inf": 0x7F800000, "-inf": 0xFF800000, "nan": 0x7FC00000, "-nan": 0xFFC00000, "1e9": 0x4E6E6B28,
    "-1e9": 0xCE6E6B28, "-0": 0x80000000, "448": 0x43E00000, "1": 0x3F800000,
}  # fmt: skip
SPECIAL = {
    ("f8E4M3FN", "R", "SAT"): "7E FE 00 00 7E FE 80 7E 38",
    ("f8E4M3FN", "R", "NOSAT"): "7F FF 7F FF 7F FF 80 7E 38",
    ("f8E5M2", "R", "SAT"): "7B FB 00 00 7B FB 80 5F 3C",
    ("f8E5M2", "R", "NOSAT"): "7C FC 7E FE 7C FC 80 5F 3C",
    ("hif8", "A", "NOSAT"): "6F EF 80 80 6F EF 00 62 08",
}


@pytest.mark.parametrize("case", SPECIAL, ids=lambda c: "-".join(c))
def test_special_values(case):
    """SAT: the largest, NaN 0. NOSAT: f8E4M3 NaN, f8E5M2 and hif8 infinities; hif8 has no -0."""
    dst, letter, sat = case
    a = one.join([*F32.values(), *[0] * (64 - len(F32))], 4)
    out = _one_conversion("f32", a, dst, letter, sat, "P1")
    assert out[1 : 4 * len(F32) : 4] == bytes.fromhex(SPECIAL[case])
    assert not any(out[0::4] + out[2::4] + out[3::4])


@pytest.mark.parametrize(("code", "letter", "skips"), [("f8E5M2", "R", {0x7D, 0x7E, 0x7F, 0xFD, 0xFE, 0xFF}), ("f8E4M3FN", "R", set()), ("hif8", "A", set())])  # fmt: skip
def test_codes_come_back(code, letter, skips):
    """Without saturation every code that is no NaN goes to f32 and back; NaN of f8E4M3 and hif8 too."""
    back = bytearray(256)
    for part in range(4):
        wide = _one_conversion(code, bytes(range(256)), "f32", None, None, f"P{part}")
        narrow = _one_conversion("f32", wide, code, letter, "NOSAT", f"P{part}")
        back[part::4] = narrow[part::4]
    assert {i for i in range(256) if back[i] != i} <= skips


def _one_conversion(
    src: str, data: bytes, dst: str, letter: str | None, sat: str | None, part: str | None
) -> bytes:
    bits = 8 * min(width(src), 4)
    return (
        Lanes().input("w", "ui8", [data]).mask("m", bits, [b"\xff" * 32]).result("r", "ui8")
        .run(
            f"%a = pto.vbitcast %w : !pto.vreg<256xui8> -> {register_type(src)}",
            f"%q = pto.vcvt %a, %m{attributes(letter, sat, part)} : {register_type(src)}, "
            f"{mask_type(bits)} -> {register_type(dst)}",
            f"%r = pto.vbitcast %q : {register_type(dst)} -> !pto.vreg<256xui8>",
        )
    )["r"][0]  # fmt: skip


# -- which attributes ------------------------------------------------------------------------------


def _findings(src: str, dst: str, attrs: str) -> list[str]:
    bits = mask_type(8 * min(width(src), 4))
    text = Lanes().input("w", "ui8", [bytes(256)]).mask("m", 8, [bytes(32)]).text(
        f"%a = pto.vbitcast %w : !pto.vreg<256xui8> -> {register_type(src)}",
        f"%k = pto.pbitcast %m : !pto.mask<b8> -> {bits}",
        f"%q = pto.vcvt %a, %k{attrs} : {register_type(src)}, {bits} -> {register_type(dst)}",
    )  # fmt: skip
    return [d.message for d in ptosim.check(text) if d.severity.word == "error"]


@pytest.mark.sampled(3, 25)
@pytest.mark.parametrize("entry", PAIRS)
def test_attributes_of_a_pair(entry):
    """Each that the pair takes must be there, each other must not."""
    src, dst, letters, saturates = read(entry)
    rnd, sat = (letters[0] if letters else None), ("SAT" if saturates else None)
    part = parts(src, dst)[0]
    assert _findings(src, dst, attributes(rnd, sat, part)) == []
    for name, value, wrong in (("rnd", rnd, "R"), ("sat", sat, "SAT"), ("part", part, "EVEN")):
        given = {"rnd": rnd, "sat": sat, "part": part}
        given[name] = None if value else wrong
        (message,) = _findings(src, dst, attributes(*given.values()))
        says = f"requires {name} attr" if value else f"{name} attr is not valid"
        assert f"{says} for this vcvt type pair" in message
    if part is not None:
        other, text = {
            "EVEN": ("P0", "part must be EVEN or ODD for 8/16 and 16/32 vcvt forms"),
            "P0": ("ODD", "part must be P0, P1, P2, or P3 for packed vcvt forms"),
        }[part]
        (message,) = _findings(src, dst, attributes(rnd, sat, other))
        assert text in message


@pytest.mark.parametrize("src", ["f32", "f16", "bf16", "si32", "ui32", "si16", "ui16", "si8", "ui8", "hif8", "si64"])  # fmt: skip
def test_other_pairs_are_refused(src):
    known = {tuple(entry.split()[:2]) for entry in PAIRS}
    for dst in ("f32", "f16", "bf16", "si64", "si32", "ui32", "si16", "ui16", "si8", "ui8", *CODES):
        if dst != src and (src, dst) not in known:
            (message,) = _findings(src, dst, "")
            assert "a pair that the vector unit converts" in message


@pytest.mark.parametrize(
    "attrs",
    [
        'rnd = "ROUND_R", sat = "RS_ENABLE", part = "PART_EVEN"',
        'round_mode = "R", sat = "SAT", part = "EVEN"',
        'rnd = #pto<vcvt_round R>, sat = "RS_DISABLE", part = "PART_ODD"',
    ],
)
def test_other_spellings(attrs):
    assert _findings("f32", "f16", f" {{{attrs}}}") == []


def test_hybrid_rounding_is_read_and_not_executed():
    text = _findings("f32", "hif8", ' {rnd = "H", sat = "SAT", part = "P0"}')
    assert text == []
    with pytest.raises(ptosim.ProgramError, match="hybrid"):
        _one_conversion("f32", bytes(256), "hif8", "H", "SAT", "P0")
