"""Arithmetic of small vectors on the scalar unit: number by number, rounded to the type of each."""

from __future__ import annotations

import numpy as np

from tests.support.micro import kernel, run

H, I = "vector<2xf16>", "vector<2xi32>"
BODY = f"""
%c0 = arith.constant 0 : index
%c1 = arith.constant 1 : index
%k = arith.constant dense<[0.1, 2.0]> : {H}
%x = pto.load %p[%c0] : !pto.ptr<{H}, gm> -> {H}
%y = arith.mulf %x, %k : {H}
%z = arith.addf %y, %k : {H}
pto.store %z, %p[%c1] : !pto.ptr<{H}, gm>, {H}
%a = pto.load %q[%c0] : !pto.ptr<{I}, gm> -> {I}
%b = arith.addi %a, %a : {I}
%c = arith.cmpi slt, %a, %b : {I}
%d = arith.select %c, %b, %a : vector<2xi1>, {I}
%f = arith.sitofp %d : {I} to vector<2xf32>
%g = arith.fptosi %f : vector<2xf32> to {I}
pto.store %g, %q[%c1] : !pto.ptr<{I}, gm>, {I}
"""


def test_small_vectors_on_the_scalar_unit():
    text = kernel(f"%p: !pto.ptr<{H}, gm>, %q: !pto.ptr<{I}, gm>", BODY)
    halves = np.array([3.0, 2.0, 0, 0], np.float16)
    result = run(text, {"p": halves, "q": np.array([-3, 5, 0, 0], np.int32)})
    tenth = np.float16(0.1)
    expected = [np.float16(np.float16(3) * tenth) + tenth, np.float16(6.0)]
    found = result.outputs["p"].view(np.float16)
    assert found[2:].tolist() == [float(e) for e in expected]
    assert result.outputs["q"].view(np.int32).tolist() == [-3, 5, -3, 10]
