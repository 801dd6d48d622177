"""A2/A3 and A5 differ exactly where the list says: the same program text and data on both targets, for
every operation with generated operands that both have; and the element types of every row.
Operations with tests of their own: `test_shown`. `target_differences.toml` is the list."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import OpDef
from tests.ops.semantics.evidence import equal
from tests.ops.semantics.harness import Case, Spec
from tests.ops.semantics.operands import BUILDERS, Situation, case, kinds
from tests.ops.semantics.rows import TARGETS, executed
from tests.ops.semantics.test_every_operation import REDUCTIONS, WITHOUT_SOURCE

pytestmark = pytest.mark.slow

LIST = tomllib.loads(Path(__file__).with_name("target_differences.toml").read_text())
TYPES = ("f32", "f16", "i32", "i16")
VALUES = {
    op: frozenset(entry["types"].split()) for entry in LIST["values"] for op in entry["ops"].split()
}
Arrays = dict[str, np.ndarray]


def on_both(op: str) -> bool:
    return all(executed(op, target) for target in TARGETS)


# -- operations with generated operands ------------------------------------------------------------


def _tail(op: str, target: str, dtype: str) -> Case:
    return case(Situation(op, target, dtype))


def _in_place(op: str, target: str, dtype: str) -> Case | None:
    if op in WITHOUT_SOURCE or op in REDUCTIONS:
        return None
    made = BUILDERS[op](Situation(op, target, dtype))
    source, dst = next((n for n in made if n.startswith("src")), ""), made.get("dst")
    first = made.get(source)
    if not isinstance(first, Spec) or not isinstance(dst, Spec):
        return None
    if (first.dtype, first.rows, first.cols, first.layout) != (
        dst.dtype, dst.rows, dst.cols, dst.layout
    ):  # fmt: skip
        return None
    return case(Situation(op, target, dtype, same=source, tail=0))


def _many_repeats(op: str, target: str, dtype: str) -> Case | None:
    """Rows of several 256-byte chunks, with numbers whose sums depend on the order."""
    if op not in REDUCTIONS or op == "tpairreducesum":
        return None
    rng, width = np.random.default_rng(5), 512
    numbers = (
        1 + rng.standard_normal(5 * width) / 16
        if dtype.startswith("f")
        else rng.integers(0, 9, 5 * width)
    )
    whole = Spec(dtype, 5, width, (5, width - 3), values=numbers)
    out = "i32" if "arg" in op else dtype
    valid = (1, width - 3) if op.startswith("tcol") else (5, 1)
    made = {"src": whole, "dst": Spec(out, 5, width, valid)}
    binary = op == "tcolsum"
    if binary or "arg" in op or op.startswith("trow"):
        made["tmp"] = replace(whole, values=None)
    return Case(op, target, made, attrs={"isBinary": True} if binary else None, results=["dst"])


def _blocks(op: str, target: str, dtype: str) -> Case | None:
    """The second operand of a row form as a row-major block of differing lanes."""
    if "rowexpand.block" not in isa().get(f"pto.{op}").switches:
        return None
    at = Situation(op, target, dtype, switches={"rowexpand.block": ""})
    return Case(op, target, BUILDERS[op](at), results=["src0", "src1", "dst"])


SITUATIONS: tuple[Callable[[str, str, str], Case | None], ...] = (
    _tail, _in_place, _many_repeats, _blocks,
)  # fmt: skip


def outcome(made: Case) -> Arrays | None:
    """Every tile but the scratch afterwards; None where the target rejects the program."""
    try:
        outputs = made.run(sanitize="none").outputs
    except ptosim.ProgramError:
        return None
    return {n: a for n, a in outputs.items() if n.endswith("_after") and not n.startswith("tmp")}


def differing_types(op: str) -> Iterator[str]:
    for dtype in [t for t in kinds(op, "a5") if t in TYPES and t in kinds(op, "a2a3")]:
        for situation in SITUATIONS:
            pair = [situation(op, target, dtype) for target in TARGETS]
            left, right = (None if made is None else outcome(made) for made in pair)
            if left is not None and right is not None:
                assert left.keys() == right.keys()
                if not all(equal(left[n], right[n]) for n in left):
                    yield dtype
                    break


@pytest.mark.sampled(0, 8)
@pytest.mark.parametrize("op", [op for op in BUILDERS if on_both(op)])
def test_types_for_which_values_differ(op):
    assert set(differing_types(op)) == VALUES.get(op, set())


# -- what is accepted ------------------------------------------------------------------------------


def accepted(row: OpDef) -> dict[str, str]:
    """Per operand: the element types that only one target takes."""
    found: dict[str, str] = {}
    if len({row.status[t] == "absent" for t in TARGETS}) > 1:
        return {"only": next(t for t in TARGETS if row.status[t] != "absent")}
    for variant in row.variants:
        for rule in variant.elements:
            left, right = ({" ".join(e) for e in rule.allowed.get(t, ())} for t in TARGETS)
            name = " ".join(rule.operands)
            for target, more in (("a2a3", left - right), ("a5", right - left)):
                if more:
                    found[f"{target} {name}"] = ", ".join(sorted(more))
    return found


def test_types_of_every_row():
    rows = [d for d in map(isa().get, isa().names()) if d is not None]
    tile_rows = [d for d in rows if not d.family.startswith(("micro", "vmi"))]
    assert {d.mnemonic: found for d in tile_rows if (found := accepted(d))} == LIST["accepted"]


def test_every_entry_has_a_reason():
    assert all(entry["why"] for entry in LIST["values"])
