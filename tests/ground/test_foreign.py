"""Python of the caller cannot end the process, nor close what others read."""

from __future__ import annotations

import builtins
import sys

import pytest

from ptosim.ground.isa.cache import Left, of_the_caller


@pytest.mark.parametrize("code", ["exit(9)", "quit()", "__import__('sys').exit(0)"])
def test_the_end_of_the_process_is_a_fault(code: str, monkeypatch) -> None:
    class Input:
        closed = False

        def close(self) -> None:
            self.closed = True

    given, before = Input(), getattr(builtins, "exit", None)
    monkeypatch.setattr(sys, "stdin", given)
    with pytest.raises(Left, match="ends the process"), of_the_caller():
        eval(code)
    assert not given.closed
    assert getattr(builtins, "exit", None) is before
