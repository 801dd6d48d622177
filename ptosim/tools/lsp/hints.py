"""What is written beside the text: where a tile is, the pipe and the cycles of an operation."""

from __future__ import annotations

from collections.abc import Iterator

from ptosim.tools.lsp.document import Document


def hints(document: Document, begin: int, end: int) -> list[tuple[int, str]]:
    """Return offsets and short texts between two offsets."""
    first, last = (document.source.line_column(at)[0] for at in (begin, end))
    return sorted([*_addresses(document, begin, end), *_times(document, first, last)])


def _addresses(document: Document, begin: int, end: int) -> Iterator[tuple[int, str]]:
    for value, (space, start, _) in document.addresses.items():
        if begin <= value.start <= end:
            yield value.start + len(value.name) + 1, f" {space} {start:#x}".replace("  ", " ")


def _times(document: Document, first: int, last: int) -> Iterator[tuple[int, str]]:
    for line in range(first, last + 1):
        text = " · ".join(filter(None, [*_pipes(document, line), _cycles(document, line)]))
        if text:
            yield _end_of(document, line), f"  {text}"


def _pipes(document: Document, line: int) -> list[str]:
    ops = document.ops_by_line.get(line, ())
    return list(
        dict.fromkeys(op.queue for op in ops if op.queue not in ("", "S") and not op.regions)
    )


def _cycles(document: Document, line: int) -> str:
    if document.measured is None:
        return ""
    prices = {t: lines[line] for t, lines in document.measured.lines.items() if line in lines}
    each = {t: p.cycles / max(p.count, 1) for t, p in prices.items()}
    return ", ".join(f"{target} {cycles:,.0f}" for target, cycles in each.items()) + (
        " cycles" if each else ""
    )


def _end_of(document: Document, line: int) -> int:
    starts = document.text.split("\n", line)
    return sum(len(part) + 1 for part in starts[:line]) - 1
