"""How every point of a space is launched: arguments and counts written with the parameters.

In a SPEC `{M}x{K}` is replaced by the point's values; `block_num = "cdiv(M, TM)"` is computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass, field, replace
from ptosim.launch.description import (
    LEVEL,
    SYNC,
    TABLE,
    TARGETS,
    TEXT,
    VALUE,
    Check,
    TableReader,
    read_description,
)
from ptosim.launch.tolerance import Tolerance
from ptosim.tools.search.request import Request
from ptosim.tools.search.space import SPACE_KEYS, Params, Space, evaluate, space_in

_HOLE = re.compile(r"\{([^{}]+)\}")
_BLOCKS: Check = ("a whole number, or an expression of the parameters", VALUE[1])
_KEYS: dict[str, Check] = {
    **SPACE_KEYS,
    "targets": TARGETS, "entry": TEXT, "level": LEVEL, "sync": SYNC, "compat": TEXT,
    "profile": TEXT, "block_num": _BLOCKS, "args": TABLE, "expect": TABLE, "tolerance": TABLE,
}  # fmt: skip
_PLAIN = ("entry", "level", "sync", "compat", "profile")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What is asked of every point. `request` has texts as they are written; `args` of a Python
    caller may be a function of the parameters."""

    request: Request = field(default_factory=Request)
    block_num: int | str | None = None
    make_args: Callable[[Params], Mapping[str, Any]] | None = None
    targets: tuple[str, ...] = ()

    def at(self, params: Params) -> Request:
        """Return what is asked of one point. Raises UsageError (PTO7601) for an expression that
        cannot be computed there."""
        asked = self.request
        args = self.make_args(params) if self.make_args is not None else asked.args
        return replace(
            asked,
            args={n: filled(v, params) for n, v in args.items()},
            expect={n: filled(v, params) for n, v in asked.expect.items()},
            block_num=self._blocks(params),
        )

    def _blocks(self, params: Params) -> int:
        if self.block_num is None:
            return self.request.block_num
        number = self.block_num
        if isinstance(number, str):
            number = evaluate(number, params)
        if type(number) is not int or number < 1:
            raise UsageError(f"PTO7601: block_num is {number!r}; at least one block runs")
        return number


def filled(value: Any, params: Mapping[str, Any]) -> Any:
    """Return a SPEC with `{expression}` computed from parameters; anything else as it is."""
    if not isinstance(value, str):
        return value
    return _HOLE.sub(lambda hole: str(evaluate(hole[1], params)), value)


def read_recipe(path: Path) -> tuple[Space, Recipe]:
    """Return the space of a TOML file and how its points are launched. Raises UsageError for what
    cannot be read or is no space, DescriptionError with every key that means nothing."""
    source, content = read_description(path)
    reader = TableReader(source)
    table = reader.table((), content, _KEYS, "a space", ("parameters",))
    args = {
        n: v if isinstance(v, str) else str(v).lower()
        for n, v in table.get("args", {}).items()
        if reader.fits(("args", n), v, VALUE)
    }
    expect = reader.texts(("expect",), table.get("expect", {}))
    tolerance: dict[str, Tolerance] = {
        name: reader.tolerance(("tolerance", name), each)
        for name, each in table.get("tolerance", {}).items()
        if reader.fits(("tolerance", name), each, TABLE)
    }
    reader.refuse_faults()
    plain = {name: table[name] for name in _PLAIN if name in table}
    request = Request(
        args=args, folder=str(path.parent), expect=expect, tolerance=tolerance, **plain
    )
    recipe = Recipe(request, table.get("block_num"), None, tuple(table.get("targets", ())))
    return space_in(table), recipe
