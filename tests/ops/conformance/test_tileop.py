"""One tile operation each: the cases of the assembler's A5 tile-op library, run as program text.

A case lists arguments, tiles and steps; here it becomes a module with views, tiles and operations,
and runs through the public interface. Most outputs are compared with a tolerance that the case
names, so what these cases leave open (NaN, signs, orders of summation) is decided by the tests of
semantics.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ops.conformance.data import COMPARED, arrays, document
from tests.support.text import Kernel, Tile

pytestmark = pytest.mark.slow

Array = np.ndarray
Json = dict[str, Any]

_DTYPES = {
    "bf16": ml_dtypes.bfloat16,
    "bfloat16": ml_dtypes.bfloat16,
    **{f"f{bits}": f"float{bits}" for bits in (16, 32)},
    **{f"{sign}{bits}": f"int{bits}" for sign in ("i", "si") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": f"uint{bits}" for bits in (8, 16, 32, 64)},
}

# The case expects -1.0 where the tile's pad code says zero: a special case of the expansion library
# that the text of the program does not show.
_KNOWN = {"tfillpad__f32_128x128_pad_128x64_neg1": (0.0, -1.0)}

# The tiles of this case need 64 bytes more than the vec space has. A5 does not touch the scratch
# tile of a row reduction, so here it is on the source; the program then gives all addresses.
_PLACED = {
    "trowargmax__uint32_float_8x1_2x16384_2x16381": {"src": 0, "tmp": 0, "dst": 0x20000},
}


# -- program text ----------------------------------------------------------------------------------


class _Text:
    """A case as a program."""

    def __init__(self, case: Json) -> None:
        self.kernel = Kernel(case["target"])
        self.case = case
        self.args = {a["index"]: a for a in case["args"]}
        for argument in case["args"]:
            scalar = argument["kind"] == "scalar"
            type_ = argument["dtype"] if scalar else f"!pto.ptr<{argument['dtype']}>"
            self.kernel.arg(f"a{argument['index']}", type_)
        placed = _PLACED.get(case["id"], {})
        self.tiles = {
            name: self._tile(name, **{"addr": placed.get(name), **keys})
            for name, keys in case["tiles"].items()
        }
        for step in case["steps"]:
            sides = ([self._operand(o) for o in step[side]] for side in ("ins", "outs"))
            self.kernel.op(f"pto.{step['op']}", *sides, _attributes(step.get("attrs") or {}))

    def _tile(self, name: str, addr: int | None, **keys: Any) -> Tile:
        tile = Tile(name, **keys)
        at = "" if addr is None else f" addr = {self.kernel.const(addr, 'i64')}"
        self.kernel.line(f"%{name} = pto.alloc_tile{at} : {tile.type}")
        return tile

    def _operand(self, operand: Json) -> Tile | tuple[str, str]:
        if "tile" in operand:
            return self.tiles[operand["tile"]]
        if "arg" in operand:
            return f"%a{operand['arg']}", self.args[operand["arg"]]["dtype"]
        if "const" in operand:
            name = f"%k{len(self.kernel.lines)}"
            literal = repr(operand["const"])
            self.kernel.line(f"{name} = arith.constant {literal} : {operand['dtype']}")
            return name, operand["dtype"]
        view = operand["gm"]
        return self.kernel.view(
            f"a{view['arg']}",
            self.args[view["arg"]]["dtype"],
            view["sizes"],
            view["strides"],
            layout=view["layout"],
            offsets=view["offsets"],
            shape=view["shape"],
        )


def _attributes(attrs: dict[str, str]) -> str:
    """Integers are written with their type after a blank: `1 i64`."""
    return ", ".join(f"{k} = {str(v).replace(' i64', ' : i64')}" for k, v in attrs.items())


# -- arguments and results -------------------------------------------------------------------------


def _dtype(name: str) -> np.dtype:
    return np.dtype(_DTYPES.get(name, name))


def _argument(argument: Json, data: dict[str, Array]) -> Any:
    kind = _dtype(argument["dtype"])
    number = argument["index"]
    if argument["kind"] == "scalar":
        if kind.kind == "i":  # signed values can be given as unsigned numbers
            return int(np.array(argument["value"], np.int64).astype(kind))
        return argument["value"]
    for key in (f"in_{number}", f"init_{number}"):
        if key in data:
            return data[key].view(kind).reshape(argument["shape"])
    return np.zeros(argument["shape"], kind)


def _selected(array: Array, rule: Json, data: dict[str, Array]) -> Array:
    flat = np.ascontiguousarray(array).reshape(-1)
    region = rule.get("region")
    if region is None:
        return flat
    if "index_array" in region:
        return flat[data[region["index_array"]]]
    size = flat.itemsize
    return np.lib.stride_tricks.as_strided(
        flat[region["offset"] :], region["shape"], [s * size for s in region["strides"]]
    ).copy()


def _differences(got: Array, expected: Array, rule: Json, data: dict[str, Array]) -> Array:
    """Places where a result is not the expected one, with the two values."""
    kind = _dtype(rule["cmp_dtype"])
    left, right = (_selected(a.view(kind), rule, data) for a in (got, expected))
    if rule["rule"] == "exact":
        same = left == right
    else:
        wide = (left.astype(np.float64), right.astype(np.float64))
        same = np.isclose(*wide, rtol=rule["rtol"], atol=rule["atol"], equal_nan=True)
    return np.stack((left[~same], right[~same]), axis=-1)


@pytest.mark.sampled(3, 270)
@pytest.mark.parametrize("case", document("tileop/manifest.json"), ids=lambda case: case["id"])
def test_tileop(case: Json) -> None:
    """The outputs of the case are those of its data."""
    COMPARED["tileop cases run"] += 1
    data = arrays(f"tileop/{case['npz']}")
    given = {f"a{a['index']}": _argument(a, data) for a in case["args"]}
    result = _Text(case).kernel.run(given)
    for rule in case["compare"]:
        number = rule["arg"]
        got = result.outputs[f"a{number}"]
        wrong = _differences(got, data[f"out_{number}"], rule, data)
        if case["id"] in _KNOWN:
            assert wrong.size
            assert (wrong == _KNOWN[case["id"]]).all()
            COMPARED["tileop known exceptions"] += 1
            return
        assert not wrong.size, f"{len(wrong)} differ (got, expected): {wrong[:6].tolist()}"
    COMPARED["tileop cases passed"] += 1
