"""Vector instructions of A2/A3 (pto.ub.*): repeats of blocks, masks, count mode, against a model of one
lane at a time."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ptosim
from tests.ops.micro.data import lane
from tests.oracle import lanes as one
from tests.oracle.repeats import Strides, execute, lane_function, selected

pytestmark = pytest.mark.sampled(5)

SIZE = 16384
PAIRS = ("add", "sub", "mul", "div", "max", "min", "and", "or", "addrelu")
SINGLES = ("not", "abs", "relu", "exp", "ln", "sqrt", "rsqrt")
SCALARS = ("shl", "shr", "muls", "adds", "maxs", "mins")
ELEMENTS = ("f32", "f16", "i32", "i16")
ONLY_BITS = ("and", "or", "not", "shl", "shr", "dup")
ONLY_FLOAT = ("exp", "ln", "sqrt", "rsqrt")
EVERY = ((1 << 64) - 1, (1 << 64) - 1)


def text(lines: list[str], elem: str, *, arch: str = "a3") -> str:
    """A program that has the memory in UB, executes lines and gives it back; `%pN` is byte N."""
    places = sorted({int(w[2:]) for line in lines for w in line.replace(",", " ").split() if w[:2] == "%p"})  # fmt: skip
    numbers = sorted({w for line in lines for w in line.replace(",", " ").split() if w[:2] == "%n"})
    body = [
        "%zero = arith.constant 0 : i64",
        "%all = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>",
        *(f"%a{at} = arith.constant {at} : i64" for at in places),
        *(f"%p{at} = pto.castptr %a{at} : i64 -> !pto.ptr<{elem}, ub>" for at in places),
        *(f"{n} = arith.constant {n[2:].replace('m', '-')} : i64" for n in numbers),
        f"pto.mte_gm_ub %g, %all, 0, {SIZE} nburst(1, {SIZE}, {SIZE}) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        'pto.set_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
        'pto.wait_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]',
        *lines,
        'pto.set_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
        'pto.wait_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]',
        f"pto.mte_ub_gm %all, %g, {SIZE} nburst(1, {SIZE}, {SIZE}) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>",
        "pto.barrier #pto.pipe<PIPE_ALL>",
    ]
    inner = "\n".join(body)
    return (
        f'module attributes {{pto.target_arch = "{arch}"}} {{\n'
        f"func.func @k(%g: !pto.ptr<ui8>) attributes {{pto.kernel}} {{\n{inner}\nreturn\n}}\n}}\n"
    )


def number(n: int) -> str:
    return f"%n{n}".replace("-", "m")


def instruction(
    name: str, elem: str, target: Strides, sources: list[Strides], repeat: int, scalar: int | None
) -> str:
    pointers = [f"%p{s.start}" for s in (target, *sources)]
    numbers = [*([scalar] if scalar is not None else []), repeat]
    strided = [target, *(sources or [Strides(0, 1, 8)])]  # vdup has numbers for a source, too
    numbers += [s.block for s in strided] + [s.repeat for s in strided]
    types = [f"!pto.ptr<{elem}, ub>"] * len(pointers) + ["i64"] * len(numbers)
    return f"pto.ub.v{name} {', '.join([*pointers, *map(number, numbers)])} : {', '.join(types)}"


def masks(low: int, high: int) -> str:
    signed = (n - (1 << 64) if n >> 63 else n for n in (low, high))
    return f"pto.ub.set_mask {', '.join(map(number, signed))} : i64, i64"


def memory(seed: object, elem: str) -> bytearray:
    rng = random.Random(str(seed))
    width = one.bits_of(elem) // 8
    return bytearray(one.join([lane(rng, elem) for _ in range(SIZE // width)], width))


def check(
    name: str,
    elem: str,
    target: Strides,
    sources: list[Strides],
    repeat: int,
    *,
    scalar: int | None = None,
    mask: tuple[int, int] = EVERY,
    counts: bool = False,
) -> list[str]:
    """Run and compare all of UB; return the codes of what was found."""
    before = memory((name, elem, target, mask), elem)
    size = one.bits_of(elem) // 8
    lines = [instruction(name, elem, target, sources, repeat, scalar)]
    if mask != EVERY:
        lines.insert(0, masks(*mask))
    if counts:
        lines.insert(0, "pto.ub.set_mask_count")
    result = ptosim.load(text(lines, elem)).run({"g": np.frombuffer(bytes(before), np.uint8)})
    after = result.outputs["g"].tobytes()
    expected = bytearray(before)
    function = lane_function(name, elem, scalar or 0)
    chosen = selected(size, repeat, mask, counts=counts)
    nan = one.encode_exact("nan", elem) if one.is_float(elem) else 0
    unknown = execute(expected, function, target, sources, size, chosen, nan)
    for at in unknown:
        assert one.is_nan(one.read(int.from_bytes(after[at : at + size], "little"), elem)), at
        expected[at : at + size] = after[at : at + size]
    wrong = [i for i in range(SIZE) if after[i] != expected[i]]
    assert not wrong, (len(wrong), wrong[:4])
    # The pointer that everything is copied through overlaps all others.
    return [finding.code for finding in result.findings if finding.code != "PTO7104"]


def elements(name: str) -> tuple[str, ...]:
    if name in ONLY_FLOAT:
        return ("f32", "f16")
    return ("ui32", "ui16", "i32", "i16", "f16") if name in ONLY_BITS else ELEMENTS


def cases(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, elem) for name in names for elem in elements(name)]


@pytest.mark.sampled(5, 16)
@pytest.mark.parametrize(("name", "elem"), cases(PAIRS))
def test_two_sources(name, elem):
    """Whole repeats, and blocks at a stride whose mask leaves lanes out."""
    assert check(name, elem, Strides(8192, 1, 8), [Strides(0, 1, 8), Strides(2048, 1, 8)], 5) == []
    picked = (0x0F0F_1234_FFFF_8001, 0x8000_0000_0000_00F7)
    strided = [Strides(64, 2, 17), Strides(4096, 0, 3)]
    assert check(name, elem, Strides(8192, 3, 24), strided, 4, mask=picked) == []


@pytest.mark.parametrize(("name", "elem"), cases(SINGLES))
def test_one_source(name, elem):
    assert check(name, elem, Strides(8192, 1, 8), [Strides(0, 1, 8)], 6) == []
    assert check(name, elem, Strides(8192, 2, 16), [Strides(32, 1, 9)], 3, mask=(0xFF00FF, 7)) == []


SCALAR = {"f32": 0x40200000, "f16": 0xC100, "i32": -7, "i16": 12345, "ui32": 5, "ui16": 9}


@pytest.mark.sampled(5, 13)
@pytest.mark.parametrize(("name", "elem"), cases((*SCALARS, "dup")))
def test_with_a_scalar(name, elem):
    """The low bits of the number are the element, whatever is above them."""
    sources = [] if name == "dup" else [Strides(0, 1, 8)]
    values = (3, 40, 0) if name in ("shl", "shr") else (SCALAR[elem], SCALAR[elem] | 5 << 40)
    for scalar in values:
        found = check(name, elem, Strides(8192, 1, 8), sources, 3, scalar=scalar, mask=(0xFFFF_FFFF, 1))  # fmt: skip
        assert found == []


@pytest.mark.parametrize("repeat", [0, 1, 255])
def test_how_many_repeats(repeat):
    target, source = Strides(8192, 1, 0), Strides(0, 1, 0)
    assert check("adds", "i16", target, [source], repeat, scalar=1) == []


def test_nothing_is_selected():
    assert check("add", "f32", Strides(8192, 1, 8), [Strides(0, 1, 8)] * 2, 4, mask=(0, 5)) == []


@pytest.mark.parametrize("elem", ["f32", "i16"])
def test_sums_on_the_spot(elem):
    """Each repeat sees what the one before stored: the destination of all of them is one block row."""
    total = Strides(8192, 1, 0)
    assert check("add", elem, total, [total, Strides(0, 1, 8)], 9) == []
    shifted = Strides(8, 1, 8) if elem == "f32" else Strides(32, 1, 8)
    assert check("add", elem, Strides(256, 1, 8), [Strides(0, 1, 8), shifted], 5) == []


def test_in_place():
    place = Strides(1024, 1, 8)
    assert check("mul", "f16", place, [place, place], 12) == []


@pytest.mark.parametrize(("count", "elem", "codes"), [(1, "f32", []), (64, "f32", []), (37, "i16", []), (128, "f16", []), (100, "f32", ["PTO6631"]), (1000, "f16", ["PTO6631"]), (0, "i32", [])])  # fmt: skip
def test_count_mode(count, elem, codes):
    """mask0 elements in as many repeats as they need, whatever `repeat` says; a warning from the second
    repeat on, where the hardware is wrong."""
    sources = [Strides(0, 1, 8), Strides(2048, 1, 8)]
    assert (
        check("sub", elem, Strides(8192, 1, 8), sources, 1, mask=(count, 0), counts=True) == codes
    )


@pytest.mark.parametrize(
    ("on", "off"),
    [
        ("pto.ub.set_mask_count", "pto.ub.set_mask_norm"),
        (
            "%ctrl = pto.get_ctrl : i64\n%bit = arith.constant 56 : i64\n"
            "%set = pto.sbitset1 %ctrl, %bit : i64, i64 -> i64\npto.set_ctrl %set : i64",
            "pto.set_ctrl %ctrl : i64",
        ),
    ],
)
def test_masks_stay_until_they_are_set(on, off):
    """An instruction has the masks it was issued with; normal mode comes back. Count mode is bit 56
    of the control register."""
    elem, before = "i32", memory("stay", "i32")
    target, source = Strides(8192, 1, 8), Strides(0, 1, 8)
    lines = [
        masks(0b1011, 0),
        instruction("adds", elem, target, [source], 2, 1),
        on,
        instruction("adds", elem, Strides(10240, 1, 8), [source], 2, 2),
        off,
        masks((1 << 64) - 1, 0),
        instruction("adds", elem, Strides(12288, 1, 8), [source], 2, 3),
    ]
    after = ptosim.load(text(lines, elem)).run({"g": np.frombuffer(bytes(before), np.uint8)})
    expected = bytearray(before)
    for at, scalar, chosen in (
        (8192, 1, selected(4, 2, (0b1011, 0), counts=False)),
        (10240, 2, selected(4, 2, (0b1011, 0), counts=True)),
        (12288, 3, selected(4, 2, EVERY, counts=False)),
    ):
        function = lane_function("adds", elem, scalar)
        execute(expected, function, Strides(at, 1, 8), [source], 4, chosen)
    assert after.outputs["g"].tobytes() == expected


# -- what is told ----------------------------------------------------------------------------------


def test_numbers_are_cut_off():
    """Eight bits for all numbers of two sources: 260 repeats are 4, a stride of 264 is 8."""
    lines = ["%r = arith.addi %n100, %n160 : i64"]
    pointers = "%p8192, %p0, %p2048, %r, %n1, %n1, %n1, %n264, %n8, %n8"
    types = ", ".join(["!pto.ptr<i32, ub>"] * 3 + ["i64"] * 7)
    program = text([*lines, f"pto.ub.vadd {pointers} : {types}"], "i32")
    before = memory("cut", "i32")
    found = ptosim.load(program).run({"g": np.frombuffer(bytes(before), np.uint8)})
    expected = bytearray(before)
    sources = [Strides(0, 1, 8), Strides(2048, 1, 8)]
    execute(expected, lane_function("add", "i32"), Strides(8192, 1, 8), sources, 4, selected(4, 4, EVERY, counts=False))  # fmt: skip
    assert found.outputs["g"].tobytes() == expected
    assert {f.code for f in found.findings} - {"PTO7104"} == {"PTO2034", "PTO6630"}


def test_a_race_and_a_value_that_nothing_wrote():
    """Bytes of the lanes that take part are what is watched."""
    line = instruction("adds", "f32", Strides(32768, 1, 8), [Strides(65536, 1, 8)], 2, 1)
    codes = [f.code for f in ptosim.load(text([line], "f32")).run({"g": np.zeros(SIZE, np.uint8)}).findings]  # fmt: skip
    assert codes == ["PTO7101"]
    line = instruction("adds", "f32", Strides(0, 1, 8), [Strides(0, 1, 8)], 2, 0)
    racing = text([line], "f32")
    for word in ("set", "wait"):
        racing = racing.replace(f'pto.{word}_flag["PIPE_V", "PIPE_MTE3", "EVENT_ID0"]', "")
    found = ptosim.load(racing).run({"g": np.zeros(SIZE, np.uint8)}).findings
    assert any(f.code == "PTO5201" and "[0x0, 0x200), which 'pto.ub.vadds'" in f.message for f in found)  # fmt: skip


def test_outside_of_ub():
    line = instruction("adds", "f32", Strides(196352, 1, 8), [Strides(0, 1, 8)], 2, 1)
    with pytest.raises(ptosim.PtosimError, match="vec"):
        ptosim.load(text([line], "f32")).run({"g": np.zeros(SIZE, np.uint8)})


def test_other_element_types_are_not_executed():
    line = instruction("add", "ui16", Strides(8192, 1, 8), [Strides(0, 1, 8)] * 2, 1, None)
    with pytest.raises(ptosim.UnsupportedError, match="ui16"):
        ptosim.load(text([line], "ui16")).run({"g": np.zeros(SIZE, np.uint8)})


def test_time_grows_with_repeats():
    """Start and cycles of each repeat of the board's figures: an addition of f32 2.11 for each."""

    def cycles(repeat: int) -> float:
        line = instruction("add", "f32", Strides(8192, 1, 8), [Strides(0, 1, 8)] * 2, repeat, None)
        return ptosim.load(text([line], "f32")).cost(args={}).cycles

    assert cycles(101) - cycles(1) == pytest.approx(211, abs=2)


def test_a5_reads_them_and_executes_nothing():
    line = instruction("add", "f32", Strides(8192, 1, 8), [Strides(0, 1, 8)] * 2, 1, None)
    program = text([line], "f32", arch="a5")
    assert not any(d.is_error for d in ptosim.check(program))
    with pytest.raises(ptosim.UnsupportedError):
        ptosim.load(program).run({"g": np.zeros(SIZE, np.uint8)})
