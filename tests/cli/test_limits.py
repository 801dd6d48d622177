"""A program that does not end is stopped and named: exit code 6, no output."""

from __future__ import annotations

import pytest

import ptosim

ENDLESS = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
    }
    return
  }
}
"""


@pytest.mark.parametrize("command", ["run", "cost"])
def test_6_a_loop_that_does_not_end(cli, tmp_path, command):
    """The message says how long it went, where it stood, and what raises the limit."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    outcome = cli(command, path, "--arg", "n=99999999999", "--max-instructions", "5000")
    assert outcome.code == 6
    assert "5,000 instructions" in outcome.err
    assert "endless.pto:5:" in outcome.err
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
