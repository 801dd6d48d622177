"""Kernels of tiles against a compiler: `python -m tests.language.cpp.tiles.compiled FIRST COUNT`.

The compiler has a small model of tiles (`tests/data/cpp/tiles.hpp`), the simulator is asked as it is. What
is compared is all that a kernel can leave: what it stored, the whole unified buffer, two numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

import ptosim
from tests.language.cpp.against import Subject, main
from tests.language.cpp.compiler import Frame
from tests.language.cpp.tiles.kernel import LEFT, READ, STORED, kernel
from tests.support.paths import TREE

BATCH = 10
"""Kernels that are compiled together."""

_LONGEST = 50_000  # instructions of a run that is followed by the simulator; others are left out
_TYPES = {"i32": np.int32, "i16": np.int16, "f32": np.float32}
_NAN = 0x7FC00000
_MODEL = (TREE / "tests" / "data" / "cpp" / "tiles.hpp").read_text(encoding="utf-8")
_RUN = """
static void tell(int value) { printf(" %d", value); }
static void tell(float value) {
  int bits = 0x7fc00000;
  if (value == value) memcpy(&bits, &value, sizeof bits);
  tell(bits);
}
template <typename T>
static void run(void (*k)(T *, T *, int32_t *, int, int), int id, int n, int m) {
  apart([=] {
    static T out[STORED + LEFT / sizeof(T)], a[READ];
    int32_t seen[2] = {0, 0};
    for (T &value : out) value = 7;
    for (int i = 0; i < READ; i++) a[i] = i * 37 % 101 - 50;
    memset(pto::memory, 0xff, sizeof pto::memory);
    k(out, a, seen, n, m);
    printf("%d %d %d", id, n, m);
    for (T value : out) tell(value);
    for (int32_t value : seen) tell(value);
    printf("\\n");
  });
}
"""


def _values(program: ptosim.Program, n: int, m: int) -> list[int]:
    """Return what the compiler's program prints; of floating-point numbers bits, of NaNs one pattern."""
    kind = np.dtype(_TYPES[program.signature()[0].dtype])
    args: Mapping[str, object] = {
        "out": np.full(STORED + LEFT // kind.itemsize, 7, kind),
        "a": (np.arange(READ) * 37 % 101 - 50).astype(kind),
        "seen": np.zeros(2, np.int32), "n": n, "m": m,
    }  # fmt: skip
    # without what watches a run: findings are not compared, and it takes half of the time
    result = program.run(args, timing=False, sanitize="none", max_instructions=_LONGEST)
    out = result.outputs["out"]
    if kind == np.float32:
        out = np.where(np.isnan(out), np.int32(_NAN), out.view(np.int32))
    return [*out.tolist(), *result.outputs["seen"].tolist()]


_SIZES = {"STORED": STORED, "LEFT": LEFT, "READ": READ}
_FRAME = Frame(
    f"{_MODEL}using namespace pto;\n",
    re.sub(r"\b(STORED|LEFT|READ)\b", lambda word: str(_SIZES[word[0]]), _RUN),
)
TILES = Subject(kernel, BATCH, _FRAME, _values)

if __name__ == "__main__":
    main(TILES, __doc__)
