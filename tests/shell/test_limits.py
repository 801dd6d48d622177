"""A program that does not end is stopped and named: exit code 6, no output."""

from __future__ import annotations

import contextlib
import re
import time
from functools import partial
from typing import Any

import numpy as np
import pytest

import ptosim
from ptosim.ground import limits
from ptosim.ground.limits import Limits, OverLimit, within
from tests.support.clock import LIMIT
from tests.support.paths import PROGRAMS

ENDLESS = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 iter_args(%x = %c1) -> (index) {
      %square = arith.muli %x, %x : index
      %next = arith.addi %square, %i : index
      %last = arith.andi %next, %c1 : index
      %is_even = arith.cmpi eq, %last, %c0 : index
      scf.if %is_even {
      }
      scf.yield %next : index
    }
    return
  }
}
"""
"""No round of its loop repeats another one: what leaves out rounds has to execute them all."""
IN_LOOP = r"endless\.pto:([5-9]|1[0-2]):\d"


@pytest.mark.parametrize("command", ["run", "cost"])
def test_6_a_loop_that_does_not_end(cli, tmp_path, command):
    """The message says how long it went, where it stood, and what raises the limit."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    outcome = cli(command, path, "--arg", "n=99999999999", "--max-instructions", "5000")
    assert outcome.code == 6
    assert "5,000 instructions" in outcome.err
    assert re.search(IN_LOOP, outcome.err)
    assert "--max-instructions" in outcome.err


def test_a_program_that_ends_at_the_limit(cli, tmp_path):
    """As many instructions as the limit are allowed, one less is not enough."""
    path = tmp_path / "short.pto"
    path.write_text(ENDLESS)
    program = ptosim.load(path, target="a5")
    count = program.run({"n": 10}).executed
    program.run({"n": 10}, max_instructions=count)
    with pytest.raises(ptosim.LimitError):
        program.run({"n": 10}, max_instructions=count - 1)


def test_the_limit_with_observers():
    """Instructions are counted in the same way where each is observed, or retires later."""

    class Seen:
        def on_issue(self, *_):
            pass

    program = ptosim.load(ENDLESS, target="a5")
    with pytest.raises(ptosim.LimitError):
        program.run({"n": 1 << 40}, max_instructions=100, observers=[Seen()])
    with pytest.raises(ptosim.LimitError):
        program.run({"n": 1 << 40}, max_instructions=100, commit="retire")


def test_2_a_limit_that_is_none(cli, tmp_path):
    """A limit is at least one instruction."""
    path = tmp_path / "short.pto"
    path.write_text(ENDLESS)
    assert cli("run", path, "--max-instructions", "0").code == 2


@pytest.mark.parametrize(
    "options", [{}, {"timing": False}, {"commit": "retire"}, {"observers": True}, {"cost": True}],
    ids=str,
)  # fmt: skip
@pytest.mark.usefixtures("ticking")
def test_a_limit_of_time_in_every_engine(options: dict[str, Any]):
    """A loop of 2^40 rounds ends soon after its time is over, and the error says where it was."""

    class Seen:
        def on_issue(self, *_):
            pass

    options = dict(options)
    program = ptosim.load(ENDLESS, target="a5", filename="endless.pto")
    seen = [Seen()] if options.pop("observers", False) else []
    call = program.cost if options.pop("cost", False) else partial(program.run, observers=seen)
    where = rf"PTO0015.*{LIMIT} s.*{IN_LOOP}"
    with within(Limits(seconds=LIMIT)), pytest.raises(ptosim.LimitError, match=where):
        call(args={"n": 1 << 40}, **options)


def test_the_tighter_limit_holds():
    """Limits within limits: what is inside cannot have more than what is around it."""
    program = ptosim.load(ENDLESS, target="a5")
    outer, inner = within(Limits(instructions=100)), within(Limits(instructions=1000))
    with outer, inner, pytest.raises(ptosim.LimitError, match=r"PTO0014.* 100 instructions"):
        program.run({"n": 1 << 40})
    program.run({"n": 10})


def test_slices_change_nothing():
    """Under a limit of time a run is cut into slices; what it computes and the order of its cores
    are those without one."""
    program = ptosim.load(PROGRAMS / "model" / "swiglu_mxfp8.pto")
    alone = program.run(seed=3)
    with within(Limits(seconds=1000)):
        sliced = program.run(seed=3)
    assert sliced.executed == alone.executed
    assert sliced.cycles == alone.cycles
    assert all(np.array_equal(sliced.outputs[n], a) for n, a in alone.outputs.items())


@pytest.mark.parametrize("wrong", [{"seconds": 0}, {"seconds": float("nan")}, {"memory": -1}])
def test_what_can_be_no_limit(wrong):
    """Limits are above zero."""
    with pytest.raises(ptosim.UsageError):
        Limits(**wrong)


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "cost",
        "map",
        "stats",
        "check --dry-run",
        "port --from a2a3 --to a5",
        "diff",
        "run -n",
    ],
)
@pytest.mark.usefixtures("ticking")
def test_6_every_command_that_executes(cli, tmp_path, command):
    """A loop of 2^36 rounds ends with the time, and no report is written."""
    path, report = tmp_path / "endless.pto", tmp_path / "report.json"
    path.write_text(ENDLESS)
    words = command.replace("-n", "--no-timing --commit retire").split()
    if words[0] == "diff":
        words.append(str(path))
    words += [path, "--arg", f"n={1 << 36}", "--max-seconds", LIMIT]
    outcome = cli(*words, "--format", "json", "-o", report)
    assert outcome.code == 6
    assert "PTO0015" in outcome.err
    assert re.search(IN_LOOP, outcome.err)
    assert outcome.out == ""
    assert not report.exists()


@pytest.mark.parametrize(
    "words", [["--max-seconds", "0"], ["--max-seconds", "nan"], ["--max-memory", "4X"],
              ["--max-memory", "-1"], ["--max-instructions", "many"]]
)  # fmt: skip
@pytest.mark.parametrize("command", ["run", "ops", "quant diff"])
def test_2_limits_that_mean_nothing(cli, command, words):
    """Every command has the limits, and says what they take."""
    outcome = cli(*command.split(), *words)
    assert outcome.code == 2
    assert f"argument {words[0]}: takes" in outcome.err


@pytest.mark.parametrize("way", [limits._signalled, limits._watched])
def test_what_never_looks_is_stopped(way):
    """Where nothing looks at the limits a clock does, with a timer of the system or a thread."""

    def never_looks() -> None:
        with within(Limits(seconds=0.1)) as budget, way(budget):
            while True:
                with contextlib.suppress(Exception):  # nothing on the way may keep it
                    time.sleep(0.01)

    with pytest.raises(OverLimit, match="PTO0015"):
        never_looks()


@pytest.mark.usefixtures("ticking")
def test_a_check_that_reaches_a_limit_says_what_it_found_until_then(cli, tmp_path):
    """The first file is done, of the second the text was read: both are told, then the limit."""
    faulty, endless = tmp_path / "a.pto", tmp_path / "b.pto"
    faulty.write_text(ENDLESS.replace("scf.for", "scf.foo"))
    unknown = 'pto.target_arch = "a5", "pto.device-spec" = "Ascend310"'  # warns, chooses nothing
    endless.write_text(ENDLESS.replace('pto.target_arch = "a5"', unknown))
    alone = [d.code for d in ptosim.check(endless, dry_run=False)]
    outcome = cli(
        "check", faulty, endless, "--arg", "n=99999999999", "--dry-run", "--max-seconds", LIMIT,
    )  # fmt: skip
    assert outcome.code == 6
    assert "PTO0015" in outcome.err
    assert "a.pto" in outcome.out
    assert "b.pto" in outcome.out
    assert alone
    assert all(code in outcome.err for code in alone)
    with pytest.raises(ptosim.LimitError) as reached:
        ptosim.check(endless, args={"n": 10**11}, dry_run=True, max_seconds=LIMIT)
    told = [d.code for d in reached.value.findings]
    assert set(alone) <= set(told)
    assert told
