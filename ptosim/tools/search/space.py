"""A space of parameters: the values of each, and the conditions that say which points are worth
trying. The points are in the order of the parameters, the last one changing fastest."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass
from ptosim.launch.description import TABLE, TEXTS, Check, TableReader, read_description
from ptosim.tools.search.conditions import evaluate, names_in

Params = dict[str, Any]
"""One point: a value of each parameter."""
MOST_VALUES = 100_000
"""Of one parameter."""
MOST_POINTS = 10_000_000
"""That a sweep goes through, those among them that conditions refuse."""
CONDITIONS = "conditions"
"""The key of a space, in a file or a mapping, that is no parameter."""
_RANGE = ("from", "to", "step", "times")
SPACE_KEYS: dict[str, Check] = {"parameters": TABLE, CONDITIONS: TEXTS}


@dataclass(frozen=True, slots=True)
class Space:
    """Parameters with their values, and conditions over them."""

    values: Mapping[str, tuple[Any, ...]]
    conditions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, values in self.values.items():
            if not name.isidentifier() or name == CONDITIONS:
                raise UsageError(f"PTO7600: `{name}` is no name of a parameter")
            if not values:
                raise UsageError(f"PTO7602: the parameter `{name}` has no values")
        if not self.values:
            raise UsageError("PTO7602: the space has no parameters", help="TM = [16, 32, 64]")
        for text in self.conditions:
            unknown = sorted(names_in(text) - self.values.keys())
            if unknown:
                raise UsageError(
                    f"PTO7601: the condition `{text}` names {unknown[0]}, which is no parameter",
                    help=f"parameters: {', '.join(self.values)}",
                )

    @property
    def size(self) -> int:
        """How many points there are, with those that conditions refuse."""
        return math.prod(map(len, self.values.values()))

    def points(self) -> Iterator[Params]:
        """Yield every point, also those that conditions refuse. Raises UsageError for more than
        `MOST_POINTS`."""
        if self.size > MOST_POINTS:
            raise UsageError(
                f"PTO7602: the space has {self.size:,} points; at most {MOST_POINTS:,} are tried",
                help="`ptosim tune` searches instead of trying all of them",
            )
        for point in product(*self.values.values()):
            yield dict(zip(self.values, point, strict=True))

    def refusal(self, params: Mapping[str, Any]) -> str:
        """Return the first condition that a point does not meet, '' if it meets all."""
        return next((c for c in self.conditions if not evaluate(c, params)), "")

    def accepted(self) -> Iterator[Params]:
        """Yield the points that meet the conditions. Raises UsageError as `points`."""
        return (point for point in self.points() if not self.refusal(point))


def space_of(given: Space | Mapping[str, Any] | str | Path) -> Space:
    """Return a space: itself, that of a TOML file, or one of a mapping from names to values: a
    list, a `range`, a table (`{"from": 16, "to": 256, "times": 2}`), one value; under `conditions`
    texts. Raises UsageError (PTO7600, PTO7601, PTO7602), DescriptionError for a file."""
    if isinstance(given, Space):
        return given
    if isinstance(given, (str, Path)):
        return read_space(Path(given))
    conditions = given.get(CONDITIONS, ())
    texts = (conditions,) if isinstance(conditions, str) else tuple(conditions)
    if not all(isinstance(text, str) for text in texts):
        raise UsageError("PTO7600: `conditions` are texts", help='["TM * TN * 4 <= 65536"]')
    return Space({n: values_of(n, v) for n, v in given.items() if n != CONDITIONS}, texts)


def read_space(path: Path) -> Space:
    """Return the space of a TOML file: `[parameters]`, and `conditions` before it; what the file
    says about launches is left to `read_recipe`. Raises UsageError, and DescriptionError for a
    file that is no TOML."""
    source, content = read_description(path)
    reader = TableReader(source)
    known = {name: content[name] for name in SPACE_KEYS if name in content}
    table = reader.table((), known, SPACE_KEYS, "a space", ("parameters",))
    reader.refuse_faults()
    return space_in(table)


def space_in(table: Mapping[str, Any]) -> Space:
    """Return the space of a table that was read with `SPACE_KEYS`."""
    values = {n: values_of(n, v) for n, v in table["parameters"].items()}
    return Space(values, tuple(table.get(CONDITIONS, ())))


def values_of(name: str, given: Any) -> tuple[Any, ...]:
    """Return the values of a parameter, each once, in the order given. Raises UsageError (PTO7600)
    for what are none."""
    if isinstance(given, Mapping):
        given = _range(name, given)
    elif isinstance(given, (str, int, float)):
        given = (given,)
    if not isinstance(given, Iterable):
        raise UsageError(f"PTO7600: `{name}` is {given!r}; it should be a list of values")
    found: dict[tuple[type, Any], Any] = {}
    for value in given:
        if hasattr(value, "item"):
            value = value.item()  # a NumPy scalar
        if not isinstance(value, (str, int, float)) or value != value:
            raise UsageError(f"PTO7600: `{name}` has the value {value!r}, no number or text")
        found[type(value), value] = value
        if len(found) > MOST_VALUES:
            raise UsageError(f"PTO7600: `{name}` has more than {MOST_VALUES:,} values")
    return tuple(found.values())


def _range(name: str, given: Mapping[str, Any]) -> Iterator[Any]:
    """The values of `{from = 16, to = 256, times = 2}`, or with `step`, both ends included."""
    help = "{ from = 16, to = 256, step = 16 }, or for powers of two { …, times = 2 }"
    numbers = all(type(v) in (int, float) and abs(v) < 2**63 for v in given.values())
    if given.keys() - set(_RANGE) or not {"from", "to"} <= given.keys() or not numbers:
        raise UsageError(f"PTO7600: `{name}` is no range", help=help)
    if {"step", "times"} <= given.keys():
        raise UsageError(f"PTO7600: `{name}` has both a step and a factor", help=help)
    at, last = given["from"], given["to"]
    step, factor = given.get("step", 0 if "times" in given else 1), given.get("times", 1)
    stays = at + step == at and at * factor == at  # a step below the spacing of floats
    if (not step and (factor <= 1 or at <= 0)) or step < 0 or (stays and at < last):
        raise UsageError(f"PTO7600: the range of `{name}` does not grow", help=help)
    return _grown(at, last, step, factor)


def _grown(at: Any, last: Any, step: Any, factor: Any) -> Iterator[Any]:
    first, count = at, 0
    while at <= last:
        yield at
        count += 1
        at = first + count * step if step else at * factor
