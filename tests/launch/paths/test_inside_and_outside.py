"""Requirements are checked by following: inside of them no check fails, just outside one does."""

from __future__ import annotations

import random

import pytest

import ptosim
from tests.launch.paths.kernels import TILE, VIEW, kernel
from tests.launch.paths.test_requirements import KERNELS, tile, window

_ROWS = (
    f"%v = pto.make_tensor_view %x, shape = [%m, %c64], strides = [%c64, %c1] : {VIEW}\n".replace(
        "16x64", "?x64"
    )
)
_WINDOW = window("%o = arith.muli %n, %c8 : index").replace("%vx", "%v")
_WINDOW = _WINDOW.replace(VIEW, VIEW.replace("16x64", "?x64"))
MORE = {
    "rows and columns": (
        "%a = pto.alloc_tile addr = %a0 valid_row = %n valid_col = %m : "
        + TILE.replace("v_row=16", "v_row=?").replace("v_col=64", "v_col=?")
    ),
    "rows of a view": _ROWS + _WINDOW,
    "rounds of eights": "scf.for %i = %c0 to %n step %c1 {\n"
    + window("%o = arith.muli %i, %c5 : index") + "\n}",
    "a difference": tile("%r = arith.subi %n, %m : index"),
    "two sums": window("%p = arith.muli %m, %c2 : index\n%o = arith.addi %n, %p : index"),
}  # fmt: skip
BODIES = {**{name: body for name, (body, _) in KERNELS.items()}, **MORE}


def _breaks(text: str, values: dict[str, int]) -> bool:
    """True if a check fails with these values."""
    found = ptosim.check(text, sync="manual", args=values, explore=False)
    return any(d.code.startswith(("PTO60", "PTO61", "PTO20")) and d.severity > 1 for d in found)


def met(records: list[dict], values: dict[str, int]) -> bool:
    for r in records:
        total = sum(count * values[name] for name, count in r["terms"].items())
        low = r["low"] if r["low"] is not None else total
        high = r["high"] if r["high"] is not None else total
        if not low <= total <= high or (r["multiple"] and total % r["multiple"]):
            return False
    return True


def _assigned(seed: int, count: int, name: str) -> None:
    body = BODIES[name]
    text = kernel(body, "%n: index, %m: index" if "%m" in body else "%n: index")
    records = ptosim.check(text, sync="manual").requirements
    assert records
    chosen = random.Random(seed)
    names = ["n", "m"] if "%m" in body else ["n"]
    inside, tries = 0, 0
    while inside < count and tries < 40 * count:
        tries += 1
        values = {
            n: chosen.choice((0, 1, chosen.randrange(20), chosen.randrange(90))) for n in names
        }
        if met(records, values):
            inside += 1
            assert not _breaks(text, values), values
    assert inside
    for record in records:
        assert _breaks(text, {**dict.fromkeys(names, 0), **record["broken_by"]}), record


@pytest.mark.parametrize("name", BODIES)
def test_inside_nothing_breaks_and_outside_something_does(name):
    _assigned(1, 4, name)


@pytest.mark.slow
@pytest.mark.parametrize("name", BODIES)
def test_three_hundred_assignments(name):
    _assigned(2, 300 // len(BODIES) + 1, name)
