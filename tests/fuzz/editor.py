"""What an editor asks about a text while it is written: every request, at places all over the text,
before and after changes. The functions that answer are called without the protocol around them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from ptosim.ground.errors import PtosimError
from tests.fuzz.case import Case

URI = "file:///k.pto"
PLACES = 3
"""Places of a text at which requests are made."""


def edited(case: Case, folder: Path) -> int:
    """Open a text, ask everything, change it and ask again; 3 if its program is refused."""
    return _edited(case, URI, case.text)


def embedded(case: Case, folder: Path) -> int:
    """The same with the text as a string of a Python file, after another program."""
    text = f'first = """// pto\nmodule {{\n}}"""\nsecond = r"""// pto\n{case.text}\n"""\n'
    return _edited(case, "file:///k.py", text)


def measured(case: Case, folder: Path) -> int:
    """Follow and price a text that rests, and ask for what is shown of it."""
    server = _server()
    with _opened(server, URI, case.text):
        for document in server.documents(URI):
            document.measured = document.measure()
        _ask(server, URI, case.text)
        return _verdict(server, URI)


def _edited(case: Case, uri: str, text: str) -> int:
    server = _server()
    with _opened(server, uri, text):
        _ask(server, uri, text)
        code = _verdict(server, uri)
        half = len(text) // 2
        for change in (_range(server, uri, half, half + 7, " %x ."), _whole(text[: 2 * half // 3])):
            _change(server, uri, change)
            _ask(server, uri, server.workspace.get_text_document(uri).source)
        return code


def _verdict(server: Any, uri: str) -> int:
    found = [d for document in server.documents(uri) for d in document.findings]
    return 3 if any(d.is_rejection for d in found) else int(any(d.is_error for d in found))


@lru_cache(maxsize=1)
def _server() -> Any:
    """A server with an empty workspace and no editor: the same for all texts, as in a session."""
    from pygls.workspace import Workspace

    from ptosim.tools.lsp.requests import make_server

    server = make_server()
    server.protocol._workspace = Workspace(None)
    return server


@contextlib.contextmanager
def _opened(server: Any, uri: str, text: str) -> Iterator[None]:
    from lsprotocol import types

    server.workspace.put_text_document(types.TextDocumentItem(uri, "pto", 1, text))
    try:
        yield
    finally:
        server.workspace.remove_text_document(uri)
        server._documents.clear()


def _change(server: Any, uri: str, change: Any) -> None:
    from lsprotocol import types

    version = (server.workspace.get_text_document(uri).version or 0) + 1
    identity = types.VersionedTextDocumentIdentifier(version=version, uri=uri)
    server.workspace.update_text_document(identity, change)


def _whole(text: str) -> Any:
    from lsprotocol import types

    return types.TextDocumentContentChangeWholeDocument(text)


def _range(server: Any, uri: str, begin: int, end: int, text: str) -> Any:
    """A change of the part between two offsets."""
    from lsprotocol import types

    source = server.workspace.get_text_document(uri).source
    between = types.Range(_position(source, begin), _position(source, end))
    return types.TextDocumentContentChangePartial(range=between, text=text)


def _position(text: str, offset: int) -> Any:
    from lsprotocol import types

    lines = text[:offset].split("\n")
    return types.Position(len(lines) - 1, len(lines[-1]))


def _ask(server: Any, uri: str, text: str) -> None:
    """Make every request: of places, of the whole text, of a part of it."""
    from lsprotocol import types

    from ptosim.tools.lsp import requests
    from ptosim.tools.lsp.server import diagnostic

    document = types.TextDocumentIdentifier(uri)
    for number in range(PLACES):
        place = _position(text, len(text) * (2 * number + 1) // (2 * PLACES))
        at = {"text_document": document, "position": place}
        requests.hover(server, types.HoverParams(**at))
        requests.definition(server, types.DefinitionParams(**at))
        requests.highlights(server, types.DocumentHighlightParams(**at))
        requests.prepare_rename(server, types.PrepareRenameParams(**at))
        requests.complete(server, types.CompletionParams(**at))
        context = types.ReferenceContext(include_declaration=number % 2 == 0)
        requests.references(server, types.ReferenceParams(context=context, **at))
        _rename(server, types.RenameParams(new_name="%other", **at))
    everything = types.Range(types.Position(0, 0), _position(text, len(text)))
    requests.symbols(server, types.DocumentSymbolParams(document))
    requests.folding(server, types.FoldingRangeParams(document))
    requests.semantic(server, types.SemanticTokensParams(document))
    requests.lens(server, types.CodeLensParams(document))
    requests.inlay(server, types.InlayHintParams(document, everything))
    context = types.CodeActionContext([])
    requests.actions(server, types.CodeActionParams(document, everything, context))
    options = types.FormattingOptions(2, insert_spaces=True)
    requests.formatting(server, types.DocumentFormattingParams(document, options))
    places = server.places(uri)
    for known in server.documents(uri):
        for found in known.findings:
            diagnostic(found, places, uri)


def _rename(server: Any, asked: Any) -> None:
    """A name that cannot be another one is refused in words."""
    from pygls.exceptions import JsonRpcException

    from ptosim.tools.lsp import requests

    with contextlib.suppress(JsonRpcException, PtosimError):
        requests.rename(server, asked)
