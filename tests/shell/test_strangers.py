"""What a stranger's program can do to a terminal, a memory, a server: nothing."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_input
from ptosim.ground.limits import Limits, within
from ptosim.ground.source import in_json, in_program, visible, visible_line
from ptosim.views.frames import Mark, excerpt
from tests.fuzz.case import Case
from tests.fuzz.commands import OBEYED, outcome
from tests.fuzz.files import RUNNERS, archive
from tests.fuzz.kinds import TEXTS, content_of
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


READERS = {
    "sidecar": in_json, "chain": in_json, "task": in_json, "space": in_json, "rows": in_json,
    "jobs": in_json, "mlir": in_program, "graph": in_program, "table": in_json, "cpp": in_json,
    "words": str, "script": str, "npz": str, "samples": str,
}  # fmt: skip
"""Kinds of files that are no programs, and how a text of theirs may hold such a character so that it is
read: raw, or in the escape that this gives."""


def _hostile_file(kind: str, number: int) -> bytes:
    """A file of a kind with one of the texts, in a string of it or a word: raw, or escaped."""
    text = HOSTILE[number]
    if kind in ("npz", "samples"):
        return archive(**{text.replace("\0", "") + "x": np.ones((8, 8), np.float32)})
    texts = TEXTS[kind]
    base = texts[number % len(texts)]
    places = [m.end() for m in re.finditer(r'"' if '"' in base else r"\b", base)]
    at = places[number % len(places)]
    held = READERS[kind](text) if number % 2 else text
    return content_of(kind, f"{base[:at]}{held}{base[at:]}")


FILES = [
    *(("program", place, n) for place in PLACES for n in range(len(HOSTILE))),
    *((kind, "", n) for kind in READERS for n in range(len(HOSTILE))),
]
SHOWING = ("run", "cost", "map", "fmt", "expand", "report", "stats", "debug --batch -nx -ex list")


def test_there_are_three_hundred_hostile_files() -> None:
    files = {(kind, _hostile_file(kind, n)) for kind, _, n in FILES if kind != "program"}
    assert len(files) > 150
    assert len(files) + len(PLACES) * len(HOSTILE) >= 300


@pytest.mark.sampled(16, 90)
@pytest.mark.parametrize(("kind", "place", "number"), FILES)
def test_no_control_character_of_a_file_is_shown(cli, tmp_path, kind, place, number) -> None:
    """Wherever it is in a file of any kind: the commands that read such files show it escaped, or not."""
    if kind != "program":
        runners = tuple(RUNNERS[kind])
        told = outcome(
            runners[number % len(runners)], Case(_hostile_file(kind, number), kind), tmp_path
        )
        assert isinstance(told, int), told.told
        return
    path = tmp_path / "k.pto"
    path.write_text(PLACES[place].format(HOSTILE[number]), encoding="utf-8", newline="")
    for form in ("text", ("github", "junit", "sarif", "concise")[number % 4]):
        assert OBEYED.search(_shown(cli, "check", path, "--format", form)) is None
    for n in (number, number + 3):
        command, *words = SHOWING[n % len(SHOWING)].split()
        assert OBEYED.search(_shown(cli, command, path, *words)) is None, command


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


def test_a_file_is_asked_for_in_pieces() -> None:
    """A read of the limit's 256 MB would have all of them set aside for a file of ten lines."""
    asked = []

    class Stream(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            asked.append(size)
            return super().read(size)

    content = bytes(range(256)) * 10_000
    with within(Limits(file=len(content))):
        assert read_input(Stream(content)) == content
        with pytest.raises(UsageError, match="larger than"):
            read_input(Stream(content + b"x"))
    assert max(size or 0 for size in asked) <= 1 << 20


TEMPLATES = (
    '// {{ "x" * 10**9 }}', "// {{ 7 ** 99999999 }}", '// {{ "%999999999d" % 1 }}',
    '// {{ "x".center(10**9) }}', "// {{ [0] * 10**9 }}",
    '// {% set s = namespace(x="abcdefgh") %}{% for i in range(40) %}{% set s.x = s.x ~ s.x %}{% endfor %}',
)  # fmt: skip


def test_a_line_without_an_end(tmp_path, monkeypatch) -> None:
    """`judge` reads line by line, from a pipe too: a line that is larger than a file may be ends it."""
    from ptosim.ground.files import lines_of

    class Endless(io.RawIOBase):
        def readable(self) -> bool:
            return True

        def readinto(self, into) -> int:
            into[:] = b" " * len(into)
            return len(into)

    with within(Limits(file=5000)), pytest.raises(UsageError, match="a line of x is larger"):
        list(lines_of(io.BufferedReader(Endless()), "x"))
    with within(Limits(file=5)):
        assert list(lines_of(io.BytesIO(b"\xef\xbb\xbfa\nbcd\n"), "x")) == ["a\n", "bcd\n"]


def test_a_line_that_is_a_whole_file() -> None:
    """Of a line of millions of characters what is near the first mark is shown, at its place."""
    line = "\x01" * 10**6 + " pto.tadd " + "\x01" * 10**6
    marks = [Mark(10**6 + 1, 10**6 + 9, "^"), Mark(2 * 10**6, 2 * 10**6 + 1, "-")]
    shown, rows = excerpt(line, marks, 60)
    assert len(shown) <= 60
    at = shown.index("pto.tadd")
    assert rows[0][at : at + 8] == "^" * 8


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('#include "/dev/zero"\n', "device"),
        ('#include "k.cpp"\n', "include one another"),
        ('#include "../beside.h"\n', "not below the kernel's folder"),
    ],
)
def test_what_a_kernel_includes(cli, tmp_path, text, told) -> None:
    """Files of bounded size that end; of a stranger's kernel none outside of its folder."""
    pytest.importorskip("pcpp")
    (tmp_path / "own").mkdir()
    (tmp_path / "beside.h").write_text("#define W 3\n")
    path = tmp_path / "own" / "k.cpp"
    path.write_text(f"{text}__global__ AICORE void k(__gm__ float* x) {{ *x = W; }}\n")
    with within(Limits(trusts=not told.startswith("not"))):
        found = ptosim.check(path)
    assert any(told in d.message for d in found), found
    if told.startswith("not"):
        assert not ptosim.check(path)  # by its owner


@pytest.mark.parametrize("place", ["beside.bin", "../outside.bin", "/dev/zero", "missing.bin"])
def test_data_of_a_model_are_beside_it(tmp_path, monkeypatch, place) -> None:
    """Whatever the folder of the caller is: a model takes data of its own folder, and no others."""
    onnx = pytest.importorskip("onnx")
    from ptosim.ground.diagnostics.model import ProgramError
    from ptosim.models.onnx_model import load

    folder = tmp_path / "model"
    folder.mkdir()
    for file in (folder / "beside.bin", tmp_path / "outside.bin"):
        file.write_bytes(np.arange(16, dtype=np.float32).tobytes())
    weights = onnx.TensorProto(
        name="w", data_type=1, dims=[4, 4], data_location=onnx.TensorProto.EXTERNAL
    )
    weights.external_data.add(key="location", value=place)
    ends = [onnx.helper.make_tensor_value_info(name, 1, [1, 4]) for name in "xy"]
    product = onnx.helper.make_node("MatMul", ["x", "w"], ["y"])
    graph = onnx.helper.make_graph([product], "g", ends[:1], ends[1:], [weights])
    (folder / "m.onnx").write_bytes(onnx.helper.make_model(graph).SerializeToString())
    monkeypatch.chdir(tmp_path)
    if place == "beside.bin":
        assert load(folder / "m.onnx").constants["w"][3, 3] == 15
        return
    with pytest.raises(ProgramError, match=r"data of .* cannot be read"):
        load(folder / "m.onnx")


def _peak(*words: object, stdin: int | None = None) -> tuple[int, int, str]:
    """Exit code, highest memory in MiB and words of a command, measured from outside."""
    code = (
        f"import re, sys; from ptosim.shell.main import main; code = main({[*map(str, words)]!r});"
        # Not `ru_maxrss`, which begins with the memory of the process that started this one.
        "print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1]); sys.exit(code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=300, stdin=stdin,
    )  # fmt: skip
    return done.returncode, int(done.stdout.splitlines()[-1]) >> 10, done.stdout + done.stderr


NEEDS_PROC = pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="a file of Linux")


@NEEDS_PROC
@pytest.mark.sampled(0, 6)
@pytest.mark.parametrize("text", TEMPLATES)
def test_a_template_is_bounded(tmp_path, text) -> None:
    """At most a gigabyte, one line, exit code 2."""
    pytest.importorskip("jinja2")
    path = tmp_path / "k.pto.j2"
    path.write_text(text)
    code, peak, told = _peak("sweep", path, "--param", "n=1", "--no-store")
    assert (code, "error: PTO7603: " in told) == (2, True)
    assert peak < 1000


FILES_OF_MEMORY: dict[str, tuple[str, tuple[str, ...], int, int]] = {
    # What is in the file (times how often), the command, its exit code, and the most MiB.
    "sparse": ("\0 300000000", ("check", "FILE"), 2, 600),
    "no end of a line": ("\0 300000000", ("judge", "FILE"), 2, 900),
    "text of 70 MB": ("pto.barrier\n 6000000", ("check", "FILE"), 3, 900),
    "strings": ('func.func @a() attributes {x = "a"}\n 20000', ("check", "FILE"), 3, 4096),
    "brackets": ("( 200000", ("check", "FILE"), 3, 900),
    "operations": ("pto.barrier <PIPE_ALL>\n 10000", ("check", "FILE"), 0, 4096),
    "zeros that nobody reads": (
        '{"program": "VADD", "args": {"x": "zeros:f32:100000x60000"}}\n 1', ("judge", "FILE"), 0, 1400,
    ),
    "many jobs": ('{"text": "func.func @a() {", "args": {}}\n 300', ("judge", "FILE"), 1, 900),
    "nested tables": ("a = [[[[[[[[ 100000", ("quant", "plan", "FILE"), 2, 900),
}  # fmt: skip


@NEEDS_PROC
@pytest.mark.deep
@pytest.mark.parametrize("what", FILES_OF_MEMORY)
def test_the_limits_of_memory_hold(tmp_path, what) -> None:
    """Without `ulimit`: the highest memory of the process stays below what the page promises."""
    text, words, wanted, most = FILES_OF_MEMORY[what]
    piece, _, times = text.rpartition(" ")
    path = tmp_path / "file.pto"
    if piece == "\0":
        with path.open("wb") as file:
            file.truncate(int(times))
    else:
        path.write_text(piece.replace("VADD", str(PROGRAMS / "basics/vadd.pto")) * int(times))
    code, peak, told = _peak(*(str(path) if word == "FILE" else word for word in words))
    assert (code, peak < most) == (wanted, True), (peak, told[-500:])


@NEEDS_PROC
@pytest.mark.deep
def test_a_stranger_has_a_gigabyte(tmp_path) -> None:
    """Whatever is asked for: the same program is stopped at 1 GiB, and without the option is not."""
    words = ("run", PROGRAMS / "basics/vadd.pto", "--arg", "x=zeros:f32:20000x16384")
    code, peak, told = _peak(*words, "--untrusted")
    assert (code, peak < 1400) == (6, True), told[-500:]


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


CONFINED = """
import os, resource, socket, subprocess, sys
from ptosim.ground.confined import confine
from ptosim.ground.limits import UNTRUSTED
confine(UNTRUSTED)
def limits(): return [resource.getrlimit(n)[0] for n in (resource.RLIMIT_AS, resource.RLIMIT_CPU, resource.RLIMIT_CORE)]
told = limits()
reading, writing = os.pipe()
if not os.fork():
    os.write(writing, repr(limits()).encode())
    os._exit(0)
assert eval(os.read(reading, 100)) == told
refused = 0
for call in (lambda: subprocess.run(["true"]), lambda: socket.socket()):
    try:
        call()
    except PermissionError:
        refused += 1
try:
    bytearray(3 << 30)
except MemoryError:
    told.append("memory")
print(*told, refused)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_the_system_refuses_more_to_a_stranger_and_its_workers() -> None:
    """Memory, processor time and dumps of the core; with pyseccomp other programs and networks."""
    import importlib.util

    done = subprocess.run(
        [sys.executable, "-c", CONFINED], capture_output=True, text=True, check=False
    )
    memory, seconds, core, full, refused = done.stdout.split()
    assert 1 << 30 <= int(memory) < 3 << 30
    assert (seconds, core, full) == ("70", "0", "memory")
    assert int(refused) == (2 if importlib.util.find_spec("pyseccomp") else 0)


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


@pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")
def test_a_part_of_a_run_is_bounded() -> None:
    """So much more than there is now, then as before; without a number as it is."""
    import resource

    from ptosim.ground.confined import bounded

    def most() -> int:
        return resource.getrlimit(resource.RLIMIT_AS)[0]

    before = most()
    with bounded(1 << 30, margin=0):
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        room = most() - pages * resource.getpagesize()
        with pytest.raises(MemoryError):
            bytearray(2 << 30)
    assert abs(room - (1 << 30)) < 64 << 20
    assert most() == before
    with bounded(None):
        assert most() == before


def test_requests_of_a_server() -> None:
    """A cancel needs nothing else; everything else needs its words."""
    from ptosim.shell.serve.protocol import line_of, request_of

    assert request_of(b'{"cancel": 1}') == {"cancel": 1}
    assert request_of(b'{"argv": ["check", "x"]}') == {"argv": ["check", "x"]}
    for line in (
        b"{}",
        b"[]",
        b'{"argv": "x"}',
        b'{"argv": ["a\\u0000"]}',
        b'{"argv": [], "cwd": 1}',
    ):
        with pytest.raises(ValueError, match=r"argv|object|folder"):
            request_of(line)
    assert json.loads(line_of({"id": "\x9b"})) == {"id": "\x9b"}
