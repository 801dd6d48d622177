"""The requests of an editor: each a question to the document, and its answer in positions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from ptosim.ground.errors import PtosimError
from ptosim.ground.ir.program import Function
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import isa
from ptosim.tools.lsp import outline, refactor, relations
from ptosim.tools.lsp.completion import MOST, Offer, offers_at, signature_at
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.hover import WIDTH
from ptosim.tools.lsp.hover import hints as hints_between
from ptosim.tools.lsp.hover import hover as hovered
from ptosim.tools.lsp.names import Kind, Word
from ptosim.tools.lsp.refactor import Places
from ptosim.tools.lsp.relations import Way
from ptosim.tools.lsp.server import EVENTS, PtoServer, diagnostic
from ptosim.views.operations import card

_SYMBOLS = {
    "module": types.SymbolKind.Module,
    "function": types.SymbolKind.Function,
    "variable": types.SymbolKind.Variable,
}
_OFFERS = {
    "operation": types.CompletionItemKind.Function,
    "value": types.CompletionItemKind.Variable,
    "function": types.CompletionItemKind.Method,
    "type": types.CompletionItemKind.Class,
    "member": types.CompletionItemKind.EnumMember,
    "attribute": types.CompletionItemKind.Property,
    "rest": types.CompletionItemKind.Text,
}


def _asked(ls: PtoServer, params: Any) -> tuple[Document, Places]:
    uri = params.text_document.uri
    return ls.document(uri, getattr(params, "position", None)), ls.places(uri)


def hover(ls: PtoServer, params: types.HoverParams) -> types.Hover | None:
    """What is under the pointer."""
    document, places = _asked(ls, params)
    found = hovered(document, places.offset(params.position))
    if found is None:
        return None
    text, begin, end = found
    content = types.MarkupContent(types.MarkupKind.Markdown, text)
    return types.Hover(content, places.range(begin, end))


def definition(ls: PtoServer, params: types.DefinitionParams) -> types.Location | None:
    """Where a name is made."""
    document, places = _asked(ls, params)
    word = document.names.at(places.offset(params.position))
    made = document.names.definition(word) if word is not None else None
    return None if made is None else _location(params, places, made.word)


def references(ls: PtoServer, params: types.ReferenceParams) -> list[types.Location]:
    """Where a name is used; of a tile where its bytes are, by any name; of an event who gives and
    who awaits it."""
    document, places = _asked(ls, params)
    offset = places.offset(params.position)
    found = relations.events(document, offset)
    if not found:
        found = relations.storage(document, offset) or _mentions(document, offset)
        found = found if params.context.include_declaration else found[1:]
    uri = params.text_document.uri
    return [types.Location(uri, places.range(one.start, one.end)) for one in found]


_WAYS = {
    Way.WRITES: types.DocumentHighlightKind.Write,
    Way.BOTH: types.DocumentHighlightKind.Write,
    Way.READS: types.DocumentHighlightKind.Read,
    Way.NAMES: types.DocumentHighlightKind.Text,
}


def highlights(
    ls: PtoServer, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    """The same elsewhere on the screen, and whether it is read or written there."""
    document, places = _asked(ls, params)
    offset = places.offset(params.position)
    found = relations.events(document, offset) or relations.storage(document, offset)
    return [
        types.DocumentHighlight(places.range(one.start, one.end), _WAYS[one.way])
        for one in found or _mentions(document, offset)
    ]


def _mentions(document: Document, offset: int) -> list[relations.Place]:
    return [relations.Place(w.start, w.end, Way.NAMES) for w in _uses(document, offset)]


def prepare_calls(
    ls: PtoServer, params: types.CallHierarchyPrepareParams
) -> list[types.CallHierarchyItem] | None:
    """The function at a place, whose callers and callees are asked for next."""
    document, places = _asked(ls, params)
    found = relations.function_at(document, places.offset(params.position))
    uri = params.text_document.uri
    return None if found is None else [_function_item(document, found, places, uri)]


def _calls(
    ls: PtoServer,
    item: types.CallHierarchyItem,
    related: Callable[[Document, str], Iterable[relations.Call]],
) -> Iterator[tuple[types.CallHierarchyItem, list[types.Range]]]:
    """The functions that a function has to do with, and where."""
    document, places, name = _of_item(ls, item)
    for call in related(document, name):
        function = _function_item(document, call.function, places, item.uri)
        yield function, [places.range(op.start, op.end) for op in call.places]


def incoming(
    ls: PtoServer, params: types.CallHierarchyIncomingCallsParams
) -> list[types.CallHierarchyIncomingCall]:
    """Who calls a function."""
    return [
        types.CallHierarchyIncomingCall(*each)
        for each in _calls(ls, params.item, relations.callers)
    ]


def outgoing(
    ls: PtoServer, params: types.CallHierarchyOutgoingCallsParams
) -> list[types.CallHierarchyOutgoingCall]:
    """Whom a function calls."""
    return [
        types.CallHierarchyOutgoingCall(*each)
        for each in _calls(ls, params.item, relations.callees)
    ]


def _of_item(ls: PtoServer, item: types.CallHierarchyItem) -> tuple[Document, Places, str]:
    document = ls.document(item.uri, item.selection_range.start)
    return document, ls.places(item.uri), item.data if isinstance(item.data, str) else ""


def _function_item(
    document: Document, function: Function, places: Places, uri: str
) -> types.CallHierarchyItem:
    one = outline.symbol_of(document, function)
    return types.CallHierarchyItem(
        one.name, types.SymbolKind.Function, uri, places.range(one.start, one.end),
        places.range(one.name_start, one.name_end), detail=one.detail or None, data=function.name,
    )  # fmt: skip


def _own(ls: PtoServer, params: Any) -> tuple[Document, Places, types.Position]:
    """What a request of our own is about. Raises JsonRpcInvalidParams where that is not said."""
    try:
        uri = str(params.textDocument.uri)
        position = types.Position(int(params.position.line), int(params.position.character))
    except (AttributeError, TypeError, ValueError) as problem:
        raise JsonRpcInvalidParams("expected `textDocument` and `position`") from problem
    return ls.document(uri, position), ls.places(uri), position


def entry(ls: PtoServer, params: Any) -> dict[str, Any] | None:
    """The entry at a place (`ptosim/entry`): name, target, and by target its cycles, with the
    launch that they are of, once the text was priced; nothing outside of entries."""
    document, places, position = _own(ls, params)
    function = relations.function_at(document, places.offset(position))
    if function is None or function.name not in document.resolved.entries:
        return None
    measured = document.measured
    cycles = measured.entries.get(function.name, {}) if measured is not None else {}
    launch = measured.launches.get(function.name, "") if measured is not None else ""
    return {
        "name": function.name, "target": document.checked.front.label, "cycles": dict(cycles),
        "launch": launch,
    }  # fmt: skip


def memory(ls: PtoServer, params: Any) -> list[dict[str, Any]]:
    """The memories at a place (`ptosim/memory`): of each its bytes and what is in it."""
    document, places, position = _own(ls, params)
    return [
        {
            "space": space.name, "bytes": space.limit, "used": space.used,
            "tiles": [
                {"name": t.name, "start": t.start, "bytes": t.bytes, "alive": t.alive,
                 "line": places.position(t.at).line}
                for t in space.tiles
            ],
        }
        for space in relations.memory(document, places.offset(position))
    ]  # fmt: skip


def prepare_rename(ls: PtoServer, params: types.PrepareRenameParams) -> types.Range | None:
    """Whether a name can have another."""
    document, places = _asked(ls, params)
    word = refactor.renamable(document, places.offset(params.position))
    return None if word is None else places.range(word.start, word.end)


def rename(ls: PtoServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """Another name, wherever it is used."""
    document, places = _asked(ls, params)
    try:
        made = refactor.renamed(document, places.offset(params.position), params.new_name)
    except PtosimError as problem:
        raise JsonRpcInvalidParams(str(problem)) from problem
    return types.WorkspaceEdit({params.text_document.uri: places.edits(made)})


def symbols(ls: PtoServer, params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    """Functions, and what they make."""
    document, places = _asked(ls, params)
    return [_symbol(s, places) for s in outline.symbols(document)]


def folding(ls: PtoServer, params: types.FoldingRangeParams) -> list[types.FoldingRange]:
    """What can be folded."""
    document, _ = _asked(ls, params)
    return [types.FoldingRange(a, b, kind=kind) for a, b, kind in outline.folds(document)]


def selections(ls: PtoServer, params: types.SelectionRangeParams) -> list[types.SelectionRange]:
    """What is around each place: the word, the statement, the region, and so on outwards."""
    places = ls.places(params.text_document.uri)
    found = []
    for position in params.positions:
        document = ls.document(params.text_document.uri, position)
        around: types.SelectionRange | None = None
        for begin, end in outline.around(document, places.offset(position)):
            around = types.SelectionRange(places.range(begin, end), around)
        found.append(around or types.SelectionRange(types.Range(position, position)))
    return found


def semantic(ls: PtoServer, params: types.SemanticTokensParams) -> types.SemanticTokens:
    """What each word is."""
    uri = params.text_document.uri
    scope = ls.scope(uri)
    words = () if scope.document.source.is_cpp else outline.by_line(scope)
    data = ls.places(uri).tokens(words)
    return types.SemanticTokens(data=data, result_id=ls.keep_tokens(uri, data))


def semantic_changes(
    ls: PtoServer, params: types.SemanticTokensDeltaParams
) -> types.SemanticTokens | types.SemanticTokensDelta:
    """What of it has changed since the editor asked last."""
    uri = params.text_document.uri
    before = ls.kept_tokens(uri, params.previous_result_id)
    found = semantic(ls, types.SemanticTokensParams(params.text_document))
    if before is None:
        return found
    start, gone, come = outline.changes(before, found.data)
    edits_ = [types.SemanticTokensEdit(start, gone, come)] if gone or come else []
    return types.SemanticTokensDelta(edits_, result_id=found.result_id)


def semantic_range(ls: PtoServer, params: types.SemanticTokensRangeParams) -> types.SemanticTokens:
    """What each word of some lines is."""
    uri = params.text_document.uri
    first, last = params.range.start.line, params.range.end.line
    words = outline.by_line(ls.scope(uri), first, last)
    return types.SemanticTokens(data=ls.places(uri).tokens(words, first))


def complete(ls: PtoServer, params: types.CompletionParams) -> types.CompletionList:
    """What can be written here, by the text as it was last checked."""
    scope = ls.scope(params.text_document.uri, params.position)
    places = ls.places(params.text_document.uri)
    found = offers_at(scope)
    items = [
        _item(n, offer, places, params.position, with_stops=ls.has_snippets)
        for n, offer in enumerate(found)
    ]
    return types.CompletionList(is_incomplete=len(found) == MOST, items=items)


def resolve(ls: PtoServer, item: types.CompletionItem) -> types.CompletionItem:
    """The documentation of an operation that is looked at in the list."""
    row = isa().get(item.label)
    if row is not None and item.kind is _OFFERS["operation"]:
        example = example_of(row)
        shown = f"```mlir\n{example.program}```\n\n" if example is not None else ""
        text = f"{shown}```text\n{card(row, WIDTH)}```"
        item.documentation = types.MarkupContent(types.MarkupKind.Markdown, text)
    return item


def signature(ls: PtoServer, params: types.SignatureHelpParams) -> types.SignatureHelp | None:
    """The operands of the operation that is written, and which of them comes here."""
    found = signature_at(ls.scope(params.text_document.uri, params.position))
    if found is None:
        return None
    label, operands, active = found
    made = [types.ParameterInformation(one) for one in operands]
    return types.SignatureHelp([types.SignatureInformation(label, parameters=made)], 0, active)


def actions(ls: PtoServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The cures of the findings here, and what can be made of the whole text."""
    document, places = _asked(ls, params)
    uri = params.text_document.uri
    begin, end = places.offset(params.range.start), places.offset(params.range.end)
    mending = [
        types.CodeAction(
            title=finding.help or f"mend {finding.code}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, places, uri)],
            edit=types.WorkspaceEdit({uri: places.edits(made)}),
            is_preferred=True,
        )
        for finding, made in refactor.fixes(document, begin, end)
    ]
    offered = () if document.source.is_cpp else refactor.offered(document)
    whole = [_of_whole_text(name, uri) for name in offered]
    if refactor.chosen(document, begin, end):
        data = {"uri": uri, "name": refactor.FUNCTION, "begin": begin, "end": end}
        title, kind = "these statements as a function", types.CodeActionKind.RefactorExtract
        whole.append(types.CodeAction(title, kind=kind, data=data))
    only = params.context.only
    return [a for a in (*mending, *whole) if only is None or any(_is_of(a, kind) for kind in only)]


def _is_of(action: types.CodeAction, kind: types.CodeActionKind | str) -> bool:
    """Whether an action is of a kind: of it, or of one below it (`refactor.rewrite`)."""
    own, asked = (str(getattr(k, "value", k) or "") for k in (action.kind, kind))
    return own == asked or own.startswith(f"{asked}.")


def _of_whole_text(name: str, uri: str) -> types.CodeAction:
    rewrite = refactor.REWRITES[name]
    kinds = types.CodeActionKind
    kind = kinds.SourceFixAll if rewrite.mends else kinds.RefactorRewrite
    return types.CodeAction(rewrite.title, kind=kind, data={"uri": uri, "name": name})


def make_edit(ls: PtoServer, action: types.CodeAction) -> types.CodeAction:
    """The edit of an action on the whole text, which was chosen; what is to be said of it is shown
    as a message."""
    asked = action.data if isinstance(action.data, dict) else {}
    uri = str(asked.get("uri", ""))
    document, places = ls.document(uri), ls.places(uri)
    selected = [n if isinstance(n := asked.get(key), int) else 0 for key in ("begin", "end")]
    try:
        text, told = refactor.made(document, str(asked.get("name", "")), *selected)
    except PtosimError as problem:
        raise JsonRpcInvalidParams(str(problem)) from problem
    change = [(0, len(document.text), text)]
    action.edit = types.WorkspaceEdit({uri: places.edits(change)})
    if told:
        ls.window_show_message(types.ShowMessageParams(types.MessageType.Info, told))
    return action


def formatting(
    ls: PtoServer, params: types.DocumentFormattingParams
) -> list[types.TextEdit] | None:
    """The canonical form."""
    document, places = _asked(ls, params)
    text = refactor.formatted(document)
    if text is None or text == document.text:
        return None
    return places.edits([(0, len(document.text), text)])


def inlay(ls: PtoServer, params: types.InlayHintParams) -> list[types.InlayHint]:
    """Addresses, pipes and cycles beside the text."""
    document, places = _asked(ls, params)
    begin, end = places.offset(params.range.start), places.offset(params.range.end)
    found = hints_between(document, begin, end)
    return [types.InlayHint(places.position(at), text) for at, text in found]


def lens(ls: PtoServer, params: types.CodeLensParams) -> list[types.CodeLens]:
    """What can be done with each entry."""
    document, places = _asked(ls, params)
    uri = params.text_document.uri
    return [
        types.CodeLens(
            places.range(one.start, one.end),
            types.Command(one.title, one.command, arguments=[uri, one.entry]),
        )
        for one in outline.lenses(document)
    ]


def _uses(document: Document, offset: int) -> list[Word]:
    """The words of a name, where it is made first."""
    word = document.names.at(offset)
    made = document.names.definition(word) if word is not None else None
    if made is None:
        is_block = word is not None and word.kind is Kind.BLOCK
        words = document.names.words if is_block else ()
        return [w for w in words if word is not None and (w.kind, w.text) == (word.kind, word.text)]
    return sorted(document.names.uses(made), key=lambda w: (w.start != made.word.start, w.start))


def _location(params: Any, places: Places, word: Word) -> types.Location:
    return types.Location(params.text_document.uri, places.range(word.start, word.end))


def _symbol(symbol: outline.Symbol, places: Places) -> types.DocumentSymbol:
    return types.DocumentSymbol(
        name=symbol.name,
        kind=_SYMBOLS[symbol.kind],
        range=places.range(symbol.start, symbol.end),
        selection_range=places.range(symbol.name_start, symbol.name_end),
        detail=symbol.detail,
        children=[_symbol(child, places) for child in symbol.children],
    )


def _item(
    number: int, offer: Offer, places: Places, position: types.Position, *, with_stops: bool
) -> types.CompletionItem:
    """An item; its place in the list is ours (`sort_text`), for it is chosen by what fits."""
    is_snippet = with_stops and bool(offer.snippet)
    where = types.Range(places.position(offer.start), position)
    return types.CompletionItem(
        label=offer.label,
        kind=_OFFERS[offer.kind],
        detail=offer.detail or None,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, offer.doc)
        if offer.doc
        else None,
        filter_text=offer.label,
        sort_text=f"{number:02}",
        insert_text_format=types.InsertTextFormat.Snippet if is_snippet else None,
        text_edit=types.TextEdit(where, offer.snippet if is_snippet else offer.text),
    )


_LEGEND = types.SemanticTokensLegend(list(outline.TYPES), list(outline.MODIFIERS))

REQUESTS: tuple[tuple[str, Any, Any], ...] = (
    (types.TEXT_DOCUMENT_HOVER, hover, None),
    (types.TEXT_DOCUMENT_DEFINITION, definition, None),
    (types.TEXT_DOCUMENT_REFERENCES, references, None),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, highlights, None),
    (types.TEXT_DOCUMENT_PREPARE_CALL_HIERARCHY, prepare_calls, None),
    (types.CALL_HIERARCHY_INCOMING_CALLS, incoming, None),
    (types.CALL_HIERARCHY_OUTGOING_CALLS, outgoing, None),
    ("ptosim/memory", memory, None),
    ("ptosim/entry", entry, None),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, prepare_rename, None),
    (types.TEXT_DOCUMENT_RENAME, rename, types.RenameOptions(prepare_provider=True)),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols, None),
    (types.TEXT_DOCUMENT_FOLDING_RANGE, folding, None),
    (types.TEXT_DOCUMENT_SELECTION_RANGE, selections, None),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, semantic, _LEGEND),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, semantic_changes, _LEGEND),
    (types.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, semantic_range, _LEGEND),
    (
        types.TEXT_DOCUMENT_COMPLETION,
        complete,
        types.CompletionOptions(
            trigger_characters=["%", "@", "!", "#", ".", "<", "=", "{", "[", "(", ",", " "],
            resolve_provider=True,
        ),
    ),
    (types.COMPLETION_ITEM_RESOLVE, resolve, None),
    (
        types.TEXT_DOCUMENT_SIGNATURE_HELP,
        signature,
        types.SignatureHelpOptions(trigger_characters=["(", ",", "%"]),
    ),
    (
        types.TEXT_DOCUMENT_CODE_ACTION,
        actions,
        types.CodeActionOptions(
            code_action_kinds=[
                types.CodeActionKind.QuickFix,
                types.CodeActionKind.SourceFixAll,
                types.CodeActionKind.RefactorRewrite,
                types.CodeActionKind.RefactorExtract,
            ],
            resolve_provider=True,
        ),
    ),
    (types.CODE_ACTION_RESOLVE, make_edit, None),
    (types.TEXT_DOCUMENT_FORMATTING, formatting, None),
    (types.TEXT_DOCUMENT_INLAY_HINT, inlay, None),
    (types.TEXT_DOCUMENT_CODE_LENS, lens, None),
)
"""Method of the protocol, what answers it, and what the editor is told of it."""


def make_server() -> PtoServer:
    """Return a server with every event and request registered."""
    server = PtoServer()
    for method, answer, options in (*EVENTS, *REQUESTS):
        server.feature(method, options)(answer)
    return server
