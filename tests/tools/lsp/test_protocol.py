"""The language server as an editor meets it: a real client over standard input and output."""

from __future__ import annotations

import asyncio
import sys

import pytest
import pytest_lsp
from lsprotocol import types
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from ptosim.launch.sources import open_source
from tests.tools.lsp.test_answers import TEXT, at

URI = "file:///tmp/kernel.pto"
BROKEN = TEXT.replace("outs(%y : !tile)\n", "outs(%yy : !tile)\n", 1)
UMLAUT = TEXT.replace("// Adds two tiles.", "// Zwei Kacheln, größer als 😀 nötig.")


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


def position(text: str, offset: int) -> types.Position:
    """UTF-16 position of an offset."""
    before = text[:offset]
    line = before.count("\n")
    column = before[before.rfind("\n") + 1 :]
    return types.Position(line, len(column.encode("utf-16-le")) // 2)


async def opened(client: LanguageClient, text: str, name: str) -> types.TextDocumentIdentifier:
    uri = f"file:///tmp/{name}.pto"
    item = types.TextDocumentItem(uri=uri, language_id="pto", version=1, text=text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return types.TextDocumentIdentifier(uri)


pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_findings_come_with_code_and_place_and_go_when_mended(client):
    document = await opened(client, BROKEN, "findings")
    (found,) = client.diagnostics[document.uri]
    assert (found.code, found.severity) == ("PTO1001", types.DiagnosticSeverity.Error)
    assert found.range.start == position(BROKEN, BROKEN.index("%yy"))
    wrong = types.Range(found.range.start, found.range.end)
    change = types.TextDocumentContentChangePartial(range=wrong, text="%y")
    version = types.VersionedTextDocumentIdentifier(uri=document.uri, version=2)
    client.text_document_did_change(types.DidChangeTextDocumentParams(version, [change]))
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    assert [
        d for d in client.diagnostics[document.uri] if d.severity == types.DiagnosticSeverity.Error
    ] == []


@pytest.mark.parametrize(("name", "text"), [("whole", TEXT), ("wide", UMLAUT)])
async def test_hover_definition_references_and_rename(client, name, text):
    document = await opened(client, text, name)
    place = position(text, at(text, "outs(%y", "%"))
    hover = await client.text_document_hover_async(types.HoverParams(document, place))
    assert "rows=16" in hover.contents.value
    where = await client.text_document_definition_async(types.DefinitionParams(document, place))
    assert where.range.start == position(text, text.index("%y = "))
    uses = await client.text_document_references_async(
        types.ReferenceParams(types.ReferenceContext(include_declaration=True), document, place)
    )
    assert len(uses) == text.count("%y")
    edit = await client.text_document_rename_async(types.RenameParams(document, place, "%total"))
    assert {e.new_text for e in edit.changes[document.uri]} == {"%total"}
    assert len(edit.changes[document.uri]) == text.count("%y")
    with pytest.raises(Exception, match="is no name"):
        await client.text_document_rename_async(types.RenameParams(document, place, "a b"))


async def test_outline_folding_words_lenses_and_form(client):
    document = await opened(client, TEXT, "outline")
    symbols = await client.text_document_document_symbol_async(types.DocumentSymbolParams(document))
    assert [s.name for s in symbols] == ["@helper", "@main"]
    folds = await client.text_document_folding_range_async(types.FoldingRangeParams(document))
    assert (2, 4) in [(f.start_line, f.end_line) for f in folds]
    words = await client.text_document_semantic_tokens_full_async(
        types.SemanticTokensParams(document)
    )
    assert len(words.data) % 5 == 0
    assert tuple(words.data[:2]) == (0, 0)
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(document))
    assert [(one.command.title, one.command.arguments[1]) for one in lenses] == [
        ("run", "main"), ("debug", "main"), ("cost", "main"), ("report", "main"),
    ]  # fmt: skip
    form = await client.text_document_formatting_async(
        types.DocumentFormattingParams(document, types.FormattingOptions(2, insert_spaces=True))
    )
    assert form is None or form[0].new_text.startswith("// Adds two tiles.")


async def test_programs_in_python_strings_are_checked_where_they_are(client):
    text = f'import x\nONE = """// pto\n{TEXT}"""\nTWO = """// pto\n{BROKEN}"""\nTHREE = f"""// pto\n{{hole}}"""\n'
    item = types.TextDocumentItem("file:///tmp/kernels.py", types.LanguageKind.Python, 1, text)
    client.text_document_did_open(types.DidOpenTextDocumentParams(item))
    await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    told = client.diagnostics["file:///tmp/kernels.py"]
    (found,) = (d for d in told if d.severity == types.DiagnosticSeverity.Error)
    assert (found.code, found.range.start) == ("PTO1001", position(text, text.index("%yy")))
    document = types.TextDocumentIdentifier("file:///tmp/kernels.py")
    inside = position(text, text.rindex("pto.tadd") + 5)
    assert await client.text_document_hover_async(types.HoverParams(document, inside)) is not None
    outside = position(text, 2)
    assert await client.text_document_hover_async(types.HoverParams(document, outside)) is None


async def test_templates_are_checked_only_while_they_have_no_holes(client):
    for name, text, count in (("plain", BROKEN, 1), ("holes", BROKEN.replace("16", "{{ n }}"), 0)):
        uri = f"file:///tmp/{name}.pto.j2"
        item = types.TextDocumentItem(uri, "pto-template", 1, text)
        client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        await client.wait_for_notification(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
        assert len(client.diagnostics[uri]) == count


async def test_completion_replaces_what_is_typed(client):
    cut = TEXT.index("    pto.tmul")
    text = TEXT[:cut] + "    pto.tad\n" + TEXT[cut:]
    document = await opened(client, text, "completion")
    place = position(text, cut + len("    pto.tad"))
    offers = await client.text_document_completion_async(types.CompletionParams(document, place))
    one = next(o for o in offers.items if o.label == "pto.tadd")
    assert one.text_edit.range.start == position(text, cut + 4)
    assert one.text_edit.new_text.startswith("pto.tadd ins(")


async def test_a_cure_is_offered_where_the_finding_is(client):
    old = "%w = pto.subset %x[%c0, %c0] sizes [16, 32] : !tile\n    pto.tadd ins"
    text = TEXT.replace("pto.tadd ins", old)
    document = await opened(client, text, "cure")
    here = position(text, text.index("pto.subset"))
    params = types.CodeActionParams(document, types.Range(here, here), types.CodeActionContext([]))
    (action, *_) = await client.text_document_code_action_async(params)
    assert action.kind == types.CodeActionKind.QuickFix
    assert any("subview" in e.new_text for e in action.edit.changes[document.uri])


async def test_cycles_come_beside_the_text_when_it_rests(client):
    document = await opened(client, TEXT, "rest")
    whole = types.Range(types.Position(0, 0), position(TEXT, len(TEXT)))
    for _ in range(40):
        hints = await client.text_document_inlay_hint_async(types.InlayHintParams(document, whole))
        texts = [str(h.label) for h in hints]
        if any("cycles" in t for t in texts):
            break
        await asyncio.sleep(0.25)
    assert any(t.startswith("  V · a2a3 ") and t.endswith(" cycles") for t in texts)
    assert any(t.startswith(" vec 0x") for t in texts)


LEVELS = ("basics/softmax", "micro/softmax", "vmi/mxfp8_quantise")
REQUESTS = (
    ("hover", types.HoverParams),
    ("definition", types.DefinitionParams),
    ("document_highlight", types.DocumentHighlightParams),
    ("prepare_rename", types.PrepareRenameParams),
    ("completion", types.CompletionParams),
)
WHOLE = (
    ("document_symbol", types.DocumentSymbolParams),
    ("folding_range", types.FoldingRangeParams),
    ("semantic_tokens_full", types.SemanticTokensParams),
    ("code_lens", types.CodeLensParams),
)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kept", [1.0, 0.55])
@pytest.mark.parametrize("name", LEVELS)
async def test_every_request_is_answered_on_all_levels_on_broken_text_too(client, name, kept):
    """A text that ends in the middle, as one that is being written does."""
    whole = open_source(f"@{name}").text
    text = whole[: int(len(whole) * kept)]
    document = await opened(client, text, f"{name.replace('/', '_')}_{kept}")
    places = [position(text, len(text) * part // 12) for part in range(1, 13)]
    for request, parameters in REQUESTS:
        for place in places:
            await getattr(client, f"text_document_{request}_async")(parameters(document, place))
    for request, parameters in WHOLE:
        assert (
            await getattr(client, f"text_document_{request}_async")(parameters(document))
            is not None
        )
    for place in places:
        context = types.ReferenceContext(include_declaration=False)
        await client.text_document_references_async(types.ReferenceParams(context, document, place))
    everything = types.Range(types.Position(0, 0), position(text, len(text)))
    await client.text_document_inlay_hint_async(types.InlayHintParams(document, everything))
    await client.text_document_code_action_async(
        types.CodeActionParams(document, everything, types.CodeActionContext([]))
    )
    options = types.FormattingOptions(2, insert_spaces=True)
    form = await client.text_document_formatting_async(
        types.DocumentFormattingParams(document, options)
    )
    assert kept == 1.0 or form is None
    assert (kept == 1.0) is not any(
        d.severity == types.DiagnosticSeverity.Error for d in client.diagnostics[document.uri]
    )


@pytest.mark.slow
async def test_words_come_by_changes_and_by_ranges_and_are_those_of_the_whole(client):
    """A line is typed: what changes, applied to what was told before, is what would be told of all;
    the words of some lines are those of the whole."""
    document = await opened(client, UMLAUT, "words")
    asked = types.SemanticTokensParams(document)
    before = await client.text_document_semantic_tokens_full_async(asked)
    place = position(UMLAUT, UMLAUT.index("    pto.tmul"))
    line = "    pto.tadds ins(%x, %c1 : !tile, index) outs(%y : !tile)\n"
    change = types.TextDocumentContentChangePartial(range=types.Range(place, place), text=line)
    version = types.VersionedTextDocumentIdentifier(uri=document.uri, version=2)
    client.text_document_did_change(types.DidChangeTextDocumentParams(version, [change]))
    told = await client.text_document_semantic_tokens_full_delta_async(
        types.SemanticTokensDeltaParams(document, before.result_id)
    )
    data = list(before.data)
    for edit in told.edits:
        data[edit.start : edit.start + edit.delete_count] = edit.data
    assert sum(len(edit.data) for edit in told.edits) < 80
    whole = await client.text_document_semantic_tokens_full_async(asked)
    assert data == list(whole.data)
    lines = types.Range(types.Position(0, 0), types.Position(place.line, 0))
    some = await client.text_document_semantic_tokens_range_async(
        types.SemanticTokensRangeParams(document, lines)
    )
    assert whole.data[: len(some.data)] == some.data
    assert 0 < len(some.data) < len(whole.data)
    unknown = types.SemanticTokensDeltaParams(document, "nothing")
    again = await client.text_document_semantic_tokens_full_delta_async(unknown)
    assert again.data == whole.data
