"""The texts that an editor has open, with lines as the protocol counts them.

pygls splits texts as Python does, also at form feeds and at separators of Unicode; an editor does
not, and after the first of them every place would be another one than it means."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Self

from pygls.workspace import TextDocument, Workspace

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
