"""Equality for all inputs: a program altered in anything that matters is found to be another one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ptosim
from ptosim.run.case import kept_arguments
from ptosim.run.sidecar import sidecar_of
from ptosim.search.prove import Followed, Launched, compare, follow
from ptosim.search.prove_memory import Unprovable

DATA = Path(__file__).parent.parent / "data" / "tune"
SHIPPED = {"softmax": "basics", "rmsnorm": "basics", "gemm_f16": "cube"}

OTHER = {
    "tadd": "tsub", "tsub": "tadd", "tmul": "tadd", "tmax": "tmin", "texp": "tneg", "trsqrt": "tsqrt",
    "tmuls": "tadds", "tadds": "tmuls", "trowmax": "trowmin", "trowsum": "trowmax",
    "trowexpandsub": "trowexpandmul", "trowexpanddiv": "trowexpandmul",
    "trowexpandmul": "trowexpanddiv", "tcolexpandmul": "tcolexpandadd",
}  # fmt: skip
"""For each operation another one with the same operands."""


def launched(name: str, text: str, target: str = "a2a3") -> Launched:
    sidecar = sidecar_of(Path("programs", SHIPPED[name], f"{name}.pto"))
    assert sidecar is not None
    program = ptosim.load(text, target=target)
    return Launched(program, None, kept_arguments(sidecar), sidecar.options.get("block_num"))


def lines_changed(text: str) -> Iterator[str]:
    """The text with one line altered: an operation, an operand, a number, or the line left out."""
    lines = text.split("\n")
    begin = next(i for i, line in enumerate(lines) if "func.func" in line)
    for index in range(begin + 1, len(lines)):
        for other in _altered(lines[index]):
            yield "\n".join([*lines[:index], other, *lines[index + 1 :]])


def _altered(line: str) -> Iterator[str]:
    name = re.search(r"pto\.(\w+(?:\.acc)?) ins\(", line)
    if name and name[1] in OTHER:
        yield line.replace(f"pto.{name[1]} ", f"pto.{OTHER[name[1]]} ")
    if name:
        yield "//" + line
    swapped = re.sub(r"ins\((%\w+), (%\w+)", r"ins(\2, \1", line)
    kinds = re.search(r": (![\w.<>, =?]+), (![\w.<>, =?]+)\) outs", line)
    if swapped != line and kinds and kinds[1] == kinds[2] and name and name[1] in ("tsub",):
        yield swapped
    if "offsets = [%c0" in line:
        yield line.replace("offsets = [%c0", "offsets = [%c1", 1)
    if "arith.constant" in line and "index" not in line and " i64" not in line:
        yield re.sub(r"constant (\S+)", r"constant 0.015625", line)
    if "set_flag" in line or "wait_flag" in line:
        yield "//" + line


def outcome(reference: Followed, name: str, text: str) -> str:
    """`equal`, `unequal`, or why there is no proof."""
    try:
        return compare(reference, follow(launched(name, text))).verdict
    except Unprovable as problem:
        return f"refused: {problem}"
    except ptosim.PtosimError as problem:
        return f"wrong: {type(problem).__name__}"


@pytest.mark.slow
@pytest.mark.parametrize("name", SHIPPED)
def test_every_change_of_a_shipped_program_is_found(name: str) -> None:
    text = (DATA / f"{name}.pto").read_text()
    reference = follow(launched(name, text))
    outcomes = [(t, outcome(reference, name, t)) for t in lines_changed(text)]
    assert len(outcomes) > 20
    wrong = [_first_difference(text, t) for t, found in outcomes if found == "equal"]
    assert wrong == []


def _first_difference(text: str, other: str) -> str:
    pairs = zip(text.split("\n"), other.split("\n"), strict=True)
    return next(b.strip() for a, b in pairs if a != b)
