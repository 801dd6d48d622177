"""Lanes for tests: random patterns, the special ones of each type, masks of every kind."""

from __future__ import annotations

import random

from tests.oracle.lanes import bits_of, image, is_float, join, mask_bytes, split
from tests.oracle.numerics import FORMATS
from tests.support.micro import mask_type, vreg

_FLOAT_SPECIALS = {
    # ±0, ±1, ±2, smallest and largest subnormal, smallest normal, largest, ±inf, NaN, near the halves
    "f32": "00000000 80000000 3F800000 BF800000 40000000 00000001 807FFFFF 00800000 7F7FFFFF FF7FFFFF "
    "7F800000 FF800000 7FC00000 FFC00001 3F000000 BF000000 3EFFFFFF 477FE000 477FF000 C77FF000 "
    "33000000 33000001 4F000000 CF000000 41200000 C2D00000 42B40000 3FC00000 BFC00000 40200000",
    "f16": "0000 8000 3C00 BC00 4000 0001 83FF 0400 7BFF FBFF 7C00 FC00 7E00 FE01 3800 B800 37FF 5BFF "
    "DC00 4A00 CA00 3E00 BE00 4100",
    "bf16": "0000 8000 3F80 BF80 4000 0001 807F 0080 7F7F FF7F 7F80 FF80 7FC0 FFC1 3F00 BF00 3EFF 4F00 "
    "CF00 4120 3FC0 BFC0 4020",
}


def specials(name: str) -> list[int]:
    if is_float(name):
        return [int(word, 16) for word in _FLOAT_SPECIALS[name].split()]
    bits = bits_of(name)
    top = 1 << (bits - 1)
    return [0, 1, 2, 3, bits - 1, bits, bits + 1, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2]


def lane(rng: random.Random, name: str) -> int:
    """A pattern: a third special, of the floats a third of moderate size."""
    kind = rng.random()
    if kind < 0.3:
        return rng.choice(specials(name))
    bits = bits_of(name)
    if is_float(name) and kind < 0.65:
        form = FORMATS[name]
        exponent = form.bias + rng.randint(-4, 4)
        mantissa = rng.getrandbits(form.mantissa_bits)
        return rng.getrandbits(1) << (bits - 1) | exponent << form.mantissa_bits | mantissa
    return rng.getrandbits(bits)


def register(rng: random.Random, name: str) -> bytes:
    width = bits_of(name) // 8
    return join([lane(rng, name) for _ in range(256 // width)], width)


def registers(seed: int | str, name: str, count: int) -> list[bytes]:
    rng = random.Random(f"{seed}|{name}")
    return [register(rng, name) for _ in range(count)]


def masks(seed: int | str, width: int, count: int) -> list[bytes]:
    """All, none, one lane, the first lanes, then random lanes with rubbish between their bits."""
    rng = random.Random(f"{seed}|mask|{width}")
    lanes = 256 // min(width, 4)
    made = [
        mask_bytes(image([1] * lanes, width)),
        bytes(32),
        mask_bytes(image([int(i == 5) for i in range(lanes)], width)),
        mask_bytes(image([int(i < lanes // 3) for i in range(lanes)], width)),
    ]
    while len(made) < count:
        made.append(rng.randbytes(32))
    return made[:count]


def same(found: bytes, expected: list[int | None], name: str) -> str | None:
    """What differs between a register and expected lanes (None: any NaN); None if nothing does."""
    width = bits_of(name) // 8
    for i, (got, want) in enumerate(zip(split(found, width), expected, strict=True)):
        if want is None:
            form = FORMATS[name]
            top = ((1 << form.exponent_bits) - 1) << form.mantissa_bits
            if (got & ((1 << (form.bits - 1)) - 1)) <= top:
                return f"lane {i}: {got:#x} is no NaN"
        elif got != want:
            return f"lane {i}: {got:#x}, expected {want:#x}"
    return None


SIZE = 4096
DATA = 0  # what is loaded
MASK = 1024  # the image of a predicate
OUT = 2048


def memory(seed: object) -> bytearray:
    """UB with the random bytes of a seed."""
    return bytearray(random.Random(f"{seed}|ub").randbytes(SIZE))


def full(elem: str) -> str:
    """The line that makes the mask of all lanes."""
    bits = min(bits_of(elem), 32)
    return f'%full = pto.pset_b{bits} "PAT_ALL" : {mask_type(bits)}'


def stored(name: str, elem: str, at: int) -> str:
    """A store of a whole register at a byte address."""
    return (
        f"pto.vsts %{name}, %{elem}[{at // (bits_of(elem) // 8)}], %full : {vreg(elem)}, "
        f"!pto.ptr<{elem}, ub>, {mask_type(min(bits_of(elem), 32))}"
    )


def shown_by_vector_cores(ub: str, size: int) -> str:
    """The end of a section of the cube core and of its function: both vector cores wait for it, and
    each stores what it has in UB after that of the other; `%n` is the size."""
    return f"""\
      pto.sync.set <PIPE_FIX>, 0
      pto.sync.set <PIPE_FIX>, 16
    }}
    pto.section.vector {{
      pto.sync.wait <PIPE_V>, 0
      %sub = pto.get_subblock_idx
      %i = arith.index_cast %sub : i64 to index
      %first = arith.muli %i, %n : index
      %out = pto.addptr %o, %first : !pto.ptr<ui8> -> !pto.ptr<ui8>
      pto.mte_ub_gm {ub}, %out, {size} nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>
    }}
    return
  }}"""
