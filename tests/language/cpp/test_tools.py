"""The debugger, `why` and the editor's server speak of the C++ file: lines, names, calls."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.errors import UsageError
from ptosim.ground.source import Source
from ptosim.language.cpp.state import CppError
from ptosim.language.syntax.printer import print_module
from ptosim.shell.main import main
from ptosim.tools.lsp.document import Document, Settings
from ptosim.tools.lsp.hover import hover
from ptosim.tools.lsp.names import CppNames
from ptosim.tools.lsp.refactor import formatted, renamable

_TEXT = """#include <pto/pto-inst.hpp>
using namespace pto;
#define LOADED(x) set_flag(PIPE_MTE2, PIPE_V, EVENT_ID0); wait_flag(PIPE_MTE2, PIPE_V, EVENT_ID0)
template <typename X> AICORE void twice(X &to, X &from) {
  TADD(to, from, from);
}
template <typename E, int N> __global__ AICORE void k(__gm__ E *a, __gm__ E *o) {
  using T = Tile<TileType::Vec, E, 16, N>;
  T x, y;
  TASSIGN(x, 0);
  TASSIGN(y, 0x1000);
  GlobalTensor<E, Shape<1, 1, 1, 16, N>, Stride<1, 1, 1, N, 1>> ga(a), go(o);
  TLOAD(x, ga);
  LOADED(x);
  twice(y, x);
  set_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID0);
  TSTORE(go, y);
}
template __global__ AICORE void k<float, 64>(__gm__ float *, __gm__ float *);
"""
_A = np.arange(1024, dtype=np.float32).reshape(16, 64)


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Return what executes a command on the kernel."""
    from ptosim.shell.main import main

    path = tmp_path / "k.cpp"
    path.write_text(_TEXT)
    np.save(tmp_path / "a.npy", _A)
    given = [f"--arg=a={tmp_path / 'a.npy'}", "--arg=o=zeros:f32:16x64", "--target=a5"]

    def execute(name: str, *words: str) -> tuple[int, str]:
        code = main([name, str(path), *given, *words])
        said = capsys.readouterr()
        return code, said.out + said.err

    return execute


def test_a_breakpoint_steps_and_calls_are_lines_of_the_file(command) -> None:
    """A line in a template stops where it is followed; the frames are the calls of the text."""
    asked = ("break 5", "continue", "backtrace", "print x[0, 3]", "step", "quit")
    code, said = command("debug", *[f"-ex={one}" for one in asked])
    assert code == 0, said
    assert "breakpoint 1, line 5" in said
    frames = re.findall(r"^ +(\d+) +(in .*>)$", said, re.MULTILINE)
    assert [(line, word.split("<")[0]) for line, word in frames] == [
        ("15", "in twice"),
        ("20", "in k"),
    ]
    assert re.search(r"^#\d+ +line 16 ", said, re.MULTILINE)  # after the step


def test_names_of_the_file_are_values_of_the_debugger(command) -> None:
    asked = (
        "break 16",
        "continue",
        "print x[1, 2]",
        "print float((y - 2 * x).max())",
        "print nope",
    )
    _, said = command("debug", *[f"-ex={one}" for one in asked])
    assert re.search(r"^66(\.0)?$", said, re.MULTILINE)
    assert re.search(r"^0(\.0)?$", said, re.MULTILINE)
    assert "`nope` is not a name here" in said


def test_why_names_lines_of_the_file(command, tmp_path: Path) -> None:
    wanted = 2 * _A
    wanted[9, 7] += 1
    np.save(tmp_path / "o.npy", wanted)
    code, said = command("why", f"--expect=o={tmp_path / 'o.npy'}")
    assert code == 1
    assert re.findall(r"line (\d+): pto\.(\w+)", said)[:3] == [
        ("18", "tstore"),
        ("5", "tadd"),
        ("13", "tload"),
    ]


# -- the editor's server ---------------------------------------------------------------------------


def _at(text: str, nth: int = 0) -> int:
    return [m.start() for m in re.finditer(re.escape(text), _TEXT)][nth]


@pytest.fixture(scope="module")
def document() -> Document:
    return Document("k.cpp", _TEXT, Settings(target="a5"))


@pytest.mark.parametrize(
    ("use", "declared"),
    [
        ("x, ga", "x, y;"),  # a variable
        ("ga);", "ga(a)"),  # an object with a constructor
        ("twice(y", "twice(X"),  # a function template
        ("N>;", "N> __global__"),  # a template parameter
        ("from, from)", "from) {"),  # a parameter
        ("T x", "T ="),  # an alias
        ("LOADED(x);", "LOADED(x) set"),  # a macro
    ],
)
def test_a_name_leads_to_its_declaration(document: Document, use: str, declared: str) -> None:
    word = document.names.at(_at(use))
    assert word is not None
    made = document.names.definition(word)
    assert made is not None
    assert made.word.start == _at(declared)
    assert word in document.names.uses(made)


def test_hover_tells_the_operation_of_a_call_and_the_tile_of_a_name(document: Document) -> None:
    document.measured = document.measure()
    told = hover(document, _at("TADD"))
    assert told is not None
    assert re.search(r"\*\*pto\.tadd\*\* · pipe V · .*a5 \d+ cycles", told[0])
    told = hover(document, _at("y);"))
    assert told is not None
    assert "declared on line 9" in told[0]
    assert "vec 0x1000 to 0x2000" in told[0]


def test_nothing_of_assembly_is_offered_for_cpp(document: Document) -> None:
    assert formatted(document) is None
    assert renamable(document, _at("x, ga")) is None
    assert document.findings == []


def test_cpp_with_several_entries_or_none_is_no_error_in_an_editor() -> None:
    """The first entry is shown; a header says nothing."""
    second = "template __global__ AICORE void k<half, 32>(__gm__ half *, __gm__ half *);\n"
    wrong = _TEXT.replace("TADD(to, from, from)", "TADD(to, from, nope)") + second
    found = Document("k.cpp", wrong, Settings()).findings
    assert [d.span.line for d in found if d.span is not None] == [5]
    header = Document("k.hpp", "#pragma once\n#include <a.hpp>\nstruct S { int a; };\n", Settings())
    assert header.findings == []
    assert isinstance(header.names, CppNames)


def test_findings_of_python_have_lines_of_the_file() -> None:
    found = ptosim.check(_TEXT.replace("LOADED(x);", ""), target="a5", filename="k.cpp")
    assert [d.span.line for d in found if d.code == "PTO5201" and d.span is not None] == [5]


# -- the other commands that take a program --------------------------------------------------------

_SIDECAR = """summary = "Twice"
targets = ["a5"]
entry = "k<float, 64>"
[args]
a = "arange:f32:16x64"
o = "zeros:f32:16x64"
[expect]
o = "out.npz:o"
"""


def test_judges_tests_and_sweeps_name_an_entry_of_cpp(tmp_path: Path, capsys) -> None:
    """Of several entries the one that is meant is read; constants are macros and `constexpr`."""
    from ptosim.shell.main import main

    second = "template __global__ AICORE void k<float, 32>(__gm__ float *, __gm__ float *);\n"
    (tmp_path / "k.cpp").write_text(_TEXT + second)
    (tmp_path / "k.toml").write_text(_SIDECAR)
    np.savez(tmp_path / "out.npz", o=2 * _A)
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")  # has no sidecar
    assert main(["test", str(tmp_path)]) == 0
    job = {"id": "k", "program": str(tmp_path / "k.cpp"), "entry": "k<float, 64>", "target": "a5"}
    (tmp_path / "jobs.jsonl").write_text(json.dumps(job) + "\n")
    assert main(["judge", str(tmp_path / "jobs.jsonl")]) == 0
    text = _TEXT.replace("<float, 64>", "<float, WIDE>").replace(
        "#define", "#define WIDE 64\n#define"
    )
    (tmp_path / "n.cpp").write_text(text)
    capsys.readouterr()
    assert main(["sweep", str(tmp_path / "n.cpp"), "--target", "a5", "--const", "WIDE=32,64"]) == 0
    assert "2 accepted" in capsys.readouterr().out
    assert main(["sweep", str(tmp_path / "n.cpp"), "--const", "M=32"]) == 2
    assert "no `#define M …`" in capsys.readouterr().err


def test_tune_changes_constants_of_cpp_and_says_that_rewrites_are_of_assembly(
    tmp_path: Path, capsys
) -> None:
    from ptosim.shell.main import main

    text = _TEXT.replace("<float, 64>", "<float, WIDE>").replace(
        "#define", "#define WIDE 64\n#define"
    )
    (tmp_path / "k.cpp").write_text(text)
    asked = ["tune", str(tmp_path / "k.cpp"), "--target", "a5", "--seeds", "1"]
    assert main(asked) == 2
    assert "rewrites are of assembly, and this is C++" in capsys.readouterr().err
    assert main([*asked, "--const", "WIDE=64,64"]) == 0
    said = capsys.readouterr().out
    assert "reference" in said
    assert "did not apply" not in said


def test_a_folder_is_checked_with_every_entry_of_its_kernels(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of C++ too; a file for the host is none. Each entry says by which of its calls a place is
    reached. Entries of a file share its text: it is not expanded for each."""
    from ptosim.language.cpp import reader
    from ptosim.shell.main import main

    expanded, expand = [], reader.expand
    monkeypatch.setattr(reader, "expand", lambda *args: expanded.append(args) or expand(*args))
    wrong = "template __global__ AICORE void k<int8_t, 20>(__gm__ int8_t *, __gm__ int8_t *);\n"
    (tmp_path / "k.cpp").write_text(_TEXT + wrong)
    (tmp_path / "main.cpp").write_text("int main() { return 0; }\n")
    assert main(["check", str(tmp_path), "--target", "a5", "-j", "1"]) == 3
    assert len(expanded) == 3  # of k.cpp for its list of entries, and for all of them
    heads, said = capsys.readouterr()
    assert re.findall(r"entry (k<.*?>): (.*)", heads) == [
        ("k<float, 64>", "no findings"), ("k<int8_t, 20>", "1 error"),
    ]  # fmt: skip
    assert "a row has 20 bytes" in said
    assert "= note: in k<int8_t, 20> at line 21" in said
    assert "k<float, 64> at line" not in said


def test_code_for_the_host_is_named_when_more_is_asked(tmp_path: Path, capsys) -> None:
    """It is skipped; a helper of a kernel and a launch wrapper are none."""
    from ptosim.shell.main import main

    host = 'void go(float *a, float *o, void *s) {\n  std::cout << "go";\n  k<float, 64><<<1, nullptr, s>>>'
    text = f"{_TEXT}{host}(a, o);\n}}\nint main() {{ aclInit(nullptr); go(nullptr, nullptr, nullptr); }}\n"
    (tmp_path / "k.cpp").write_text(text)
    asked = ["check", str(tmp_path / "k.cpp"), "--target", "a5", "--entry", "go"]
    assert main(asked) == 0
    assert "for the host" not in capsys.readouterr().out
    assert main([*asked, "-v"]) == 0
    said = 'for the host, not executed: `std::cout << "go";` (line 22), `main` (line 25)\n'
    assert said in capsys.readouterr().out


def test_what_a_check_said_is_not_kept_where_a_header_is_beside(
    tmp_path: Path, capsys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it says may change, while the text stays."""
    from ptosim.shell.main import main
    from ptosim.tools import verdicts

    monkeypatch.setenv("PTOSIM_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(verdicts, "ENABLED", True)
    (tmp_path / "k.cpp").write_text(_TEXT.replace("#include", '#include "place.hpp"\n#include', 1)
                                    .replace("0x1000", "PLACE"))  # fmt: skip
    for place, code in (("0x1000", 0), ("0xfffffff", 3), ("0x1000", 0)):
        (tmp_path / "place.hpp").write_text(f"#define PLACE {place}\n")
        assert main(["check", str(tmp_path / "k.cpp"), "--target", "a5"]) == code
    capsys.readouterr()


def test_expand_writes_the_program_that_an_entry_is_read_as(tmp_path: Path, capsys) -> None:
    from ptosim.shell.main import main

    (tmp_path / "k.cpp").write_text(_TEXT)
    assert main(["expand", str(tmp_path / "k.cpp"), "--target", "a5"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("module")
    assert "pto.vadd" in printed
    program = ptosim.load(printed, target="a5", level=3, sync="manual")
    result = program.run({"a": _A, "o": np.zeros_like(_A)})
    np.testing.assert_array_equal(result.outputs["o"], 2 * _A)


def test_values_are_asked_for_by_their_names_in_cpp(command) -> None:
    """In `--dump` and `stats`, and in commands of the debugger that take one."""
    code, said = command("run", "--dump", "y@tadd")
    assert (code, "y@tadd" in said) == (0, True)
    code, said = command("stats", "--value", "y@tadd")
    assert (code, "y@tadd: 0 .. 2046" in said) == (0, True)
    code, said = command("run", "--dump", "z@tadd")
    assert (code, "there is no value %z there" in said) == (2, True)
    orders = ("until tstore", "why y[1, 2]", "last-write y[0, 0]", "tile y[0:2, 0:2]")
    code, said = command("debug", "--batch", *(w for order in orders for w in ("-ex", order)))
    assert code == 0
    assert "[1, 2] = 132" in said
    assert "pto.tadd" in said


def test_a_launch_wrapper_skips_what_is_for_the_host_and_a_kernel_nothing() -> None:
    """Where the file has no declaration of a call in a kernel, it is refused, however it is
    launched."""
    text = _TEXT.replace("template __global__ AICORE void k<float, 64>(__gm__ float *, __gm__ float *)",
                         "void go(float *a, float *o, void *s) { check(a); k<float, 64>"
                         "<<<1, nullptr, s>>>(a, o); }")  # fmt: skip
    program = ptosim.load(text, entry="go", target="a5", filename="k.cpp")
    assert np.array_equal(program.run({"a": _A, "o": 0 * _A}).outputs["o"], 2 * _A)
    with pytest.raises(UnsupportedError, match="`other` is not read"):
        ptosim.load(text.replace("LOADED(x);", "other(x);"), entry="go", filename="k.cpp")


def test_bytes_are_taken_for_floats_of_one_byte_and_come_back_as_bytes() -> None:
    """A wrapper takes `uint8_t *` for every element type; 0x38 is 1 in E4M3, 0x40 is 2."""
    text = _TEXT.replace("T x, y;", "T x, z; Tile<TileType::Vec, float8_e4m3_t, 16, N> y;")
    text = text.replace("twice(y, x);", "TCVT(y, x, RoundMode::CAST_RINT, SaturationMode::ON);")
    text = text.replace("GlobalTensor<E, Shape<1, 1, 1, 16, N>, Stride<1, 1, 1, N, 1>> ga(a), go(o);",
                        "using S = Shape<1, 1, 1, 16, N>; using R = Stride<1, 1, 1, N, 1>;"
                        "GlobalTensor<E, S, R> ga(a); GlobalTensor<float8_e4m3_t, S, R> "
                        "go((__gm__ float8_e4m3_t *)o);").replace("__gm__ E *o", "__gm__ uint8_t *o")  # fmt: skip
    text = text.replace(
        "k<float, 64>(__gm__ float *, __gm__ float *)",
        "k<float, 64>(__gm__ float *, __gm__ uint8_t *)",
    )
    program = ptosim.load(text, target="a5", filename="k.cpp")
    given = {"a": 1 + np.arange(1024, dtype=np.float32) % 2, "o": np.zeros(1024, np.uint8)}
    found = program.run(given).outputs["o"]
    assert found.dtype == np.uint8
    assert found.ravel()[:3].tolist() == [0x38, 0x40, 0x38]


def test_names_in_a_refusal_are_on_one_line() -> None:
    with pytest.raises(UnsupportedError) as told:
        ptosim.load('AICORE void k() { int (*f)(\r\n int) = 0; asm(\r\n"x"); }', filename="k.cpp")
    assert "\n" not in told.value.diagnostics[0].message
    with pytest.raises(UnsupportedError, match="kernels have no exceptions"):
        ptosim.load("AICORE void k(int n) { if (n > 3) { throw 3; } }", filename="k.cpp")


@pytest.mark.parametrize(
    ("blocks", "why"), [(2.5, "2.5 is no whole number"), (0, "block_num is 0"), (-3, "is -3")]
)
def test_a_launch_of_no_number_of_blocks_is_refused(blocks: float, why: str) -> None:
    """A wrapper's argument that says how many blocks run is asked like `--block-num`."""
    text = f"{_TEXT}void go(float *a, float *o, int n, void *s) {{\n"
    text += "  k<float, 64><<<n, nullptr, s>>>(a, o);\n}\n"
    program = ptosim.load(text, target="a5", entry="go")
    with pytest.raises(UsageError, match=why):
        program.run({"a": _A, "o": np.zeros_like(_A), "n": blocks})


_COUNTED = """#include <pto/pto-inst.hpp>
__global__ AICORE void k(__gm__ int32_t *y, int n) {
  y[get_block_idx() * 16] = get_block_num() + n;
}
void go(int32_t *y, int n, void *s) { WRAPPER }
"""


@pytest.mark.parametrize(
    ("wrapper", "blocks"),
    [
        ("k<<<n * 2, nullptr, s>>>(y, n);", 6),
        ("int b = (n + 15) / 2; if (b > 8) b = 8; k<<<b, nullptr, s>>>(y, n);", 8),
        ("if (n == 4) { k<<<5, nullptr, s>>>(y, n); return; } k<<<5, nullptr, s>>>(y, n);", 5),
        ("switch (n) { case 3: k<<<2, nullptr, s>>>(y, n); break; default: break; }", 2),
    ],
)
def test_a_wrapper_computes_how_many_blocks_it_launches(wrapper: str, blocks: int) -> None:
    program = ptosim.load(_COUNTED.replace("WRAPPER", wrapper), target="a5", entry="go")
    y = program.run({"y": np.zeros(256, np.int32), "n": 3}).outputs["y"][::16]
    assert y.tolist() == [blocks + 3] * blocks + [0] * (16 - blocks)


@pytest.mark.parametrize(("blocks", "is_shared"), [("4", True), ("n", False), ("n * 2", False)])
def test_numbers_that_say_how_many_blocks_run_share_no_run_of_a_proof(
    blocks: str, is_shared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    from ptosim.tools.search import prove_shared

    monkeypatch.setattr(prove_shared, "can_fork", lambda: True)
    text = _COUNTED.replace("WRAPPER", f"k<<<{blocks}, nullptr, s>>>(y, n);")
    launched = SimpleNamespace(program=ptosim.load(text, target="a5", entry="go"), entry=None)
    assert prove_shared.can_share(launched, ["n"]) == is_shared


def test_what_a_wrapper_does_not_say_of_its_blocks_is_told() -> None:
    """A function of the host says it; several launches are several programs."""
    args = {"y": np.zeros(256, np.int32), "n": 3}
    text = _COUNTED.replace("WRAPPER", "k<<<cores(), nullptr, s>>>(y, n);")
    program = ptosim.load(text, target="a5", entry="go")
    with pytest.raises(UsageError, match="computes its number of blocks"):
        program.run(args)
    assert program.run(args, block_num=2).outputs["y"][16] == 5
    for wrapper, why in (
        ("k<<<4, nullptr, s>>>(y, n); k<<<4, nullptr, s>>>(y, n);", "several kernels in a row"),
        ("if (n > 3) k<<<4, nullptr, s>>>(y, n); else k<<<2, nullptr, s>>>(y, n);",
         "several numbers of blocks"),
    ):  # fmt: skip
        with pytest.raises(UnsupportedError, match=why):
            ptosim.load(_COUNTED.replace("WRAPPER", wrapper), target="a5", entry="go")


def test_a_proof_beside_a_text_says_which_switch_differs(tmp_path: Path) -> None:
    """C++ calls the library, a text of PTO is expanded by the assembler: with one meaning for both,
    a kernel and its printed form are proven."""
    from ptosim.tools.search.prove import Launched, prove

    (tmp_path / "k.cpp").write_text(_TEXT)
    differs = {
        "a5": "switch lowering is library in A and expansion in B",
        "a2a3": "switch pad.float is inf in A and finite in B (tcmps.mask too)",
    }

    def verdict(target: str, **options) -> tuple[str, str]:
        first = ptosim.load(tmp_path / "k.cpp", target=target, **options)
        (tmp_path / "k.pto").write_text(print_module(first.front.module))
        other = ptosim.load(tmp_path / "k.pto", target=target, level=3, sync="manual", **options)
        proof = prove(Launched(first, None, {}), Launched(other, None, {}))
        return proof.verdict, proof.why

    for target, why in differs.items():
        assert verdict(target) == ("refused", f"{why}; `--set lowering=library` is for both")
        assert verdict(target, switches={"lowering": "library"})[0] == "equal"


def test_plain_lines_are_one_word_for_the_preprocessor() -> None:
    """Text in which nothing is to be expanded costs no word for each of its lines, and each of its
    characters has its place: before, between and after lines with macros and comments."""
    from ptosim.language.cpp.preprocess import expand

    plain = "  TADD(a, b, c);\n" * 3000
    text = f"#define N 3\nvoid f() {{\n{plain}int n = N; // of N\n{plain}int last;\n}}\n"
    made = expand(Source("k.cpp", text), "a5", None)
    assert len(made.marks) < 40
    for word in ("last", "void"):
        assert made.place(made.text.index(word)) == text.index(word)
    assert text.index("int n") <= made.place(made.text.index("3;")) <= text.index("N; //")
    assert made.place(made.text.rindex("TADD")) == text.rindex("TADD")
    with pytest.raises(CppError) as caught:
        expand(Source("k.cpp", f"{plain}#error no\n"), "a5", None)
    assert caught.value.at == len(plain)


def test_markers_are_left_out_of_plain_lines_where_no_macro_has_their_name() -> None:
    """A text after the preprocessor has no markers; what follows one keeps its place, also on its
    line, and a kernel is where `__global__` was."""
    from ptosim.language.cpp.preprocess import expand

    text = "int a;\n__global__ AICORE void f(__gm__ float *x, my__gm__ y) {\n__gm__ int b; }\n"
    made = expand(Source("k.cpp", text), "a5", None)
    assert made.text.split() == text.replace("__global__ AICORE", "").replace("(__gm__", "(").replace(
        "\n__gm__", "").split()  # fmt: skip
    assert [made.text[at:].split()[0] for at in made.kernels] == ["void"]
    for word in ("void", "float", "my__gm__", "int b", "y)"):
        assert made.place(made.text.index(word)) == text.index(word)
    own = expand(Source("k.cpp", f"#define __gm__ mine\n{text}"), "a5", None)
    assert "f(mine float *x, my__gm__ y)" in own.text
    off = expand(Source("k.cpp", f"#if 0\n{text}#endif\nint c;\n"), "a5", None)
    assert (off.text.split(), off.kernels) == (["int", "c;"], [])


def test_a_kernel_that_is_refused_is_told_once_by_fmt(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Bad input gets one diagnostic; this was told as a finding and as the reason."""
    path = tmp_path / "k.cpp"
    path.write_text(_TEXT.replace("TADD(to, from, from);", "TADD(to, from, nothing);"))
    code = main(["fmt", str(path), "--entry", "k<float, 64>", "--to", "pto"])
    captured = capsys.readouterr()
    assert code == 3
    assert (captured.out + captured.err).count("error[") == 1
