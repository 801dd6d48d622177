"""Kernels of scalars against a compiler: `python -m tests.language.cpp.scalars.compiled FIRST COUNT`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

import ptosim
from tests.language.cpp.against import Subject, main
from tests.language.cpp.compiler import Frame
from tests.language.cpp.scalars.kernel import kernel

MEMORY = (0, 0, 0, 1, 2, 3, 4)
"""`out` before a run."""

_LONGEST = 50_000  # instructions of a run that is followed by the simulator; others are left out
_RUN = """
static void run(void (*k)(int *, int, int), int id, int n, int m) {
  apart([=] {
    int out[] = {MEMORY};
    k(out, n, m);
    printf("%d %d %d", id, n, m);
    for (int value : out) printf(" %d", value);
    printf("\\n");
  });
}
"""


def _values(program: ptosim.Program, n: int, m: int) -> list[int]:
    args: Mapping[str, object] = {"out": np.array(MEMORY, np.int32), "n": n, "m": m}
    result = program.run(args, timing=False, max_instructions=_LONGEST)
    return result.outputs["out"].tolist()


SCALARS = Subject(
    kernel, 40, Frame("", _RUN.replace("MEMORY", ", ".join(map(str, MEMORY)))), _values
)

if __name__ == "__main__":
    main(SCALARS, __doc__)
