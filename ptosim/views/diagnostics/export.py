"""Findings as data: JSON, JSON lines, SARIF 2.1.0."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.version import __version__
from ptosim.views.diagnostics.sarif import sarif


def export(
    diagnostics: Sequence[Diagnostic],
    form: str,
    *,
    omitted: int = 0,
    about: Mapping[str, Any] | None = None,
) -> str:
    """Return findings in a form: json (one document), jsonl (one object a line) or sarif.

    `omitted` findings are counted, not shown; `about` are further fields of the JSON document."""
    if form == "jsonl":
        lines: list[Any] = [d.to_dict() for d in diagnostics]
        if omitted:
            lines.append({"omitted": omitted})
        return "".join(json.dumps(line, ensure_ascii=False, default=str) + "\n" for line in lines)
    document: Any = (
        sarif(diagnostics, omitted)
        if form == "sarif"
        else {
            "version": __version__,
            **(about or {}),
            "findings": [d.to_dict() for d in diagnostics],
            "omitted": omitted,
        }
    )
    return json.dumps(document, indent=2, ensure_ascii=False, default=str) + "\n"
