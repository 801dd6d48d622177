"""Targets: an architecture, which decides what operations mean, and a chip, which has the sizes,
cores, clocks, bandwidths and event ids. From `isa/targets/*.toml`; a new chip is a new file."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import TomlTable, read_folder, read_toml
from ptosim.ground.isa.dates import holds
from ptosim.ground.records import NamedTuple, dataclass

DEFAULT_TARGET = "a2a3"
CONFIDENCES = ("measured", "documented", "fitted", "derived", "assumed")
"""Best first."""

Row = TomlTable
Rows = dict[str, Row]
"""Rows of a section by their names."""


@dataclass(frozen=True, slots=True)
class SpaceDef:
    """A memory space; sizes and alignments in bytes. `safe` is at most `planner` and at most
    `bytes`; of the small memories the assembler's planner hands out more than there is."""

    name: str
    alias: str
    bytes: int
    planner: int
    safe: int
    align: int
    plan_align: int
    source: str
    confidence: str


@dataclass(frozen=True, slots=True)
class ScratchDef:
    """Bytes of a space that library code uses without being told."""

    space: str
    start: int
    bytes: int
    source: str
    confidence: str


class Pace(NamedTuple):
    """How fast a pipe retires: units of an operation, and bytes that it moves in one unit more."""

    latency: int
    rate: int


@dataclass(frozen=True, slots=True)
class MachineDef:
    """A chip with its architecture.

    `words` name it on a command line, `devices` are prefixes of its device names. A cluster is
    `cube_cores` and `vector_cores`; `cores` are those of the whole chip, cube and vector. `side` is
    memory that only pointers and scales reach, or how far pointers reach where that is farther,
    `retire` the pace of each pipe, `registers` those
    of the vector unit by kind, `costs` the rows of the cost table that are the chip's; `figures` is
    every row as it was read, by section and name,
    with source and confidence, `own` those that the file of the chip gives, `units` the units
    of their fields (those of costs are in the cost table)."""

    name: str
    architecture: str
    title: str
    words: tuple[str, ...]
    devices: tuple[str, ...]
    spaces: dict[str, SpaceDef]
    scratch: tuple[ScratchDef, ...]
    cube_cores: int
    vector_cores: int
    cores: tuple[int, int]
    event_ids: int
    max_blocks: int
    side: dict[str, int]
    retire: dict[str, Pace]
    queue_depth: int
    registers: dict[str, int]
    costs: dict[str, Rows]
    figures: dict[str, Row]
    own: tuple[str, ...]
    units: dict[str, str]

    @property
    def is_usual(self) -> bool:
        """True for the chip that the name of its architecture means."""
        return self is machine(self.architecture)

    def has_memory(self, name: str) -> bool:
        """True for a memory of its cores that tiles or pointers reach."""
        return name in self.spaces or name in self.side

    @property
    def label(self) -> str:
        """How tables head a column: the architecture, or the chip if it is not the usual one."""
        return self.architecture if self.is_usual else self.name


class TargetName(NamedTuple):
    """What a word or a device text names: an architecture, and a chip unless it is left open."""

    architecture: str
    chip: str | None


@lru_cache(maxsize=1)
def _files() -> dict[str, Row]:
    return {row["name"]: row for row in read_folder("targets").values()}


@dataclass(frozen=True, slots=True)
class Architecture:
    """What an architecture is called: words of the command line, and prefixes of device names."""

    title: str
    words: tuple[str, ...]
    devices: tuple[str, ...]


def architecture(name: str) -> Architecture:
    """Return the names of an architecture."""
    row = _files()[name]
    return Architecture(row["title"], tuple(row["words"]), tuple(row["devices"]))


def architectures() -> list[str]:
    """Return the names of the architectures."""
    return [name for name, row in _files().items() if "architecture" not in row]


def chips(of: str | None = None) -> list[str]:
    """Return the names of the chips (of an architecture), in order."""
    found = {n: r["architecture"] for n, r in _files().items() if "architecture" in r}
    return [name for name, its in found.items() if of is None or its == of]


def target_of_word(word: str) -> TargetName | None:
    """Return what a word of the command line or of `pto.target_arch` names; None if nothing."""
    folded = word.strip().lower()
    return next((_name(row) for row in _files().values() if folded in row["words"]), None)


def target_of_device(device: str) -> TargetName | None:
    """Return what a device name such as `Ascend910B3` names: that of the longest known prefix."""
    known = [(p, row) for row in _files().values() for p in row["devices"] if device.startswith(p)]
    return _name(max(known, key=lambda k: len(k[0]))[1]) if known else None


def _name(row: Row) -> TargetName:
    own = row["name"]
    return TargetName(row["architecture"], own) if "architecture" in row else TargetName(own, None)


def known_words() -> list[str]:
    """Return every target word, those of architectures first."""
    return [word for row in _sorted() for word in row["words"]]


def known_devices() -> list[str]:
    """Return every device prefix, those of architectures first."""
    return [device for row in _sorted() for device in row["devices"]]


def _sorted() -> list[Row]:
    return sorted(_files().values(), key=lambda row: "architecture" in row)


@lru_cache(maxsize=32)
def machine(name: str) -> MachineDef:
    """Return the machine of a chip, or of the chip that the name of an architecture means.

    Raises IsaDataError for an unknown name, rows that are missing or not known, a quantity without
    unit, source or confidence, and sizes that contradict each other."""
    files = _files()
    if name not in files:
        raise IsaDataError(f"isa/targets has no target {name}; there are {', '.join(files)}")
    chip = files[name]
    if "architecture" not in chip:
        return machine(chip["chip"])
    if chip["architecture"] not in architectures():
        raise IsaDataError(f"isa/targets: {name}: no architecture {chip['architecture']}")
    try:
        made = _made(chip, files[chip["architecture"]])
    except (KeyError, TypeError) as problem:  # a row or field that is missing, or one too many
        raise IsaDataError(f"isa/targets: {name}: wrong rows: {problem}") from problem
    _check_sizes(made)
    return made


def _made(chip: Row, base: Row) -> MachineDef:
    """The machine of a chip on top of its architecture."""
    figures = _figures(base)
    figures |= _figures(chip, figures)
    _check_units(chip["name"], figures, base["units"])

    def part(section: str) -> Rows:
        return {k.split(".", 1)[1]: r for k, r in figures.items() if k.startswith(f"{section}.")}

    return MachineDef(
        name=chip["name"],
        architecture=base["name"],
        title=chip["title"],
        words=tuple(chip["words"]),
        devices=tuple(chip["devices"]),
        spaces={n: SpaceDef(name=n, **row) for n, row in part("space").items()},
        scratch=tuple(ScratchDef(**row) for row in part("scratch").values()),
        cube_cores=figures["cluster"]["cube_cores"],
        vector_cores=figures["cluster"]["vector_cores"],
        cores=(figures["cores"]["cube"], figures["cores"]["vector"]),
        event_ids=figures["events"]["ids"],
        max_blocks=figures["launch"]["blocks"],
        side={n: row["bytes"] for n, row in part("side").items()},
        retire={n: Pace(row["latency"], row["rate"]) for n, row in part("retire").items()},
        queue_depth=figures["queue"]["depth"],
        registers={n: row["registers"] for n, row in part("registers").items()},
        costs=_sections(part("cost")),
        figures=figures,
        own=tuple(_figures(chip, figures)),
        units=base["units"],
    )


def _figures(file: Row, below: Mapping[str, Row] | None = None) -> dict[str, Row]:
    """The rows of a file by section and name. A row replaces the one `below` it field by field, but
    has a source and a confidence of its own."""
    found: dict[str, Row] = {}

    def walk(path: str, row: Row) -> None:
        if any(isinstance(v, dict) for v in row.values()):
            for key, value in row.items():
                walk(f"{path}.{key}", value)
            return
        if not row.get("source") or row.get("confidence") not in CONFIDENCES:
            raise IsaDataError(f"isa/targets: {file['name']}: {path} has no source or confidence")
        found[path] = {**(below or {}).get(path, {}), **row}

    for section, row in file.items():
        if isinstance(row, dict) and section != "units":
            walk(section, row)
    return found


def _sections(rows: Rows) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for name, row in rows.items():
        section, key = name.split(".", 1)
        found.setdefault(section, {})[key] = row
    return found


def _check_units(chip: str, figures: dict[str, Row], units: Mapping[str, str]) -> None:
    for path, row in figures.items():
        unknown = [k for k, v in row.items() if not isinstance(v, str) and k not in units]
        if unknown and not path.startswith("cost."):
            raise IsaDataError(f"isa/targets: {chip}: {path}: no unit for {', '.join(unknown)}")


def _check_sizes(made: MachineDef) -> None:
    for space in made.spaces.values():
        if not 0 < space.safe <= min(space.planner, space.bytes):
            raise IsaDataError(
                f"isa/targets: {made.name}: space.{space.name}: safe ({space.safe}), planner "
                f"({space.planner}) and bytes ({space.bytes}): safe is the smallest"
            )
    for scratch in made.scratch:
        if scratch.start + scratch.bytes > made.spaces[scratch.space].bytes:
            raise IsaDataError(f"isa/targets: {made.name}: scratch ends after {scratch.space}")


# What the language of a date says of modules and functions: `isa/units.toml`.


@dataclass(frozen=True, slots=True)
class WordRule:
    """An attribute whose text is one of a few words, on operations with a trait."""

    attribute: str
    where: str
    words: tuple[str, ...]
    text: str
    folded: bool = False
    enum: str = ""  # the words are members of this enum, not texts
    late: bool = False  # asked where flags are inserted, after pipes and their peers

    def holds(self, word: str) -> bool:
        """True if the word is one of them."""
        return (word.lower() if self.folded else word) in self.words


@dataclass(frozen=True, slots=True)
class UnitRules:
    """The rules of one date; texts have the words of the assembler."""

    marks: tuple[str, ...]  # attributes that make a function an entry
    words: tuple[WordRule, ...]
    reserved: dict[str, str]  # attributes that a program must not have, with what to say
    rules: dict[str, str]  # the others by name, with their text
    families: dict[str, frozenset[str]]  # of operations that a rule is about, by its name
    stand_ins: dict[str, tuple[str, ...]]  # by the kind of a type: kinds that it is accepted for


@lru_cache(maxsize=4)
def unit_rules(date: str) -> UnitRules:
    """Return the rules of a date."""
    table = read_toml("units.toml")

    def rows(key: str) -> list[TomlTable]:
        return [row for row in table[key] if holds(row, date)]

    return UnitRules(
        tuple(row["attribute"] for row in rows("mark")),
        tuple(
            WordRule(
                row["attribute"],
                row["where"],
                tuple(row["words"]),
                row["text"],
                row.get("folded", False),
                row.get("enum", ""),
                row.get("late", False),
            )
            for row in rows("words")
        ),
        {row["attribute"]: row["text"] for row in rows("reserved")},
        {row["name"]: row.get("text", "") for row in rows("rule")},
        {row["name"]: frozenset(row.get("families", "").split()) for row in rows("rule")},
        {row["type"]: tuple(row["kinds"]) for row in rows("stand_in")},
    )


# What addresses of register loads and stores have to be multiples of: `isa/alignment.toml`.


class Alignment(NamedTuple):
    """The bytes that an address has to be a multiple of, whether that is certain, and what to
    write instead."""

    bytes: int
    is_certain: bool
    cure: str


@lru_cache(maxsize=1)
def _rows() -> dict[str, list[TomlTable]]:
    found: dict[str, list[TomlTable]] = {}
    for row in read_toml("alignment.toml")["alignment"]:
        for mnemonic in row["of"].split():
            found.setdefault(mnemonic, []).append(row)
    return found


@lru_cache(maxsize=256)
def alignment_of(mnemonic: str, dist: str, element: int = 1) -> Alignment | None:
    """Return what holds for an operation with a distribution and elements of so many bytes; None if
    its address is free."""
    for row in _rows().get(mnemonic, ()):
        if "dist" not in row or dist.startswith(tuple(row["dist"].split())):
            number = row["bytes"]
            if number == "width":
                number = int(dist.rpartition("_B")[2]) // 8
            elif number == "element":
                number = element
            return Alignment(number, row.get("certain", True), row.get("cure", ""))
    return None


# Which pipes the library code of an operation runs on, step by step: `isa/passes.toml`.


class Step(NamedTuple):
    """A part of an operation: the pipe, the operands that it reads and writes, and the pipes that
    the library's code waits for before it."""

    pipe: str
    reads: frozenset[str]
    writes: frozenset[str]
    after: tuple[str, ...]


class Passes(NamedTuple):
    """How an operation goes through pipes. Those of `before` wait for its last step; `flags` are
    pairs between which the code uses EVENT_ID0; `modelled` is the pipe that the assembler's
    insertion takes the operation for, where that is another one."""

    steps: tuple[Step, ...]
    before: tuple[str, ...]
    flags: tuple[tuple[str, str], ...]
    modelled: str | None

    @property
    def only(self) -> str | None:
        """The one pipe that does it, where the library's code waits for no other before."""
        return self.steps[0].pipe if len(self.steps) == 1 and not self.steps[0].after else None

    @property
    def pipes(self) -> set[str]:
        """Every pipe that has to do with it."""
        return {*self.before, *(p for step in self.steps for p in (step.pipe, *step.after))}


class PassesRow(NamedTuple):
    """An entry of the data with the conditions that it holds under."""

    target: str | None
    when: str | None
    passes: Passes


@lru_cache(maxsize=4)
def passes_rows(date: str) -> Mapping[str, tuple[PassesRow, ...]]:
    """Return the entries of a date by mnemonic, in the order of the data."""
    found: dict[str, list[PassesRow]] = {}
    for row in read_toml("passes.toml")["passes"]:
        if not holds(row, date):
            continue
        for mnemonic in row["of"].split():
            made = PassesRow(row.get("on"), row.get("when"), _passes(row, date))
            found.setdefault(mnemonic, []).append(made)
    return {name: tuple(rows) for name, rows in found.items()}


def _passes(row: TomlTable, date: str) -> Passes:
    pairs = (pair.partition("-") for pair in row.get("flags", "").split())
    is_modelled = holds({"until": row.get("modelled_until")}, date)
    return Passes(
        tuple(_step(step) for step in row["steps"]),
        tuple(row.get("before", "").split()),
        tuple((source, target) for source, _, target in pairs),
        row.get("modelled") if is_modelled else None,
    )


def _step(step: TomlTable) -> Step:
    reads, writes, after = (step.get(key, "").split() for key in ("reads", "writes", "after"))
    return Step(step["pipe"], frozenset(reads), frozenset(writes), tuple(after))
