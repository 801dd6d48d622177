"""A session of an editor: a kernel is typed from nothing with what completion offers, a misspelling
is mended, a name changed; then it runs, is debugged and reported on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from lsprotocol import types
from pygls.workspace import Workspace

import ptosim
from ptosim.shell.main import main
from ptosim.tools.lsp import requests
from ptosim.tools.lsp.requests import make_server
from ptosim.tools.lsp.server import OpenTexts, PtoServer
from tests.debug.dap_client import Client

URI = "file:///tmp/session.pto"
BEGUN = """func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>) attributes {pto.entry} {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %c64 = arith.constant 64 : index
  %vx = pto.make_tensor_view %x, shape = [%c16, %c64], strides = [%c64, %c1] : !pto.tensor_view<16x64xf32>
"""
TYPED = (
    ("  %vy = pto.make_tensor_vie", "pto.make_tensor_view"), ("  %px = pto.partition_vie", "pto.partition_view"),
    ("  %py = pto.partition_vie", "pto.partition_view"),
    ("  %a = pto.alloc_tile : !pto.tile_buf<vec, 16x64xf32>", ""), ("  %b = pto.alloc_til", "pto.alloc_tile"),
    ("  pto.tloa", "pto.tload"), ("  pto.tab", "pto.tabs"), ("  pto.tstor", "pto.tstore"), ("  return", ""),
)  # fmt: skip


class Editor:
    """A text that is changed only by the answers of the server, and by keys."""

    def __init__(self) -> None:
        self.server: PtoServer = make_server()
        self.server.protocol._workspace = OpenTexts.like(Workspace(None))
        self.text, self.version = "", 0
        self.document = types.TextDocumentIdentifier(URI)

    def write(self, text: str) -> None:
        self.text, self.version = text, self.version + 1
        item = types.TextDocumentItem(URI, "pto", self.version, text)
        self.server.workspace.put_text_document(item)

    def check(self) -> list[str]:
        return [f.code for d in self.server.documents(URI) for f in d.findings if f.is_error]

    def apply(self, edits: list[types.TextEdit]) -> None:
        lines = self.text.split("\n")
        starts = [sum(len(line) + 1 for line in lines[:n]) for n in range(len(lines))]
        places = [
            (starts[e.range.start.line] + e.range.start.character,
             starts[e.range.end.line] + e.range.end.character, e.new_text)
            for e in edits
        ]  # fmt: skip
        text = self.text
        for begin, end, new in sorted(places, reverse=True):
            text = text[:begin] + new + text[end:]
        self.write(text)

    def complete(self, line: str, label: str) -> None:
        """Type a line at the end of the function, and take what is offered under a label."""
        before = self.text.removesuffix("}\n")
        self.write(f"{before}{line}\n}}\n")
        if label:
            place = types.Position(before.count("\n"), len(line))
            found = requests.complete(self.server, types.CompletionParams(self.document, place))
            self.apply([next(i for i in found.items if i.label == label).text_edit])


def debugged(kernel: Path, line: int) -> None:
    """Stop before a line, execute it, and go back."""
    client = Client()
    client.start(kernel, args={"x": "randn:f32:16x64:7", "y": "zeros:f32:16x64"})
    client.request("setBreakpoints", source={"path": str(kernel)}, breakpoints=[{"line": line}])
    client.request("configurationDone")
    thread = client.event("stopped")["threadId"]
    for step, at in ((None, line), ("next", line + 1), ("stepBack", line)):
        if step is not None:
            client.request(step, threadId=thread)
            client.event("stopped")
        assert client.request("stackTrace", threadId=thread)["stackFrames"][0]["line"] == at
    client.leave()


@pytest.mark.slow
def test_from_nothing_to_a_report(tmp_path, capsys):
    editor = Editor()
    editor.write(BEGUN + "}\n")
    for line, label in TYPED:
        editor.check()  # the text rests between lines
        editor.complete(line, label)
    assert editor.check() == []

    good = editor.text
    editor.write(good.replace("pto.tabs", "pto.tabss"))
    assert editor.check() != []
    everything = types.Range(types.Position(0, 0), types.Position(good.count("\n"), 0))
    context = types.CodeActionContext([], only=[types.CodeActionKind.QuickFix])
    asked = types.CodeActionParams(editor.document, everything, context)
    (action,) = requests.actions(editor.server, asked)
    editor.apply(action.edit.changes[URI])
    assert editor.text == good

    line = good[: good.index("%a = ")].count("\n")
    asked = types.RenameParams(editor.document, types.Position(line, 3), "%source")
    editor.apply(requests.rename(editor.server, asked).changes[URI])
    assert editor.check() == []
    assert "pto.tabs ins(%source :" in editor.text

    x = np.linspace(-4, 4, 1024, dtype=np.float32).reshape(16, 64)
    result = ptosim.load(editor.text).run({"x": x, "y": np.zeros_like(x)})
    np.testing.assert_array_equal(np.asarray(result.outputs["y"]).reshape(16, 64), np.abs(x))

    kernel, page = tmp_path / "k.pto", tmp_path / "k.html"
    kernel.write_text(editor.text)
    debugged(kernel, 1 + editor.text[: editor.text.index("pto.tabs")].count("\n"))
    shapes = ["--arg", "x=randn:f32:16x64:7", "--arg", "y=zeros:f32:16x64"]
    assert main(["report", str(kernel), "-o", str(page), *shapes]) == 0
    assert "tabs" in page.read_text()
