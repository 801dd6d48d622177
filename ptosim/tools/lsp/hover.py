"""What is shown for the name or operation under the pointer, as Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ptosim.ground.ir.core import Operation, Value
from ptosim.ground.ir.types import ErrorType, ScalarType, TileType
from ptosim.tools.lsp.document import Document, Price
from ptosim.tools.lsp.names import CppNames, Kind, Made, Word, innermost
from ptosim.views.operations import card

WIDTH = 88


def hover(document: Document, offset: int) -> tuple[str, int, int] | None:
    """Return Markdown and the text that it is about (from, to); None where there is nothing."""
    word = document.names.at(offset)
    if word is not None:
        made = document.names.definition(word)
        if made is not None:
            return _name(document, word, made), word.start, word.end
    op = innermost(document.resolved.ops, offset, is_cpp=document.source.is_cpp)
    if op is None or op.definition is None or not op.start <= offset <= op.name_end:
        return None
    return _operation(document, op), op.start, op.name_end


def _operation(document: Document, op: Operation) -> str:
    assert op.definition is not None
    parts = [_cycles(document, op), f"```text\n{card(op.definition, WIDTH)}```"]
    return "\n\n".join(filter(None, parts))


def _cycles(document: Document, op: Operation) -> str:
    """The cost of the line on the target, on both where none is named, and the launch that it is
    of; where the program was priced."""
    line = document.source.line_column(op.start)[0]
    told = [f"{target} {shown(prices[line])}" for target, prices in _prices(document).items()
            if line in prices]  # fmt: skip
    pipe = f"pipe {op.queue}" if op.queue else ""
    launches = document.measured.launches.values() if document.measured is not None else ()
    launched = [*dict.fromkeys(filter(None, launches))] if told else []
    return " · ".join(filter(None, [f"**{op.name}**", pipe, *told, *launched]))


def _prices(document: Document) -> dict[str, dict[int, Price]]:
    if document.measured is None:
        return {}
    return {target: dict(lines) for target, lines in document.measured.lines.items()}


def shown(price: Price) -> str:
    """Return cycles of one execution, and of all if there are several."""
    each = price.cycles / max(price.count, 1)
    sign = " (assumed)" if price.confidence == "assumed" else ""
    many = f", {price.count:,} times = {price.cycles:,.0f}" if price.count > 1 else ""
    return f"{each:,.0f} cycles{many}{sign}"


def _name(document: Document, word: Word, made: Made) -> str:
    if word.kind is Kind.CPP:
        return _cpp_name(document, word, made)
    if word.kind is Kind.FUNCTION:
        return _function(document, made)
    if word.kind is Kind.ALIAS:
        text = document.resolved.module.type_aliases.get(word.text, "")
        return f"```mlir\n{word.text} = {text}\n```" if text else f"alias `{word.text}`"
    if made.value is None:
        return f"`{word.text}`: its statement cannot be read"
    lines = [f"```mlir\n{word.text} : {made.value.type}\n```"]
    value = made.value
    if value.const is not None:
        lines.append(f"always {value.const}")
    if isinstance(value.type, TileType):
        lines.append(_tile(document, made))
    last = max(w.start for w in document.names.uses(made))
    first_line, last_line = (document.source.line_column(at)[0] for at in (made.word.start, last))
    lines.append(f"made on line {first_line}, last used on line {last_line}")
    return "\n\n".join(filter(None, lines))


def _cpp_name(document: Document, word: Word, made: Made) -> str:
    """Where a name of C++ is declared, and what it is in the program."""
    line = document.source.line_column(made.word.start)[0]
    parts = [f"```cpp\n{document.source.line_text(line).strip()}\n```", f"declared on line {line}"]
    values = document.names.values(word) if isinstance(document.names, CppNames) else []
    parts += [" · ".join(filter(None, [f"`{v.type}`", _place(document, v)])) for v in values[:4]]
    return "\n\n".join(parts)


def _tile(document: Document, made: Made) -> str:
    return "" if made.value is None else _place(document, made.value)


def _place(document: Document, value: Value) -> str:
    """Where a tile is: planned, or as the program says."""
    plans = document.checked.front.plans.values()
    given = {(p.name, p.start): (p.space, p.addr, p.bytes) for plan in plans
             for p in plan.placement.placed}  # fmt: skip
    place = document.addresses.get(value) or given.get((value.name, value.start))
    if place is None:
        return ""
    space, start, size = place
    return f"{space} {start:#x} to {start + size:#x} ({size:,} bytes)" if size else f"at {start:#x}"


def _function(document: Document, made: Made) -> str:
    name = made.word.text[1:]
    function = next((f for f in document.resolved.functions.values() if f.op is made.op), None)
    if function is None:
        return f"function `@{name}`"
    arguments = ", ".join(f"%{a.name}: {a.type}" for a in function.args)
    is_entry = function.name in document.resolved.entries
    role = "an entry" if is_entry else "private" if function.private else "a helper"
    asked = [f"- requires `{text}` (line {line})" for text, line in _required(document, name)]
    told = " · ".join([role, *_of_entry(document, function.name)])
    return "\n".join(
        [f"```mlir\nfunc.func @{name}({arguments})\n```\n\n{told}", "", *asked]
    ).strip()


def _of_entry(document: Document, entry: str) -> Iterator[str]:
    """The cycles of an entry, and the launch that they are of."""
    if document.measured is None:
        return
    for target, cycles in document.measured.entries.get(entry, {}).items():
        yield f"{target} {cycles:,.0f} cycles"
    if launch := document.measured.launches.get(entry):
        yield launch


def _required(document: Document, name: str) -> Sequence[tuple[str, int]]:
    """What an entry requires of its caller, where the text was followed."""
    return document.measured.requirements.get(name, ()) if document.measured is not None else ()


# -- beside the text -------------------------------------------------------------------------------


def hints(document: Document, begin: int, end: int) -> list[tuple[int, str]]:
    """Return offsets and short texts between two offsets, of the kinds that the settings name."""
    first, last = (document.source.line_column(at)[0] for at in (begin, end))
    named = (*_tiles_beside(document), *_types_beside(document, first, last))
    if document.source.is_cpp:  # which has no names of the program's values
        named = ()
    found = [one for one in named if begin <= one[0] <= end]
    return sorted([*found, *_times(document, first, last), *_asked(document, first, last)])


def _asked(document: Document, first: int, last: int) -> Iterator[tuple[int, str]]:
    """What an entry requires, after its line."""
    shown = "requirements" in document.settings.hints
    for function in document.resolved.functions.values() if shown else ():
        line = document.source.line_column(function.op.start)[0]
        texts = [text for text, _ in _required(document, function.name)]
        if texts and first <= line <= last:
            yield _end_of(document, line), f"  requires {'; '.join(texts)}"


def _tiles_beside(document: Document) -> Iterator[tuple[int, str]]:
    """Address and bytes of each tile, after its name."""
    shown = document.settings.hints
    for value, (space, start, size) in document.addresses.items():
        parts = [f"{space} {start:#x}".strip()] if "addresses" in shown else []
        parts += [f"{size:,} bytes"] if "sizes" in shown and size else []
        if parts:
            yield value.start + len(value.name) + 1, f" {', '.join(parts)}"


def _types_beside(document: Document, first: int, last: int) -> Iterator[tuple[int, str]]:
    """The types of results that their statements do not write."""
    lines = range(first, last + 1) if "types" in document.settings.hints else ()
    for op in (op for line in lines for op in document.ops_by_line.get(line, ())):
        written = document.text[op.name_end : op.end]
        for value in op.results if not op.regions and _has_names(op) else ():
            is_known = not isinstance(value.type, ErrorType)
            is_plain = isinstance(value.type, ScalarType) and str(value.type) not in written
            if is_known and (is_plain or ":" not in written):
                yield value.start + len(value.name.partition("#")[0]) + 1, f": {value.type}"


def _has_names(op: Operation) -> bool:
    """Whether the results of an operation have names, each its own."""
    return all(count == 1 for _, count, _ in op.result_tokens) and bool(op.result_tokens)


def _times(document: Document, first: int, last: int) -> Iterator[tuple[int, str]]:
    shown = document.settings.hints
    for line in range(first, last + 1):
        pipes = _pipes(document, line) if "pipes" in shown else []
        cycles = _cycles_beside(document, line) if "cycles" in shown else ""
        text = " · ".join(filter(None, [*pipes, cycles]))
        if text:
            yield _end_of(document, line), f"  {text}"


def _pipes(document: Document, line: int) -> list[str]:
    ops = document.ops_by_line.get(line, ())
    return list(
        dict.fromkeys(op.queue for op in ops if op.queue not in ("", "S") and not op.regions)
    )


def _cycles_beside(document: Document, line: int) -> str:
    if document.measured is None:
        return ""
    prices = {t: lines[line] for t, lines in document.measured.lines.items() if line in lines}
    each = {t: p.cycles / max(p.count, 1) for t, p in prices.items()}
    return ", ".join(f"{target} {cycles:,.0f}" for target, cycles in each.items()) + (
        " cycles" if each else ""
    )


def _end_of(document: Document, line: int) -> int:
    source = document.source
    return source.line_start(line) + len(source.line_text(line))
