"""What is asked of a program with vectors of any length beside its text: whether it is a dump, for
which target it is, which of its functions is the entry."""

from __future__ import annotations

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import UnsupportedError
from ptosim.ground.source import Source
from ptosim.shell.main import main
from ptosim.tools.api import check_source

VECTOR = "!pto.vmi.vreg<64xf32>"
LAYOUT = "!pto.vmi.vreg<64xf32, #pto.vmi.layout<contiguous>>"


def kernel(vector: str = VECTOR, module: str = "") -> str:
    return f"""module {module} {{
  func.func @kernel(%p: !pto.ptr<f32, gm>) attributes {{pto.kernel}} {{
    %z = arith.constant 0 : i64
    %c = arith.constant 0 : index
    %ub = pto.castptr %z : i64 -> !pto.ptr<f32, ub>
    %v = pto.vmi.vload %ub[%c] : !pto.ptr<f32, ub> -> {vector}
    pto.vmi.vstore %v, %ub[%c] : {vector}, !pto.ptr<f32, ub>
    return
  }}
}}
"""


def codes(text: str, target: str | None = None, *, dump: bool = False) -> list[str]:
    return [
        d.code for d in check_source(Source("t", text), target, dry_run=False, dump=dump).findings
    ]


def test_a_dump_is_read_with_the_option_alone(tmp_path):
    assert codes(kernel(LAYOUT), "a5") == ["PTO2304"]
    assert codes(kernel(LAYOUT), "a5", dump=True) == []
    path = tmp_path / "dump.pto"
    path.write_text(kernel(LAYOUT, 'attributes {pto.target_arch = "a5"}'))
    assert main(["check", str(path)]) == 3
    assert main(["check", "--dump", str(path)]) == 0
    assert main(["check", "--dump", "--dry-run", str(path)]) == 2


def test_without_a_target_it_is_for_a5():
    assert codes(kernel()) == ["PTO3007"]
    assert ptosim.load(kernel()).target == "a5"
    lines = kernel().split("\n")[5:7]
    assert codes("\n".join(lines)) == ["PTO3007"], "a bare snippet too"


@pytest.mark.parametrize("target", ["a2", "a3"])
def test_other_targets_do_not_run_it(target, tmp_path):
    assert codes(kernel(), target) == ["PTO2303"]
    with pytest.raises(UnsupportedError):
        ptosim.load(kernel(), target=target).run()
    path = tmp_path / "kernel.pto"
    path.write_text(kernel())
    for command in ("run", "cost", "expand"):
        assert main([command, str(path), "--target", target]) == 5


def test_a_function_with_vectors_is_no_entry_of_a_host_but_can_be_run():
    text = f"""module attributes {{pto.target_arch = "a5"}} {{
  func.func @twice(%v: {VECTOR}) -> {VECTOR} {{
    %r = pto.vmi.vadd %v, %v : {VECTOR}, {VECTOR} -> {VECTOR}
    return %r : {VECTOR}
  }}
}}
"""
    assert codes(text) == ["PTO2306"]
    ramp = np.arange(64, dtype=np.float32)
    result = ptosim.load(text).run({"v": ramp})
    assert np.array_equal(result.outputs["r"], 2 * ramp)
