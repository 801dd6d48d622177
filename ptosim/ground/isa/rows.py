"""The operations of the ISA by name; rows become `OpDef`s when they are first asked for."""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import TomlTable, derived, read_toml, toml_names
from ptosim.ground.isa.dates import DATES, at_date, holds, pieces
from ptosim.ground.isa.schema import (
    AttrDef,
    ConstraintDef,
    ElementRule,
    OpDef,
    OperandDef,
    PipeChoice,
    Role,
    ScratchDef,
    ScratchEffect,
    Status,
    Variant,
)
from ptosim.ground.records import NamedTuple

_KEYS = frozenset(
    (
        "of", "variant", "on", "until", "since", "name", "when", "effect", "counts", "needed",
        "bytes", "static", "shapes", "missing", "hidden", "strict", "rules",
    )
)  # fmt: skip
_CURE = "the library writes past the end of a smaller scratch tile"
_ABOUT_WRITTEN_ONES = frozenset(("of", "on", "name", "rules", "variant"))


@lru_cache(maxsize=1)
def _entries() -> dict[str, list[TomlTable]]:
    found: dict[str, list[TomlTable]] = {}
    for entry in read_toml("scratch.toml")["scratch"]:
        unknown = entry.keys() - _KEYS
        if unknown:
            raise IsaDataError(f"isa/scratch.toml: {entry['of']}: unknown {', '.join(unknown)}")
        for name in entry["of"].split():
            found.setdefault(name, []).append(entry)
    return found


def _of(mnemonic: str, date: str) -> list[TomlTable]:
    found = (entry for entry in _entries().get(mnemonic, ()) if holds(entry, date))
    return [
        {k: v for k, v in at_date(e, date).items() if k not in ("since", "until")} for e in found
    ]


def scratch_of(mnemonic: str, date: str) -> tuple[ScratchDef, ...]:
    """Return what a date says of the scratch of an operation, in the order of the table."""
    return tuple(
        ScratchDef(
            name=entry.get("name", "tmp"),
            target=entry.get("on"),
            variant=entry.get("variant"),
            when=entry.get("when"),
            effect=ScratchEffect(entry["effect"]) if "effect" in entry else None,
            counts=entry.get("counts", False),
            needed=entry.get("needed"),
            bytes=entry.get("bytes"),
            static=tuple(entry.get("static", "").split()),
            shapes=entry.get("shapes", entry.get("static", "")),
            missing=entry.get("missing"),
            hidden=entry.get("hidden", False),
            strict=entry.get("strict", False),
        )
        for entry in _of(mnemonic, date)
        if entry.keys() - _ABOUT_WRITTEN_ONES
    )


def scratch_rules(mnemonic: str, date: str) -> list[TomlTable]:
    """Return the rules about scratch that a program gives, as a row has them."""
    found = []
    for entry in _of(mnemonic, date):
        for rule in entry.get("rules", ()):
            given = entry.get("name", "tmp")
            when = f"{given} and ({rule['when']})" if "when" in rule else given
            on = {"on": entry["on"]} if "on" in entry else {}
            cure = {"help": _CURE} if rule.get("code") == "PTO2019" else {}
            found.append({**cure, **rule, **on, "when": when})
    return found


_OTHER_DIALECTS = (
    *("arith", "math", "scf", "cf", "func", "memref", "builtin", "quant", "llvm", "module"),
)
TARGETS = ("a2a3", "a5")
OPERAND_KINDS = frozenset(
    (
        "tile", "view", "memref", "ptr", "scalar", "index", "int", "float", "bool", "vector",
        "vreg", "mask", "align", "pipe", "session", "event", "prefetch_context", "eventid_array",
        "enum", "string", "multi_tile", "local_array", "struct", "symbol", "list",
        "word", "type", "flag", "any", "vmi_vreg", "vmi_mask", "int_vector", "float_vector",
        "bool_vector", )
)  # fmt: skip
_ROW_KEYS = frozenset(
    (
        "name", "like", "summary", "doc", "form", "status", "basis", "ins", "outs", "named",
        "attrs", "elements", "rules", "variant", "pipe", "result_type", "source", "notes",
        "switches", "legacy", "cost", "targets", "mismatch", "absent",
        "elsewhere",
        "hazard_pipe", "access", "traits", "side", "fifo", "since", "until", "modern", "library",
        "clause", "instead", "kept", "quoted", "low_precision", "skips", "empty",
        "unlisted", "brackets", "means", "sets", )
)  # fmt: skip


_ADDED_UP = ("rules", "notes", "traits")


class _Row(NamedTuple):
    """A row as its file has it, with what it may take from the templates of the file."""

    family: str
    table: TomlTable
    templates: TomlTable
    dates: dict[str, str]
    """The row's `since` and `until`, its own or a template's."""

    def has(self, date: str) -> bool:
        """True if the language of a date has the operation as this row says."""
        return holds(self.dates, date)


class Isa:
    """The rows of `isa/ops/` as a date of the language reads them; without a date every row, each
    as the newest date that has it does."""

    def __init__(self, date: str | None = None) -> None:
        self._made: dict[str, OpDef] = {}
        self._having: dict[str, list[str]] = {}
        self._rows: dict[str, tuple[_Row, str]] = {}
        for name, rows in _rows().items():
            for at in (date,) if date is not None else reversed(DATES):
                row = next((r for r in rows if r.has(at)), None)
                if row is not None:
                    self._rows[name] = (row, at)
                    break

    def get(self, name: str) -> OpDef | None:
        """Return the row of a qualified name (`pto.tadd`), or None."""
        made = self._made.get(name)
        if made is None and name in self._rows:
            row, date = self._rows[name]
            made = self._made[name] = _make(name, row, date)
        return made

    def having(self, trait: str) -> list[OpDef]:
        """Return the rows that name a trait themselves, in the order of files and rows."""
        names = self._having.get(trait)
        if names is None:
            rows = self._rows.items()
            names = [n for n, (row, _) in rows if trait in row.table.get("traits", ())]
            self._having[trait] = names
        return [row for name in names if (row := self.get(name)) is not None]

    def names(self) -> list[str]:
        """Return every qualified name, in the order of files and rows."""
        return list(self._rows)


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[_Row]]:
    """Every row by its qualified name; one name has several rows only for different dates."""
    found: dict[str, list[_Row]] = {}
    for file in toml_names("ops"):
        templates, entries = derived(file, "rows", _dated)
        family = file.removeprefix("ops/").removesuffix(".toml")
        for name, dates, entry in entries:
            row = _Row(family, entry, templates, dates)
            known = found.setdefault(name, [])
            if any(r.has(d) and row.has(d) for r in known for d in DATES):
                raise IsaDataError(f"isa/{file}: the operation {name} has two rows")
            known.append(row)
    return found


def _dated(table: TomlTable) -> tuple[TomlTable, list[tuple[str, dict[str, str], TomlTable]]]:
    """The templates of a file, and each row with its qualified name and its dates."""
    templates = table.get("template", {})
    entries = table.get("op", ())
    return templates, [(qualified(e["name"]), _dates(e, templates), e) for e in entries]


def _dates(entry: TomlTable, templates: TomlTable) -> dict[str, str]:
    words = {key: _inherited(entry, templates, key) for key in ("since", "until")}
    return {key: word for key, word in words.items() if word}


@lru_cache(maxsize=len(DATES) + 2)  # `isa()` and `isa(None)` are two keys
def isa(date: str | None = None) -> Isa:
    """Return the instruction set of a date, or every row."""
    return Isa(date)


def qualified(name: str) -> str:
    """Return the name with its dialect: rows leave `pto.` out, other dialects are written."""
    head = name.partition(".")[0]
    return name if head in _OTHER_DIALECTS else f"pto.{name}"


def _inherited(row: TomlTable, templates: TomlTable, key: str) -> str | None:
    if key in row:
        return row[key]
    parents = (templates.get(p, {}) for p in row.get("like", "").split())
    return next((w for p in parents if (w := _inherited(p, templates, key)) is not None), None)


def _make(name: str, row: _Row, date: str) -> OpDef:
    family = row.family
    where = f"isa/ops/{family}.toml: {name}"
    merged = at_date(_with_template(row.table, row.templates, where), date)
    unknown = set(merged) - _ROW_KEYS
    if unknown:
        raise IsaDataError(f"{where}: unknown keys {', '.join(sorted(unknown))}")
    mnemonic = name.removeprefix("pto.")
    merged["rules"] = [*merged.get("rules", ()), *scratch_rules(mnemonic, date)]
    missing = {"summary", "status", "source", "pipe"} - set(merged)
    if missing:
        raise IsaDataError(f"{where}: misses {', '.join(sorted(missing))}")
    return OpDef(
        name=name,
        family=family,
        form=merged.get("form", "dps"),
        summary=merged["summary"],
        status=_status(merged, where, row.table.get("basis")),
        basis=row.table.get("basis"),
        variants=_variants(merged, where),
        attrs={a.name: a for a in _attrs(merged.get("attrs", ""), where)},
        pipes=_pipes(merged["pipe"]),
        result_type=merged.get("result_type"),
        source=merged["source"],
        doc=merged.get("doc", ""),
        notes=tuple(merged.get("notes", ())),
        switches=tuple(merged.get("switches", ())),
        legacy=merged.get("legacy"),
        cost=merged.get("cost", {}),
        traits=_traits(merged, where),
        side=_one_of(merged, "side", ("cube", "vector"), where),
        fifo=_one_of(merged, "fifo", ("open", "alloc", "push", "pop", "free"), where),
        scratch=scratch_of(mnemonic, date),
        mismatch=merged.get("mismatch"),
        absent=merged.get("absent"),
        elsewhere=merged.get("elsewhere"),
        hazard_pipes=_pipes(merged.get("hazard_pipe", merged["pipe"])),
        access=merged.get("access", {}),
        quoted=_quoted(merged),
        since=merged.get("since"),
        until=merged.get("until") or None,
        modern=merged.get("modern"),
        library=merged.get("library", False),
        clause=merged.get("clause"),
        instead=merged.get("instead"),
        kept=frozenset(e if isinstance(e, str) else e["of"] for e in merged.get("kept", ())),
        low_precision=frozenset(merged.get("low_precision", ())),
        empty=tuple((e.get("on"), e["text"]) for e in merged.get("empty", ())),
        skips=tuple((s["when"], frozenset(s["codes"].split())) for s in merged.get("skips", ())),
        unlisted=merged.get("unlisted"),
        brackets=merged.get("brackets"),
        means=qualified(merged["means"]) if "means" in merged else None,
        sets=merged.get("sets", {}),
    )


def _with_template(row: TomlTable, templates: TomlTable, where: str) -> TomlTable:
    """A row takes what it does not say itself from the templates it is `like` (of several the first
    that says it); rules and notes add up, and so does a list of operands or attributes that begins
    with `+`."""
    base: TomlTable = {}
    for parent in row.get("like", "").split():
        if parent not in templates:
            raise IsaDataError(f"{where}: there is no template {parent!r}")
        inherited = _with_template(templates[parent], templates, where)
        for key in _ADDED_UP:
            known = base.get(key, ())
            inherited[key] = [*known, *(e for e in inherited.get(key, ()) if e not in known)]
        base = {**inherited, **{k: v for k, v in base.items() if k not in _ADDED_UP}}
    merged = {**base, **row}
    for key in _ADDED_UP:
        merged[key] = [*base.get(key, ()), *row.get(key, ())]
    for key in ("ins", "outs", "named", "attrs"):
        if str(row.get(key, "")).startswith("+"):
            merged[key] = f"{base.get(key, '')}, {row[key][1:]}"
    merged.pop("like", None)
    return merged


def _status(row: TomlTable, where: str, basis: str | None) -> dict[str, Status]:
    """The status on each target. No template says that the values of a row are exact: the row does,
    with its basis."""
    given = row["status"]
    table = dict.fromkeys(TARGETS, given) if isinstance(given, str) else dict(given)
    named = row.get("targets", TARGETS)  # some of a date only: `{ target = "a5", since = … }`
    having = [entry["target"] if isinstance(entry, dict) else entry for entry in named]
    for target in TARGETS:
        if target not in having:
            table[target] = "absent"
    try:
        found = {target: Status(table.get(target, "absent")) for target in TARGETS}
    except ValueError as problem:
        raise IsaDataError(f"{where}: {problem}") from problem
    claims = (Status.EXACT, Status.APPROXIMATE) if basis is None else ()
    return {target: Status.UNVERIFIED if s in claims else s for target, s in found.items()}


@lru_cache(maxsize=1)
def known_traits() -> dict[str, str]:
    """Return the words that a row may list in `traits`, each with its meaning."""
    return read_toml("traits.toml")["trait"]


def _traits(row: TomlTable, where: str) -> frozenset[str]:
    given = frozenset(row.get("traits", ()))
    unknown = given - known_traits().keys()
    if unknown:
        raise IsaDataError(f"{where}: unknown traits {', '.join(sorted(unknown))}")
    return given


def _one_of(row: TomlTable, key: str, words: tuple[str, ...], where: str) -> str | None:
    word = row.get(key)
    if word is not None and word not in words:
        raise IsaDataError(f"{where}: {key} is one of {', '.join(words)}, not {word!r}")
    return word


def _variants(row: TomlTable, where: str) -> tuple[Variant, ...]:
    tables = row.get("variant") or [{}]
    variants = []
    for table in tables:
        full = {**{k: row[k] for k in ("ins", "outs", "named") if k in row}, **table}
        ins = _operands(full.get("ins", ""), Role.IN, where)
        outs = _operands(full.get("outs", ""), Role.OUT, where)
        named = _operands(full.get("named", ""), Role.IN, where)
        variants.append(
            Variant(
                name=table.get("name", ""),
                ins=ins,
                outs=outs,
                named=named,
                operands=(*ins, *outs, *named),
                flags=frozenset(d.name for d in named if d.is_flag or d.may_be_bare),
                elements=tuple(
                    _elements(e, where)
                    for e in (*row.get("elements", ()), *table.get("elements", ()))
                ),
                rules=tuple(
                    _constraint(r) for r in (*row.get("rules", ()), *table.get("rules", ()))
                ),
                when=table.get("when"),
                modern=table.get("modern"),
            )
        )
    return tuple(variants)


def _quoted(row: TomlTable) -> tuple[tuple[str, ...], ...]:
    """`order = "src|srcs, dst"`: names of operands in the order of the quoted form; one that the
    row does not have is left out there too."""
    orders = [entry["order"] for entry in row.get("quoted", ())]
    return tuple(tuple(piece.split("|")) for order in orders[:1] for piece in pieces(order))


_SIGILS = {"~": Role.SCRATCH, "&": Role.INOUT, "^": Role.OUT}


def _operands(text: str, role: Role, where: str) -> tuple[OperandDef, ...]:
    """`name:kind|kind` with `~` (scratch), `&` (read and written) or `^` (written) in front, `?`
    (optional) or `*` (any number) after it; the kind `@pipe` is a member of the enum `pipe`.
    `name(operands)` is a clause; inside it `name=kind` is an operand written with its name.
    `name:flag` is a bare word."""
    return tuple(_operand(piece, role, where) for piece in pieces(text))


_CLAUSE = re.compile(r"(\w+)\s*\((.*)\)", re.DOTALL)
_OPERAND = re.compile(r"(\w+)([:=])([\w@|]+)")


def _operand(piece: str, role: Role, where: str) -> OperandDef:
    own_role = _SIGILS.get(piece[0], role)
    body = piece.lstrip("~&^")
    suffix = body[-1] if body[-1] in "?*" else ""
    body = body.rstrip("?*")
    optional, variadic = suffix == "?", suffix == "*"
    clause = _CLAUSE.fullmatch(body)
    if clause:
        params = _operands(clause.group(2), role, where)
        return OperandDef(
            clause.group(1),
            ("clause",),
            own_role,
            optional,
            variadic,
            params=params,
            is_clause=True,
        )
    plain = _OPERAND.fullmatch(body)
    kinds = plain.group(3).split("|") if plain else []
    names = tuple("enum" if k.startswith("@") else k for k in kinds)
    if plain is None or not set(names) <= OPERAND_KINDS:
        raise IsaDataError(f"{where}: operand {piece!r} is not `name:kind`")
    enums = tuple(k[1:] for k in kinds if k.startswith("@"))
    return OperandDef(
        plain.group(1),
        names,
        own_role,
        optional,
        variadic,
        enums,
        keyword=plain.group(2) == "=",
        is_flag=names == ("flag",),
    )


def _attrs(text: str, where: str) -> list[AttrDef]:
    """`name:type` with `!` (required) or `=default` after it."""
    attrs = []
    for piece in filter(None, (p.strip() for p in text.split(","))):
        head, equals, default = piece.partition("=")
        required = head.endswith("!")
        name, colon, type_ = head.rstrip("!").partition(":")
        if not colon:
            raise IsaDataError(f"{where}: attribute {piece!r} is not `name:type`")
        attrs.append(AttrDef(name, type_, required, _default(default) if equals else None))
    return attrs


def _default(text: str) -> bool | int | str:
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.lstrip("-").isdigit() else text


def _elements(row: TomlTable, where: str) -> ElementRule:
    operands = tuple(row["of"].split())
    allowed: dict[str, tuple[tuple[str, ...], ...]] = {}
    for target in TARGETS:
        given = row.get(target, row.get("both"))
        if given is None:
            continue
        if isinstance(given, str):
            allowed[target] = tuple((name,) for name in given.split())
        else:
            allowed[target] = tuple(tuple(entry.split()) for entry in given)
        for entry in allowed[target]:
            if len(entry) not in (1, len(operands)):
                raise IsaDataError(f"{where}: {entry} does not fit operands {operands}")
    headers = row.get("headers", False)
    return ElementRule(operands, allowed, row.get("when"), row.get("text"), headers)


def _constraint(row: str | TomlTable) -> ConstraintDef:
    if isinstance(row, str):
        return ConstraintDef(row)
    on = row.get("on", ())
    return ConstraintDef(
        row["expr"],
        row.get("code"),
        row.get("text"),
        row.get("when"),
        (on,) if isinstance(on, str) else tuple(on),
        row.get("help"),
    )


def _pipes(given: str | list[dict[str, str]]) -> tuple[PipeChoice, ...]:
    """A pipe, `@operand` for the pipe that an operand names, or a list of choices with
    conditions."""
    if isinstance(given, str):
        return (PipeChoice(given),)
    return tuple(PipeChoice(choice["pipe"], choice.get("when")) for choice in given)
