"""Chains of definitions that are longer than Python nests calls."""

from __future__ import annotations

import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.ir.core import add_in_order
from ptosim.shell.main import main

LINKS = 1100
"""Python nests a thousand calls."""


def chain(line: str, links: int = LINKS) -> str:
    """Lines of which each takes what the one before makes: `{last}` and `{this}` are numbers."""
    return "\n".join(line.format(last=k, this=k + 1) for k in range(links))


def module(body: str, kind: str = "vector") -> str:
    return f"""module attributes {{pto.kernel_kind = #pto.kernel_kind<{kind}>}} {{
func.func @k() attributes {{pto.kernel}} {{
{body}
return
}}
}}"""


def codes(body: str, kind: str = "vector") -> list[str]:
    found = ptosim.check(module(body, kind), target="a5", compat="2026-08")
    return [d.code for d in found if d.is_rejection]


PLACES = """%zero = arith.constant 0 : i64
%at = arith.constant 0 : index
%u = pto.castptr %zero : i64 -> !pto.ptr<f32, ub>
%m = pto.pset_b32 "PAT_ALL" : !pto.mask<b32>
"""
ADD = "%v{this} = pto.vadd %v{last}, %v{last}, %m : !pto.vreg<64xf32>, !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>"
STORE = "pto.vsts %v{}, %u[%at], %m : !pto.vreg<64xf32>, !pto.ptr<f32, ub>, !pto.mask<b32>"


@pytest.mark.slow
def test_registers_are_made_again_after_a_barrier() -> None:
    first = "%one = arith.constant 1.0 : f32\n%v0 = pto.vbr %one : f32 -> !pto.vreg<64xf32>\n"
    body = f"{first}{chain(ADD)}\npto.barrier <PIPE_ALL>\n{STORE.format(LINKS)}"
    assert codes(PLACES + body) == []


@pytest.mark.slow
def test_loads_are_followed_to_where_their_lanes_are_used(tmp_path, capsys) -> None:
    first = "%v0 = pto.vlds %u[%at] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>\n"
    path = tmp_path / "chain.pto"
    path.write_text(module(f"{PLACES}{first}{chain(ADD)}\n{STORE.format(LINKS)}"))
    assert main(["run", "--target", "a5", str(path)]) == 0
    assert "nested" not in capsys.readouterr().err


def test_numbers_that_are_used_after_a_run_are_computed_before_it() -> None:
    load = "%{} = pto.vlds %u[%at] : !pto.ptr<f32, ub> -> !pto.vreg<64xf32>\n"
    sums = chain("%n{this} = arith.addi %n{last}, %n{last} : index")
    before = f"{load.format('v0')}%n0 = arith.constant 1 : index\n{sums}\n{STORE.format(0)}\n"
    pointer = f"%w = pto.addptr %u, %n{LINKS} : !pto.ptr<f32, ub> -> !pto.ptr<f32, ub>\n"
    after = pointer + load.format("v1") + STORE.format(1).replace("%u[", "%w[")
    assert codes(f"{PLACES}{before}pto.barrier <PIPE_ALL>\n{after}") == []


@pytest.mark.slow
def test_an_align_state_goes_through_many_loops() -> None:
    first = """%c1 = arith.constant 1 : index
%a0 = pto.init_align : !pto.align
"""
    loops = chain(
        "%a{this} = scf.for %k{this} = %at to %c1 step %c1 iter_args(%b{this} = %a{last}) -> (!pto.align) {{\nscf.yield %b{this} : !pto.align\n}}"
    )
    last = f"%n = arith.constant 1 : i32\npto.vstas %a{LINKS}, %u, %n : !pto.align, !pto.ptr<f32, ub>, i32"
    assert codes(f"{PLACES}pto.vecscope {{\n{first}{loops}\n{last}\n}}") == []


@pytest.mark.slow
def test_the_address_of_a_pointer_is_a_sum_of_many_offsets() -> None:
    steps = chain(
        "%q{this} = pto.addptr %q{last}, %one : !pto.ptr<!pto.f8E8M0, mat> -> !pto.ptr<!pto.f8E8M0, mat>"
    )
    body = f"""%c0 = arith.constant 0 : i64
%c16 = arith.constant 16 : i64
%one = arith.constant 1 : index
%q0 = pto.castptr %c0 : i64 -> !pto.ptr<!pto.f8E8M0, mat>
%a = pto.castptr %c0 : i64 -> !pto.ptr<f8E4M3FN, left>
{steps}
"""
    load = "pto.mte_l1_l0a_mx %q{}, %a, %c16, %c16, %c0, %c0 : !pto.ptr<!pto.f8E8M0, mat>, !pto.ptr<f8E4M3FN, left>, i64, i64, i64, i64"
    assert codes(body + load.format(32 * (LINKS // 32)), kind="cube") == []
    assert codes(body + load.format(LINKS - 1), kind="cube") == ["PTO2190"]


@pytest.mark.slow
def test_windows_of_windows_are_in_one_storage() -> None:
    types = {"x": "64x64xbf16", "q": "64x64xui8", "e": "2x64xui8", "m": "2x64xbf16"}
    tiles = {name: f"!pto.tile_buf<vec, {text}>" for name, text in types.items()}
    made = "\n".join(f"%{name} = pto.alloc_tile : {type_}" for name, type_ in tiles.items())
    cuts = chain(
        f"%s{{this}} = pto.subview %s{{last}}[%at, %at] sizes [2, 64] : {tiles['m']} -> {tiles['m']}"
    )
    ends = f"{tiles['q']}, {tiles['e']}, {tiles['m']}, {tiles['m']}"
    line = f"pto.tquant.mx ins(%x : {tiles['x']}) outs(%q, %e, %m, %{{}} : {ends}) {{{{quant_type = #pto<quant_type MXFP8>, grpAxis = #pto<mx_group_axis axis0>}}}}"
    body = f"%at = arith.constant 0 : index\n{made}\n%s0 = pto.alloc_tile : {tiles['m']}\n{cuts}\n"
    assert codes(body + line.format(f"s{LINKS}")) == []
    shared = body.replace("%s0 = pto.alloc_tile", "%other = pto.alloc_tile").replace("%s0", "%m")
    assert codes(shared + line.format(f"s{LINKS}")) == ["PTO4050"]


def test_what_links_need_comes_before_them() -> None:
    found: dict[int, None] = {}
    assert add_in_order(5, lambda n: [n - 2, n - 1] if n > 1 else [], found)
    assert list(found) == [1, 0, 2, 3, 4, 5]


def test_the_search_ends_at_what_has_no_terms() -> None:
    found: dict[int, None] = {}
    assert not add_in_order(5, lambda n: None if n == 2 else [n - 1] if n else [], found)
    assert not found


def test_links_in_a_circle_come_once() -> None:
    found: dict[int, None] = {}
    assert add_in_order(0, lambda n: [(n + 1) % 3], found)
    assert sorted(found) == [0, 1, 2]


REGISTER = "!pto.vreg<64xf32>"


def calling(functions: int, calls: int) -> str:
    """A vector region that calls the first of some functions; each calls the next one so often."""
    lines = []
    for k in range(functions):
        lines.append(f"func.func private @f{k}(%v0: {REGISTER}) -> {REGISTER} {{")
        call = "%v{} = func.call @f{}(%v{}) : ({}) -> {}"
        lines += [call.format(n + 1, k + 1, n, REGISTER, REGISTER) for n in range(calls)]
        lines.append(f"return %v{calls} : {REGISTER}\n}}")
    lines.append(f"func.func private @f{functions}(%v: {REGISTER}) -> {REGISTER} {{")
    lines.append(f"return %v : {REGISTER}\n}}\nfunc.func @k() attributes {{pto.kernel}} {{")
    lines.append(
        f"{PLACES}pto.vecscope {{\n%v0 = pto.vlds %u[%at] : !pto.ptr<f32, ub> -> {REGISTER}"
    )
    lines.append(f"%v1 = func.call @f0(%v0) : ({REGISTER}) -> {REGISTER}\n{STORE.format(1)}\n}}")
    lines.append("return\n}")
    return "\n".join(lines)


@pytest.mark.slow
def test_calls_of_a_vector_region_do_not_double_without_end() -> None:
    """22 functions that call the next one twice are 4 million calls where they are put in place."""
    for text in (calling(22, calls=2), calling(400, calls=1)):
        program = ptosim.load(text, target="a5", level=3)
        with pytest.raises(UnsupportedError, match="the calls of a vector region"):
            program.run({})


def test_calls_in_each_other_are_put_in_place() -> None:
    program = ptosim.load(calling(8, calls=2), target="a5", level=3)
    assert program.run({}, uninit="zero").executed > 2**8
