"""What surrounds the instructions: who executes which part, scalars between them, memory before the
program, addresses that transfers do not like."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import ptosim
from ptosim.launch import array_files
from ptosim.launch.description import sidecar_of
from tests.launch.programs.test_programs import PROGRAMS
from tests.ops.micro.data import masks, registers
from tests.support.micro import Lanes, in_ub, kernel, module, run

SEEN = """
    %sub = pto.get_subblock_idx
    %subs = pto.get_subblock_num
    %block = pto.get_block_idx
    %blocks = pto.get_block_num
    %three = arith.constant 3 : i64
    %first = arith.muli %block, %three : i64
    %who = arith.addi %first, %sub : i64
    %at = arith.index_cast %who : i64 to index
"""
"""A number for each core: 3 * block + vector core."""


def test_a_vector_kernel_is_one_core_of_each_block():
    """Block numbers from the launch; sub-block 0 of 1."""
    body = (
        SEEN
        + """
    %hundred = arith.constant 100 : i64
    %a = arith.muli %blocks, %hundred : i64
    %b = arith.addi %a, %subs : i64
    pto.store_scalar %b, %o[%at] : !pto.ptr<i64>, i64
    """
    )
    result = run(
        kernel("%o: !pto.ptr<i64>", body),
        {"o": np.zeros(9, np.int64)},
        block_num=2,
        sanitize="none",
    )
    assert result.outputs["o"].tolist() == [201, 0, 0, 201, 0, 0, 0, 0, 0]


def test_a_mixed_kernel_is_a_cube_core_and_both_vector_cores():
    """Code outside of sections is executed by all three, a section by its kind."""
    body = f"""
    %ten = arith.constant 10 : i64
    pto.section.vector {{
      {SEEN}
      %tens = arith.muli %sub, %ten : i64
      %b = arith.addi %tens, %subs : i64
      pto.store_scalar %b, %o[%at] : !pto.ptr<i64>, i64
    }}
    pto.section.cube {{
      %c2 = arith.constant 2 : index
      pto.store_scalar %ten, %o[%c2] : !pto.ptr<i64>, i64
    }}"""
    text = module(f"func.func @kernel(%o: !pto.ptr<i64>) {{\n{body}\nreturn\n}}", kind=None)
    result = run(text, {"o": np.zeros(3, np.int64)}, sanitize="none")  # of one line: A02
    assert result.outputs["o"].tolist() == [2, 12, 10]


WRAPPED = {
    "arith.addi": operator.add, "arith.subi": operator.sub, "arith.muli": operator.mul,
    "arith.andi": operator.and_, "arith.ori": operator.or_, "arith.xori": operator.xor,
}  # fmt: skip


@pytest.mark.parametrize("name", WRAPPED)
def test_scalars_wrap_at_their_width(name):
    """Two's complement of 8, 16 and 32 bits, the largest and smallest of each."""
    lines, expected = [], []
    for bits in (8, 16, 32):
        top = 1 << (bits - 1)
        for left, right in ((top - 1, top - 1), (-top, top - 1), (-top, -top)):
            number = len(expected)
            lines += [
                f"%a{number} = arith.constant {left} : i{bits}",
                f"%b{number} = arith.constant {right} : i{bits}",
                f"%r{number} = {name} %a{number}, %b{number} : i{bits}",
                f"%w{number} = arith.extui %r{number} : i{bits} to i64",
                f"%k{number} = arith.constant {number} : index",
                f"pto.store_scalar %w{number}, %i64[%k{number}] : !pto.ptr<i64, ub>, i64",
            ]
            expected.append(WRAPPED[name](left, right) % (1 << bits))
    after, _ = in_ub(bytes(128), outside=lines)
    assert np.frombuffer(after, np.int64)[: len(expected)].tolist() == expected


def test_comparison_choice_and_casts():
    """eq and sgt of negative numbers; an index cast to 8 bits keeps the low ones."""
    lines = [
        "%m = arith.constant -1 : i32",
        "%one = arith.constant 1 : i32",
        "%x = arith.constant 513 : index",
        "%gt = arith.cmpi sgt, %m, %one : i32",
        "%eq = arith.cmpi eq, %m, %m : i32",
        "%a = arith.select %gt, %m, %one : i32",
        "%b = arith.select %eq, %m, %one : i32",
        "%low = arith.index_castui %x : index to i8",
        "%c = arith.extui %low : i8 to i32",
        *(f"%k{n} = arith.constant {n} : index" for n in range(3)),
        *(
            f"pto.store_scalar %{v}, %i32[%k{n}] : !pto.ptr<i32, ub>, i32"
            for n, v in enumerate("abc")
        ),
    ]
    after, _ = in_ub(bytes(64), outside=lines)
    assert np.frombuffer(after, np.int32)[:3].tolist() == [1, -1, 1]


@pytest.mark.parametrize("name", ["softmax", "topk", "flash_attention", "mxfp8_matmul"])
def test_what_memory_held_before_does_not_matter(name):
    """UB, L1 and the buffers of the cube filled with 0, 0xFF and noise: the same results."""
    path = PROGRAMS / "micro" / f"{name}.pto"
    beside = sidecar_of(path)
    assert beside is not None
    program = ptosim.load(path)
    found = []
    for uninit in ("zero", "poison", "random"):
        args = {n: array_files.parse_spec(s, beside.folder) for n, s in beside.args.items()}
        outputs = program.run(args, uninit=uninit, timing=False).outputs
        found.append({n: a.tobytes() for n, a in outputs.items()})
    assert found[0] == found[1] == found[2]


def test_the_control_register_does_not_decide_what_a_clause_says():
    """Saturation bits 60 and 59 of CTRL against `sat` of a conversion."""
    a, m = registers("ctrl", "f32", 3), masks("ctrl", 4, 3)
    v, h = "!pto.vreg<64xf32>", "!pto.vreg<128xf16>"

    def converted(setup: list[str]) -> list[bytes]:
        program = Lanes().input("a", "f32", a).mask("m", 32, m).result("r", "f16")
        line = '%r = pto.vcvt %a, %m {rnd = "R", sat = "SAT", part = "EVEN"}'
        return program.run(f"{line} : {v}, !pto.mask<b32> -> {h}", setup=setup)["r"]

    bits = [
        "%word = arith.constant 0x1800000000000000 : i64",
        "pto.set_ctrl %word : i64",
    ]
    assert converted(bits) == converted([])


@pytest.mark.parametrize(("address", "expected"), [(32, []), (16, ["PTO6605"])])
def test_transfers_need_addresses_of_32_bytes(address, expected):
    line = "pto.mte_ub_gm %q, %g, 32 nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>"
    there = f"%at = arith.constant {address} : i64\n%q = pto.castptr %at : i64 -> !pto.ptr<ui8, ub>"
    _, codes = in_ub(bytes(64), outside=[there, line])
    assert codes == expected


def test_out_of_range_addresses_stop_a_transfer():
    """Behind the end of UB and of L1; the message names the bytes and the size of the space."""
    for space, line in (
        ("vec", "pto.mte_gm_ub %g, %q, 0, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>"),
        ("mat", "pto.mte_gm_l1 %g, %q, 64 nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, l1>"),
    ):
        end = {"vec": 0x40000, "mat": 0x80000}[space]
        kind = {"vec": "ub", "mat": "l1"}[space]
        body = f"%at = arith.constant {end - 32} : i64\n%q = pto.castptr %at : i64 -> !pto.ptr<ui8, {kind}>\n{line}"
        text = kernel("%g: !pto.ptr<ui8>", body, kind="vector" if space == "vec" else "cube")
        with pytest.raises(ptosim.Trap) as caught:
            run(text, {"g": np.zeros(64, np.uint8)})
        (found,) = caught.value.diagnostics
        assert found.code == "PTO6602"
        assert f"[{end - 32:#x}, {end + 32:#x}); the space has {end:#x} bytes" in found.message
        assert found.help
