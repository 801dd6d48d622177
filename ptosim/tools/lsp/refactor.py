"""The whole text written in another way, as `ptosim fmt` and `check --fix` do it, and statements as
a function: computed only when the editor asks for the edit of an action that was chosen."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from itertools import count

from lsprotocol import types
from pygls.workspace import TextDocument

from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.diagnostics.model import Diagnostic, Fix, Sink
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.core import Operation, Tok
from ptosim.ground.ir.types import TileType
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.language.rewrite.forms import Spelling
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.tools.api import check_source
from ptosim.tools.lsp.document import Document, Settings
from ptosim.tools.lsp.names import Kind, Word
from ptosim.tools.lsp.names import Made as Name
from ptosim.tools.lsp.outline import MODIFIERS, TYPES, Token

Made = tuple[str, str]
"""The new text, and what is to be said of it ('' for nothing)."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An action on the whole text: its title, whether it mends findings, and what it does."""

    title: str
    mends: bool
    make: Callable[[Document], Made]


def _options(settings: Settings, *, keeps_sync: bool = True) -> FrontOptions:
    sync = settings.sync if keeps_sync else None
    return FrontOptions(settings.target, settings.level, sync, settings.compat)


def _fixed(document: Document) -> Made:
    settings = document.settings

    def check(source: Source) -> Sequence[Diagnostic]:
        return check_source(
            source, settings.target, settings.level, settings.sync, compat=settings.compat
        ).findings

    made = repair(document.source, check)
    left = "; ".join(f"{d.code}: {reason}" for d, reason in made.stuck)
    return made.source.text, left


def _completed(*, plan: bool, flags: bool) -> Callable[[Document], Made]:
    def make(document: Document) -> Made:
        options = _options(document.settings, keeps_sync=False)
        text, notes = rewritten(document.source, options, plan=plan, insert_sync=flags)
        return text, "; ".join(note.message for note in notes)

    return make


def _buffered(document: Document) -> Made:
    from ptosim.tools.search.rewrite import NotApplicable, double_buffer  # brings the solver

    try:
        made = double_buffer(document.source, _options(document.settings), None)
    except NotApplicable as reason:
        raise UsageError(f"the text is left as it is: {reason}") from reason
    return made.source.text, str(made)


def _form(form: str) -> Callable[[Document], Made]:
    def make(document: Document) -> Made:
        from ptosim.language.rewrite.forms import convert
        from ptosim.language.rewrite.requoted import requoted

        settings = document.settings
        written = requoted if form in ("quoted", "short") else convert
        return written(document.source, form, settings.target, settings.compat), ""

    return make


FUNCTION = "function"
REWRITES = {
    "fix": Rewrite("mend all that can be mended", True, _fixed),
    "flags": Rewrite(
        "insert the flags and barriers that are needed", False, _completed(plan=False, flags=True)
    ),
    "plan": Rewrite(
        "write addresses and flags (level 3)", False, _completed(plan=True, flags=True)
    ),
    "buffers": Rewrite("two buffers in loops that load, with a proof", False, _buffered),
    "ssa": Rewrite("tile operations with results (SSA)", False, _form("ssa")),
    "dps": Rewrite("tile operations with `outs` (DPS)", False, _form("dps")),
    "quoted": Rewrite("PTO operations in the quoted form of MLIR", False, _form("quoted")),
    "short": Rewrite("quoted operations in the short form", False, _form("short")),
}
"""What an action does, by its name."""


def offered(document: Document) -> list[str]:
    """Return the names of the actions for a text: mending where something can be mended, the others
    where the assembler takes the text."""
    names = ["fix"] if any(f.fixes for f in document.mendable) else []
    if document.checked.is_rejected:
        return names
    ops = [op for op in document.resolved.ops if op.definition is not None]
    if any(op.definition is not None and op.definition.form == "dps" for op in ops):
        names += ("flags", "plan", "buffers", "ssa", "dps")
    written = {op.form for op in ops}
    names += ["quoted"] if written & {"dps", "items"} else []
    return [*names, *(["short"] if "generic" in written else [])]


def made(document: Document, name: str, begin: int = 0, end: int = 0) -> Made:
    """Return the text after an action, on what is selected if it is about that, and what is to be
    said. Raises UsageError for one that does not exist, or that leaves the text as it is and why.
    """
    if name == FUNCTION:
        return as_function(document, begin, end)
    if name not in REWRITES:
        raise UsageError(f"there is no action `{name}`")
    try:
        text, told = REWRITES[name].make(document)
    except PtosimError as problem:
        raise UsageError(f"{REWRITES[name].title}: {problem}") from problem
    if text == document.text:
        raise UsageError(f"{REWRITES[name].title}: the text stays as it is. {told}".rstrip(". "))
    return text, told


# -- statements as a function ----------------------------------------------------------------------

_ENDS = frozenset(("returns", "yields", "jumps", "ends_fusion"))


def chosen(document: Document, begin: int, end: int) -> list[Operation]:
    """Return the statements that a selection has a part of, without what ends their block: of the
    innermost block around it; none outside of functions."""
    functions = [f.op for f in document.resolved.functions.values() if not f.implicit]
    ops = [op for op in functions if op.start <= begin < end <= op.end]
    if not ops or document.source.is_cpp or document.checked.is_rejected:
        return []
    found: list[Operation] = []
    while len(ops) == 1 and (inner := _around(document.text, ops[0], begin, end)):
        ops = found = [op for op in inner if op.start < end and op.end > begin]
    return [op for op in found if not op.traits & _ENDS and not op.jumps]


def _around(text: str, op: Operation, begin: int, end: int) -> list[Operation]:
    """The operations of the block of an operation that a selection is in."""
    for region in op.regions:
        for block in region.blocks:
            if block.ops and _line_of(text, block.ops[0].start) <= begin and end < region.end:
                return block.ops
    return []


def _line_of(text: str, offset: int) -> int:
    return text.rfind("\n", 0, offset) + 1


def as_function(document: Document, begin: int, end: int) -> Made:
    """Return the text with the statements between two offsets in a function of their own, which is
    called in their place. Constants that they use are made there again; other values that they use
    are its arguments, those that are used after them its results. Raises UsageError, with the
    reason, where that is not right."""
    ops = chosen(document, begin, end)
    if not ops:
        raise UsageError("no statements of a function are selected")
    text, first, last = document.text, ops[0].start, ops[-1].end
    function = ops[0].function
    assert function is not None
    used, given = _crossing(document, first, last)
    again = [m.op for m in used.values() if _is_constant(m)]
    takes = [(n, _type(document, m)) for n, m in used.items() if not _is_constant(m)]
    gives = [(n, _type(document, m)) for n, m in given.items()]
    name = _free_name(document)
    results, types = (", ".join(each) for each in (given, (t for _, t in gives)))
    arrow = f"({types})" if len(gives) != 1 else types
    head = f"func.func private @{name}({', '.join(f'{n}: {t}' for n, t in takes)})"
    head += (f" -> {arrow}" if gives else "") + _kind(function)
    body = [text[op.start : op.end] for op in again if op is not None]
    body += textwrap.dedent(text[_line_of(text, first) : last]).split("\n")
    body += [f"return {results} : {types}" if gives else "return"]
    indent = text[_line_of(text, function.start) : function.start]
    made = [f"{head} {{", *(f"  {line}" for line in body), "}"]
    call = f"{results} = " if gives else ""
    call += f"func.call @{name}({', '.join(n for n, _ in takes)})"
    call += f" : ({', '.join(t for _, t in takes)}) -> {arrow}"
    before, after = text[last : function.end], text[function.end :]
    below = "\n".join(["", "", *(f"{indent}{line}".rstrip() for line in made)])
    new = f"{text[:first]}{call}{before}{below}{after}"
    _refuse_worse(document, new)
    return new, ""


def _crossing(document: Document, begin: int, end: int) -> tuple[dict[str, Name], dict[str, Name]]:
    """The values that are used between two offsets and made outside, and the other way round."""
    used, given = dict[str, Name](), dict[str, Name]()
    for word in document.names.words:
        made = document.names.definition(word) if word.kind is Kind.VALUE else None
        if made is None:
            continue
        is_in, is_made_in = (begin <= at < end for at in (word.start, made.word.start))
        if is_in == is_made_in:
            continue
        if made.value is None or document.text[word.end : word.end + 1] in ("#", ":#"):
            raise UsageError(f"`{word.text}` is one of several results")
        (used if is_in else given).setdefault(word.text, made)
    return used, given


def _is_constant(made: Name) -> bool:
    is_number = made.value is not None and made.value.const is not None
    return is_number and made.op is not None and not made.op.operand_values()


def _type(document: Document, made: Name) -> str:
    assert made.value is not None
    type_ = made.value.type
    spelling = Spelling(document.checked.front.module, document.resolved.target)
    return spelling.of(made.value, type_, ssa=isinstance(type_, TileType) and type_.ssa)


def _free_name(document: Document) -> str:
    taken = {f.symbol for f in document.resolved.functions.values()}
    return next(name for k in count(1) if (name := f"part_{k}") not in taken)


def _kind(function: Operation) -> str:
    """The attribute that says on which core a function runs, which holds for a part of it too."""
    key = "pto.kernel_kind"
    kind = function.attrs.get(key)
    atom = kind.atom if kind is not None else None
    return f" attributes {{{key} = {atom.value}}}" if isinstance(atom, Tok) else ""


def _refuse_worse(document: Document, text: str) -> None:
    """Raise UsageError for a text with an error that the document has not."""
    known = {f.message for f in document.checked.findings if f.is_error}
    found = Document(document.source.name, text, document.settings).checked.findings
    wrong = next((f for f in found if f.is_error and f.message not in known), None)
    if wrong is not None:
        raise UsageError(f"these statements are no function: {wrong.message}")


# Changes of the text: the fixes of findings, the canonical form, another name.

Edit = tuple[int, int, str]
"""From, to, and the new text."""
_NAME = re.compile(r"[A-Za-z_][\w$.-]*")


def fixes(document: Document, begin: int, end: int) -> list[tuple[Diagnostic, list[Edit]]]:
    """Return the findings between two offsets whose cure is a change of the text, with it."""
    found = []
    for finding in document.mendable:
        span = finding.span
        if finding.fixes and span is not None and span.start <= end and span.end >= begin:
            found.append((finding, [_edit(fix) for fix in finding.fixes]))
    return found


def _edit(fix: Fix) -> Edit:
    return fix.span.start, fix.span.end, fix.replacement


def formatted(document: Document) -> str | None:
    """Return the canonical text; None for a text with syntax errors."""
    if document.source.is_cpp:
        return None
    sink = Sink(date=document.resolved.date, reads_old=True)
    module = parse(document.source, sink)
    return None if sink.has_errors else print_module(module)


def renamable(document: Document, offset: int) -> Word | None:
    """Return the name at an offset if it is one of the text's own."""
    word = document.names.at(offset)
    kinds = (Kind.BLOCK, Kind.CPP)
    if word is None or word.kind in kinds or document.names.definition(word) is None:
        return None
    return word


def renamed(document: Document, offset: int, name: str) -> list[Edit]:
    """Return the edits that give a name to what is at an offset. Raises UsageError for a name that
    cannot be, or that something else has where it would be seen."""
    word = renamable(document, offset)
    if word is None:
        raise UsageError("there is no name of this text here")
    made = document.names.definition(word)
    assert made is not None
    plain = name.removeprefix(word.text[0])
    if not _NAME.fullmatch(plain):
        raise UsageError(f"`{name}` is no name: letters, digits, `_`, `$`, `.`, `-`")
    new = word.text[0] + plain
    others = document.names.made.get((word.kind, new), ())
    if new != word.text and any(o.begin < made.end and made.begin < o.end for o in others):
        raise UsageError(f"`{new}` is the name of something else here")
    return [(w.start, w.end, new) for w in document.names.uses(made)]


# -- positions of the protocol ---------------------------------------------------------------------


class Places:
    """Positions count lines from 0 and columns in the units that the client chose (UTF-16 as a
    rule); offsets count characters of the text."""

    def __init__(self, source: Source, text: TextDocument) -> None:
        self._source = source
        self._text = text

    def position(self, offset: int) -> types.Position:
        """Return the position of an offset."""
        line, column = self._source.line_column(min(offset, len(self._source.text)))
        place = types.Position(line - 1, column - 1)
        if self._source.line_text(line).isascii():
            return place
        return self._text.position_codec.position_to_client_units(self._text.lines, place)

    def range(self, begin: int, end: int) -> types.Range:
        """Return the range between two offsets."""
        return types.Range(self.position(begin), self.position(end))

    def offset(self, position: types.Position) -> int:
        """Return the offset of a position."""
        return self._text.offset_at_position(position)

    def edits(self, made: Iterable[Edit]) -> list[types.TextEdit]:
        """Return changes of the text as the protocol has them."""
        return [types.TextEdit(self.range(begin, end), text) for begin, end, text in made]

    def tokens(self, lines: Iterable[Sequence[Token]], first: int = 0) -> list[int]:
        """Return the words of lines from the first one on, with their kinds, five numbers a word,
        each relative to the one before."""
        data: list[int] = []
        last = 0
        texts = self._source.text.split("\n")
        for number, words in enumerate(lines, first):
            column = 0
            units = None if texts[number].isascii() else self._units(texts[number])
            for at, size, kind, modifiers in words:
                place, end = (at, at + size) if units is None else (units(at), units(at + size))
                bits = sum(1 << MODIFIERS.index(m) for m in modifiers)
                data += (number - last, place - column, end - place, TYPES.index(kind), bits)
                last, column = number, place
        return data

    def _units(self, line: str) -> Callable[[int], int]:
        count = self._text.position_codec.client_num_units
        return lambda column: count(line[:column])
