"""The debugger under limits: no expression blocks it, what is broken off leaves a whole state, and an
editor may send anything."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from types import SimpleNamespace

import numpy as np
import pytest

import ptosim
from ptosim.debug.dap.variables import MOST_BYTES, BrokenMessage, Pieces, read_message
from ptosim.debug.expressions import Expression
from ptosim.ground.errors import BudgetError, LimitError, UsageError
from ptosim.ground.limits import Limits
from ptosim.shell.main import main
from tests.debug.dap_client import Client
from tests.debug.helpers import LOOP, PROGRAMS, debug
from tests.support.clock import LIMIT

X = np.arange(64.0).reshape(4, 16)
LONG = "[0 for a in %x.ravel() for b in %x.ravel() for c in %x.ravel() for d in %x.ravel()]"


def value(text: str):
    return Expression(text).evaluate(lambda name: X, {"n": 3})


# -- expressions --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("9**9**9", "1,549,681,956 bits"),
        ("1 << 10**12", "bits is too large"),
        ("2**60000 * 2**60000", "bits is too large"),
        ("[0] * 10**10", "10,000,000,000 elements"),
        ("'x' * 10**10", "elements are too many"),
        ("%x.reshape(-1, 1, 1, 1) + %x.reshape(64, 1, 1) * %x.reshape(64, 1) * %x.ravel()",
         "16,777,216 elements are too many"),
        ("np.add(%x.reshape(-1, 1, 1, 1), %x.reshape(64, 1, 1) == %x.reshape(64, 1) + %x.ravel())",
         "16,777,216 elements are too many"),
        ("().__class__.__bases__", "is not for expressions"),
        ("__import__('os')", "is not a name"),
        ("[__import__('os') for i in [1]]", "is not a name"),
        ("[open('x') for i in [1]]", "open"),
        ("np.load('x')", "load"),
        ("%x.tofile('x')", "`.tofile`"),
        ("'{0:>99999999999}'.format(1)", "`.format`"),
        ("f'{1:>99999999999}'", "formats no text"),
        ("'%99999999999d' % 1", "formats no text"),
        ("lambda: 1", "defines no function"),
        ("(" * 500, "too many nested"),
        ("-" * 200_000 + "1", "expression"),
        ("9" * 5000, "4300 digits"),
        ("1 \0", "null"),
    ],
)  # fmt: skip
def test_an_expression_that_is_no_computation(text, words):
    """It is refused with its reason, at once."""
    with pytest.raises(UsageError) as refused:
        value(text)
    assert words in str(refused.value)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("2**10 * 3 % 7", 2**10 * 3 % 7),
        ("np.abs(-%x).mean() + 1", 32.5),
        ("any(%x == 63) and not %x[0, 0] > 0", True),
        ("int(max(%x[1] - %x[0])) // 5 << 2", 12),
        ("1 < $n <= 3", True),
        ("[int(v) for v in %x[0] if v in %x[0, 1:3]]", [1, 2]),
    ],
)
def test_what_expressions_compute(text, wanted):
    """What they are for goes on as in Python."""
    assert value(text) == wanted


# -- limits of commands -------------------------------------------------------------------------------

ENDLESS = """module attributes {pto.target_arch = "a5"} {
  func.func @kernel(%n: index) {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %n step %c1 {
      %j = arith.addi %i, %i : index
    }
    return
  }
}
"""


def endless(**limits) -> ptosim.Program:
    return ptosim.load(ENDLESS, filename="endless.pto").debug({"n": 1 << 40}, **limits)


@pytest.mark.usefixtures("ticking")
def test_a_movement_ends_at_its_limit_and_can_go_on():
    """Each command has the time anew; the run stands at an instruction and goes both ways."""
    session = endless(max_seconds=LIMIT)
    with pytest.raises(LimitError, match=r"PTO0015.*endless\.pto:"):
        session.continue_()
    there = session.position
    assert there > 100
    assert session.stepi().position == there + 1
    assert session.reverse_stepi().position == there
    with pytest.raises(LimitError):
        session.continue_()
    assert session.position > there


def test_a_limit_of_instructions_counts_for_each_command():
    """What is executed again on the way back counts too."""
    session = endless(max_instructions=5000)
    with pytest.raises(LimitError, match=r"PTO0014: not there after 5,000 .*endless\.pto:"):
        session.continue_()
    assert 5000 <= session.position < 10_000
    session.stepi(100)


@pytest.mark.usefixtures("ticking")
def test_6_a_script_that_reaches_a_limit(tmp_path, capsys):
    """The place is said, further commands are executed, and the exit code says so."""
    path = tmp_path / "endless.pto"
    path.write_text(ENDLESS)
    words = ["--batch", "-ex", "continue", "-ex", "print 6*7", "--max-seconds", str(LIMIT)]
    assert main(["debug", str(path), "--arg", f"n={1 << 40}", *words]) == 6
    out = capsys.readouterr().out
    assert "PTO0015" in out
    assert out.rstrip().endswith("42")


@pytest.mark.usefixtures("ticking")
def test_an_expression_that_takes_long_is_stopped(capsys):
    """By the clock: it looks at nothing itself."""
    words = ["--batch", "-ex", "next", "-ex", f"print {LONG}", "--max-seconds", "5"]
    assert main(["debug", str(PROGRAMS / "loop.pto"), *words]) == 6
    assert "PTO0015: not done after 5 s" in capsys.readouterr().out


def test_what_is_broken_off_in_an_instruction_did_not_happen(monkeypatch):
    """Of a limit or a second Ctrl-C in the middle of an operation: the state is the one before."""
    session = debug("loop", LOOP)
    session.until("tmuls")
    here, tile = session.position, session.value("%a").copy()
    core = session.core
    bound = session.walker.engine.bound(core, session.walker.upcoming())
    effect = bound.commit

    def broken() -> None:
        effect()
        raise BudgetError("over")

    monkeypatch.setattr(bound, "commit", broken)
    with pytest.raises(LimitError):
        session.step()
    monkeypatch.undo()
    assert session.position == here
    np.testing.assert_array_equal(session.value("%a"), tile)
    session.stepi()
    np.testing.assert_array_equal(session.value("%a"), tile * 2)


def test_findings_of_the_future_are_not_listed():
    """After going back the list is what it was then; forwards again it is whole again."""
    session = debug("queued", {"x": X.astype(np.float32), "y": np.zeros((4, 16), np.float32)})
    before = [d.code for d in session.findings]
    session.continue_()
    stuck = [d.code for d in session.findings]
    assert "PTO5006" in stuck
    session.restart()
    assert [d.code for d in session.findings] == before
    session.continue_()
    assert [d.code for d in session.findings] == stuck


# -- the protocol -------------------------------------------------------------------------------------


def frames(*data: bytes) -> list[object]:
    """What a reader makes of bytes that come in pieces."""

    left = list(data)
    raw = SimpleNamespace(read=lambda count: left.pop(0) if left else b"")
    stream, found = Pieces(raw), []  # type: ignore[arg-type]
    while True:
        try:
            message = read_message(stream)
        except BrokenMessage as problem:
            found.append(str(problem))
            continue
        if message is None:
            return found
        found.append(message)


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (b"Content-Length: 999999999999999999\r\n\r\n", "at most"),
        (b"Content-Length: " + b"9" * 10_000 + b"\r\n\r\n", "at most"),
        (b"Content-Length: -3\r\n\r\n", "at most"),
        (b"Content-Length: %d\r\n\r\n" % (MOST_BYTES + 1), "at most"),
        (b"Content-Length: 200000\r\n\r\n" + b"[" * 200_000, "nested too deeply"),
        (b"Content-Length: 2\r\n\r\n[]", "no JSON object"),
        (b"Content-Length: 2\r\n\r\n\xff\xfe", "no JSON"),
    ],
)
def test_a_broken_frame(broken, words):
    """It is told, and what comes after it is read."""
    good = b'Content-Length: 7\r\n\r\n{"a":1}'
    first, last = frames(broken, good[:9], good[9:])
    assert words in first
    assert last == {"a": 1}


def test_arguments_of_the_wrong_kind():
    """Each is refused with its name, and the server goes on."""
    client = Client()
    try:
        client.start(PROGRAMS / "loop.pto", stopOnEntry=True)
        for command, arguments in (
            ("setBreakpoints", {"source": 3}),
            ("setBreakpoints", {"source": {"path": 3}}),
            ("setBreakpoints", {"source": {}, "breakpoints": [3]}),
            ("setBreakpoints", {"source": {}, "breakpoints": [{"line": "x"}]}),
            ("setFunctionBreakpoints", {"breakpoints": "x"}),
            ("setExceptionBreakpoints", {"filters": [3]}),
            ("variables", {"variablesReference": [1]}),
            ("stackTrace", {"threadId": 1e308}),
            ("readMemory", {"memoryReference": {}, "count": 3}),
            ("readMemory", {"memoryReference": "vec:0:0", "count": 1 << 80}),
            ("evaluate", {"expression": ["x"]}),
            ("completions", {"text": "p", "column": None}),
            ("source", {"source": True}),
        ):
            number = client.send(command, checked=False, **arguments)
            reply = client.answer(number)
            assert not reply["success"], command
            assert "internal error" not in reply["message"]
        assert "bits" in client.refused("evaluate", expression="9**9**9")
        assert client.request("threads")["threads"]
    finally:
        client.leave()


class Process:
    """`ptosim dap` with its input held open."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ptosim", "dap"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.number = 0

    def send(self, command: str, **arguments: object) -> int:
        self.number += 1
        message = {"seq": self.number, "type": "request", "command": command}
        body = json.dumps({**message, "arguments": arguments}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()
        return self.number

    def answer(self, number: int) -> dict[str, object]:
        assert self.process.stdout is not None
        while (message := read_message(self.process.stdout)) is not None:
            if message.get("request_seq") == number:
                return message
        raise AssertionError("the server has ended")


@pytest.fixture
def process():
    made = Process()
    yield made
    made.process.kill()
    made.process.communicate()


@pytest.mark.slow
def test_an_expression_can_be_cancelled_and_leaving_ends_the_process(process):
    """The editor cancels what takes long, goes on, and leaves with its end still open."""
    process.send("initialize", adapterID="ptosim")
    process.send("launch", program=str(PROGRAMS / "loop.pto"), stopOnEntry=True)
    number = process.send("configurationDone")
    assert process.answer(number)["success"]
    number = process.send("evaluate", expression=LONG.replace("]", " for e in %x.ravel()]"))
    time.sleep(0.2)
    process.send("cancel", requestId=number)
    reply = process.answer(number)
    assert not reply["success"]
    assert reply["message"] == "cancelled"
    number = process.send("threads")
    assert process.answer(number)["success"]
    number = process.send("disconnect")
    assert process.answer(number)["success"]
    assert process.process.wait(timeout=30) == 0
    assert process.process.stderr.read() == b""


def test_limits_are_limits():
    """Those of a session are those of the API: no unknown ones, none below 1."""
    with pytest.raises(UsageError):
        endless(max_seconds=-1)
    assert endless(max_memory=1 << 30).limits == Limits(memory=1 << 30)
