"""The debugger in an editor: a client drives whole sessions, every message is held against the schema."""

from __future__ import annotations

import base64
import json
import subprocess
import sys

import numpy as np
import pytest

from tests.debug.dap_client import Client
from tests.debug.helpers import PROGRAMS

LOOP = PROGRAMS / "loop.pto"
ONE = {"threadId": 1}


@pytest.fixture
def client():
    made = Client()
    yield made
    made.leave()


def line(client):
    return client.request("stackTrace", **ONE)["stackFrames"][0]["line"]


def scope(client, name):
    frame = client.request("stackTrace", **ONE)["stackFrames"][0]["id"]
    scopes = client.request("scopes", frameId=frame)["scopes"]
    return next(s["variablesReference"] for s in scopes if s["name"] == name)


def inside(client, reference, **paging):
    found = client.request("variables", variablesReference=reference, **paging)["variables"]
    return {v["name"]: v for v in found}


def test_a_whole_session(client):
    """Breakpoint with a condition, values, steps both ways, data breakpoint, memory, end."""
    client.start(LOOP, stopOnEntry=True)
    answers = client.request(
        "setBreakpoints",
        source={"path": str(LOOP)},
        breakpoints=[{"line": 26, "condition": "%i == 4"}, {"line": 2}],
    )["breakpoints"]
    assert [a["verified"] for a in answers] == [True, True]
    assert [a["line"] for a in answers] == [26, 4]
    assert "line 2 has no operation" in answers[1]["message"]
    client.request("setBreakpoints", source={"path": str(LOOP)},
                   breakpoints=[{"line": 26, "condition": "%i == 4"}])  # fmt: skip
    client.request("setExceptionBreakpoints", filters=["nan", "bounds"])
    client.request("configurationDone")
    assert client.event("stopped")["reason"] == "entry"
    assert line(client) == 22
    assert [t["id"] for t in client.request("threads")["threads"]] == [1]

    client.request("continue", **ONE)
    assert client.event("stopped")["reason"] == "breakpoint"
    assert line(client) == 26
    assert inside(client, scope(client, "Scalars"))["%i"]["value"] == "4"
    tiles = inside(client, scope(client, "Tiles"))
    assert tiles["%a"]["indexedVariables"] == 4
    rows = inside(client, tiles["%a"]["variablesReference"], start=1, count=2)
    assert list(rows) == ["[1]", "[2]"]
    elements = inside(client, rows["[1]"]["variablesReference"], start=3, count=1)
    assert elements["[3]"]["value"] == str(2 * (5 * 16 + 3))
    read = client.request("readMemory", memoryReference=tiles["%a"]["memoryReference"], count=8)
    held = np.frombuffer(base64.b64decode(read["data"]), np.float32)
    assert held.tolist() == [2 * 64, 2 * 65]

    client.request("stepBack", **ONE)
    assert client.event("stopped")["reason"] == "step"
    assert line(client) == 24
    client.request("stepIn", **ONE)
    client.event("stopped")
    frames = client.request("stackTrace", **ONE)["stackFrames"]
    assert [f["line"] for f in frames] == [4, 25]
    client.request("stepOut", **ONE)
    client.event("stopped")
    client.request("next", **ONE)
    client.event("stopped")
    assert line(client) == 26

    reference = inside(client, scope(client, "Tiles"))["%b"]["variablesReference"]
    row = inside(client, reference)["[0]"]["variablesReference"]
    about = client.request("dataBreakpointInfo", variablesReference=row, name="[0]")
    assert about["dataId"] == "%b[0, 0]"
    client.request("setBreakpoints", source={"path": str(LOOP)}, breakpoints=[])
    client.request("setDataBreakpoints", breakpoints=[{"dataId": about["dataId"]}])
    client.request("continue", **ONE)
    stop = client.event("stopped")
    assert stop["reason"] == "data breakpoint"
    assert "2 -> 130" in stop["text"]
    assert line(client) == 27
    client.request("reverseContinue", **ONE)
    client.event("stopped")
    assert line(client) == 26
    assert client.request("evaluate", expression="%b[0, 0]")["result"] == "2"
    client.request("reverseContinue", **ONE)
    client.event("stopped")
    assert (line(client), client.request("evaluate", expression="%i")["result"]) == (26, "0")

    client.request("setDataBreakpoints", breakpoints=[])
    client.request("continue", **ONE)
    assert client.event("exited")["exitCode"] == 0
    client.event("terminated")


def test_commands_in_the_console(client):
    client.start(LOOP, stopOnEntry=True)
    client.request("configurationDone")
    client.event("stopped")
    answer = client.request("evaluate", expression="tiles", context="repl")["result"]
    assert "%a" in answer
    assert "not written" in answer
    moved = client.request("evaluate", expression="until tadds", context="repl")["result"]
    assert "tadds" in moved
    assert client.event("stopped")["reason"] == "step"
    assert client.request("evaluate", expression="%a[0, 1] + 1", context="repl")["result"] == "3"
    assert client.request("evaluate", expression="a", context="hover")["indexedVariables"] == 4
    found = client.request("completions", text="tile %", column=7)["targets"]
    assert {"%a", "%b", "%i"} <= {t["label"] for t in found}


def test_the_end_can_be_a_stop_to_go_back_from(client):
    client.start(LOOP, stopOnExit=True)
    client.request("configurationDone")
    assert "has ended" in client.event("stopped")["text"]
    client.request("stepBack", **ONE)
    client.event("stopped")
    assert line(client) == 29
    client.request("stepBack", granularity="instruction", **ONE)
    client.event("stopped")
    client.request("restart")
    client.event("stopped")


def test_a_trap_is_an_exception_and_the_session_lives_on(client, tmp_path):
    path = tmp_path / "trap.pto"
    path.write_text(LOOP.read_text().replace("to %c12 step", "to %c16 step"))
    client.start(path, args={"x": "arange:f32:12x16", "y": "zeros:f32:12x16", "k": "2.0"})
    client.request("configurationDone")
    stop = client.event("stopped")
    assert stop["reason"] == "exception"
    assert client.request("exceptionInfo", **ONE)["exceptionId"] == "PTO6001"
    client.request("stepBack", **ONE)
    assert client.event("stopped")["reason"] == "step"
    client.request("continue", **ONE)
    client.event("stopped")
    client.request("continue", **ONE)
    assert client.event("exited")["exitCode"] == 4
    client.event("terminated")


def test_hit_counts_messages_functions(client):
    client.start(LOOP)
    client.request("setBreakpoints", source={"path": str(LOOP)}, breakpoints=[
        {"line": 22, "logMessage": "turn {%i}"}, {"line": 26, "hitCondition": "2"},
    ])  # fmt: skip
    answers = client.request("setFunctionBreakpoints", breakpoints=[
        {"name": "@scale", "condition": "%i == 8"}, {"name": "@nothing"},
    ])["breakpoints"]  # fmt: skip
    assert [a["verified"] for a in answers] == [True, False]
    client.request("configurationDone")
    client.event("stopped")
    assert line(client) == 26
    assert client.request("evaluate", expression="%i")["result"] == "4"
    output = [e["body"]["output"] for e in client.events if e["event"] == "output"]
    assert output == ["turn 0\n", "turn 4\n"]
    client.request("continue", **ONE)
    client.event("stopped")
    assert line(client) == 4


def test_a_run_can_be_paused(client, tmp_path):
    path = tmp_path / "long.pto"
    text = LOOP.read_text().replace(
        "arith.constant 12 : index", "arith.constant 1000000000 : index"
    )
    text = text.replace("offsets = [%i, %c0]", "offsets = [%c0, %c0]")
    text = text.replace("shape = [%c12, %c16]", "shape = [%c4, %c16]").replace(
        "<12x16xf32>", "<4x16xf32>"
    )
    path.write_text(text)
    client.start(path, args={"x": "zeros:f32:4x16", "y": "zeros:f32:4x16", "k": "2.0"})
    client.request("configurationDone")
    client.request("pause", **ONE)
    assert client.event("stopped")["reason"] == "pause"
    client.request("stepBack", **ONE)
    assert client.event("stopped")["reason"] == "step"
    client.request("pause", **ONE)
    assert client.event("stopped")["reason"] == "pause"


def test_what_is_wrong_is_said_and_the_server_goes_on(client, tmp_path):
    client.raw(b"Content-Length: 3\r\n\r\n{x}")
    assert "nothing is launched" in client.refused("threads")
    assert "no JSON" in client.event("output")["output"]
    assert "not supported" in client.refused("fly")
    assert "`program`" in client.refused("launch")
    assert "cannot read" in client.refused("launch", program=str(tmp_path / "none.pto"))
    assert "did not" not in client.refused("launch", program=str(LOOP), colour="red")
    path = tmp_path / "bad.pto"
    path.write_text("func.func @f() { pto.tadq }")
    client.refused("launch", program=str(path))
    client.start(LOOP, stopOnEntry=True)
    assert "lacks 'threadId'" in client.refused("continue")
    answers = client.request(
        "setBreakpoints", source={"path": "/other.pto"}, breakpoints=[{"line": 3}]
    )["breakpoints"]
    assert not answers[0]["verified"]
    answers = client.request("setBreakpoints", source={"path": str(LOOP)}, breakpoints=[
        {"line": 26, "condition": "%nope"}, {"line": 900}, {"line": 26, "hitCondition": "x"},
    ])["breakpoints"]  # fmt: skip
    assert not any(a["verified"] for a in answers)
    answers = client.request("setDataBreakpoints", breakpoints=[{"dataId": "%nope"}])["breakpoints"]
    assert not answers[0]["verified"]
    client.request("configurationDone")
    client.event("stopped")
    assert "%nope" in client.refused("evaluate", expression="%nope")
    assert "no memory reference" in client.refused("readMemory", memoryReference="x", count=1)
    assert "reference" in client.refused("variables", variablesReference=99)
    assert client.refused("scopes", frameId=99999)
    assert "finding" in client.refused("exceptionInfo", threadId=1)


@pytest.mark.slow
def test_over_standard_input_and_output():
    """The command itself, with nothing on its output but messages."""
    requests = [
        {"command": "initialize", "arguments": {"adapterID": "ptosim"}},
        {"command": "launch", "arguments": {"program": str(LOOP)}},
        {"command": "configurationDone", "arguments": {}},
        {"command": "disconnect", "arguments": {}},
    ]
    data = b""
    for number, request in enumerate(requests, 1):
        body = json.dumps({"seq": number, "type": "request", **request}).encode()
        data += b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
    command = [sys.executable, "-m", "ptosim", "dap"]
    done = subprocess.run(command, input=data, capture_output=True, check=True)
    assert done.stderr == b""
    names = []
    rest = done.stdout
    while rest:
        header, rest = rest.split(b"\r\n\r\n", 1)
        length = int(header.partition(b":")[2])
        message, rest = json.loads(rest[:length]), rest[length:]
        names.append(message.get("event") or message["command"])
    assert names[:4] == ["initialize", "launch", "initialized", "configurationDone"]
    assert names[-1] == "disconnect"
