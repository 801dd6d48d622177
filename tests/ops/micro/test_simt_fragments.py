"""Memory of each thread's own: fragments that live from one section to the next, arrays of one
launch, numbers of small vectors."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.shell.main import main
from tests.ops.micro.test_simt import LINEAR, TID, pointers, program, store
from tests.support.micro import run

FRAGMENT = """%n4 = arith.constant 4 : i32
%f = llvm.alloca %n4 x i32 {pto.persistent} : (i32) -> !llvm.ptr"""


def test_a_thread_finds_what_it_stored_in_an_earlier_section():
    """By linear id, each element for itself; a store of a later section counts for the next."""
    body = f"""{FRAGMENT}
pto.section.simt<<<32, 2, 1>>> {{
{LINEAR}
%c3 = arith.constant 3 : i32
%a = arith.muli %t, %c3 : i32
%q = llvm.getelementptr %f[1] : (!llvm.ptr) -> !llvm.ptr, i32
llvm.store %t, %f : i32, !llvm.ptr
llvm.store %a, %q : i32, !llvm.ptr
}}
pto.section.simt<<<32, 2, 1>>> {{
%q = llvm.getelementptr %f[4] : (!llvm.ptr) -> !llvm.ptr, i8
%b = llvm.load %q : !llvm.ptr -> i32
%c1 = arith.constant 1 : i32
%d = arith.addi %b, %c1 : i32
llvm.store %d, %q : i32, !llvm.ptr
}}
pto.section.simt<<<32, 2, 1>>> {{
{LINEAR}
%v = llvm.load %f : !llvm.ptr -> vector<2xi32>
%i0 = arith.constant 0 : i32
%i1 = arith.constant 1 : i32
%x0 = llvm.extractelement %v[%i0 : i32] : vector<2xi32>
%x1 = llvm.extractelement %v[%i1 : i32] : vector<2xi32>
%k = arith.constant 1000 : i32
%m = arith.muli %x0, %k : i32
%r = arith.addi %m, %x1 : i32
{store("r")}
}}"""
    result = run(program("", pointers(p="i32"), body), {"p": np.zeros(64, np.int32)})
    assert result.outputs["p"].tolist() == [1000 * t + 3 * t + 1 for t in range(64)]


def test_a_loop_of_the_kernel_goes_on_with_the_fragments():
    body = f"""{FRAGMENT}
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%c5 = arith.constant 5 : index
pto.section.simt<<<16, 1, 1>>> {{
{TID}
llvm.store %t, %f : i32, !llvm.ptr
}}
scf.for %k = %c0 to %c5 step %c1 {{
  pto.section.simt<<<16, 1, 1>>> {{
  %a = llvm.load %f : !llvm.ptr -> i32
  %b = arith.addi %a, %a : i32
  llvm.store %b, %f : i32, !llvm.ptr
  }}
}}
pto.section.simt<<<16, 1, 1>>> {{
{TID}
%r = llvm.load %f : !llvm.ptr -> i32
{store("r")}
}}"""
    result = run(program("", pointers(p="i32"), body), {"p": np.zeros(16, np.int32)})
    assert result.outputs["p"].tolist() == [32 * t for t in range(16)]


PRIVATE = f"""pto.section.simt<<<8, 1, 1>>> {{
{TID}
%n8 = arith.constant 8 : i32
%a = llvm.alloca %n8 x i32 : (i32) -> !llvm.ptr
%c0 = arith.constant 0 : i32
%c1 = arith.constant 1 : i32
%c8 = arith.constant 8 : i32
scf.for %k = %c0 to %LAST step %c1 : i32 {{
  %q = llvm.getelementptr %a[%k] : (!llvm.ptr, i32) -> !llvm.ptr, i32
  %v = arith.muli %k, %t : i32
  llvm.store %v, %q : i32, !llvm.ptr
}}
%q = llvm.getelementptr %a[%t] : (!llvm.ptr, i32) -> !llvm.ptr, i32
%r = llvm.load %q : !llvm.ptr -> i32
{store("r")}
}}"""


def test_an_array_of_a_launch_is_each_threads_own():
    text = program("", pointers(p="i32"), PRIVATE.replace("%LAST", "%c8"))
    result = run(text, {"p": np.zeros(8, np.int32)})
    assert result.outputs["p"].tolist() == [t * t for t in range(8)]


def test_a_place_outside_of_the_own_array():
    text = program(
        "",
        pointers(p="i32"),
        PRIVATE.replace("%LAST", "%c8").replace("%n8 = arith.constant 8", "%n8 = arith.constant 6"),
    )
    with pytest.raises(ptosim.Trap, match=r"PTO7302.*\(0,0,0\).*\[24, 28\)"):
        run(text, {"p": np.zeros(8, np.int32)})


def test_one_number_of_a_small_vector():
    body = f"""pto.section.simt<<<4, 1, 1>>> {{
{TID}
%v = arith.constant dense<[10, 20]> : vector<2xi32>
%c2 = arith.constant 2 : i32
%at = arith.remui %t, %c2 : i32
%w = llvm.insertelement %t, %v[%at : i32] : vector<2xi32>
%x = llvm.extractelement %w[%at : i32] : vector<2xi32>
%i0 = arith.constant 0 : i32
%y = llvm.extractelement %w[%i0 : i32] : vector<2xi32>
%k = arith.constant 100 : i32
%m = arith.muli %x, %k : i32
%r = arith.addi %m, %y : i32
{store("r")}
}}"""
    result = run(program("", pointers(p="i32"), body), {"p": np.zeros(4, np.int32)})
    assert result.outputs["p"].tolist() == [0 + 0, 100 + 10, 200 + 2, 300 + 10]


@pytest.mark.parametrize("index", [2**61 - 1, 2**61, -1])
def test_a_place_whose_end_wraps_is_outside_of_the_own_array(index):
    body = f"""pto.section.simt<<<8, 1, 1>>> {{
{TID}
%n8 = arith.constant 8 : i32
%far = arith.constant {index} : i64
%a = llvm.alloca %n8 x i32 : (i32) -> !llvm.ptr
%q = llvm.getelementptr %a[%far] : (!llvm.ptr, i64) -> !llvm.ptr, i32
%r = llvm.load %q : !llvm.ptr -> i32
{store("r")}
}}"""
    with pytest.raises(ptosim.Trap, match="of its own array, which has 32"):
        run(program("", pointers(p="i32"), body), {"p": np.zeros(8, np.int32)})


@pytest.mark.parametrize("count", [300_000, 2**31, 2**63 - 1])
@pytest.mark.parametrize("form", ["launch", "persistent"])
def test_own_arrays_beyond_all_memory_are_not_made(form, count):
    lines = (f"%n = arith.constant {count} : i64", "%a = llvm.alloca %n x i32")
    uses = "%c0 = arith.constant 0 : i32\nllvm.store %c0, %a : i32, !llvm.ptr"
    made = (
        f"{lines[0]}\n{lines[1]} {'{pto.persistent} ' * (form == 'persistent')}: (i64) -> !llvm.ptr"
    )
    before, inside = (made, uses) if form == "persistent" else ("", f"{made}\n{uses}")
    body = f"{before}\npto.section.simt<<<1024, 1, 1>>> {{\n{inside}\n}}"
    with pytest.raises(ptosim.Trap) as caught:
        run(program("", pointers(p="i32"), body), {"p": np.zeros(8, np.int32)})
    assert caught.value.diagnostics[-1].code == "PTO8002"
    assert f"{4 * count:,} bytes for each of 1,024 threads" in str(caught.value)


def test_own_arrays_count_for_the_memory_of_a_run():
    body = """pto.section.simt<<<1024, 1, 1>>> {
%n = arith.constant 60000 : i32
%a = llvm.alloca %n x i32 : (i32) -> !llvm.ptr
}"""
    program_ = ptosim.load(program("", pointers(p="i32"), body))
    with pytest.raises(ptosim.LimitError, match="PTO0016"):
        program_.run({"p": np.zeros(8, np.int32)}, max_memory=100 << 20)


def test_own_arrays_are_as_long_as_the_threads_that_execute_say():
    """What the other lanes of a count hold is of no account."""
    body = f"""pto.section.simt<<<8, 1, 1>>> {{
{TID}
%c1 = arith.constant 1 : i32
%c28 = arith.constant 28 : i32
%n = arith.shli %t, %c28 : i32
%few = arith.cmpi slt, %t, %c1 : i32
scf.if %few {{
  %a = llvm.alloca %n x i32 : (i32) -> !llvm.ptr
}}
{store("n")}
}}"""
    out = run(program("", pointers(p="i32"), body), {"p": np.zeros(8, np.int32)}).outputs["p"]
    assert out.tolist() == [np.int32(t << 28 if t < 8 else 0) for t in range(8)]


def test_the_printer_keeps_the_two_forms_of_their_own():
    text = program("", pointers(p="i32"), PRIVATE.replace("%LAST", "%c8"))
    printed = print_module(parse(Source("<text>", text), Sink()))
    assert "llvm.alloca %n8 x i32 : (i32) -> !llvm.ptr" in printed
    assert "llvm.getelementptr %a[%k] : (!llvm.ptr, i32) -> !llvm.ptr, i32" in printed


def test_flags_around_a_section_are_those_of_the_vector_pipe(tmp_path, capsys):
    body = f"""%c0 = arith.constant 0 : i64
%u = pto.castptr %c0 : i64 -> !pto.ptr<i32, ub>
pto.mte_gm_ub %p, %u, 0, 128 nburst(1, 128, 128) : !pto.ptr<i32, gm>, !pto.ptr<i32, ub>, i64, i64, i64, i64, i64
pto.section.simt<<<32, 1, 1>>> {{
{TID}
%v = pto.load %u[%i] : !pto.ptr<i32, ub> -> i32
pto.store %v, %u[%i] : !pto.ptr<i32, ub>, i32
}}
pto.mte_ub_gm %u, %p, 128 nburst(1, 128, 128) : !pto.ptr<i32, ub>, !pto.ptr<i32, gm>, i64, i64, i64, i64"""
    path = tmp_path / "section.pto"
    path.write_text(program("", pointers(p="i32"), body))
    assert main(["fmt", "--insert-sync", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "pto.set_flag[<PIPE_MTE2>, <PIPE_V>" in printed
    assert "pto.wait_flag[<PIPE_V>, <PIPE_MTE3>" in printed
    assert "PIPE_S" not in printed


def shared(inside: str, outside: str = "") -> str:
    """UB behind a pointer of the llvm dialect: each thread stores, and reads what another stored."""
    return f"""%at = arith.constant 1024 : i64
{outside}
pto.section.simt<<<16, 1, 1>>> {{
{TID}
{inside}
%q = llvm.getelementptr %s[%t] : (!llvm.ptr<6>, i32) -> !llvm.ptr<6>, i32
llvm.store %t, %q : i32, !llvm.ptr<6>
pto.syncthreads
%c15 = arith.constant 15 : i32
%o = arith.subi %c15, %t : i32
%w = llvm.getelementptr %s[%o] : (!llvm.ptr<6>, i32) -> !llvm.ptr<6>, i32
%r = llvm.load %w : !llvm.ptr<6> -> i32
{store("r")}
}}"""


MADE = "%s = llvm.inttoptr %at : i64 to !llvm.ptr<6>"


@pytest.mark.parametrize("body", [shared(MADE), shared("", MADE)])
def test_space_6_is_ub_which_all_threads_share(body):
    """An i64 made a pointer of space 6 is a byte address in UB: what one thread stores there
    others load, unlike arrays of `llvm.alloca`."""
    out = run(program("", pointers(p="i32"), body), {"p": np.zeros(16, np.int32)}).outputs["p"]
    assert out.tolist() == list(range(15, -1, -1))


def test_small_vectors_go_through_ub_in_order():
    inside = f"""{TID}
%at = arith.constant 2048 : i64
%s = llvm.inttoptr %at : i64 to !llvm.ptr<6>
%v = arith.constant dense<[3, 5, 7, 9]> : vector<4xi32>
llvm.store %v, %s : vector<4xi32>, !llvm.ptr<6>
%q = llvm.getelementptr %s[2] : (!llvm.ptr<6>) -> !llvm.ptr<6>, i32
%w = llvm.load %q : !llvm.ptr<6> -> vector<2xi32>
%c1 = arith.constant 1 : i32
%high = llvm.extractelement %w[%c1 : i32] : vector<2xi32>
%third = llvm.load %q : !llvm.ptr<6> -> i32
%ten = arith.constant 10 : i32
%m = arith.muli %third, %ten : i32
%r = arith.addi %m, %high : i32
{store("r")}"""
    body = f"pto.section.simt<<<1, 1, 1>>> {{\n{inside}\n}}"
    out = run(program("", pointers(p="i32"), body), {"p": np.zeros(4, np.int32)}).outputs["p"]
    assert out[0] == 79


def test_other_spaces_are_not_known():
    body = shared(MADE).replace("ptr<6>", "ptr<3>")
    with pytest.raises(ptosim.PtosimError, match="only space 6"):
        run(program("", pointers(p="i32"), body), {"p": np.zeros(16, np.int32)})


def test_an_address_outside_of_ub_is_a_fault():
    body = shared(MADE).replace("1024 : i64", "900000000 : i64")
    with pytest.raises(ptosim.PtosimError, match=r"PTO7302.*UB"):
        run(program("", pointers(p="i32"), body), {"p": np.zeros(16, np.int32)})
