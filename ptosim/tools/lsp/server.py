"""The protocol: an editor's requests become questions to a document, offsets become positions.

Texts are checked a moment after the last key; a text at rest is followed and priced in a process of
its own (`resting.py`). Built on pygls, which the extra `ptosim[lsp]` brings.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import sys
from collections.abc import Iterator, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any, BinaryIO, Self
from urllib.parse import unquote, urlparse

from lsprotocol import types
from pygls.exceptions import JsonRpcException, JsonRpcInvalidParams
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol
from pygls.workspace import TextDocument, Workspace

from ptosim.debug.dap.variables import BrokenMessage, Pieces, parsed, read_body
from ptosim.ground import __version__
from ptosim.ground.diagnostics.model import Diagnostic, Severity
from ptosim.ground.source import Source
from ptosim.tools.lsp.document import Document, Settings, settings_of
from ptosim.tools.lsp.predict import Scope
from ptosim.tools.lsp.refactor import Places
from ptosim.tools.lsp.resting import Resting

# -- messages --------------------------------------------------------------------------------------

_LONGEST = 400
"""Characters of a line of the log."""


class Messages:
    """A stream of messages; those that are broken are left out, with a line on standard error."""

    def __init__(self, raw: BinaryIO) -> None:
        self._from_editor = Pieces(raw)
        self._held = b""

    def readline(self) -> bytes:
        """Return the next line of a header, nothing at the end of the stream."""
        self._held = self._held or self._next()
        return self.read(self._held.find(b"\n") + 1)

    def read(self, count: int) -> bytes:
        """Return bytes of the message."""
        data, self._held = self._held[:count], self._held[count:]
        return data

    def _next(self) -> bytes:
        while True:
            try:
                body = read_body(self._from_editor)
                if body is None:
                    return b""
                parsed(body)
            except BrokenMessage as problem:
                told(str(problem))
                continue
            return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def told(text: str) -> None:
    """Tell whoever reads the server's log, in a line: what follows may be a whole traceback."""
    line = text.strip().partition("\n")[0]
    sys.stderr.write(f"ptosim lsp: {line:.{_LONGEST}}\n")


class _Lines(logging.Handler):
    """The log of pygls in lines: what an editor asks wrongly has an answer, and needs no traceback
    beside it; a refusal that is meant (rename where no name is) needs no line either."""

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        if isinstance(problem, JsonRpcInvalidParams):
            return
        told(": ".join(map(str, filter(None, (record.getMessage(), problem)))))


def log_in_lines() -> None:
    """Let pygls log in lines, unless somebody wants tracebacks."""
    if os.environ.get("PTOSIM_TRACEBACK"):
        return
    log = logging.getLogger("pygls")
    log.addHandler(_Lines(logging.WARNING))
    log.propagate = False


# --------------------------------------------------------------------------------------------------

# The texts that an editor has open, with lines as the protocol counts them.
#
# pygls splits texts as Python does, also at form feeds and at separators of Unicode; an editor
# does not, and after the first of them every place would be another one than it means.

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")


class Text(TextDocument):
    """One text."""

    @property
    def lines(self) -> Sequence[str]:
        """The lines with their ends: LF, CR LF or CR."""
        return tuple(_LINE.findall(self.source))


class OpenTexts(Workspace):
    """All of them."""

    @classmethod
    def like(cls, other: Workspace) -> Self:
        """Return a workspace of the same root, folders and units of columns."""
        folders = list(other.folders.values())
        return cls(
            other.root_uri, workspace_folders=folders, position_encoding=other.position_encoding
        )

    def _create_text_document(
        self,
        doc_uri: str,
        source: str | None = None,
        version: int | None = None,
        language_id: str | None = None,
    ) -> TextDocument:
        return Text(
            doc_uri, source, version, language_id, sync_kind=self._sync_kind,
            position_codec=self.position_codec,
        )  # fmt: skip


# Assembly in other files: templates without holes yet, and strings of Python files.
#
# A string is assembly if its first line is the comment `// pto`; one with holes (an f-string, or
# Jinja's brackets) is not looked at, for nobody knows what will be in them.

_STRING = re.compile(
    r"(?<![A-Za-z0-9_])(?P<prefix>[rRuU]?)(?P<quotes>\"\"\"|''')(?P<text>\s*//\s*pto\b.*?)(?P=quotes)",
    re.DOTALL,
)
_TEMPLATE = re.compile(r"\{\{|\{%|\{#(?!pto)")


def texts(name: str, text: str) -> list[str]:
    """Return the programs in a file as texts of its length, blank where the program is not: places
    in them are places of the file."""
    if name.endswith(".py"):
        return list(_strings(text))
    if name.endswith(".j2") and _TEMPLATE.search(text):
        return []
    return [text]


def _strings(text: str) -> Iterator[str]:
    for found in _STRING.finditer(text):
        begin, end = found.span("text")
        if "\\" in found["text"] and not found["prefix"]:
            continue  # escapes: the characters of the program are not those of the file
        blank = re.sub(r"[^\n]", " ", text[:begin]), re.sub(r"[^\n]", " ", text[end:])
        yield blank[0] + text[begin:end] + blank[1]


TYPING = 0.05
"""Seconds after a key before the text is checked: the next key may come first."""
RESTING = 0.3
"""Seconds after a check before the text is followed and priced."""
_SEVERITIES = {
    Severity.ERROR: types.DiagnosticSeverity.Error,
    Severity.WARNING: types.DiagnosticSeverity.Warning,
    Severity.NOTE: types.DiagnosticSeverity.Information,
}


class Answering(LanguageServerProtocol):
    """The protocol, in which a request that cannot be read has an error for an answer, too."""

    def structure_message(self, data: dict[str, Any]) -> Any:
        """Return what a message says. Raises JsonRpcException for one that cannot be read."""
        try:
            return super().structure_message(data)
        except JsonRpcException as problem:
            if "id" in data and "method" in data:
                self._send_response(data["id"], error=problem.to_response_error())
            raise


class PtoServer(LanguageServer):
    """The texts of one editor, and what is known of each."""

    def __init__(self) -> None:
        super().__init__("ptosim", __version__, protocol_cls=Answering)
        self.settings = Settings()
        self.resting = Resting()
        self._tokens: dict[str, tuple[str, list[int]]] = {}
        self._told = 0
        self._documents: dict[str, tuple[int | None, str, list[Document]]] = {}
        self._waiting: dict[str, asyncio.Task[None]] = {}

    def text(self, uri: str) -> TextDocument:
        """Return an open text; an empty one for a URI that is not open, which may be that of no
        file, or of one without an end."""
        return self.workspace.text_documents.get(unquote(uri)) or TextDocument("", "")

    def documents(self, uri: str) -> list[Document]:
        """Return what is known of the programs in the present text at a URI; none in a file of
        another language that has none."""
        text = self.text(uri)
        known = self._documents.get(uri)
        if known is None or known[0] != text.version or known[1] != text.source:
            programs = texts(_name(uri), text.source)
            before = known[2] if known is not None and len(known[2]) == len(programs) else ()
            made = [
                Document(_name(uri), program, self.settings, old, _folder(uri))
                for program, old in zip_longest(programs, before)
            ]
            known = (text.version, text.source, made)
            self._documents[uri] = known
        return known[2]

    def document(self, uri: str, position: types.Position | None = None) -> Document:
        """Return the program at a position, or the only one; an empty one where there is none."""
        found = self.documents(uri)
        if len(found) > 1 and position is not None:
            offset = self.text(uri).offset_at_position(position)
            found = [d for d in found if d.begin <= offset <= d.end]
        return found[0] if len(found) == 1 else Document(_name(uri), "", self.settings)

    def scope(self, uri: str, position: types.Position | None = None) -> Scope:
        """Return what can be named at a position: by the program as it was last checked, for a text
        that changes with each key need not be checked to be completed or coloured."""
        text, known = self.text(uri), self._documents.get(uri)
        offset = text.offset_at_position(position) if position is not None else 0
        if known is not None and len(known[2]) == 1 and texts(_name(uri), known[1]) == [known[1]]:
            return Scope(known[2][0], text.source, offset)
        document = self.document(uri, position)
        return Scope(document, document.text, min(offset, len(document.text)))

    def keep_tokens(self, uri: str, data: list[int]) -> str:
        """Keep what the editor is told of the words, and return a name for it."""
        self._told += 1
        self._tokens[uri] = str(self._told), data
        return str(self._told)

    def kept_tokens(self, uri: str, name: str) -> list[int] | None:
        """Return what was told by that name, None if it was not the last."""
        known, data = self._tokens.get(uri, ("", None))
        return data if known == name else None

    @property
    def has_snippets(self) -> bool:
        """Whether the editor knows texts with tab stops."""
        client = getattr(self.protocol, "client_capabilities", None)
        document = client.text_document if client is not None else None
        completion = document.completion if document is not None else None
        item = completion.completion_item if completion is not None else None
        return bool(item is not None and item.snippet_support)

    def places(self, uri: str) -> Places:
        """Return what turns offsets of a text into positions."""
        text = self.text(uri)
        return Places(Source(_name(uri), text.source), text)

    def configure(self, given: Any) -> None:
        """Take an editor's settings; what is unknown among them is left alone."""
        own = given.get("ptosim", given) if isinstance(given, dict) else {}
        self.settings = settings_of(own)
        self._documents.clear()

    def changed(self, uri: str, wait: float) -> None:
        """Check a text after a moment, and measure it when it rests."""
        before = self._waiting.pop(uri, None)
        if before is not None:
            before.cancel()
        self._waiting[uri] = asyncio.get_running_loop().create_task(self._checked(uri, wait))

    def forget(self, uri: str) -> None:
        """A text was closed."""
        before = self._waiting.pop(uri, None)
        if before is not None:
            before.cancel()
        self._documents.pop(uri, None)
        self._tokens.pop(uri, None)
        self._publish(uri, [])

    async def _checked(self, uri: str, wait: float) -> None:
        await asyncio.sleep(wait)
        documents = self.documents(uri)
        self._publish(uri, documents)
        await asyncio.sleep(RESTING)
        measured = await self.resting.measure(documents)
        if self._documents.get(uri, (None, "", None))[2] is not documents:
            return  # it was changed meanwhile
        for document, found in zip(documents, measured, strict=True):
            document.measured = found
        self._publish(uri, documents)
        workspace = self.client_capabilities.workspace
        if workspace is not None and workspace.inlay_hint is not None:
            self.workspace_inlay_hint_refresh(None)

    def _publish(self, uri: str, documents: Sequence[Document]) -> None:
        places = self.places(uri)
        made = [diagnostic(f, places, uri) for d in documents for f in d.findings]
        version = self._documents[uri][0] if uri in self._documents else None
        self.text_document_publish_diagnostics(
            types.PublishDiagnosticsParams(uri=uri, diagnostics=made, version=version)
        )


def _name(uri: str) -> str:
    try:
        return Path(unquote(urlparse(uri).path)).name or uri
    except ValueError:  # brackets in which there is no address
        return uri


def _folder(uri: str) -> str | None:
    """The folder of a text that is a file."""
    try:
        parts = urlparse(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    is_file = parts.scheme == "file" and not parts.netloc and "\0" not in path
    return str(Path(path).parent) if is_file else None


def diagnostic(found: Diagnostic, places: Places, uri: str) -> types.Diagnostic:
    span = found.span
    begin, end = (span.start, max(span.end, span.start + 1)) if span is not None else (0, 1)
    others = [
        types.DiagnosticRelatedInformation(
            types.Location(uri, places.range(label.span.start, label.span.end)), label.text
        )
        for label in found.labels[1:]
        if label.text
    ]
    first = found.labels[0].text if found.labels else ""
    told = [found.message, *([first] if first and first != found.message else []), *found.notes]
    return types.Diagnostic(
        range=places.range(begin, end),
        message="\n".join([*told, *([f"help: {found.help}"] if found.help else [])]),
        severity=_SEVERITIES[found.severity],
        code=found.code,
        source=f"ptosim ({found.origin.value})",
        related_information=others,
    )


def begun(ls: PtoServer, params: types.InitializeParams) -> None:
    """An editor is there: its texts are to have lines as the protocol counts them."""
    ls.protocol._workspace = OpenTexts.like(ls.workspace)


def configured(ls: PtoServer, params: types.DidChangeConfigurationParams) -> None:
    """Other settings: every text is checked anew."""
    ls.configure(params.settings)
    for uri in ls.workspace.text_documents:
        ls.changed(uri, 0)


async def opened(ls: PtoServer, params: types.DidOpenTextDocumentParams) -> None:
    """A text was opened."""
    ls.changed(params.text_document.uri, 0)


async def changed(ls: PtoServer, params: types.DidChangeTextDocumentParams) -> None:
    """A text was changed."""
    ls.changed(params.text_document.uri, TYPING)


def closed(ls: PtoServer, params: types.DidCloseTextDocumentParams) -> None:
    """A text was closed."""
    ls.forget(params.text_document.uri)


EVENTS: tuple[tuple[str, Any, Any], ...] = (
    (types.INITIALIZE, begun, None),
    (types.WORKSPACE_DID_CHANGE_CONFIGURATION, configured, None),
    (types.TEXT_DOCUMENT_DID_OPEN, opened, None),
    (types.TEXT_DOCUMENT_DID_CHANGE, changed, None),
    (types.TEXT_DOCUMENT_DID_CLOSE, closed, None),
)
