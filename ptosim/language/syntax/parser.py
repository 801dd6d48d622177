"""Text to program: `parse` reads a file of any form into a `Module`."""

from __future__ import annotations

import re
from functools import lru_cache
from threading import Lock
from typing import Any

from ptosim.ground.diagnostics.model import Sink, finding
from ptosim.ground.ir.core import MAX_SPELLED, REFUSED, TOO_LONG, Attr, Module, Node, Operation, Tok
from ptosim.ground.ir.types import ErrorType, ScalarType, Type
from ptosim.ground.isa.schema import dtypes
from ptosim.ground.processes import uncollected
from ptosim.ground.source import Source, Span
from ptosim.ground.words import nearest
from ptosim.language.syntax.builder import Builder, node, placed
from ptosim.language.syntax.driver import VALUE, Driver, Recovery, grammar_driver, load_tables
from ptosim.language.syntax.scanner import PatternScanner, ProgramScanner
from ptosim.language.syntax.tile_types import DatedPart, TypeFault
from ptosim.language.syntax.type_builder import TypeBuilder

# Type texts to types. Each distinct text is parsed once.

_ORDER = (
    "VIEW", "QUANT", "NAMED", "ELLIPSIS", "SPACE_ATTR", "LAYOUT", "AFFINE", "DIMS", "UNRANKED",
    "VALID", "SCALAR", "WORD", "INT", "QUESTION",
)  # fmt: skip
_BRACKETED = frozenset(("QUANT", "AFFINE", "LAYOUT"))
_NAME = re.compile(r"![\w.]+")

_TOO_LONG = f"the type has more than {MAX_SPELLED:,} characters when its aliases are written out"
_HINT = "write a type that names fewer others: each that is named twice doubles it"
_REPLACED = {TOO_LONG: (_TOO_LONG, _HINT), REFUSED: (None, None)}
"""What to say of texts that stand for others: of the second it has been said."""


class ParsedType:
    """A type with what is worth knowing about its spelling; `dated` are the parts of it that not
    every date has."""

    __slots__ = ("dated", "fault", "hint", "legacy", "type")

    def __init__(
        self, type_: Type, legacy: str | None = None, dated: tuple[DatedPart, ...] = ()
    ) -> None:
        self.type = type_
        self.legacy = legacy  # why the spelling is an old one
        self.dated = dated
        self.fault: str | None = None
        self.hint: str | None = None


_CACHE: dict[str, ParsedType] = {}
_LOCK = Lock()


def parse_type(text: str) -> ParsedType:
    """Parse a type text. A wrong one gives an ErrorType with `fault` (and perhaps `hint`) set."""
    parsed = _CACHE.get(text)
    if parsed is None:
        parsed = _parse(text)
        if len(_CACHE) > 50_000:  # a long-lived process must not keep every type it ever saw
            _CACHE.clear()
        _CACHE[text] = parsed
    return parsed


def _parse(text: str) -> ParsedType:
    scalar = dtypes().get(text)
    if scalar is not None and not text.startswith("!"):
        return ParsedType(ScalarType(scalar))
    driver, builder, scanner = _machinery()
    sink = Sink()
    with _LOCK:
        builder.begin()
        try:
            type_, _ = driver.parse(Source("type", text), scanner, sink)
            fault, hint = None, None
        except TypeFault as problem:
            type_, fault, hint = None, str(problem), problem.hint
        legacy, dated = builder.legacy, _once(builder.dated)
    if type_ is None and fault is None:
        fault = f"`{text}` is not a type"
        notes = [n for d in sink for n in d.notes]
        hint = _name_hint(text) or (notes[0] if notes else None)
    if text in _REPLACED:
        fault, hint = _REPLACED[text]
    parsed = ParsedType(type_ if type_ is not None else ErrorType(text), legacy, dated)
    parsed.fault, parsed.hint = fault, hint
    return parsed


def _name_hint(text: str) -> str | None:
    """The type whose name was probably meant."""
    name = _NAME.match(text)
    if name is None or name.group() in _heads():
        return None
    return nearest(name.group(), _heads())


@lru_cache(maxsize=1)
def _heads() -> tuple[str, ...]:
    """The names of the types that have something in brackets."""
    words = load_tables("types.lark").keywords
    views = ("!pto.tensor_view", "!pto.partition_tensor_view")
    return (*(w for w in words if w.startswith("!")), *views)


def _once(parts: list[DatedPart]) -> tuple[DatedPart, ...]:
    return tuple({part.what: part for part in parts}.values())


@lru_cache(maxsize=1)
def _machinery() -> tuple[Driver, TypeBuilder, PatternScanner]:
    builder = TypeBuilder()
    driver, tables = grammar_driver("types.lark", builder)
    return driver, builder, PatternScanner(tables, _ORDER, bracketed=_BRACKETED)


# Parser callbacks for PTO-AS lines (`isa/pto_line.lark`): the same operations as `builder` makes.


class LineBuilder:
    """Callbacks for one parse at a time (the parser holds a lock)."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Forget the previous parse."""
        self.end = 0
        self.aliases: list[tuple[Tok, Any]] = []
        self.twice: list[Tok] = []

    def start(self, parts: list[Any]) -> list[Operation]:
        return [p for p in parts if p.__class__ is Operation]

    def statement(self, parts: list[Any]) -> Operation:
        results = parts[0] if parts[0].type == "RESULTS" else None
        name: Tok = parts[1] if results is not None else parts[0]
        op = Operation(name.value, "line", name.start, self.end, name.end)
        op.ins, op.outs, op.ins_types, op.outs_types = [], [], [], []
        if results is not None:
            names = results.value[:-1].split(",")
            op.result_tokens = [(n.strip()[1:], 1, results.start) for n in names]
            op.start = results.start
        for part in parts[2 if results is not None else 1 :]:
            _add(op, part)
        if any(map(_is_word, op.ins)):  # operations on pipes have operands of no type
            op.form, op.items, op.ins, op.type_list = "items", op.ins, [], op.types
        return op

    types = node("types")
    arrow = node("arrow")
    indexed = placed("indexed")
    list = placed("list")
    group = placed("group")

    def symbol(self, parts: list[Any]) -> Any:
        return Node("symbol", parts, parts[0].start) if len(parts) > 1 else parts[0]

    def attr_dict(self, parts: list[Any]) -> dict[str, Attr]:
        found = {attr.key.value: attr for attr in parts}
        if len(found) < len(parts):
            self.twice += (a.key for a in parts if found[a.key.value] is not a)
        return found

    def pair(self, parts: list[Any]) -> Attr:
        return Attr(parts[0], parts[1] if len(parts) > 1 else None)


def _is_word(part: Any) -> bool:
    return part.kind == "list" if part.__class__ is Node else part.type == "ANGLE_ENUM"


def _add(op: Operation, part: Any) -> None:
    kind = part.__class__
    if kind is dict:
        op.attrs.update(part)
    elif kind is Node and part.kind == "types":
        op.types = [t for t in part.parts if t.__class__ is Tok]
        arrows = [t for t in part.parts if t.__class__ is Node]
        op.arrow = arrows[0].parts if arrows else None
    elif kind is Node and part.kind == "group":
        _add_group(op, part)
    elif kind is Tok and part.type == "HASHKV":
        key, _, value = part.value[1:].partition("=")
        atom = Tok("BARE_ID", value.strip(), part.start + part.value.index("=") + 1)
        op.attrs[key.strip()] = Attr(Tok("BARE_ID", key.strip(), part.start + 1), atom)
    else:
        assert isinstance(op.ins, list)  # one made here, to which a long line adds in place
        op.ins.append(part)


def _add_group(op: Operation, group: Node) -> None:
    """`ins(...)` and `outs(...)` on a line make it the DPS form."""
    name = group.parts[0].value
    values: list[Any] = []
    types: list[Tok] = []
    if name == "outs":
        op.outs, op.outs_types = values, types
    else:
        op.ins, op.ins_types = values, types
    op.form, op.is_listed = "dps", True
    for part in group.parts[1:]:
        if part.__class__ is dict:
            op.attrs.update(part)
        elif part.__class__ is Node and part.kind == "types":
            types.extend(t for t in part.parts if t.__class__ is Tok)
        else:
            values.append(part)


MAX_BYTES = 64 * 2**20

_NAMES = {
    "SSA": VALUE,
    "RESULTS": "a statement",
    "OP_ID": "an operation",
    "BARE_ID": "a word",
    "TYPE": "a type",
    "STRING": "a string",
    "INT": "a number",
    "FLOAT": "a number",
    "HEX": "a number",
    "SYMBOL": "a symbol (`@name`)",
    "ATTR": "an attribute (`#pto…`)",
    "ANGLE_ENUM": "an enum (`<NAME>`)",
    "BLOCK_ID": "a block label",
    "GENERIC_OP": "an operation",
    "ALIAS_LHS": "an alias",
    "TYPE_ALIAS_LHS": "an alias",
    "DENSE": "`dense<…>`",
    "ARRAY": "`array<…>`",
    "AFFINE": "an affine map",
    "NL": "the end of the line",
    "$END": "the end of the file",
    "REGION_OPEN": "`{`",
    "TRIPLE_OPEN": "`<<<`",
    "TRIPLE_CLOSE": "`>>>`",
    "TRUE": "`true`",
    "FALSE": "`false`",
    **{
        name: f"`{text}`"
        for name, text in {
            "LPAR": "(", "RPAR": ")", "LSQB": "[", "RSQB": "]", "LBRACE": "{", "RBRACE": "}",
            "LESSTHAN": "<", "MORETHAN": ">", "COMMA": ",", "COLON": ":", "EQUAL": "=", "ARROW":
            "->", }.items() },
}  # fmt: skip
_STARTING_KEYWORDS = frozenset(
    (
        "MODULE", "FUNC", "RETURN", "FUNC_RETURN", "CALL", "FUNC_CALL", "CONSTANT", "FOR", "IF",
        "WHILE", "CONDITION", "YIELD", "EXECUTE_REGION", "INDEX_SWITCH", "VECSCOPE", "SECTION_CUBE",
        "SECTION_VECTOR", "STRICT_VECSCOPE", "REINTERPRET", "BR", "COND_BR", "CF_SWITCH", )
)  # fmt: skip
_LINE_ORDER = (
    "COMMENT", "NL", "RESULTS", "SSA", "HASHKV", "ATTR", "TYPE", "ANGLE_ENUM", "SYMBOL", "STRING",
    "HEX", "FLOAT", "INT", "ARROW", "NAME",
)  # fmt: skip


class _Front:
    """One grammar with its builder; the lock is there because the builder is per parse."""

    def __init__(self, grammar: str, builder: Any, starters: frozenset[str], lists: str) -> None:
        self.tables = load_tables(grammar)
        names = {t: f"`{w}`" for w, t in self.tables.keywords.items()} | _NAMES
        self.builder = builder
        self.driver = Driver(self.tables, builder, Recovery(starters, lists, names))
        self.lock = Lock()


@lru_cache(maxsize=1)
def _program_front() -> _Front:
    starters = _STARTING_KEYWORDS | {"RESULTS", "OP_ID", "GENERIC_OP"}
    return _Front("pto.lark", Builder(), starters, "RESULTS")


@lru_cache(maxsize=1)
def _line_front() -> _Front:
    return _Front("pto_line.lark", LineBuilder(), frozenset(("RESULTS", "NAME")), "NL")


def parse(source: Source, sink: Sink) -> Module:
    """Parse a source; syntax errors go to `sink` and the statements around them are kept.

    A file without module, function and quoted operations in which a statement begins with an
    undotted word is read as PTO-AS lines (one statement a line), everything else by the main
    grammar."""
    module = Module(source)
    if len(source.text) > MAX_BYTES:
        sink.emit(_too_large(source))
        return module
    huge = _huge_number(source)
    if huge is not None:
        sink.emit(huge)
        return module
    line_form = _is_line_form(source.text)
    front = _line_front() if line_form else _program_front()
    scanner = (
        PatternScanner(front.tables, _LINE_ORDER, r"[ \t\f]")
        if line_form
        else ProgramScanner(front.tables)
    )
    with front.lock, uncollected():
        front.builder.begin()
        ops, skipped = front.driver.parse(source, scanner, sink)
        aliases = front.builder.aliases
        module.repeated = front.builder.twice
    module.ops = ops or []
    module.comments = scanner.comments
    module.skipped_names = {
        name.strip()[1:].partition(":")[0] for tok in skipped for name in tok.value[:-1].split(",")
    }
    _take_aliases(module, aliases, sink)
    if not any(op.name in ("module", "func.func") for op in module.ops):
        module.kind = "snippet"
    return module


def _take_aliases(module: Module, aliases: list[tuple[Any, Any]], sink: Sink) -> None:
    module.aliases = aliases
    for name, value in aliases:
        key = name.value[:-1].strip()
        if isinstance(value, Attr):
            module.attr_aliases[key] = value
        elif isinstance(value, Tok):
            module.type_aliases[key] = _alias_text(module, value, sink)


def _alias_text(module: Module, value: Tok, sink: Sink) -> str:
    """What a type alias names, written out."""
    text = module.spelled_out(value.value)
    if text != TOO_LONG:
        return text
    parsed = parse_type(text)
    sink.report("PTO1006", str(parsed.fault), value.span(module.source), help=parsed.hint)
    return REFUSED


_STRUCTURED = re.compile(
    r"^\s*(?:%[^\n=]*=\s*)?(?:module\b|func\.func\b|\"[a-z_]\w*(?:\.\w+)+\"\s*\()", re.MULTILINE
)
_LINE_STATEMENT = re.compile(
    r"^[ \t]*(?:%[\w$.\-, :]+=[ \t]*)?"
    r"(?:(?!(?:return|call|module|case|default|else|do)\b)[A-Za-z_]\w*(?![\w.])"
    r"|(?!arith\.|scf\.|func\.|memref\.|builtin\.)[A-Za-z_]\w*(?:\.\w+)+"
    r"[^\n]*#[A-Za-z_]\w*[ \t]*=)",
    re.MULTILINE,
)


def _is_line_form(text: str) -> bool:
    if _STRUCTURED.search(text):
        return False
    return _LINE_STATEMENT.search(_without_comments(text)) is not None


def _without_comments(text: str) -> str:
    return re.sub(r"//[^\r\n]*|#(?=[ \t#!\r\n]|$)[^\r\n]*", "", text)


MAX_DIGITS = 4000
"""Python converts numbers of 4,300 decimal digits at most."""
_DIGITS = re.compile(rf"[0-9a-fA-F]{{{MAX_DIGITS}}}")
_NUMBER = re.compile(rf'"(?:\\.|[^"\\\n])*"|//[^\r\n]*|(-?(?:0x)?[0-9a-fA-F]{{{MAX_DIGITS},}})')


def _huge_number(source: Source) -> Any:
    if _DIGITS.search(source.text) is None:
        return None
    found = next((m for m in _NUMBER.finditer(source.text) if m[1] is not None), None)
    if found is None:
        return None
    place = Span(source, found.start(1), min(found.end(1), found.start(1) + 12))
    return finding(
        "PTO0007",
        f"this number has {len(found[1]):,} digits",
        place,
        notes=("nothing of the text is read",),
        help="write the number that is meant; 64 bits are 20 digits at most",
    )


def _too_large(source: Source) -> Any:
    return finding(
        "PTO0005",
        f"the file is larger than {MAX_BYTES // 2**20} MiB",
        Span(source, 0, 0),
        notes=("programs above this size are refused before anything is built",),
        help="split the module into several files",
    )
