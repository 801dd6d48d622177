"""Wrong programs of the micro level through the commands: code, place, rule, cure, exit code, JSON.

What each rule says about which line is in `tests/filecheck/micro/reject_*.pto`; here the same faults
go through `check` and `run`."""

from __future__ import annotations

import json

import numpy as np
import pytest

import ptosim
from tests.support.micro import kernel

V, P, M = "!pto.vreg<64xf32>", "!pto.ptr<f32, ub>", "!pto.mask<b32>"
TILE = "!pto.tile_buf<loc=vec, dtype=f32, rows=1, cols=64, v_row=1, v_col=64, blayout=row_major, slayout=none_box, fractal=512, pad=0>"
LOAD = f"%x = pto.vlds %p[0] : {P} -> {V}"

IN_REGION = {
    "too few lanes": (f"%x = pto.vlds %p[0] : {P} -> !pto.vreg<32xf32>", "256 bytes"),
    "too many lanes": (f"%x = pto.vlds %p[0] : {P} -> !pto.vreg<128xf32>", "256 bytes"),
    "granularity that does not exist": (
        '%h = pto.pset_b32 "PAT_ALL" : !pto.mask<b64>',
        "mask granularity",
    ),
    "mask of other lanes": (
        f'%h = pto.pset_b16 "PAT_ALL" : !pto.mask<b16>\n{LOAD}\n'
        f"%y = pto.vabs %x, %h : {V}, !pto.mask<b16> -> {V}",
        "to agree",
    ),
    "unknown distribution": (
        f'%x = pto.vlds %p[0] {{dist = "NORMAL"}} : {P} -> {V}',
        "not a member of vlds_dist",
    ),
    "unknown part": (
        f'{LOAD}\n%y = pto.vcvt %x, %m {{rnd = "R", sat = "SAT", part = "LOW"}} : {V}, {M} -> '
        "!pto.vreg<128xf16>",
        "not a member of vcvt_part",
    ),
    "unknown rounding": (
        f'{LOAD}\n%y = pto.vtrc %x, %m, "X" : {V}, {M} -> {V}',
        "not a member of vtrunc",
    ),
    "unknown pattern": (f'%h = pto.pset_b32 "PAT_HALF" : {M}', "not a member of mask_pat"),
    "tile operation": (f"pto.tabs ins(%t : {TILE}) outs(%t : {TILE})", "is a tile operation"),
    "types that do not convert": (
        f"{LOAD}\n%y = pto.vcvt %x, %m : {V}, {M} -> !pto.vreg<256xui8>",
        "converts",
    ),
    "region in a region": (
        'pto.vecscope {\n%h = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>\n}',
        "does not allow nested dedicated",
    ),
}
OUTSIDE = {
    "register after a barrier": (
        f'%h = pto.pset_b32 "PAT_ALL" : {M}\n{LOAD}\npto.barrier #pto.pipe<PIPE_V>\n'
        f"pto.vsts %x, %p[0], %h : {V}, {P}, {M}",
        "cannot have external users",
    ),
    "register that escapes": (
        f'pto.vecscope {{\n{LOAD}\n}}\npto.vecscope {{\n%h = pto.pset_b32 "PAT_ALL" : {M}\n'
        f"pto.vsts %x, %p[0], %h : {V}, {P}, {M}\n}}",
        "undefined value `%x`",
    ),
    "clause that is missing": (
        f"pto.mte_gm_ub %g, %p, 0, 64 : !pto.ptr<f32, gm>, {P}",
        "requires `nburst`",
    ),
    "wrong space": (
        f"pto.mte_gm_ub %p, %p, 0, 64 nburst(1, 0, 0) : {P}, {P}",
        "requires GM source and UB destination",
    ),
}


def program(line: str, *, inside: bool, target: str = "a5") -> str:
    body = f"""%zero = arith.constant 0 : i64
    %p = pto.castptr %zero : i64 -> {P}
    %t = pto.alloc_tile : {TILE}
    """
    body += f'pto.vecscope {{\n%m = pto.pset_b32 "PAT_ALL" : {M}\n{line}\n}}' if inside else line
    return kernel("%g: !pto.ptr<f32, gm>", body).replace('"a5"', f'"{target}"')


CASES = [
    pytest.param(program(line, inside=inside), words, id=name)
    for inside, table in ((True, IN_REGION), (False, OUTSIDE))
    for name, (line, words) in table.items()
]


@pytest.mark.parametrize(("text", "words"), CASES)
def test_from_check_and_run(text, words, cli, tmp_path):
    """Rejected in the same way, with exit code 3; the text shows the line and a cure."""
    path = tmp_path / "wrong.pto"
    path.write_text(text)
    outcome = cli("check", path, "--format", "json")
    assert outcome.code == 3
    found = next(f for f in json.loads(outcome.out)["findings"] if words in f["message"])
    assert found["severity"] == "error"
    assert found["code"].startswith("PTO")
    assert found["line"] > 1
    assert found.get("help") or found.get("notes"), "a rule or a cure"
    again = cli("run", path, "--arg", "g=zeros:f32:64", "--format", "json")
    assert again.code == 3
    assert [f["code"] for f in json.loads(again.out)["findings"]] == [
        f["code"] for f in json.loads(outcome.out)["findings"]
    ]
    shown = cli("check", path)
    assert words in shown.out + shown.err
    assert "wrong.pto:" in shown.out + shown.err


@pytest.mark.parametrize(("date", "codes"), [("2026-04", (3, 5)), ("2026-08", (0,))])
def test_micro_instructions_on_another_target(cli, tmp_path, date, codes):
    """April refuses them; August's assembler accepts what only the hardware does not have."""
    path = tmp_path / "wrong.pto"
    path.write_text(program(LOAD, inside=True, target="a2a3"))
    outcome = cli("check", path, "--compat", date, "--format", "json")
    assert outcome.code in codes
    messages = [f["message"] for f in json.loads(outcome.out)["findings"]]
    assert any("A5" in m for m in messages), messages


def test_out_of_range_from_the_command(cli, tmp_path):
    """Accepted by `check`, stopped by `run` with exit code 4 and the bytes."""
    path = tmp_path / "far.pto"
    path.write_text(program(LOAD.replace("[0]", "[70000]"), inside=True))
    outcome = cli("run", path, "--arg", "g=zeros:f32:64", "--format", "json")
    assert outcome.code == 4
    (found,) = [f for f in json.loads(outcome.out)["findings"] if f["severity"] == "error"]
    assert found["code"] == "PTO6602"
    assert "the space has 0x40000" in found["message"]
    assert found["help"]


@pytest.mark.parametrize(
    ("count", "codes"), [("0x10000", ["PTO2034"]), ("0x7FC00000", ["PTO1104"])]
)
def test_bursts_that_are_copied_one_by_one_are_counted_first(count, codes):
    """All write the same bytes; the field of the count has 16 bits, a billion would take an hour."""
    body = f"""
    %zero = arith.constant 0 : i64
    %u = pto.castptr %zero : i64 -> !pto.ptr<ui8, ub>
    pto.mte_gm_ub %g, %u, 0, 32 nburst({count}, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>
    """
    found = ptosim.check(kernel("%g: !pto.ptr<ui8>", body), sync="manual")
    assert {d.code for d in found if d.code in ("PTO2034", "PTO1104")} >= set(codes)
    assert ("PTO1104" in {d.code for d in found}) is (codes == ["PTO1104"])


FAR = """
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c64 = arith.constant 64 : index
%k90 = arith.constant 90 : index
%n = arith.constant 100 : index
%zero = arith.constant 0 : i64
%near = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
%big = arith.constant 4611686018427387904 : index
%half = pto.addptr %near, %big : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
%far = pto.addptr %half, %big : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>
pto.vecscope {
scf.for %j = %c0 to %n step %c1 {
%b = arith.cmpi slt, %j, %k90 : index
%p = arith.select %b, %near, %far : !pto.ptr<f32, ub>
scf.for %i = %c0 to %n step %c1 {
%off = arith.muli %i, %c64 : index
LOAD
}
}
}
"""


@pytest.mark.parametrize(
    "load",
    [
        "%v = pto.vlds %p[%off] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>",
        "%v = pto.vmi.vload %p[%off] : !pto.ptr<f32, ub> -> !pto.vmi.vreg<64xf32>",
    ],
)
def test_many_rounds_at_a_pointer_beyond_64_bits(load):
    """Rounds are followed as arrays of addresses, which have no place for 2^65."""
    text = kernel("%g: !pto.ptr<f32>", FAR.replace("LOAD", load))
    with pytest.raises(ptosim.Trap) as caught:
        ptosim.load(text, sync="manual").run({"g": np.zeros(64, np.float32)})
    assert caught.value.findings[-1].code == "PTO6602"
