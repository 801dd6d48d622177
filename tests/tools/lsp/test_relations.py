"""What belongs together without a name in common, asked as an editor asks: events with those who give
and await them, tiles whose bytes are shared, calls, and what is in memory at a place."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from ptosim.ground.isa.rows import isa
from ptosim.tools.lsp.relations import kind_of
from tests.tools.lsp.test_protocol import opened, position

T = "!pto.tile_buf<vec, 16x64xf32>"
FLAGS = """module attributes {pto.target_arch = "a2a3"} {
  func.func @k(%p: !pto.ptr<f32>, %n: index) attributes {pto.entry} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID0>]
    pto.set_flag[<PIPE_V>, <PIPE_MTE3>, <EVENT_ID1>]
    pto.wait_flag_dyn[<PIPE_V>, <PIPE_MTE3>, %c1]
    pto.set_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.wait_flag[<PIPE_MTE2>, <PIPE_V>, <EVENT_ID0>]
    pto.set_flag_dyn[<PIPE_MTE2>, <PIPE_MTE1>, %n]
    pto.wait_flag_dyn[<PIPE_MTE2>, <PIPE_MTE1>, %n]
    pto.barrier <PIPE_V>
    pto.barrier <PIPE_MTE2>
    pto.barrier <PIPE_ALL>
    return
  }
}
"""
TILES = f"""module {{
  func.func private @twice(%t: {T}) {{
    pto.tadd ins(%t, %t : {T}, {T}) outs(%t : {T})
    return
  }}
  func.func @k(%p: !pto.ptr<f32>) attributes {{pto.entry}} {{
    %c0 = arith.constant 0 : index
    %c8 = arith.constant 8 : index
    %a0 = arith.constant 0 : i64
    %a1 = arith.constant 2048 : i64
    %a4 = arith.constant 8192 : i64
    %x = pto.alloc_tile addr = %a0 : {T}
    %y = pto.alloc_tile addr = %a1 : {T}
    %z = pto.alloc_tile addr = %a4 : {T}
    %w = pto.subview %x[%c0, %c0] sizes [8, 64] : {T} -> !pto.tile_buf<vec, 8x64xf32>
    %v = pto.subview %x[%c8, %c0] sizes [8, 64] : {T} -> !pto.tile_buf<vec, 8x64xf32>
    pto.tabs ins(%z : {T}) outs(%x : {T})
    pto.tabs ins(%y : {T}) outs(%z : {T})
    func.call @twice(%z) : ({T}) -> ()
    func.call @twice(%x) : ({T}) -> ()
    return
  }}
}}
"""


@pytest_lsp.fixture(
    config=ClientServerConfig(server_command=[sys.executable, "-m", "ptosim", "lsp"]),
    scope="module",
)
async def client(lsp_client: LanguageClient):
    """An editor with one server."""
    await lsp_client.initialize_session(
        types.InitializeParams(
            capabilities=client_capabilities("visual-studio-code"), root_uri="file:///tmp"
        )
    )
    yield
    await lsp_client.shutdown_session()


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def lines_of(client, document, text: str, offset: int, *, own: bool = True) -> list[int]:
    context = types.ReferenceContext(include_declaration=own)
    params = types.ReferenceParams(context, document, position(text, offset))
    found = await client.text_document_references_async(params)
    return [one.range.start.line for one in found or ()]


@pytest.mark.parametrize(
    ("at", "lines"),
    [
        ("pto.set_flag[<PIPE_V>", [4, 5]),
        ("pto.wait_flag[<PIPE_V>", [4, 5]),
        ("pto.wait_flag_dyn[<PIPE_V>", [6, 7]),
        ("EVENT_ID1", [6, 7]),
        ("pto.set_flag[<PIPE_MTE2>", [8, 9]),
        ("pto.set_flag_dyn", [10, 11]),
        ("pto.barrier <PIPE_V>", [12, 14]),
        ("pto.barrier <PIPE_ALL>", [12, 13, 14]),
        ("arith.constant 0", []),
    ],
)
async def test_an_event_has_those_who_give_and_await_it(client, at, lines):
    """A flag is awaited by whoever names its pipes and its event, however that is written; a barrier
    is of a pipe, or of all."""
    document = await opened(client, FLAGS, "flags")
    assert await lines_of(client, document, FLAGS, FLAGS.index(at) + 1) == lines


async def test_who_gives_writes_and_who_waits_reads(client):
    document = await opened(client, FLAGS, "flags")
    place = position(FLAGS, FLAGS.index("pto.set_flag") + 5)
    found = await client.text_document_document_highlight_async(
        types.DocumentHighlightParams(document, place)
    )
    kinds = types.DocumentHighlightKind
    assert [one.kind for one in found] == [kinds.Write, kinds.Read]


async def test_every_signal_has_a_wait_of_its_kind():
    """The kinds of events come from the rows: none gives what nobody can await."""
    rows = [row for name in isa().names() if (row := isa().get(name)) is not None]
    given = {kind_of(row) for row in rows if "signals" in row.traits}
    awaited = {kind_of(row) for row in rows if "waits" in row.traits}
    assert given == awaited
    assert len(given) >= 5


async def test_a_tile_is_wherever_its_bytes_are(client):
    """%y begins in the second half of %x: it meets %x and the window %v, not %w nor %z."""
    document = await opened(client, TILES, "tiles")
    names = {}
    for name in "xyzwv":
        place = position(TILES, TILES.index(f"%{name} = ") + 1)
        params = types.ReferenceParams(
            types.ReferenceContext(include_declaration=True), document, place
        )
        found = await client.text_document_references_async(params)
        starts = [(one.range.start.line, one.range.start.character) for one in found]
        names[name] = sorted({TILES.split("\n")[line][at + 1] for line, at in starts})
    assert names == {"x": ["v", "w", "x", "y"], "y": ["v", "x", "y"], "z": ["z"], "w": ["w", "x"], "v": ["v", "x", "y"]}  # fmt: skip
    used = TILES.index("ins(%y") + 4
    first = await lines_of(client, document, TILES, used)
    assert first[0] == TILES[: TILES.index("%y = ")].count("\n")
    assert await lines_of(client, document, TILES, used, own=False) == first[1:]


async def test_a_tile_is_read_and_written(client):
    document = await opened(client, TILES, "tiles")
    place = position(TILES, TILES.index("%z = ") + 1)
    found = await client.text_document_document_highlight_async(
        types.DocumentHighlightParams(document, place)
    )
    kinds = types.DocumentHighlightKind
    assert [one.kind for one in found[:3]] == [kinds.Write, kinds.Read, kinds.Write]


async def test_calls_are_followed_in_both_directions(client):
    document = await opened(client, TILES, "tiles")
    for at in ("@twice(%t", "@twice(%x"):
        params = types.CallHierarchyPrepareParams(document, position(TILES, TILES.index(at) + 2))
        (item,) = await client.text_document_prepare_call_hierarchy_async(params)
        assert (item.name, item.selection_range.start.line) == ("@twice", 1)
    asked = types.CallHierarchyIncomingCallsParams(item)
    (call,) = await client.call_hierarchy_incoming_calls_async(asked)
    assert (call.from_.name, call.from_.detail, len(call.from_ranges)) == ("@k", "entry", 2)
    (back,) = await client.call_hierarchy_outgoing_calls_async(
        types.CallHierarchyOutgoingCallsParams(call.from_)
    )
    assert (back.to.name, len(back.from_ranges)) == ("@twice", 2)
    assert await client.call_hierarchy_outgoing_calls_async(types.CallHierarchyOutgoingCallsParams(item)) == ()  # fmt: skip


async def test_an_item_that_is_known_no_more_has_no_calls(client):
    document = await opened(client, TILES, "tiles")
    nowhere = types.Range(types.Position(900, 3), types.Position(900, 9))
    for uri in (document.uri, "file:///tmp/never_opened.pto"):
        for data in (None, "gone", {"name": 3}):
            item = types.CallHierarchyItem("@gone", types.SymbolKind.Function, uri, nowhere, nowhere, data=data)  # fmt: skip
            assert await client.call_hierarchy_incoming_calls_async(types.CallHierarchyIncomingCallsParams(item)) == ()  # fmt: skip


async def asked_memory(client, uri: str, line: object) -> object:
    params = {"textDocument": {"uri": uri}, "position": {"line": line, "character": 4}}
    return await client.protocol.send_request_async("ptosim/memory", params)


async def test_what_is_in_memory_at_a_place(client):
    """%y is read by the second absolute value and by nothing after it."""
    document = await opened(client, TILES, "tiles")
    (space,) = await asked_memory(client, document.uri, TILES[: TILES.index("ins(%z")].count("\n"))
    assert (space["space"], space["used"]) == ("vec", 8192 + 4096)
    assert [(t["name"], t["start"], t["bytes"]) for t in space["tiles"]] == [("%x", 0, 4096), ("%y", 2048, 4096), ("%z", 8192, 4096)]  # fmt: skip
    last = TILES[: TILES.index("@twice(%x")].count("\n")
    (space,) = await asked_memory(client, document.uri, last)
    assert [t["alive"] for t in space["tiles"]] == [True, False, False]
    assert await asked_memory(client, document.uri, 9999) == []
    assert await asked_memory(client, "file:///tmp/closed.pto", 1) == []
    with pytest.raises(Exception, match="expected `textDocument`"):
        await asked_memory(client, document.uri, "x")
    with pytest.raises(Exception, match="expected `textDocument`"):
        await client.protocol.send_request_async("ptosim/memory", {"uri": 5})
    assert await asked_memory(client, document.uri, 9999) == []


METHODS = (
    "hover", "definition", "references", "documentHighlight", "prepareRename", "rename", "documentSymbol",
    "foldingRange", "selectionRange", "semanticTokens/full", "semanticTokens/range", "completion",
    "signatureHelp", "codeAction", "formatting", "inlayHint", "codeLens", "prepareCallHierarchy",
)  # fmt: skip
BROKEN = (
    "", "}", "module {", TILES[: len(TILES) // 2], TILES.replace("(", "", 3), FLAGS.replace("}", "", 2),
    TILES.replace("%y = ", "%y "), "\u2028😀" + TILES, TILES.replace("\n", "\r\n"), "func.func @f() {\n^a:\n}",
)  # fmt: skip


@pytest.mark.slow
async def test_every_request_has_an_answer_or_an_error_and_the_server_lives():
    """At places that the text does not have, in a text that is broken, one that is closed, and one
    that was never opened; parameters that a request does not have make it one that cannot be read,
    which has an error for an answer."""
    told: list[dict[str, object]] = [_message("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 0)]  # fmt: skip
    told.append(_message("initialized", {}))
    for number, text in enumerate(BROKEN):
        uri = f"file:///tmp/broken{number}.pto"
        item = {"uri": uri, "languageId": "pto", "version": 1, "text": text}
        told.append(_message("textDocument/didOpen", {"textDocument": item}))
        for where in (uri, "file:///tmp/never.pto", "http://["):
            for line, character in ((3, 10), (7, 10_000), (2**31 - 1, 2**31 - 1)):
                told += _all(where, line, character, len(told))
        told.append(_message("textDocument/didClose", {"textDocument": {"uri": uri}}))
        told += _all(uri, 3, 3, len(told))
    asked = {message["id"] for message in told if "id" in message}
    sent = b"".join(_packed(message) for message in (*told, _message("shutdown", None, -1), _message("exit", None)))  # fmt: skip
    words = [sys.executable, "-m", "ptosim", "lsp"]
    done = subprocess.run(words, input=sent, capture_output=True, timeout=300, check=True)
    assert asked <= {int(found) for found in re.findall(rb'"id": ?(-?\d+)', done.stdout)}
    assert b"Traceback" not in done.stderr


def _all(uri: str, line: int, character: int, first: int) -> list[dict[str, object]]:
    place = {"line": line, "character": character}
    params = {
        "textDocument": {"uri": uri}, "position": place, "positions": [place], "newName": "x",
        "range": {"start": {"line": 0, "character": 0}, "end": place}, "options": {"tabSize": 2, "insertSpaces": True},
        "context": {"diagnostics": [], "includeDeclaration": True, "triggerKind": 1, "isRetrigger": False},
    }  # fmt: skip
    methods = [*(f"textDocument/{name}" for name in METHODS), "ptosim/memory", "ptosim/entry"]
    good = [_message(method, params, first + n) for n, method in enumerate(methods)]
    return [*good, _message("textDocument/completion", {"textDocument": 5}, first + len(methods))]


def _message(method: str, params: object, number: int | None = None) -> dict[str, object]:
    named = {"jsonrpc": "2.0", "method": method, "params": params}
    return named if number is None else {**named, "id": number}


def _packed(message: dict[str, object]) -> bytes:
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


@pytest.mark.slow
async def test_the_entry_at_a_place(client):
    document = await opened(client, TILES, "tiles")
    place = {"line": 6, "character": 0}
    params = {"textDocument": {"uri": document.uri}, "position": place}
    found = await client.protocol.send_request_async("ptosim/entry", params)
    assert (found.name, found.target) == ("k", "a2a3")
    place["line"] = 2
    assert await client.protocol.send_request_async("ptosim/entry", params) is None
