"""The requests of an editor: each a question to the document, and its answer in positions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from lsprotocol import types
from pygls.exceptions import JsonRpcInvalidParams

from ptosim.ground.errors import PtosimError
from ptosim.ground.isa.dates import holds
from ptosim.ground.isa.enums import enums
from ptosim.ground.isa.examples import example_of
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef, Status
from ptosim.ground.records import dataclass
from ptosim.language.bind.bind import describe
from ptosim.tools.lsp import edits, outline
from ptosim.tools.lsp.document import Document
from ptosim.tools.lsp.edits import Places
from ptosim.tools.lsp.hover import hints as hints_between
from ptosim.tools.lsp.hover import hover as hovered
from ptosim.tools.lsp.names import Kind, Word
from ptosim.tools.lsp.server import EVENTS, PtoServer, diagnostic

# What can follow what is typed: operations, values, functions, types, members of enums.

_BEFORE = re.compile(r"[%@!#]?[\w$.-]*\Z")
_ATTRIBUTE = re.compile(r"#pto\.(\w+)<(\w*)\Z")
_OPERATION = re.compile(r"(?:pto|arith|math|scf|func|memref|cf|quant)\.[\w.]+")
_TYPES = (
    ("!pto.ptr", "!pto.ptr<f32>"), ("!pto.tensor_view", "!pto.tensor_view<?x?xf32>"),
    ("!pto.partition_tensor_view", "!pto.partition_tensor_view<16x64xf32>"),
    ("!pto.tile_buf", "!pto.tile_buf<vec, 16x64xf32>"), ("!pto.vreg", "!pto.vreg<64xf32>"),
    ("!pto.mask", "!pto.mask<b32>"), ("!pto.vmi.vreg", "!pto.vmi.vreg<128xf32>"),
)  # fmt: skip
_FIRST_WORD = re.compile(r"^\s*(?:%[\w$.:,\s#%-]*=\s*)?[\w.]*\Z")


@dataclass(frozen=True, slots=True)
class Offer:
    """A word that fits: what is written for the characters from `start` on."""

    label: str
    kind: str  # operation, value, function, type, member, attribute
    detail: str
    start: int
    text: str
    doc: str = ""


def offers(document: Document, offset: int) -> list[Offer]:
    """Return what can be written at an offset."""
    before = document.text[:offset]
    line = before[before.rfind("\n") + 1 :]
    member = _ATTRIBUTE.search(line)
    if member is not None:
        return list(_members(member[1], offset - len(member[2]), document.resolved.date))
    found = _BEFORE.search(line)
    word = found[0] if found is not None else ""
    start = offset - len(word)
    if word.startswith("%"):
        return list(_values(document, start))
    if word.startswith("@"):
        return list(_functions(document, start))
    if word.startswith("!"):
        return [*_aliases(document, start), *(Offer(n, "type", t, start, t) for n, t in _TYPES)]
    if word.startswith("#"):
        names = sorted(enums())
        return [Offer(f"#pto.{n}", "attribute", "", start, f"#pto.{n}<") for n in names]
    if _FIRST_WORD.match(line):
        return list(_operations(document, start))
    return list(_attributes(line, start))


def _operations(document: Document, start: int) -> Iterator[Offer]:
    date, target = document.resolved.date, document.resolved.target
    rows = isa(date)
    for name in rows.names():
        row = rows.get(name)
        if (
            row is None
            or row.library
            or not holds({"since": row.since or "", "until": row.until}, date)
        ):
            continue
        if row.status.get(target) is Status.ABSENT:
            continue
        example = example_of(row)
        doc = example.line if example is not None else ""
        yield Offer(name, "operation", row.summary, start, _text(row), doc)


def _text(row: OpDef) -> str:
    """The operation with its operands as they are described: a form to fill in."""
    if not row.variants or row.form != "dps":
        return row.name
    return f"{row.name} {describe(row.variants[0], row)}"


def _values(document: Document, start: int) -> Iterator[Offer]:
    for made in document.names.visible(start):
        kind = str(made.value.type) if made.value is not None else ""
        yield Offer(made.word.text, "value", kind, start, made.word.text)


def _functions(document: Document, start: int) -> Iterator[Offer]:
    for kind, name in document.names.made:
        if kind is Kind.FUNCTION:
            yield Offer(name, "function", "", start, name)


def _aliases(document: Document, start: int) -> Iterator[Offer]:
    for name, text in document.resolved.module.type_aliases.items():
        yield Offer(name, "type", text, start, name)


def _members(name: str, start: int, date: str) -> Iterable[Offer]:
    enum = enums().get(name)
    members = enum.members_at(date) if enum is not None else ()
    return (Offer(m, "member", f"#pto.{name}", start, m) for m in members)


def _attributes(line: str, start: int) -> Iterator[Offer]:
    """Attributes of the operation on the line, inside its braces."""
    found = _OPERATION.search(line)
    row = isa().get(found[0]) if found is not None else None
    if row is None or line.count("{") <= line.count("}"):
        return
    for attribute in row.attrs.values():
        detail = attribute.type + (" (required)" if attribute.required else "")
        yield Offer(attribute.name, "attribute", detail, start, f"{attribute.name} = ")


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
    """Where a name is used."""
    document, places = _asked(ls, params)
    words = _uses(document, places.offset(params.position))
    if not params.context.include_declaration:
        words = words[1:]
    return [_location(params, places, word) for word in words]


def highlights(
    ls: PtoServer, params: types.DocumentHighlightParams
) -> list[types.DocumentHighlight]:
    """The same name elsewhere on the screen."""
    document, places = _asked(ls, params)
    words = _uses(document, places.offset(params.position))
    return [types.DocumentHighlight(places.range(w.start, w.end)) for w in words]


def prepare_rename(ls: PtoServer, params: types.PrepareRenameParams) -> types.Range | None:
    """Whether a name can have another."""
    document, places = _asked(ls, params)
    word = edits.renamable(document, places.offset(params.position))
    return None if word is None else places.range(word.start, word.end)


def rename(ls: PtoServer, params: types.RenameParams) -> types.WorkspaceEdit | None:
    """Another name, wherever it is used."""
    document, places = _asked(ls, params)
    try:
        made = edits.renamed(document, places.offset(params.position), params.new_name)
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


def semantic(ls: PtoServer, params: types.SemanticTokensParams) -> types.SemanticTokens:
    """What each word is."""
    document, places = _asked(ls, params)
    return types.SemanticTokens(data=places.tokens(outline.tokens(document)))


def complete(ls: PtoServer, params: types.CompletionParams) -> list[types.CompletionItem]:
    """What can be written here."""
    document, places = _asked(ls, params)
    found = offers(document, places.offset(params.position))
    return [_item(offer, places, params.position) for offer in found]


def actions(ls: PtoServer, params: types.CodeActionParams) -> list[types.CodeAction]:
    """The cures of the findings here."""
    document, places = _asked(ls, params)
    uri = params.text_document.uri
    begin, end = places.offset(params.range.start), places.offset(params.range.end)
    return [
        types.CodeAction(
            title=finding.help or f"mend {finding.code}",
            kind=types.CodeActionKind.QuickFix,
            diagnostics=[diagnostic(finding, places, uri)],
            edit=types.WorkspaceEdit({uri: places.edits(made)}),
            is_preferred=True,
        )
        for finding, made in edits.fixes(document, begin, end)
    ]


def formatting(
    ls: PtoServer, params: types.DocumentFormattingParams
) -> list[types.TextEdit] | None:
    """The canonical form."""
    document, places = _asked(ls, params)
    text = edits.formatted(document)
    if text is None or text == document.text:
        return None
    return places.edits([(0, len(document.text), text)])


def inlay(ls: PtoServer, params: types.InlayHintParams) -> list[types.InlayHint]:
    """Addresses, pipes and cycles beside the text."""
    document, places = _asked(ls, params)
    if not ls.settings.hints:
        return []
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


def _item(offer: Offer, places: Places, position: types.Position) -> types.CompletionItem:
    return types.CompletionItem(
        label=offer.label,
        kind=_OFFERS[offer.kind],
        detail=offer.detail,
        documentation=offer.doc or None,
        filter_text=offer.label,
        text_edit=types.TextEdit(types.Range(places.position(offer.start), position), offer.text),
    )


REQUESTS: tuple[tuple[str, Any, Any], ...] = (
    (types.TEXT_DOCUMENT_HOVER, hover, None),
    (types.TEXT_DOCUMENT_DEFINITION, definition, None),
    (types.TEXT_DOCUMENT_REFERENCES, references, None),
    (types.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, highlights, None),
    (types.TEXT_DOCUMENT_PREPARE_RENAME, prepare_rename, None),
    (types.TEXT_DOCUMENT_RENAME, rename, types.RenameOptions(prepare_provider=True)),
    (types.TEXT_DOCUMENT_DOCUMENT_SYMBOL, symbols, None),
    (types.TEXT_DOCUMENT_FOLDING_RANGE, folding, None),
    (
        types.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL,
        semantic,
        types.SemanticTokensLegend(list(outline.TYPES), list(outline.MODIFIERS)),
    ),
    (
        types.TEXT_DOCUMENT_COMPLETION,
        complete,
        types.CompletionOptions(trigger_characters=["%", "@", "!", "#", ".", "<"]),
    ),
    (
        types.TEXT_DOCUMENT_CODE_ACTION,
        actions,
        types.CodeActionOptions(code_action_kinds=[types.CodeActionKind.QuickFix]),
    ),
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
