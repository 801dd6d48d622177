"""What operations cost: figures with provenance and the laws' table, from `isa/costs/*.toml`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.cache import TomlTable, read_toml
from ptosim.ground.isa.targets import CONFIDENCES, Rows, machine
from ptosim.ground.records import NamedTuple, dataclass, field, replace

WHAT_IF = "what-if"
COST_CONFIDENCES = (*CONFIDENCES, WHAT_IF)
"""Best first; a total is as good as the worst number in it."""

_PROVENANCE = frozenset(("source", "confidence", "like", "fitted"))
GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class CostRow:
    """Numbers that belong together, with their source. The name of a number says its unit. A row
    that is `like` another has the numbers of that one where it has none of its `own`; `fitted` are
    those of its own that were fitted to published measurements."""

    name: str
    values: Mapping[str, float]
    source: str
    confidence: str
    own: frozenset[str] = frozenset()
    like: str = ""
    fitted: frozenset[str] = frozenset()

    def __getitem__(self, key: str) -> float:
        return self.values[key]

    def get(self, key: str, default: float = 0) -> float:
        """Return a number, or the default if the row does not have it."""
        return self.values.get(key, default)


@dataclass(frozen=True, slots=True)
class Overlay:
    """A board's figures: `figures` by the full name of the number, `sources` by row, `errors` what
    is left of points that the fit did not see, by class of operations."""

    name: str
    chip: str
    source: str
    figures: Mapping[str, float]
    sources: Mapping[str, str]
    errors: tuple[Accuracy, ...] = ()

    @property
    def title(self) -> str:
        """What reports say of the figures that they use."""
        return f"{len(self.figures)} figures of {self.name} (chip {self.chip}; {self.source})"

    def to_dict(self) -> dict[str, object]:
        """Return the figures as data."""
        return {
            "file": self.name,
            "chip": self.chip,
            "source": self.source,
            "figures": dict(self.figures),
        }


@dataclass(frozen=True, slots=True)
class CostTable:
    """Every row of a chip, by `section.name`: those of its architecture and its own."""

    chip: str
    target: str
    rows: Mapping[str, CostRow]
    units: Mapping[str, str]
    overlay: Overlay | None = None
    """The board's own figures among them, if there are any."""
    known: dict[Any, Any] = field(init=False, compare=False, repr=False, default_factory=dict)
    """Costs that were computed from these figures, by all that they depend on."""

    def __getitem__(self, name: str) -> CostRow:
        return self.rows[name]

    def find(self, *names: str) -> CostRow:
        """Return the first row that exists. Raises IsaDataError if none does."""
        for name in names:
            row = self.rows.get(name)
            if row is not None:
                return row
        raise IsaDataError(f"isa/costs/{self.target}.toml has no row {' or '.join(names)}")

    @property
    def label(self) -> str:
        """How tables head a column: the architecture, or the chip if it is not the usual one."""
        return machine(self.chip).label

    @property
    def mhz(self) -> float:
        """Clock of the cores."""
        return self.rows["machine.clock"]["mhz"]

    def bytes_per_cycle(self, row: CostRow) -> float:
        """Return the bandwidth that a row gives in one of its two units."""
        direct = row.get("bytes_per_cycle")
        return direct or row["gib_per_second"] * GIB / (self.mhz * 1e6)

    def keys(self) -> list[str]:
        """Return the full name of every number: `section.name.number`."""
        return [f"{row.name}.{key}" for row in self.rows.values() for key in row.values]

    def owner(self, key: str) -> str:
        """Return the full name of the number that a row has it from: its own, or that of the row
        that it is like."""
        name, _, number = key.rpartition(".")
        row = self.rows[name]
        while row.like and number not in row.own:
            row = self.rows[row.like]
        return f"{row.name}.{number}"

    def changed(
        self, key: str, value: float, *, confidence: str = WHAT_IF, source: str = ""
    ) -> CostTable:
        """Return the table with one number changed, also in the rows that have it from there; they
        are marked with the confidence, and have the source if one is given."""
        name, _, number = key.rpartition(".")
        rows = dict(self.rows)
        for row in self.rows.values():
            if row.name == name or (row.like == name and number not in row.own):
                values = {**row.values, number: value}
                rows[row.name] = replace(
                    row, values=values, confidence=confidence, source=source or row.source
                )
        return replace(self, rows=rows)


@lru_cache(maxsize=32)
def cost_table(name: str) -> CostTable:
    """Return the figures of a chip, or of the one that an architecture means. Raises IsaDataError
    for a number without unit or source."""
    chip = machine(name)
    file = f"costs/{chip.architecture}.toml"
    content = read_toml(file)
    units = content["units"]
    rows: dict[str, CostRow] = {}
    for section, table in content.items():
        if section in ("schema", "units"):
            continue
        for key, row in _with_own(table, chip.costs.get(section, {})).items():
            rows[f"{section}.{key}"] = _row(file, f"{section}.{key}", row, units, rows)
    unknown = [s for s in chip.costs if s not in content]
    if unknown:
        raise IsaDataError(f"isa/targets: {chip.name}: no section {unknown[0]} in isa/{file}")
    return CostTable(chip.name, chip.architecture, rows, units)


def _with_own(table: Rows, own: Rows) -> Rows:
    """The rows of a section, those of the chip in their place: field by field, or first."""
    new = {key: row for key, row in own.items() if key not in table}
    return new | {key: {**row, **own.get(key, {})} for key, row in table.items()}


def _row(
    file: str,
    name: str,
    row: TomlTable,
    units: Mapping[str, str],
    before: Mapping[str, CostRow],
) -> CostRow:
    own = {k: v for k, v in row.items() if k not in _PROVENANCE}
    unknown = sorted(k for k in own if k not in units)
    if unknown:
        raise IsaDataError(f"isa/{file}: {name}: no unit for {', '.join(unknown)}")
    if not row.get("source") or row.get("confidence") not in COST_CONFIDENCES:
        raise IsaDataError(f"isa/{file}: {name} has no source, or an unknown confidence")
    like = row.get("like", "")
    if like and like not in before:
        raise IsaDataError(f"isa/{file}: {name} is like {like}, which no row above it is called")
    values = {**before[like].values, **own} if like else own
    fitted = frozenset(row.get("fitted", own if row["confidence"] == "fitted" else ()))
    if not fitted <= set(own) or (row["confidence"] == "fitted" and not fitted):
        raise IsaDataError(f"isa/{file}: {name} does not say which of its numbers were fitted")
    return CostRow(name, values, row["source"], row["confidence"], frozenset(own), like, fitted)


@dataclass(frozen=True, slots=True)
class CostClass:
    """Operations with one law for each target."""

    name: str
    title: str
    laws: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CostEntry:
    """What an operation consists of: its class, the instructions of its stages on each target, and
    what else its law asks for."""

    mnemonic: str
    class_: CostClass
    stages: Mapping[str, tuple[str, ...]]
    options: Mapping[str, Any]


@lru_cache(maxsize=1)
def cost_entries() -> dict[str, CostEntry]:
    """Return the entry of every operation that has one, by mnemonic."""
    content = read_toml("costs/classes.toml")
    classes = {
        name: CostClass(name, row["title"], {k: v for k, v in row.items() if k != "title"})
        for name, row in content["class"].items()
    }
    entries = {}
    for mnemonic, row in content["op"].items():
        if row["class"] not in classes:
            raise IsaDataError(f"isa/costs/classes.toml: {mnemonic}: no class {row['class']!r}")
        stages = {t: tuple(row.get(t, "").split()) for t in ("a2a3", "a5")}
        options = {k: v for k, v in row.items() if k not in ("class", "a2a3", "a5")}
        entries[mnemonic] = CostEntry(mnemonic, classes[row["class"]], stages, options)
    return entries


class VectorEntry(NamedTuple):
    """Whose figures an instruction of a vector region takes: a row of `instruction`, or `nothing`;
    whether only one port executes it, and whether its row says so by twice the time; and the lists
    of `[unit]` that its row is in."""

    row: str
    one_port: bool
    twice: bool
    unit: frozenset[str] = frozenset()


@lru_cache(maxsize=1)
def vector_units() -> dict[str, frozenset[str]]:
    """Return the lists of `[unit]` that each row of `instruction` is in, if it is in any."""
    found: dict[str, set[str]] = {}
    for kind, rows in read_toml("costs/classes.toml")["unit"].items():
        for row in rows.split():
            found.setdefault(row, set()).add(kind)
    return {row: frozenset(kinds) for row, kinds in found.items()}


@lru_cache(maxsize=1)
def vector_entries() -> dict[str, VectorEntry]:
    """Return the entry of every instruction of a vector region that has one, by mnemonic. Raises
    IsaDataError for one with two."""
    content = read_toml("costs/classes.toml")
    ports = {kind: words.split() for kind, words in content["one_port"].items()}
    units = vector_units()
    entries: dict[str, VectorEntry] = {}
    for row, words in content["vector"].items():
        unit = units.get(row, frozenset())
        for word in words.split():
            if word in entries:
                raise IsaDataError(f"isa/costs/classes.toml: {word} is in two rows of [vector]")
            twice = word in ports["twice"]
            entries[word] = VectorEntry(row, twice or word in ports["once"], twice, unit)
    return entries


def without_law() -> dict[str, str]:
    """Return why operations that are executed have no law, by mnemonic."""
    return read_toml("costs/classes.toml")["without"]


def lowest_confidence(confidences: Iterable[str]) -> str:
    """Return the lowest of some confidences; `documented` for none."""
    return max(confidences, key=COST_CONFIDENCES.index, default="documented")


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Relative errors of a class of operations (`all`: of all) against profiled points."""

    target: str
    class_name: str
    points: int
    mean: float
    median: float
    worst: float


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Relative errors of a class of operations, each point predicted with figures fitted without
    its family: the mean, what nine of ten are within, and the worst."""

    target: str
    class_name: str
    points: int
    mean: float
    nine_of_ten: float
    worst: float


@dataclass(frozen=True, slots=True)
class KernelAccuracy:
    """A whole kernel of so many `blocks`: measured and predicted microseconds, launch included;
    `apart` is predicted without its family in any fit, `low` to `high` is the error bar. `program`
    is the shipped one of that structure, if there is one."""

    target: str
    name: str
    published: float
    predicted: float
    family: str = ""
    apart: float = 0.0
    program: str = ""
    blocks: int = 1
    low: float = 0.0
    high: float = 0.0

    @property
    def error(self) -> float:
        """Return the relative error."""
        return self.predicted / self.published - 1

    @property
    def apart_error(self) -> float:
        """Return the relative error of what is predicted without the family."""
        return self.apart / self.published - 1

    @property
    def is_inside(self) -> bool:
        """True if the measured time is inside the error bar."""
        return self.low <= self.published <= self.high


@lru_cache(maxsize=1)
def accuracy() -> tuple[tuple[Accuracy, ...], tuple[KernelAccuracy, ...]]:
    """Return what is known about the error of the laws: of operations, and of whole kernels."""
    content = read_toml("costs/accuracy.toml")
    operations = tuple(
        Accuracy(
            r["target"],
            r["class"],
            r["points"],
            r["mean"],
            r["median"],
            r["worst"],
        )
        for r in content["operations"]
    )
    kernels = tuple(KernelAccuracy(**row) for row in content["kernels"])
    return operations, kernels


@lru_cache(maxsize=1)
def spreads() -> Mapping[str, float]:
    """Return how far off figures of a confidence may be, relative."""
    return read_toml("costs/spread.toml")["spread"]


@lru_cache(maxsize=1)
def limit_spreads() -> Mapping[str, float]:
    """Return how far off times of launches are, by what limits them, as a natural logarithm: nine
    of ten published times of kernels whose family the fit did not see are within."""
    return read_toml("costs/spread.toml")["limit"]


def left_out(target: str, class_name: str) -> LeftOut | None:
    """Return the error of a class on points that the fit did not see; None if there are none."""
    return _left_out().get((target, class_name))


@lru_cache(maxsize=1)
def _left_out() -> Mapping[tuple[str, str], LeftOut]:
    found = {}
    for row in read_toml("costs/accuracy.toml").get("left_out", ()):
        figures = (row["points"], row["mean"], row["nine_of_ten"], row["worst"])
        key = row["target"], row["class"]
        found[key] = LeftOut(*key, *figures)
    return found


@lru_cache(maxsize=1)
def least_points() -> int:
    """Return how many points a class needs for their scatter to be trusted alone."""
    return read_toml("costs/spread.toml")["least"]["points"]


def error_of(target: str, class_name: str) -> Accuracy | None:
    """Return the error of a class of operations on a target; None if nothing was published."""
    rows = accuracy()[0]
    return next((r for r in rows if (r.target, r.class_name) == (target, class_name)), None)
