"""What the account of an operation says of its bytes, against what its function does to memory.

Bytes outside of what the account reads change nothing; every byte that changes is in what it
writes; every byte that it reads can matter. That holds for valid regions that differ between the
operands too: the text of a kernel cannot always show that they do not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ptosim.ground.errors import PtosimError
from ptosim.launch import launch
from tests.ops.semantics.harness import Spec
from tests.ops.semantics.operands import Situation, case, preferred
from tests.ops.semantics.test_every_operation import TABLE
from tests.support.perturb import Perturbed
from tests.support.text import Kernel

pytestmark = pytest.mark.slow


def odd_shapes(at: Situation):
    """The operand whose valid region is another one than its builder gave it, and that region: a
    row less, some columns less, all rows, all columns."""
    yield "", None
    for name, operand in case(at).operands.items():
        if isinstance(operand, Spec) and name != "tmp":
            rows, cols = operand.valid
            for shape in ((2, cols), (rows, max(cols - 5, 1)), (4, cols), (rows, operand.cols)):
                if shape != operand.valid and shape[0] <= operand.rows:
                    yield name, shape


CHOOSES = ("tpartargmax", "tpartargmin")
"""Which of two values is larger decides whose index is taken: twelve contents do not show each."""

EXACT = frozenset(["tabs", "tand", "tor", "tneg", "tnot", "tmov", "tcolexpand", "trowexpand"])
"""Operations of which every bit of a source shows in the result: the others round, saturate, or
choose."""


@pytest.mark.sampled(3, 24)
@pytest.mark.parametrize(("op", "target"), TABLE)
def test_what_is_not_accounted_for_does_not_matter(op, target, monkeypatch):
    looked = 0
    at = Situation(op, target, preferred(op, target)[0], rows=3, dynamic=True)
    for name, shape in odd_shapes(at):
        run = case(at)
        for key, operand in run.operands.items():
            if isinstance(operand, Spec):
                valid = shape if key == name else operand.valid
                run.operands[key] = replace(operand, dynamic=True, valid=valid)
        watched: list[Perturbed] = []

        def attach(engine, *_, watched=watched, **_options):
            ops = frozenset([f"pto.{op}"] if engine.domain.has_contents else [])
            engine.monitor = Perturbed(engine.machine, ops, is_exact=op in EXACT)
            watched.append(engine.monitor)
            return engine.monitor

        monkeypatch.setattr(launch, "attach", attach)
        try:
            run.run()
        except PtosimError:  # the rules refuse the shape, or the operation does at run time
            continue
        looked += len(watched[0].seen)
        assert watched[0].wrong == [], (name, shape)
        idle = [told for told in watched[0].idle if op in EXACT or "says it reads" in told]
        assert idle == [] or op in CHOOSES, (name, shape)
    assert looked, "no shape was executed"


# -- what a user gets ------------------------------------------------------------------------------

SHORT = ("tmov", "ttrans", "tadds", "tsubs", "tmuls", "tmins", "tneg", "tcolexpand")
"""Operations of which the destination, not the source, says how far they go."""


@pytest.mark.parametrize("target", ["a2a3", "a5"])
@pytest.mark.parametrize("op", SHORT)
def test_a_source_with_fewer_valid_columns_than_the_destination_is_found(op, target):
    """Half of what is stored comes from bytes that nothing wrote."""
    k = Kernel(target)
    whole = k.tile("x", "f32", 16, 16)
    part = k.alias("pto.treshape", "part", whole, v_row=8, v_col=8)
    out = k.tile("y", "f32", 16, 16)
    dst = k.alias("pto.treshape", "dst", out, v_row=-1, v_col=-1)
    rows, cols = k.arg("rows", "index"), k.arg("cols", "index")
    k.line(f"pto.set_validshape %dst, {rows}, {cols} : {dst.type}")
    k.load("src", part)
    ins = [part] if op in ("tmov", "tneg", "tcolexpand") else [part, (k.arg("s", "f32"), "f32")]
    if op == "ttrans":
        ins = [part, k.tile("tmp", "f32", 16, 16)]
    k.op(f"pto.{op}", ins, [dst])
    k.store(dst, "dst_", (8, 16))
    args = {"src": np.ones((8, 8), np.float32), "dst_": np.zeros((8, 16), np.float32)}
    args |= {"rows": 8, "cols": 16} | ({"s": 1.0} if len(ins) == 2 and op != "ttrans" else {})
    result = k.run(args)
    assert np.isnan(result.outputs["dst_"]).any()
    assert {"PTO7101", "PTO7102"} & {d.code for d in result.findings}
