"""Element-wise operations: one instruction for each register of elements.

Each table names the instruction and the element types for which both levels give the same bytes.
Left out are, for instance, functions of f16 (rounded once in a tile, twice in a register). Maxima
and minima of floats are a comparison and a selection: a NaN wins in `vmax`, and in a tile it does
not. Tiles that are all column-major are written column by column."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptosim.ground.ir.core import Operand, Operation
from ptosim.ops.lower.operands import (
    NotExpandable,
    NotOfVectorUnit,
    TileUse,
    agree,
    expansion,
    extents,
    keep,
    row_major,
    scalar_of,
    tile,
    valid,
    word,
)
from ptosim.ops.lower.writer import Writer, bits, mask_of, vreg

Table = dict[str, tuple[str, str]]
Body = Callable[[Writer, list[str], str, str], str]
"""From loaded registers, mask and element type to the register that is stored."""
EXTREMES = {"vmax": "lt", "vmin": "gt", "vmaxs": "lt", "vmins": "gt"}
"""How the first operand compares with the second where the second is taken."""

_INTEGERS = "i8 i16 i32"
_WIDE = "i16 i32 f16 f32"
_ORDERED = _INTEGERS + " f16 f32"

PAIRS: Table = {
    "pto.tadd": ("vadd", "i8 i16 i32 f16 bf16 f32"), "pto.tsub": ("vsub", "i8 i16 i32 f16 f32"),
    "pto.tmul": ("vmul", _WIDE), "pto.tdiv": ("vdiv", _WIDE),
    "pto.tmax": ("vmax", _ORDERED), "pto.tmin": ("vmin", _ORDERED),
    "pto.tshl": ("vshl", _INTEGERS), "pto.tshr": ("vshr", _INTEGERS),
    "pto.tand": ("vand", _INTEGERS), "pto.tor": ("vor", _INTEGERS), "pto.txor": ("vxor", _INTEGERS),
}  # fmt: skip
SCALARS: Table = {
    "pto.tadds": ("vadds", "i8 i16 i32 f16 bf16 f32"),
    "pto.tsubs": ("vsubs", "i8 i16 i32 f16 bf16 f32"),
    "pto.tmuls": ("vmuls", "i16 i32 f16 bf16 f32"),
    "pto.tmaxs": ("vmaxs", _ORDERED), "pto.tmins": ("vmins", _ORDERED),
    "pto.tands": ("vands", _INTEGERS), "pto.tors": ("vors", _INTEGERS),
    "pto.txors": ("vxors", _INTEGERS),
}  # fmt: skip
SINGLES: Table = {
    "pto.tabs": ("vabs", "f16 f32"), "pto.tneg": ("vneg", "i8 i16 i32 f16 bf16 f32"),
    "pto.tnot": ("vnot", _INTEGERS), "pto.texp": ("vexp", "f32"), "pto.tlog": ("vln", "f32"),
    "pto.tsqrt": ("vsqrt", "f16 f32"), "pto.trecip": ("vrec", "f16 f32"),
}  # fmt: skip
FILLS: Table = {"pto.texpands": ("vdup", _WIDE + " i8")}
QUOTIENTS: Table = {"pto.tdivs": ("vdiv", _WIDE)}
CLIPPED: Table = {"pto.trelu": ("vcmps", "i32 f16 f32")}
ROOTS: Table = {"pto.trsqrt": ("vsqrt", "f16 f32")}
LEAKY: Table = {"pto.tlrelu": ("vmuls", "f32"), "pto.tprelu": ("vmul", "f16 f32")}
SHIFTS: Table = {"pto.tshls": ("vshls", _INTEGERS), "pto.tshrs": ("vshrs", _INTEGERS)}
REMAINDERS: Table = {
    f"pto.{word}{form}": (rounded, _WIDE)
    for word, rounded in (("trem", "F"), ("tfmod", "Z")) for form in ("", "s")
}  # fmt: skip
"""How the quotient is rounded to a whole number."""
MULTIPLIED: Table = {"pto.taxpy": ("vaxpy", "f16 f32")}
THREES = {
    "pto.taddc": ("src0", "vadd", "src1", "src2"), "pto.tsubc": ("src0", "vsub", "src1", "src2"),
    "pto.taddsc": ("src0", "vadds", "scalar", "src1"),
    "pto.tsubsc": ("src0", "vsubs", "scalar", "src1"),
}  # fmt: skip
"""The first two operands, with the instruction between them, and the one that is added then."""


def instruction(op: Operation, table: Table, elem: str) -> str:
    name, elements = table[op.name]
    has_sign = name == "vdiv" or op.name in REMAINDERS  # nothing divides unsigned integers
    if elem.lstrip("s" if has_sign else "su") not in elements.split():
        raise NotExpandable(f"{name} gives other bytes, or none, for {elem}")
    return name


@expansion(*PAIRS)
def pairs(op: Operation, out: Writer) -> None:
    """dst = function of two tiles."""
    sources, target = [tile(op, "src0", out), tile(op, "src1", out)], tile(op, "dst", out)
    name = instruction(op, PAIRS, target.elem)
    _each(out, sources, target, lambda w, r, mask, e: of_two(w, name, r, mask, e))


def of_two(out: Writer, name: str, registers: Sequence[str], mask: str, elem: str) -> str:
    """Return the result of an instruction of two registers; integers divided by 0 give 0."""
    a, b = registers
    if name == "vdiv" and elem[0] in "isu":
        none = _against_zero(out, b, "eq", mask, elem)
        return out.select(out.everywhere(0, elem), out.binary(name, a, b, mask, elem), none, elem)
    if name not in EXTREMES or elem[0] in "is":
        return out.binary(name, a, b, mask, elem)
    v, m = vreg(elem), f"!pto.mask<b{bits(elem)}>"
    taken = out.op("vcmp", [a, b, mask, f'"{EXTREMES[name]}"'], [v, v, m], m)
    return out.select(b, a, taken, elem)


@expansion(*SINGLES)
def singles(op: Operation, out: Writer) -> None:
    """dst = function of a tile."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = instruction(op, SINGLES, target.elem)
    _each(out, [source], target, lambda w, r, mask, e: w.unary(name, r[0], mask, e))


@expansion(*CLIPPED)
def clipped(op: Operation, out: Writer) -> None:
    """dst = 0 where a number is negative, else the number: a NaN stays, and so does -0."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    instruction(op, CLIPPED, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        zero = w.everywhere(0 if elem[0] == "i" else "0.0", elem)
        negative = _against_zero(w, registers[0], "lt", mask, elem)
        return w.select(zero, registers[0], negative, elem)

    _each(out, [source], target, body)


@expansion(*SCALARS)
def scalars(op: Operation, out: Writer) -> None:
    """dst = function of a tile and a scalar."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = instruction(op, SCALARS, target.elem)
    value, type_ = scalar_of(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        if name not in EXTREMES or elem[0] in "is":
            return w.scalar(name, registers[0], value, type_, mask, elem)
        m = f"!pto.mask<b{bits(elem)}>"
        every = w.op("vdup", [value, mask], [type_, m], vreg(elem))
        return of_two(w, name, [registers[0], every], mask, elem)

    _each(out, [source], target, body)


@expansion(*FILLS)
def fills(op: Operation, out: Writer) -> None:
    """dst = a scalar everywhere."""
    target = tile(op, "dst", out)
    name = instruction(op, FILLS, target.elem)
    value, type_ = scalar_of(op, target.elem)

    def body(w: Writer, _: list[str], mask: str, elem: str) -> str:
        return w.op(name, [value, mask], [type_, f"!pto.mask<b{bits(elem)}>"], vreg(elem))

    _each(out, [], target, body)


@expansion(*QUOTIENTS)
def quotients(op: Operation, out: Writer) -> None:
    """dst = a tile by a scalar, or a scalar by a tile."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = instruction(op, QUOTIENTS, target.elem)
    value, type_ = scalar_of(op, target.elem)
    is_divisor = op.variant is not None and op.variant.operands[0].name == "src"

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        every = w.op("vdup", [value, mask], [type_, f"!pto.mask<b{bits(elem)}>"], vreg(elem))
        a, b = (registers[0], every) if is_divisor else (every, registers[0])
        return of_two(w, name, [a, b], mask, elem)

    _each(out, [source], target, body)


@expansion(*ROOTS)
def roots(op: Operation, out: Writer) -> None:
    """dst = the reciprocal of the root, each rounded."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = instruction(op, ROOTS, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        return w.unary("vrec", w.unary(name, registers[0], mask, elem), mask, elem)

    _each(out, [source], target, body)


@expansion(*LEAKY)
def leaky(op: Operation, out: Writer) -> None:
    """dst = the number where it is positive, else its product with a slope."""
    by_tile = op.bound.get("scalar") is None
    names = ("src0", "src1") if by_tile else ("src",)
    sources, target = [tile(op, name, out) for name in names], tile(op, "dst", out)
    name = instruction(op, LEAKY, target.elem)
    value, type_ = ("", "") if by_tile else scalar_of(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        first, v, m = registers[0], vreg(elem), f"!pto.mask<b{bits(elem)}>"
        if by_tile:
            product = w.binary(name, first, registers[1], mask, elem)
        else:
            product = w.scalar(name, first, value, type_, mask, elem)
        zero = w.constant("0.0", elem)
        positive = w.op("vcmps", [first, zero, mask, '"gt"'], [v, elem, m], m)
        return w.select(first, product, positive, elem)

    _each(out, sources, target, body)


@expansion(*SHIFTS)
def shifts(op: Operation, out: Writer) -> None:
    """dst = a tile shifted by a scalar."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    name = instruction(op, SHIFTS, target.elem)
    value, type_ = scalar_of(op, "i16")
    _each(out, [source], target, lambda w, r, mask, e: w.scalar(name, r[0], value, type_, mask, e))


@expansion(*REMAINDERS)
def remainders(op: Operation, out: Writer) -> None:
    """dst = a - whole(a / b) * b, each step rounded; of `trem` plus b where it has another sign."""
    by_tile = op.bound.get("scalar") is None
    names = ("src0", "src1") if by_tile else ("src",)
    sources, target = [tile(op, name, out) for name in names], tile(op, "dst", out)
    rounded = instruction(op, REMAINDERS, target.elem)
    if str(word(op, "precisionType") or "default").lower() != "default":
        raise NotExpandable("the exact remainder is no short sequence of instructions")
    value, type_ = ("", "") if by_tile else scalar_of(op, target.elem)
    rest_of = {"f32": _rest, "f16": _rest_of_halves}.get(target.elem, _rest_of_integers)
    takes_sign = rounded == "F" and (by_tile or rest_of is _rest_of_integers)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        a, v, m = registers[0], vreg(elem), mask_of(elem)
        b = registers[1] if by_tile else w.op("vdup", [value, mask], [type_, m], v)
        rest = rest_of(w, a, b, mask, elem, rounded)
        return _with_sign(w, rest, b, mask, elem) if takes_sign else rest

    _each(out, sources, target, body)


def _rest(w: Writer, a: str, b: str, mask: str, elem: str, rounded: str) -> str:
    v, m = vreg(elem), mask_of(elem)
    quotient = w.binary("vdiv", a, b, mask, elem)
    whole = w.op("vtrc", [quotient, mask, f'"{rounded}"'], [v, m], v)
    return w.binary("vsub", a, w.binary("vmul", whole, b, mask, elem), mask, elem)


def _rest_of_halves(w: Writer, a: str, b: str, mask: str, elem: str, rounded: str) -> str:
    """In f32, the even lanes and then the odd ones, narrowed toward zero."""
    made = []
    for part in ("EVEN", "ODD"):
        one, other = (w.convert(register, elem, "f32", part) for register in (a, b))
        rest = _rest(w, one, other, w.every(32), "f32", rounded)
        made.append(w.cast(w.convert(rest, "f32", elem, part, "Z", "NOSAT"), elem, "i16"))
    return w.cast(w.binary("vor", made[0], made[1], w.every(16), "i16"), "i16", elem)


def _rest_of_integers(w: Writer, a: str, b: str, mask: str, elem: str, rounded: str) -> str:
    """Of a divisor that is 0 nothing is left."""
    quotient = w.binary("vdiv", a, b, mask, elem)
    rest = w.binary("vsub", a, w.binary("vmul", quotient, b, mask, elem), mask, elem)
    return w.select(w.everywhere(0, elem), rest, _against_zero(w, b, "eq", mask, elem), elem)


def _against_zero(w: Writer, value: str, word: str, mask: str, elem: str) -> str:
    zero, m = w.constant("0.0" if elem[0] == "f" else 0, elem), mask_of(elem)
    return w.op("vcmps", [value, zero, mask, f'"{word}"'], [vreg(elem), elem, m], m)


def _with_sign(w: Writer, rest: str, b: str, mask: str, elem: str) -> str:
    """The remainder plus the divisor where its sign is another one."""
    if elem[0] == "f":
        differs = _against_zero(w, w.binary("vmul", b, rest, mask, elem), "lt", mask, elem)
    elif elem[0] == "u":
        return rest
    else:
        both = w.binary("vxor", b, rest, mask, elem)
        other = _against_zero(w, both, "lt", mask, elem)
        differs = _against_zero(w, rest, "ne", other, elem)
    return w.select(w.binary("vadd", rest, b, mask, elem), rest, differs, elem)


@expansion("pto.tpow", "pto.tpows")
def powers(op: Operation, out: Writer) -> None:
    """dst = integers to the power of integers, by squares: the exponent's bits one after the other.
    With a negative one only 1 and -1 are not 0."""
    by_tile = op.bound.get("scalar") is None
    names = ("src0", "src1") if by_tile else ("src",)
    sources, target = [tile(op, name, out) for name in names], tile(op, "dst", out)
    if target.elem not in ("i16", "i32"):
        raise NotExpandable("a tile has it rounded once: registers round between")
    value, type_ = ("", "") if by_tile else scalar_of(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        every, m, one = w.every(bits(elem)), mask_of(elem), w.everywhere(1, elem)
        base, power = registers[0], registers[-1]
        if not by_tile:
            power = w.op("vdup", [value, every], [type_, m], vreg(elem))

        def step(_: str, held: list[str]) -> list[str]:
            result, square, rest = held
            odd = w.with_constant("vands", rest, 1, elem)
            taken = _against_zero(w, odd, "ne", every, elem)
            made = w.select(w.binary("vmul", result, square, every, elem), result, taken, elem)
            by = w.constant(1, "i16")
            rest = w.scalar("vshrs", rest, by, "i16", every, elem)
            return [made, w.binary("vmul", square, square, every, elem), rest]

        starts = [(one, elem), (base, elem), (power, elem)]
        whole = w.fold_all(bits(elem) - 1, starts, step)[0]
        odd = _against_zero(w, w.with_constant("vands", power, 1, elem), "ne", every, elem)
        minus = w.everywhere(-1, elem)
        unit = w.everywhere(0, elem)
        for number, given in ((one, one), (minus, w.select(minus, one, odd, elem))):
            is_it = w.op("vcmp", [base, number, every, '"eq"'], [vreg(elem), vreg(elem), m], m)
            unit = w.select(given, unit, is_it, elem)
        return w.select(unit, whole, _against_zero(w, power, "lt", every, elem), elem)

    _each(out, sources, target, body)


_FACTORS, _KEY_STEPS = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)
"""Of Philox 4x32: what words are multiplied by, and what is added to the keys in each round."""


@expansion("pto.trandom")
def random_numbers(op: Operation, out: Writer) -> None:
    """dst = the words of blocks of Philox 4x32, 64 blocks side by side for each 256 columns."""
    target = tile(op, "dst", out)
    row_major(target)
    rows, cols = valid(target)
    if 0 in (rows, cols):
        return
    pointer, elem, v = target.pointer(out), "ui32", vreg("ui32")
    every, m = out.every(), mask_of("ui32")

    def everywhere(name: str) -> str:
        given = op.bound[name]
        if not isinstance(given, Operand) or given.value is None:
            raise NotExpandable(f"{name} has no name")
        words = out.op("vdup", [f"%{given.value.name}", every], ["i32", m], vreg("i32"))
        return out.cast(words, "i32", elem)

    keys, words = (
        [everywhere(f"{n}{i}") for i in range(c)] for n, c in (("key", 2), ("counter", 4))
    )
    factors = [out.everywhere(number, elem) for number in _FACTORS]
    ramp = out.once("vci", [out.constant(0), '{order = "ASC"}'], ["i32"], vreg("i32"))
    each_row = 64 * (-(-cols // 256) - 1) + (cols - 1) % 64 + 1
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 256):
            at = out.number(out.place((row, each_row), (out.part(column, 4), 1)))
            added = out.cast(out.scalar("vadds", ramp, at, "i32", every, "i32"), "i32", elem)
            state, carry = [], ""
            for word_ in words:
                name, more = ("vaddcs", [carry]) if carry else ("vaddc", [])
                items, types = [word_, added, *more, every], [v, v, *([m] if more else []), m]
                total, carry = out.pair(name, items, types, [v, m])
                state.append(total)
                added = out.everywhere(0, elem)
            for part, made in enumerate(
                _words_in_turn(out, _scrambled(op, out, state, keys, factors))
            ):
                left = min(count - 64 * part, 64)
                if left > 0:
                    place = out.place(
                        (row, target.type.cols), (column, 1), (out.index(64 * part), 1)
                    )
                    shown = out.cast(made, elem, target.elem)
                    keep(out, shown, pointer, place, out.first(left), target.elem)


def _scrambled(
    op: Operation, out: Writer, state: list[str], keys: list[str], factors: list[str]
) -> list[str]:
    """The words of blocks after the rounds of an operation."""
    elem, every, v = "ui32", out.every(), vreg("ui32")
    rounds = word(op, "rounds")
    for number in range(10 if rounds is None else int(str(rounds))):
        if number:
            keys = [
                out.with_constant("vadds", k, s, elem)
                for k, s in zip(keys, _KEY_STEPS, strict=True)
            ]
        products = [
            out.pair("vmull", [one, by, every], [v, v, mask_of(elem)], [v, v])
            for one, by in zip(state[::2], factors, strict=True)
        ]
        (first, first_high), (second, second_high) = products
        highs = ((second_high, state[1], keys[0]), (first_high, state[3], keys[1]))
        one, three = (
            out.binary("vxor", out.binary("vxor", high, other, every, elem), key, every, elem)
            for high, other, key in highs
        )
        state = [one, second, three, first]
    return state


def _words_in_turn(out: Writer, state: list[str]) -> list[str]:
    """Four registers, of each block its words side by side."""
    even, odd = (out.spread("vintlv", state[i], state[i + 2], "ui32") for i in (0, 1))
    return [
        made for two in zip(even, odd, strict=True) for made in out.spread("vintlv", *two, "ui32")
    ]


@expansion("pto.tprint")
def printed(op: Operation, out: Writer) -> None:
    """What a program shows of a tile."""
    raise NotOfVectorUnit("it shows a tile and computes nothing")


@expansion(*MULTIPLIED)
def multiplied(op: Operation, out: Writer) -> None:
    """dst = scalar * src + dst, rounded once."""
    source, target = tile(op, "src", out), tile(op, "dst", out)
    if source.elem != target.elem:
        raise NotExpandable("the source is of another type")
    name = instruction(op, MULTIPLIED, target.elem)
    value, type_ = scalar_of(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        v, m = vreg(elem), f"!pto.mask<b{bits(elem)}>"
        return w.op(name, [*registers, value, mask], [v, v, type_, m], v)

    _each(out, [source, target], target, body)


@expansion(*THREES)
def threes(op: Operation, out: Writer) -> None:
    """dst = two operands and a third added to them, each step rounded."""
    first, name, second, third = THREES[op.name]
    by_tile, target = second != "scalar", tile(op, "dst", out)
    given = (first, second, third) if by_tile else (first, third)
    sources = [tile(op, each, out) for each in given]
    if target.elem.lstrip("su") not in PAIRS[f"pto.t{name[1:4]}"][1].split():
        raise NotExpandable(f"{name} gives other bytes, or none, for {target.elem}")
    value, type_ = ("", "") if by_tile else scalar_of(op, target.elem)

    def body(w: Writer, registers: list[str], mask: str, elem: str) -> str:
        if by_tile:
            two = w.binary(name, registers[0], registers[1], mask, elem)
        else:
            two = w.scalar(name, registers[0], value, type_, mask, elem)
        return w.binary("vadd", two, registers[-1], mask, elem)

    _each(out, sources, target, body)


WIDER = {"f32": "f32", "i32": "i32", "ui32": "ui32", "f16": "f32", "i16": "i32", "ui16": "ui32"}
"""Elements that are compared beside numbers of 32 bits, and as which they are."""


def widened(out: Writer, value: str, elem: str) -> str:
    """Return elements of WIDER that are in lanes of 32 bits as numbers of so many."""
    if elem == "i16":
        signed = out.convert(out.cast(value, elem, "si16"), "si16", "si32", "EVEN")
        return out.cast(signed, "si32", "i32")
    return (
        out.convert(value, elem, "f32", "EVEN")
        if elem == "f16"
        else out.cast(value, elem, WIDER[elem])
    )


def _each(out: Writer, sources: list[TileUse], target: TileUse, body: Body) -> None:
    """Loops over rows and registers of a row, one loop where all tiles are runs of memory (as in
    the library); the mask cuts the last register."""
    tiles = [*sources, target]
    by_columns = all(use.type.blayout == "col_major" for use in tiles)
    if not by_columns:
        row_major(*tiles)
    rows, cols = extents(target, out)
    for use in sources:
        if not all(map(agree, extents(use, out), (rows, cols))):
            raise NotExpandable("the valid shapes of the tiles differ")
    if 0 in (rows, cols):
        return
    pitches = [use.type.rows if by_columns else use.type.cols for use in tiles]
    if by_columns:
        rows, cols = cols, rows
    if isinstance(rows, int) and isinstance(cols, int) and all(p == cols for p in pitches):
        rows, cols = 1, rows * cols
    elem = target.elem
    width = bits(elem)
    pointers = [use.pointer(out) for use in tiles]
    with out.rows(rows) as row:
        for column, count in out.columns(cols, 2048 // width):
            mask = out.first(count, width)
            registers = [
                out.load(p, elem, out.place((row, pitch), (column, 1)))
                for p, pitch in zip(pointers[:-1], pitches[:-1], strict=True)
            ]
            value = body(out, registers, mask, elem)
            at = out.place((row, pitches[-1]), (column, 1))
            keep(out, value, pointers[-1], at, mask, elem)
