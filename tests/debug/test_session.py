"""The debugger in Python: where it stops, what it sees there, and that a run under it is the same run."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from tests.debug.helpers import COPY, LOOP, PROGRAMS, debug


def ops(session, count):
    """Names of the operations that `count` steps stop at."""
    found = []
    for _ in range(count):
        stop = session.step()
        op = session.current_op()
        found.append(op.name.removeprefix("pto.") if stop.reason == "step" and op else stop.reason)
    return found


def test_steps_stop_at_tile_operations_in_program_order():
    session = debug("loop", LOOP)
    body = ["tload", "set_flag", "wait_flag", "tmuls", "tadds", "set_flag", "wait_flag", "tstore"]
    assert ops(session, 25) == [*body * 3, "end"]


def test_next_does_not_enter_calls_and_finish_leaves_them():
    session = debug("loop", LOOP)
    session.step(3)
    session.next()
    assert session.current_op().name == "pto.tadds"
    session.reverse_step()
    assert session.current_op().name == "pto.tmuls"
    session.finish()
    assert session.current_op().name == "func.call"
    session.reverse_step()
    session.reverse_next()
    assert session.current_op().name == "pto.wait_flag"


def test_finish_leaves_a_loop_with_all_its_turns():
    session = debug("loop", LOOP)
    session.step()
    session.finish()
    assert session.current_op().name == "func.return"
    assert np.array_equal(session.value("%y"), LOOP["x"] * 2 + 2)


def test_values_are_those_of_the_moment():
    """Turn i holds rows i..i+3: before tmuls as loaded, after it doubled."""
    session = debug("loop", LOOP)
    session.break_("tadds if %i == 4")
    stop = session.continue_()
    assert (stop.reason, session.value("%i")) == ("breakpoint", 4)
    assert np.array_equal(session.value("%a"), LOOP["x"][4:8] * 2)
    session.reverse_step()
    assert np.array_equal(session.value("%a"), LOOP["x"][4:8])
    assert session.evaluate("%a[1, 2] + $line") == 5 * 16 + 2 + 4


def test_a_run_under_the_debugger_is_the_same_run():
    plain = ptosim.load(PROGRAMS / "loop.pto").run(LOOP)
    session = debug("loop", LOOP)
    stop = session.continue_()
    assert stop.position == plain.executed
    assert np.array_equal(session.outputs()["y"], plain.outputs["y"])
    stepped = debug("loop", LOOP)
    stepped.points.add("pc", "never", pcs=frozenset((10_000,)))
    assert stepped.continue_().position == plain.executed
    assert np.array_equal(stepped.outputs()["y"], plain.outputs["y"])


def test_the_callers_arrays_are_not_changed():
    y = np.zeros((12, 16), np.float32)
    session = debug("loop", LOOP | {"y": y})
    session.continue_()
    assert not y.any()


def test_a_watchpoint_stops_behind_the_change_and_backwards_before_it():
    session = debug("loop", LOOP)
    session.watch("%b[0, 0]")
    stop = session.continue_()
    assert stop.reason == "watchpoint"
    assert "tadds" in stop.text
    assert "nan -> 2" in stop.text
    after = stop.position
    stop = session.reverse_continue()
    assert stop.position == after - 1
    assert session.current_op().name == "pto.tadds"


@pytest.mark.parametrize(
    ("what", "line", "words"),
    [
        ("gm y[4, 0]", 29, "0 -> 130"),
        ("ub 0x100..0x103", 26, "255 -> 0"),
        ("flag V MTE3 1", 27, "0 -> 1"),
        ("outside 200 %b", 26, "tadds"),
        ("%i", 19, "0 -> 4"),
        ("%b.max() > 130", 26, "tadds"),
    ],
)
def test_what_can_be_watched(what, line, words):
    """The writer is the operation in front of the stop."""
    session = debug("loop", LOOP)
    session.step()
    session.watch(what)
    stop = session.continue_()
    assert stop.reason == "watchpoint"
    assert words in stop.text
    session.walker.goto(stop.position - 1)
    assert session.line() == line


@pytest.mark.parametrize(
    ("place", "name"),
    [("26", "tadds"), ("tadds", "tadds"), ("pipe MTE3", "wait_flag"), ("@scale", "tmuls"),
     ("loop.pto:29", "tstore"), ("27", "set_flag")],
)  # fmt: skip
def test_places_to_stop_at(place, name):
    session = debug("loop", LOOP)
    session.break_(place)
    assert session.continue_().reason == "breakpoint"
    assert session.current_op().name == f"pto.{name}"


def test_ignore_counts_and_temporary_breakpoints():
    session = debug("loop", LOOP)
    point = session.break_("tload", temporary=True)
    point.ignore = 1
    session.continue_()
    assert session.value("%i") == 4
    assert not session.points.all
    assert session.continue_().reason == "end"


def test_a_code_stops_at_its_finding():
    view = "make_tensor_view %x, shape = [{}, %c16], strides = [%c16, %c1] : !pto.tensor_view<{}x16xf32>"
    text = (PROGRAMS / "loop.pto").read_text()
    text = text.replace(view.format("%c12", 12), view.format("%c4", 4))
    text = text.replace("tensor_view<12x16xf32> -> ", "tensor_view<4x16xf32> -> ", 1)
    session = ptosim.load(text).debug(LOOP)
    session.break_("PTO6101")
    stop = session.continue_()
    assert stop.reason == "finding"
    assert stop.finding.code == "PTO6101"


def test_the_last_write_of_every_byte():
    """Rows 4..7 of y are written in the second turn; what nothing wrote is what was given."""
    session = debug("loop", LOOP)
    session.continue_()
    for row in (0, 5, 11):
        write = session.last_write(f"%y[{row}, 3]")
        assert write.event.inst.op.name == "pto.tstore"
        session.walker.goto(write.before)
        assert session.value("%i") == row // 4 * 4
        session.continue_()
    assert session.last_write("%x[3, 3]").event is None
    assert session.last_write("%a[0, 0]").event.inst.op.name == "pto.tmuls"
    assert session.last_write("ub 0x3000").event is None


def test_the_last_write_knows_what_a_valid_region_leaves_out():
    """The second operation covers 2x8 of the 4x16 elements of the same bytes."""
    text = """
    %c0 = arith.constant 0 : i64
    %c2 = arith.constant 2 : index
    %k = arith.constant 1.0 : f32
    %a = pto.alloc_tile addr = %c0 : !pto.tile_buf<vec, 4x16xf32>
    %b = pto.alloc_tile addr = %c0 : !pto.tile_buf<vec, 4x16xf32, valid=2x8>
    pto.texpands ins(%k : f32) outs(%a : !pto.tile_buf<vec, 4x16xf32>)
    pto.texpands ins(%k : f32) outs(%b : !pto.tile_buf<vec, 4x16xf32, valid=2x8>)
    """
    program = (
        f'module attributes {{pto.target_arch = "a5"}} {{ func.func @k() {{ {text} return }} }}'
    )
    session = ptosim.load(program).debug()
    session.continue_()
    lines = {}
    for place in ("%a[0, 0]", "%a[1, 7]", "%a[1, 8]", "%a[2, 0]"):
        lines[place] = session.names.line(session.last_write(place).event.inst.op)
    first = session.names.line(session.last_write("%a[3, 15]").event.inst.op)
    assert lines == {
        "%a[0, 0]": first + 1, "%a[1, 7]": first + 1, "%a[1, 8]": first, "%a[2, 0]": first,
    }  # fmt: skip


def test_a_trap_leaves_the_session_alive_before_the_operation():
    text = (PROGRAMS / "loop.pto").read_text().replace("to %c12 step", "to %c16 step")
    session = ptosim.load(text).debug(LOOP)
    stop = session.continue_()
    assert stop.reason == "trap"
    assert stop.finding.code == "PTO6001"
    assert session.current_op().name == "pto.tload"
    assert session.value("%i") == 12
    assert session.step().reason == "trap"
    assert session.reverse_step().reason == "step"
    assert session.value("%i") == 8
    session.restart()
    assert session.step().reason == "step"


def test_a_deadlock_leaves_the_session_alive():
    session = debug("queued", COPY)
    assert session.continue_().reason == "deadlock"
    assert np.array_equal(session.value("%a"), COPY["x"])
    assert session.reverse_step().reason == "step"
    assert session.line() == 18


def test_cores_have_focus_and_breakpoints_of_their_own():
    session = debug("cores", COPY)
    session.break_("tload core 2")
    session.continue_()
    assert session.core.index == 2
    session.focus(1)
    assert session.core.halted
    with pytest.raises(ptosim.UsageError, match="no core 3"):
        session.focus(3)


def test_the_first_nan_is_caught_where_it_comes_up():
    """log of a negative number; the sum after it only passes the NaN on."""
    text = """
    %c0 = arith.constant 0 : i64
    %c1 = arith.constant 256 : i64
    %k = arith.constant -1.0 : f32
    %a = pto.alloc_tile addr = %c0 : !pto.tile_buf<vec, 4x16xf32>
    %b = pto.alloc_tile addr = %c1 : !pto.tile_buf<vec, 4x16xf32>
    pto.texpands ins(%k : f32) outs(%a : !pto.tile_buf<vec, 4x16xf32>)
    pto.tlog ins(%a : !pto.tile_buf<vec, 4x16xf32>) outs(%b : !pto.tile_buf<vec, 4x16xf32>)
    pto.tadd ins(%b, %b : !pto.tile_buf<vec, 4x16xf32>, !pto.tile_buf<vec, 4x16xf32>) outs(%a : !pto.tile_buf<vec, 4x16xf32>)
    """
    program = (
        f'module attributes {{pto.target_arch = "a5"}} {{ func.func @k() {{ {text} return }} }}'
    )
    session = ptosim.load(program).debug()
    session.catch_nan()
    stop = session.continue_()
    assert stop.reason == "finding"
    assert "tlog" in stop.text
    assert session.continue_().reason == "end"


@pytest.mark.parametrize("options", [{"commit": "later"}, {"uninit": "ones"}, {"block_num": 0}])
def test_options_are_those_of_run(options):
    with pytest.raises(ptosim.UsageError):
        debug("loop", LOOP, **options)
