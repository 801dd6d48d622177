"""`ptosim serve`: the same commands from a process that has loaded everything, for several callers."""

from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import BinaryIO

import pytest

from ptosim.ground import __version__
from ptosim.shell.serve.protocol import line_of, request_of
from tests.support.paths import TREE

PTOSIM = [sys.executable, "-m", "ptosim"]
ENDLESS = """
func.func @entry() attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 4000000000000 : index
  scf.for %i = %c0 to %n step %c1 {
    %x = arith.addi %i, %c1 : index
  }
  return
}
"""
WRONG = "func.func @f( {\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """The path of a server's socket."""
    path = tmp_path_factory.mktemp("serve") / "socket"
    process = subprocess.Popen([*PTOSIM, "serve", "--socket", path], stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"serving at" in process.stderr.readline()
    yield path
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 0
    process.stderr.close()
    assert not path.exists()


@pytest.fixture
def talk(server):
    """A function that sends a line (bytes, or a request) and returns the answer."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(str(server))
        with connection.makefile("rb") as answers:
            yield lambda request: _asked(connection, answers, request)


def _asked(connection: socket.socket, answers: BinaryIO, request):
    line = request if isinstance(request, bytes) else json.dumps(request).encode()
    connection.sendall(line + b"\n")
    return json.loads(answers.readline())


def command(folder: Path, *words: str, served_by: Path | None = None):
    environment = {k: v for k, v in os.environ.items() if k != "PTOSIM_SERVER"} | {"COLUMNS": "90"}
    if served_by is not None:
        environment["PTOSIM_SERVER"] = str(served_by)
    return subprocess.run(
        [*PTOSIM, *words], cwd=folder, env=environment, capture_output=True, timeout=60
    )


@pytest.fixture
def folder(tmp_path):
    """A folder with a wrong program and an endless one."""
    (tmp_path / "wrong.pto").write_text(WRONG)
    (tmp_path / "endless.pto").write_text(ENDLESS)
    return tmp_path


@pytest.mark.sampled(0)
@pytest.mark.parametrize(
    "words",
    [
        ("check", "@basics/vadd"),
        ("run", "@quant/int8_sym", "--format", "json"),
        ("cost", "@basics/vadd"),
        ("check", "wrong.pto"),
        ("check", "missing.pto"),
        ("check", "--no-such-option"),
        ("no-such-command",),
        ("--version",),
        ("run", "endless.pto", "--max-instructions", "1000"),
    ],
)
def test_a_served_command_prints_and_returns_the_same(server, folder, words):
    alone, served = command(folder, *words), command(folder, *words, served_by=server)
    assert served.returncode == alone.returncode
    assert served.stdout == alone.stdout
    assert served.stderr == alone.stderr


def test_what_a_process_did_before_does_not_matter(talk, folder):
    """Checks and costs are done by processes that stay: each as if it were the first, whatever the
    folder, the environment, the text and the outcome of the one before were."""
    (folder / "own").mkdir()
    vadd = TREE.joinpath("programs/basics/vadd.pto").read_text()
    (folder / "own" / "k.pto").write_text(vadd)
    requests = [
        {"argv": ["check", "k.pto"], "cwd": str(folder / "own")},
        {"argv": ["check", "k.pto"], "cwd": str(folder)},
        {"argv": ["check", "wrong.pto"], "cwd": str(folder)},
        {"argv": ["cost", "k.pto", "--target", "a2a3"], "cwd": str(folder / "own")},
        {"argv": ["cost", "k.pto", "--target", "a5"], "cwd": str(folder / "own"),
         "env": {**os.environ, "COLUMNS": "40"}},
        {"argv": ["check", "-", "-q"], "stdin": vadd},
        {"argv": ["check", "k.pto", "--format", "text"], "cwd": str(folder / "own")},
        {"argv": ["check", "-", "--no-dry-run"], "stdin": WRONG},
        {"argv": ["cost", "nothing.pto"], "cwd": str(folder)},
        {"argv": ["check", "k.pto", "--strict"], "cwd": str(folder / "own")},
    ]  # fmt: skip
    first = [talk(request) for request in requests]
    assert [answer["exit"] for answer in first[:4]] == [0, 2, 3, 0]
    assert [talk(request) for request in reversed(requests)] == first[::-1]
    assert [talk(request) for request in requests] == first


@pytest.mark.sampled(1)
@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
def test_a_command_with_a_closed_stream_does_not_talk_to_the_server_over_it(server, closed):
    def run(**environment: str):
        words = ["sh", "-c", f"'{sys.executable}' -m ptosim check - {closed}"]
        done = subprocess.run(
            words, env=os.environ | environment, stdin=subprocess.DEVNULL, capture_output=True,
            timeout=30,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    alone = run()
    assert alone[0] in (0, 2)
    assert run(PTOSIM_SERVER=str(server)) == alone


def test_a_program_gets_json_and_its_own_number(talk, folder):
    answer = talk({"id": "a", "argv": ["check", "wrong.pto"], "cwd": str(folder)})
    assert answer["id"] == "a"
    assert answer["exit"] == 3
    assert answer["result"]["findings"][0]["code"] == "PTO0003"


def test_text_where_a_command_has_no_json_and_input_as_text(talk):
    assert talk({"argv": ["help", "cost"]})["stdout"].startswith("#") is False
    text = TREE.joinpath("programs/basics/vadd.pto").read_text()
    answer = talk({"argv": ["fmt", "-"], "stdin": text})
    assert answer["exit"] == 0
    assert "func.func @vadd" in answer["stdout"]


@pytest.mark.parametrize(
    ("line", "says"),
    [
        (b"no json", "not a JSON object"),
        (b"[" * 100_000, "not a JSON object"),
        (b"[1]", "a request is a JSON object"),
        (b'{"argv": "check"}', "`argv` is the list"),
        (b'{"argv": ["check", 3]}', "`argv` is the list"),
        (b'{"argv": ["a\\u0000b"]}', "`argv` is the list"),
        (b'{"argv": [], "env": {"A": 1}}', "`env` is an object of strings"),
        (b'{"argv": [], "cwd": 4}', "`cwd` is a folder"),
        (b'{"argv": [], "env": {"": "x"}}', "no environment has a variable '' = 'x'"),
        (b'{"argv": [], "env": {"A=B": "x"}}', "no environment has a variable 'A=B' = 'x'"),
        (b'{"argv": [], "env": {"A": "\\ud800"}}', "no environment has a variable 'A' = "),
        (b'{"argv": [], "env": {"A": "\\u0000"}}', "no environment has a variable 'A' = "),
        (b'{"argv": [], "stdin": "\\ud800"}', "`stdin` is a text"),
        (b'{"argv": [], "streams": {}}', "three open files"),
        (b'{"argv": [], "version": "0.0.0"}', f"the server is ptosim {__version__}"),
    ],
)
def test_a_wrong_request_is_one_line_and_the_next_is_served(talk, line, says):
    assert says in talk(line)["error"]
    assert talk({"argv": ["--version"]}) == {
        "id": None,
        "exit": 0,
        "stdout": f"ptosim {__version__}\n",
    }


def test_a_folder_that_is_not_there(talk):
    answer = talk({"argv": ["check", "x.pto"], "cwd": "/no/such/folder"})
    assert answer["exit"] == 2
    assert "/no/such/folder" in answer["stderr"]


@pytest.mark.parametrize("folder", ["/\ud800", "/\0", ""])
def test_a_folder_that_no_system_has(talk, folder):
    answer = talk({"argv": ["--version"], "cwd": folder})
    assert answer["exit"] == 2
    assert f"no folder {folder}" in answer["stderr"]


@pytest.mark.parametrize("asked", [{}, {"version": "0.0.0"}])
def test_a_number_of_half_a_character_comes_back(talk, asked):
    assert talk({"id": "\ud800é", "argv": ["--version"], **asked})["id"] == "\ud800é"
    assert talk({"argv": ["--version"]})["exit"] == 0


def test_a_name_that_is_no_text_is_sent_as_valid_json_and_comes_back():
    sent = {"argv": ["check", "a\udcff.pto"], "env": {"A": "\udcfe"}, "id": "é"}
    line_of(sent).decode()
    assert request_of(line_of(sent)) == sent


def test_callers_do_not_wait_for_each_other_and_a_request_can_be_cancelled(server, talk, folder):
    with socket.socket(socket.AF_UNIX) as other:
        other.connect(str(server))
        request = {
            "id": 7,
            "argv": ["run", "endless.pto", "--max-seconds", "50"],
            "cwd": str(folder),
        }
        other.sendall(json.dumps(request).encode() + b"\n")
        assert talk({"argv": ["--version"]})["exit"] == 0
        time.sleep(0.3)  # the run has begun
        other.sendall(b'{"cancel": 7}\n')
        answer = json.loads(other.recv(4096))
    assert answer["exit"] == 130
    assert answer["id"] == 7


@pytest.mark.slow
def test_ctrl_c_at_the_command_line_ends_the_served_command(server, folder):
    environment = os.environ | {"PTOSIM_SERVER": str(server)}
    words = ["run", "endless.pto", "--max-seconds", "50"]
    with subprocess.Popen(
        [*PTOSIM, *words], cwd=folder, env=environment, stderr=subprocess.PIPE
    ) as process:
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"interrupted" in told
    assert b"Traceback" not in told


@pytest.mark.slow
def test_only_the_user_reaches_the_socket_and_a_second_server_is_refused(server, tmp_path):
    assert stat.S_IMODE(server.stat().st_mode) == 0o600
    again = command(tmp_path, "serve", "--socket", str(server))
    assert again.returncode == 2
    assert b"a server listens at" in again.stderr


@pytest.mark.slow
def test_a_socket_that_a_killed_server_left_is_taken_over(tmp_path):
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with subprocess.Popen([*PTOSIM, "serve", "--socket", path], stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert b"serving at" in process.stderr.readline()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0


def test_without_a_server_the_command_runs_here_and_says_so(tmp_path):
    done = command(tmp_path, "--version", served_by=tmp_path / "nobody")
    assert done.returncode == 0
    assert done.stdout == f"ptosim {__version__}\n".encode()
    assert b"no server at" in done.stderr


@pytest.mark.slow
def test_requests_on_standard_input_are_all_answered_before_the_end(folder):
    requests = [{"id": i, "argv": ["check", "wrong.pto"], "cwd": str(folder)} for i in range(5)]
    text = "".join(json.dumps(r) + "\n" for r in requests)
    done = subprocess.run(
        [*PTOSIM, "serve", "--stdio"], input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sorted(a["id"] for a in answers) == [0, 1, 2, 3, 4]
    assert {a["exit"] for a in answers} == {3}


@pytest.mark.slow
def test_requests_may_be_in_a_file(tmp_path):
    (tmp_path / "requests").write_text('{"id": 1, "argv": ["--version"]}\n')
    with (tmp_path / "requests").open("rb") as given:
        done = subprocess.run(
            [*PTOSIM, "serve", "--stdio"], stdin=given, capture_output=True, timeout=60
        )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"id": 1, "exit": 0, "stdout": f"ptosim {__version__}\n"}
