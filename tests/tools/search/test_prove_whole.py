"""Operations without a rule of their own, and vector registers: a result is made of all that is
read. That is enough to find equal what does the same, and is never a reason to call it unequal."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.launch.compare import Choices
from ptosim.tools.certificate import certificate
from ptosim.tools.search.prove import EQUAL, REFUSED, UNEQUAL, Launched, judged_hard, prove
from tests.support.paths import PROGRAMS
from tests.support.text import Kernel

FOLLOWED = (
    "basics/matmul_moves", "cube/gemm_int8", "gather/embedding",
    "micro/flash_attention", "micro/fractal_matmul", "micro/mxfp4_quantise", "micro/mxfp8_matmul",
    "micro/softmax", "micro/row_sums", "micro/sigmoid_a2a3", "micro/topk", "vmi/softmax",
    "vmi/histogram", "model/linear_int8", "model/linear_relu", "model/linear_splitk",
    "model/route_metadata", "cube/gemm_mxfp8", "model/moe_gate", "model/swiglu_mxfp8", "quant/mxfp4_dn", "quant/mxfp8_nd",
    "quant/mxfp8_dn_pipeline", "sort/topk", "vmi/mxfp8_dequantise", "vmi/mxfp8_quantise",
    "vmi/swiglu_fp8", "vmi/topk", pytest.param("cube/gemm_mxfp8_grid", marks=pytest.mark.deep),
)  # fmt: skip
"""Conversions of an accumulator, scales, block scales, gathers, sorts, DMA, vector registers."""


def shipped(name: str, change: tuple[str, str] = ("", "")) -> Launched:
    choices = Choices(str(PROGRAMS / f"{name}.pto")).completed()
    program = choices.program()
    text = program.front.source.text
    assert change[0] in text
    if change[0]:
        front = program.front
        program = ptosim.load(
            text.replace(*change, 1), target=program.chip, level=front.level, sync=front.sync,
            compat=program.compat,
        )  # fmt: skip
    return Launched(program, choices.entry, choices.arguments() or None, choices.block_num)


@pytest.mark.sampled(4, 12)
@pytest.mark.parametrize("name", FOLLOWED)
def test_a_shipped_program_is_equal_to_itself(name: str) -> None:
    proof = prove(shipped(name), shipped(name))
    assert proof.verdict == EQUAL, proof.why


@pytest.mark.slow
def test_another_instruction_is_not_equal() -> None:
    """Its registers are other expressions; since they are known as a whole, hard data decide."""
    text = (PROGRAMS / "micro/softmax.pto").read_text()
    words = sorted(set(re.findall(r"pto\.v(?:sub|add|max|mul|div)\b", text)))
    assert words
    for word in words:
        other = "pto.vmul" if word != "pto.vmul" else "pto.vadd"
        one, two = shipped("micro/softmax"), shipped("micro/softmax", (word, other))
        proof = prove(one, two)
        assert proof.verdict == REFUSED
        assert "is followed as a whole only" in proof.why
        assert judged_hard(one, two, proof).verdict == UNEQUAL


def test_lanes_that_a_mask_leaves_out_take_no_part() -> None:
    """Rows of 200 in 256 lanes: what is after the end of a row was never written. Where the mask
    has those lanes, the rows are no expressions of the arguments."""
    masked = shipped("vmi/softmax")
    assert prove(masked, masked).verdict == EQUAL
    every = shipped("vmi/softmax", ("create_mask %c200", "create_mask %c256"))
    proof = prove(every, every)
    assert not proof.is_equal
    shorter = shipped("vmi/softmax", ("%c200 = arith.constant 200", "%c200 = arith.constant 192"))
    assert not prove(masked, shorter).is_equal


def scattered(rest: str) -> Launched:
    """A tile moved to the places that another one names, here all of them."""
    k = Kernel("a5", switches={"tscatter.rest": rest})
    source, place = k.tile("source", "f32", 4, 32), k.tile("place", "i32", 4, 32)
    target = k.tile("target", "f32", 4, 32)
    k.load("x", source)
    k.load("index", place)
    k.load("old", target)
    k.op("pto.tscatter", [source, place], [target])
    k.store(target, "y")
    index = np.arange(128, dtype=np.int32).reshape(4, 32)
    args = {"x": np.ones((4, 32), np.float32), "index": index}
    zeros = np.zeros((4, 32), np.float32)
    return Launched(k.program(), None, {**args, "old": zeros, "y": zeros.copy()})


def test_where_a_scatter_writes_is_not_taken_from_the_data_at_hand() -> None:
    """With other indices some elements are zeros, or keep what was there where a switch says so:
    then they depend on what the operation is not said to read."""
    zeroed, kept = scattered("zero"), scattered("keep")
    assert prove(zeroed, zeroed).verdict == EQUAL
    proof = prove(kept, kept)
    assert proof.verdict == REFUSED
    assert "depends on bytes that the rules do not name (`pto.tscatter`" in proof.why


def test_a_mask_of_data_says_where_a_store_reaches() -> None:
    """A store under a mask that was compared of data has no proof, whatever the data are."""
    text = (PROGRAMS / "micro/softmax.pto").read_text()
    mask = next(m for m in re.findall(r"pto\.vsts [^\n]*, (%\w+)", text))
    store = next(line for line in text.splitlines() if "pto.vsts" in line)
    stored, kind = re.findall(r"vsts (%\w+),", store)[0], re.findall(r"!pto.mask<\w+>", store)[0]
    compared = (
        f'%chosen = pto.vcmp {stored}, {stored}, {mask}, "eq" : !pto.vreg<64xf32>, '
        f"!pto.vreg<64xf32>, {kind} -> {kind}"
    )
    other = f"{compared}\n{store.replace(f', {mask}', ', %chosen')}"
    proof = prove(shipped("micro/softmax"), shipped("micro/softmax", (store, other)))
    assert proof.verdict == REFUSED
    assert "data say where it reaches (`pto.vsts`" in proof.why


# -- numbers that the scalar unit reads ------------------------------------------------------------

READS = """
func.func @k(%x: !pto.ptr<f32>, %t: !pto.ptr<i32>, %y: !pto.ptr<f32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  %c32 = arith.constant 32 : index
  %c64 = arith.constant 64 : index
  %five = arith.constant 5 : i32
  %vx = pto.make_tensor_view %x, shape = [%c64, %c32], strides = [%c32, %c1] : !pto.tensor_view<64x32xf32>
  %vy = pto.make_tensor_view %y, shape = [%c8, %c32], strides = [%c32, %c1] : !pto.tensor_view<8x32xf32>
  {before}
  %n = pto.load_scalar %t[%c1] : !pto.ptr<i32> -> i32
  %at = arith.index_cast %n : i32 to index
  %p = pto.partition_view %vx, offsets = [{at}, %c0], sizes = [%c8, %c32] : !pto.tensor_view<64x32xf32> -> !pto.partition_tensor_view<8x32xf32>
  %q = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c32] : !pto.tensor_view<8x32xf32> -> !pto.partition_tensor_view<8x32xf32>
  %a = pto.alloc_tile : !pto.tile_buf<vec, 8x32xf32>
  pto.tload ins(%p : !pto.partition_tensor_view<8x32xf32>) outs(%a : !pto.tile_buf<vec, 8x32xf32>)
  pto.tstore ins(%a : !pto.tile_buf<vec, 8x32xf32>) outs(%q : !pto.partition_tensor_view<8x32xf32>)
  return
}}
"""


def reading(row: int, at: str = "%at", before: str = "") -> Launched:
    """Eight rows from the one that a table names."""
    table = np.array([0, row], np.int32)
    args = {"x": np.zeros((64, 32), np.float32), "t": table, "y": np.zeros((8, 32), np.float32)}
    return Launched(ptosim.load(READS.format(at=at, before=before), target="a5"), None, args)


def test_what_the_scalar_unit_reads_is_taken_as_it_is_and_said() -> None:
    proof = prove(reading(5), reading(5))
    assert proof.verdict == EQUAL
    assert proof.about.endswith(", and what the scalar unit reads of %t as it is")
    assert prove(reading(8), reading(8, at="%c8")).verdict == EQUAL
    assert prove(reading(5), reading(5, at="%c8")).verdict == UNEQUAL


def test_other_numbers_are_no_comparison() -> None:
    """Each takes the row that its own table names."""
    assert not prove(reading(5), reading(6)).is_equal
    stored = "pto.store_scalar %five, %t[%c1] : !pto.ptr<i32>, i32"
    assert prove(reading(5, before=stored), reading(6, before=stored)).verdict == EQUAL


@pytest.mark.slow
def test_masks_of_logical_registers_are_compared_by_their_lanes() -> None:
    """An instruction that makes a mask is tried on other contents as any other one."""
    one = shipped("new/vmi")
    assert prove(one, one).verdict in (EQUAL, REFUSED)


# -- what was tried of one form of an instruction says nothing of another --------------------------

LANES, MASK, UB, GM = (
    "!pto.vreg<64xf32>",
    "!pto.mask<b32>",
    "!pto.ptr<f32, ub>",
    "!pto.ptr<f32, gm>",
)


def region(loads: dict[int, tuple[str, int]], body: str) -> Launched:
    """A vector region on 1,024 bytes: what is loaded to each byte, an argument and how many bytes;
    `y` takes the last 512."""
    lines = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 64)]
    for at in sorted({0, 256, 512, *loads}):
        lines.append(f"%a{at} = arith.constant {at} : i64")
        lines.append(f"%p{at} = pto.castptr %a{at} : i64 -> {UB}")
    lines += [
        f"pto.mte_gm_ub {argument}, %p{at}, 0, {size} nburst(1, 0, 0) : {GM}, {UB}"
        for at, (argument, size) in loads.items()
    ]
    head = "\n    ".join(lines)
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @k(%x: {GM}, %z: {GM}, %y: {GM}) attributes {{pto.aicore}} {{
    {head}
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.vecscope {{
      %all = pto.pset_b32 "PAT_ALL" : {MASK}
      {body}
    }}
    pto.barrier #pto.pipe<PIPE_ALL>
    pto.mte_ub_gm %p512, %y, 512 nburst(1, 0, 0) : {UB}, {GM}
    pto.barrier #pto.pipe<PIPE_ALL>
    return
  }}
}}"""
    x = np.arange(64, dtype=np.float32)
    return Launched(
        ptosim.load(text, target="a5"), None, {"x": x, "z": x - 99, "y": np.zeros(128, np.float32)}
    )


def test_lanes_are_looked_at_anew_for_another_mask() -> None:
    """The first lane is handed to the lanes of a mask that has it, then to those of one that has it
    not: in the second round its value comes from another argument."""
    body = f"""%m0 = pto.pset_b32 "PAT_VL8" : {MASK}
      %m1 = pto.pnot %m0, %all : {MASK}, {MASK} -> {MASK}
      scf.for %i = %c0 to %c2 step %c1 {{
        %at = arith.muli %i, %c64 : index
        %is = arith.cmpi eq, %i, %c0 : index
        %m = scf.if %is -> ({MASK}) {{
          scf.yield %m0 : {MASK}
        }} else {{
          scf.yield %m1 : {MASK}
        }}
        %r = pto.vlds %p0[%at] : {UB} -> {LANES}
        %d = pto.vdup %r, %m {{position = "LOWEST"}} : {LANES}, {MASK} -> {LANES}
        pto.vsts %d, %p512[%at], %all : {LANES}, {UB}, {MASK}
      }}"""
    rest = {0: ("%x", 256), 288: ("%x", 224)}
    one, two = (region({**rest, 256: (first, 32)}, body) for first in ("%x", "%z"))
    assert prove(one, one).verdict == EQUAL
    assert prove(one, two).verdict != EQUAL


def test_a_counter_that_data_set_is_no_constant() -> None:
    """How many lanes are kept says how much is stored; with this data all are, as before."""
    body = f"""pto.sprclr "AR"
      %r = pto.vlds %p0[%c0] : {UB} -> {LANES}
      %s = pto.vlds %p256[%c0] : {UB} -> {LANES}
      %one = arith.constant 1.0 : f32
      %k = pto.vbr %one : f32 -> {LANES}
      %g = pto.vsqz %k, %all : {LANES}, {MASK} -> {LANES}
      %m = pto.vcmp %WHO, %WHO, %all, "eq" : {LANES}, {LANES}, {MASK} -> {MASK}
      %d = pto.vsqz %k, %m : {LANES}, {MASK} -> {LANES}
      %st = pto.init_align : !pto.align
      %st1 = pto.vstur %st, %r, %p512, "NO_POST_UPDATE" : !pto.align, {LANES}, {UB} -> !pto.align
      pto.vstar %st1, %p512 : !pto.align, {UB}"""
    loads = {0: ("%x", 256), 256: ("%z", 256), 512: ("%x", 256), 768: ("%x", 256)}
    one, two = (region(loads, body.replace("WHO", who)) for who in "rs")
    proof = prove(one, two)
    assert proof.verdict == REFUSED
    assert "sets a register by what data say (`pto.vsqz`" in proof.why


@pytest.mark.parametrize("bits", ["0x7FC00001", "0xFFC00000"])
def test_constants_are_other_ones_by_any_bit_of_a_nan(bits: str) -> None:
    def added(constant: str) -> Launched:
        k = Kernel("a5")
        tile = k.tile("t", "f32", 8, 64)
        k.load("x", tile)
        k.line(f"%s = arith.constant {constant} : f32")
        k.op("pto.tadds", [tile, ("%s", "f32")], [tile])
        k.store(tile, "y")
        program = k.program()
        return Launched(program, program.entry(), None, 1)

    assert prove(added("0x7FC00000"), added(bits)).verdict == UNEQUAL
    with pytest.raises(UsageError, match="is not the same expression"):
        certificate(added("0x7FC00000"), added(bits))


def appended(counts: tuple[int, int]) -> Launched:
    """So many elements of x, then so many of z, in a stream of 24 bytes, beside what is there."""
    stream = "!pto.align"
    append = f"{stream}, i32, {LANES}, {UB} -> {stream}, {UB}"
    body = f"""%n = arith.constant {counts[0]} : i32
      %m = arith.constant {counts[1]} : i32
      %none = arith.constant 0 : i32
      %r = pto.vlds %p0[%c0] : {UB} -> {LANES}
      %s = pto.vlds %p256[%c0] : {UB} -> {LANES}
      %s0 = pto.init_align : {stream}
      %s1, %q1 = pto.vstus %s0, %n, %r, %p512 : {append}
      %s2, %q2 = pto.vstus %s1, %m, %s, %q1 : {append}
      pto.vstas %s2, %q2, %none : {stream}, {UB}, i32"""
    return region({0: ("%x", 256), 256: ("%z", 256), 512: ("%x", 256), 768: ("%z", 256)}, body)


def test_how_many_elements_a_stream_takes_is_part_of_it() -> None:
    """The bytes that are written at its end do not tell it: 2 and 4 are as many as 4 and 2."""
    one, two = appended((2, 4)), appended((4, 2))
    assert prove(one, one).verdict == EQUAL
    assert prove(one, two).verdict != EQUAL
