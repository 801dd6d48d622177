"""The language server with a client that does not keep to the protocol, and texts of odd lines."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest
from lsprotocol import types
from pygls.workspace import Workspace

from ptosim.tools.lsp import requests, server
from ptosim.tools.lsp.document import HINTS, Document, Settings, settings_of
from ptosim.tools.lsp.requests import make_server
from ptosim.tools.lsp.resting import Resting
from ptosim.tools.lsp.server import OpenTexts
from tests.tools.lsp.test_answers import TEXT, at

URI = "file:///tmp/kernel.pto"


def opened(text: str) -> server.PtoServer:
    """A server that has one text."""
    made = make_server()
    made.protocol._workspace = OpenTexts.like(Workspace(None))
    made.workspace.put_text_document(types.TextDocumentItem(URI, "pto", 1, text))
    return made


@pytest.mark.parametrize("given", [None, 5, [], {"ptosim": None}, {"ptosim": []}])
def test_settings_that_are_none_are_left_alone(given: object) -> None:
    made = opened(TEXT)
    made.configure(given)
    assert made.settings == Settings()
    assert made.document(URI).findings is not None


def test_a_setting_of_another_kind_is_left_alone() -> None:
    found = settings_of({"target": 5, "level": "2", "sync": [], "compat": {}, "hints": 0, "x": 1})
    assert found == Settings()
    assert settings_of({"target": "a5", "level": 2, "hints": False}) == Settings(
        "a5", 2, hints=frozenset()
    )


def test_each_kind_of_hint_has_a_switch() -> None:
    assert settings_of({"hints": True}).hints == HINTS
    for kind in HINTS:
        assert settings_of({"hints": [kind, "unknown", 5, None]}).hints == {kind}
    assert settings_of({"hints": {"cycles": False}}).hints == HINTS


@pytest.mark.parametrize(
    "uri", ["http://[", "", "file:///tmp", "file:///dev/zero", "untitled:Untitled-1", "file:///%00"]
)
def test_a_text_that_is_not_open_is_empty(uri: str) -> None:
    made = opened(TEXT)
    document, place = types.TextDocumentIdentifier(uri), types.Position(3, 4)
    assert requests.hover(made, types.HoverParams(document, place)) is None
    assert requests.symbols(made, types.DocumentSymbolParams(document)) == []


@pytest.mark.parametrize("odd", ["\f", "\x1c", "\x85", "\u2028 größer"])
def test_only_line_ends_of_the_protocol_end_lines(odd: str) -> None:
    text = TEXT.replace("// Adds two tiles.", f"// Adds {odd} two tiles.")
    made = opened(text)
    offset = at(text, "outs(%y", "%")
    before = text[:offset]
    place = types.Position(before.count("\n"), offset - before.rfind("\n") - 1)
    edit = requests.rename(
        made, types.RenameParams(types.TextDocumentIdentifier(URI), place, "%total")
    )
    assert edit is not None
    assert edit.changes is not None
    lines = text.split("\n")
    for one in edit.changes[URI]:
        begin, end = one.range.start, one.range.end
        assert lines[begin.line][begin.character : end.character] == "%y"


BROKEN = (
    b"Content-Length: " + b"9" * 20 + b"\r\n\r\n",
    b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n",
    b"Content-Length: 5\r\n\r\n{nope",
    b"Content-Length: 2\r\n\r\n[]",
    b"Content-Length: 90000\r\n\r\n" + b"[" * 90_000,
)


def _message(**fields: object) -> bytes:
    body = json.dumps({"jsonrpc": "2.0", **fields}).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.slow
def test_broken_messages_and_parameters_end_no_server() -> None:
    sent = [
        _message(id=1, method="initialize", params={"capabilities": {}}),
        *BROKEN,
        _message(id=2, method="textDocument/hover", params={"textDocument": 5}),
        _message(id=3, method="shutdown"),
        _message(method="exit"),
    ]
    words = [sys.executable, "-m", "ptosim", "lsp"]
    done = subprocess.run(words, input=b"".join(sent), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert b'"id": 3' in done.stdout or b'"id":3' in done.stdout
    assert b"Traceback" not in done.stderr
    assert done.stderr.count(b"\n") >= len(BROKEN)


def _did_open(uri: str, text: str) -> bytes:
    item = {"uri": uri, "languageId": "pto", "version": 1, "text": text}
    return _message(method="textDocument/didOpen", params={"textDocument": item})


@pytest.mark.slow
def test_rename_where_no_name_is_and_broken_uris_are_answered_without_a_word_in_the_log() -> None:
    place = {"position": {"line": 0, "character": 0}, "newName": "%q"}
    sent = [
        _message(id=1, method="initialize", params={"capabilities": {}}),
        _did_open(URI, TEXT),
        *(_did_open(uri, TEXT) for uri in ("http://[", "file:///%00", "", "::")),
        _message(id=5, method="textDocument/rename", params={"textDocument": {"uri": URI}} | place),
        _message(id=3, method="shutdown"),
        _message(method="exit"),
    ]
    words = [sys.executable, "-m", "ptosim", "lsp"]
    done = subprocess.run(words, input=b"".join(sent), capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert done.stderr == b""
    assert b"there is no name of this text here" in done.stdout


@pytest.mark.slow
def test_a_text_that_is_followed_is_let_go_by_the_next_key_and_by_the_end() -> None:
    """What is measured in the process beside is what would be measured here; cancelled, and at the
    end of the server, the process is gone."""

    async def session() -> None:
        document, beside = Document("t.pto", TEXT, Settings(target="a5")), Resting()
        (found,) = await beside.measure([document])
        assert found.lines == document.measure().lines
        first = beside._process
        assert first is not None
        await beside.measure([document])
        assert beside._process is first
        task = asyncio.create_task(beside.measure([document] * 1000))
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await first.wait() != 0
        assert (await beside.measure([document]))[0].lines == found.lines
        last = beside._process
        assert last is not None
        beside.end()
        assert await last.wait() != 0

    asyncio.run(session())
