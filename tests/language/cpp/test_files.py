"""Kernels in C++ as the library's tests and hand-written files have them, one for each construct.

The head of a file says what it means: `want: y = …` for x = 0, 1, 2, … of 8 x 64, the entry and
further arguments. Values are those of C++, not of the reader."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ptosim

_FOLDER = Path(__file__).parents[2] / "data" / "cpp" / "constructs"
_X = np.arange(512, dtype=np.float32).reshape(8, 64)


def _head(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {"want": [], "entry": [], "arg": []}
    for line in text.splitlines():
        word, _, rest = line.removeprefix("// ").partition(": ")
        if not line.startswith("// ") or word not in found:
            break
        found[word].append(rest)
    return found


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("name", sorted(p.stem for p in _FOLDER.glob("*.cpp")))
def test_a_file_means_what_its_head_says(name: str, target: str) -> None:
    text = (_FOLDER / f"{name}.cpp").read_text()
    head = _head(text)
    known: dict[str, Any] = {"np": np, "x": _X}
    args: dict[str, Any] = {"y": np.zeros_like(_X), "x": _X}
    for line in head["arg"]:
        key, _, value = line.partition(" = ")
        args[key] = eval(value, known)
    entry = head["entry"][0] if head["entry"] else None
    program = ptosim.load(text, entry=entry, target=target, filename=f"{name}.cpp")
    result = program.run(args)
    for line in head["want"]:
        key, _, value = line.partition(" = ")
        np.testing.assert_array_equal(result.outputs[key], eval(value, known))
    assert not [d for d in result.findings if d.is_error]


_FOR_SIMULATOR = """#include <pto/pto-inst.hpp>
using namespace pto;
AICORE void k(__gm__ float *y, __gm__ float *x) {
#if !defined(__CPU_SIM) || defined(__NPU_ARCH__)
#error for the simulator
#endif
    GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>> gx(x), gy(y);
    Tile<TileType::Vec, float, 8, 64> t;
    TASSIGN(t, 0x400 * block_idx);
    TLOAD(t, gx);
    TADDS(t, t, 1.0f);
    TSTORE(gy, t);
}
"""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
def test_a_file_for_the_simulator_has_its_macros_and_needs_no_flags(target: str) -> None:
    """The profile `cpu` predefines `__CPU_SIM` and no architecture; where the file has no flags, the
    pipes are ordered as the simulator does."""
    program = ptosim.load(_FOR_SIMULATOR, target=target, profile="cpu", filename="k.cpp")
    result = program.run({"y": np.zeros_like(_X), "x": _X})
    np.testing.assert_array_equal(result.outputs["y"], _X + 1)
    assert not [d for d in result.findings if d.is_error]
