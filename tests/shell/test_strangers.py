"""What a stranger's program can do to a terminal, a memory, a server: nothing."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ptosim.ground.source import in_json, in_program, visible, visible_line
from tests.fuzz.commands import OBEYED
from tests.support.paths import PROGRAMS

# ECMA-48 commands (title, clipboard, colour, cursor, charset), C1 forms of them, bell, backspace,
# delete, a return alone, and the marks of Unicode Standard Annex 9.
HOSTILE = (
    "\x1b]0;owned\x07", "\x1b]52;c;aGk=\x07", "\x1b[31mred\x1b[0m", "\x1b[2J\x1b[H", "\x1b(0", "\x1bc",
    "\x07", "\x08\x08\x08", "\x7f", "a\rb", "\x0b", "\x0c", "\x00", "\x9b31m", "\x9d0;t\x9c", "\x90q\x9c",
    "\u202e evil \u202c", "\u2066x\u2069", "\u200f", "\u061c",
)  # fmt: skip
PLACES = {
    "comment": "func.func @a() {{ // {}\n  return\n}}\n",
    "string": 'func.func @a() attributes {{x = "{}"}} {{\n  return\n}}\n',
    "name of a value": 'func.func @a(%{}: index) {{\n  return\n}}\n',
    "operation": "func.func @a() {{\n  pto.{} ins()\n  return\n}}\n",
    "type": "func.func @a(%x: !pto.{}) {{\n  return\n}}\n",
    "quoted operation": 'func.func @a() {{\n  "pto.{}"() : () -> ()\n  return\n}}\n',
    "attribute": "module attributes {{pto.target_arch = \"{}\"}} {{\n  func.func @a() {{\n    return\n  }}\n}}\n",
    "print": 'func.func @a() {{\n  %c = arith.constant 1 : index\n  pto.print ins("{}", %c : index)\n  return\n}}\n',
}  # fmt: skip


def _shown(cli, *words: object) -> str:
    outcome = cli(*words)
    assert outcome.code in range(7)
    return outcome.out + outcome.err


@pytest.mark.sampled(12, 110)
@pytest.mark.parametrize(
    ("place", "text", "form"), list(itertools.product(PLACES, HOSTILE, ("text", "github")))
)
def test_no_control_character_of_a_program_is_shown(cli, tmp_path, place, text, form) -> None:
    """Wherever it is in the program: every command shows it as `\\u{1b}`."""
    path = tmp_path / "k.pto"
    path.write_text(PLACES[place].format(text), encoding="utf-8", newline="")
    forms = ("--format", form)
    assert OBEYED.search(_shown(cli, "check", path, *forms)) is None
    for command in ("run", "cost", "map", "fmt", "expand") if form == "text" else ():
        assert OBEYED.search(_shown(cli, command, path)) is None, command


@pytest.mark.sampled(2, 20)
@pytest.mark.parametrize("text", HOSTILE)
def test_names_of_files_and_words_of_the_command_line(cli, tmp_path, text) -> None:
    name = text.replace("\x00", "\x01").replace("/", "")
    path = tmp_path / f"k{name}.pto"
    path.write_text("func.func @a() {\n  pto.nope\n}\n")
    for words in (("check", path), ("run", f"{path}2"), ("check", path, "--format", "junit")):
        assert OBEYED.search(_shown(cli, *words)) is None
    assert OBEYED.search(_shown(cli, "check", path, f"--{name}")) is None


def test_reports_in_every_form(cli, tmp_path) -> None:
    """JSON says the same values in its own escape; XML and HTML can carry none of them."""
    path = tmp_path / "k\x9b.pto"
    path.write_text("func.func @a() {\n  pto.nope\x1b]0;t\x07\x9b\u202e\n}\n")
    for form in ("json", "jsonl", "sarif", "junit", "concise", "github"):
        assert OBEYED.search(_shown(cli, "check", path, "--format", form)) is None, form
    found = json.loads(cli("check", path, "--format", "json").out)["findings"]
    assert found[0]["file"] == str(path)
    assert OBEYED.search(_shown(cli, "report", "@basics/vadd")) is None


def test_colours_stay_and_foreign_colours_do_not(cli, tmp_path) -> None:
    path = tmp_path / "k.pto"
    path.write_text("func.func @a() {\n  pto.nope \x1b[31mred\n}\n")
    told = cli("check", path, "--color", "always").err
    assert "\x1b[1;31m" in told
    assert "\x1b[31m" not in told


def test_the_mark_is_under_the_place(cli, tmp_path) -> None:
    """A character that is shown in six columns moves what comes after it, and its mark."""
    path = tmp_path / "k.pto"
    path.write_text('func.func @a() attributes {x = "\x1b", y = %} {\n return\n}\n')
    lines = cli("check", path).err.splitlines()
    at = next(n for n, line in enumerate(lines) if "\\u{1b}" in line)
    assert lines[at + 1].index("^") == lines[at].index("%")


def test_fmt_keeps_the_bytes_of_a_file(cli, tmp_path) -> None:
    """On a screen a string has MLIR's escape, which is the same string; a file has its bytes."""
    path, other = tmp_path / "k.pto", tmp_path / "o.pto"
    text = 'func.func @a() attributes {x = "a\x1bb"} {  // \u202e\n  return\n}\n'
    path.write_text(text)
    shown = cli("fmt", path)
    assert shown.out.startswith('func.func @a() attributes {x = "a\\1Bb"} {  // \\u{202e}\n')
    assert "PTO0017" in shown.err
    assert cli("fmt", "-i", path).code == 0
    assert path.read_text() == text
    assert cli("fmt", path, "-o", other).code == 0
    assert other.read_text() == text


def test_pieces() -> None:
    assert visible("a\tb\r\nc") == "a\tb\r\nc"
    assert visible("a\rb\x1b[0m") == "a\\u{d}b\\u{1b}[0m"
    assert visible("\x1b[0m\x1b]", colored=True) == "\x1b[0m\\u{1b}]"
    assert visible_line("a\x07b") == ("a\\u{7}b", [0, 1, 6, 7])
    assert json.loads(in_json(json.dumps("\x9b\u202e", ensure_ascii=False))) == "\x9b\u202e"
    assert in_program('"\x9b" \x9b') == '"\\C2\\9B" \x9b'


# -- files and memory ------------------------------------------------------------------------------


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device of Linux")
@pytest.mark.parametrize(
    "words",
    [
        ("check", "/dev/zero"), ("run", "/dev/urandom"), ("cost", "/dev/zero"),
        ("judge", "/dev/zero"), ("run", "@basics/vadd", "--arg", "x=/dev/zero.npy"),
        ("sweep", "/dev/zero", "--const", "n=1"), ("cost", "@basics/vadd", "--costs", "/dev/zero"),
    ],
)  # fmt: skip
def test_a_device_is_no_file(cli, words) -> None:
    outcome = cli(*words)
    assert outcome.code == 2
    assert (
        "device" in outcome.err or "No such file" in outcome.err or "Not a directory" in outcome.err
    )


def test_a_file_beyond_the_limit(cli, tmp_path) -> None:
    """Refused before it is read whole, and the cure is said; with another limit it is read."""
    path = tmp_path / "k.pto"
    path.write_text((PROGRAMS / "basics" / "vadd.pto").read_text())
    outcome = cli("check", path, "--max-file", "100")
    assert (outcome.code, "larger than 100 bytes" in outcome.err) == (2, True)
    assert "--max-file" in outcome.err
    assert cli("check", path, "--max-file", "1M").code == 0


TEMPLATES = (
    '// {{ "x" * 10**9 }}', "// {{ 7 ** 99999999 }}", '// {{ "%999999999d" % 1 }}',
    '// {{ "x".center(10**9) }}', "// {{ [0] * 10**9 }}",
    '// {% set s = namespace(x="abcdefgh") %}{% for i in range(40) %}{% set s.x = s.x ~ s.x %}{% endfor %}',
)  # fmt: skip


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a file of Linux")
@pytest.mark.sampled(0, 6)
@pytest.mark.parametrize("text", TEMPLATES)
def test_a_template_is_bounded(tmp_path, text) -> None:
    """Measured from outside: at most a gigabyte, one line, exit code 2."""
    pytest.importorskip("jinja2")
    path = tmp_path / "k.pto.j2"
    path.write_text(text)
    code = (
        "import re, sys; from ptosim.shell.main import main;"
        f"code = main(['sweep', {str(path)!r}, '--param', 'n=1', '--no-store']);"
        # Not `ru_maxrss`, which begins with the memory of the process that started this one.
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 2
    assert done.stderr.startswith("error: PTO7603: ")
    assert int(done.stdout.splitlines()[-1]) < 1_000_000  # KiB


@pytest.mark.slow
def test_untrusted_refuses_code(tmp_path) -> None:
    """No template and no Python of theirs; the program itself runs as always."""
    template, code = tmp_path / "k.pto.j2", tmp_path / "make.py"
    template.write_text("// {{ n }}")
    code.write_text("def kernel(n): raise SystemExit('executed')\n")

    def said(*words: object) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "ptosim", *map(str, words), "--untrusted"]
        return subprocess.run(line, capture_output=True, text=True, check=False)

    for source in (template, f"{code}:kernel"):
        told = said("sweep", source, "--param", "n=1", "--no-store")
        assert (told.returncode, "--untrusted" in told.stderr) == (2, True)
    assert said("run", "@basics/vadd").returncode == 0


def test_untrusted_bounds_memory_and_time(tmp_path) -> None:
    """Beyond 1 GiB it ends with exit code 6, whatever the arguments ask for."""
    path = tmp_path / "big.npy"
    line = [sys.executable, "-m", "ptosim", "run", "@basics/vadd", "--untrusted", "--arg"]
    np.save(path, np.zeros(4, np.float32))
    done = subprocess.run(
        [*line, "x=zeros:f32:32768x16384"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 6
    assert "PTO0016" in done.stderr


# -- the server, help, golden arrays ----------------------------------------------------------------


@pytest.mark.parametrize(
    "argv", [["serve"], ["lsp"], ["debug", "@basics/vadd"], ["check", "x", "--watch"], ["run", "x", "--debug-on"]]
)  # fmt: skip
def test_a_server_runs_nothing_that_never_ends(argv) -> None:
    from ptosim.shell.serve.protocol import talks

    assert talks(argv)
    assert not talks(["check", "x", "-v"])


@pytest.mark.parametrize("number", ["1e999", "NaN", "-Infinity"])
def test_a_request_with_a_number_beyond_json(number) -> None:
    from ptosim.shell.serve.protocol import request_of

    with pytest.raises(ValueError, match="number"):
        request_of(f'{{"argv": ["check"], "id": {number}}}'.encode())


def test_update_tells_of_a_program_that_does_not_run(cli, tmp_path) -> None:
    (tmp_path / "k.pto").write_text("func.func @a() {\n  pto.nope\n}\n")
    (tmp_path / "k.toml").write_text('targets = ["a5"]\n[expect]\ny = "k.npy"\n')
    outcome = cli("test", tmp_path, "--update")
    assert outcome.code == 1
    assert "k.pto does not run" in outcome.err
    assert "PTO1003" in outcome.err


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_help_on_a_full_disk() -> None:
    line = f"'{sys.executable}' -m ptosim check --help >/dev/full"
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, check=False)
    assert (done.returncode, "No space left" in done.stderr) == (2, True)
