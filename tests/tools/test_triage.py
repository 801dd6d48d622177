"""Whose fault a wrong value is: goldens, kernels and boards that were made wrong in known ways."""

from __future__ import annotations

import json
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from ptosim.launch.compare import Choices
from ptosim.tools.triage import triage
from ptosim.tools.triage_numbers import given_twice
from tests.support.text import Kernel, date_of

ROWS, COLUMNS = 16, 512


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


def saved(folder: Path, kernel: Kernel, target: str = "a2a3") -> Choices:
    """A file with the kernel, as a user has it."""
    path = folder / "kernel.pto"
    path.write_text(kernel.text())
    return Choices(str(path), target=target, compat=date_of(kernel.text())).completed()


def mean(columns: int = COLUMNS, word: str = "sum") -> Kernel:
    """Each row less its mean; with fewer `columns` a kernel that leaves some out."""
    k = Kernel("a2a3")
    t, tmp = k.tile("t", "f32", ROWS, COLUMNS), k.tile("tmp", "f32", ROWS, COLUMNS)
    part = k.tile("part", "f32", ROWS, COLUMNS, (ROWS, columns))
    col, out = k.tile("col", "f32", ROWS, 1, layout="dn"), k.tile("out", "f32", ROWS, 64)
    k.load("x", part, (ROWS, columns), shape=(ROWS, COLUMNS))
    k.line("%mean = arith.constant 0.001953125 : f32")
    k.op(f"pto.trow{word}", [part, tmp], [col])
    k.op("pto.tmuls", [col, ("%mean", "f32")], [col])
    k.op("pto.trowexpand", [col], [out])
    k.store(out, "y")
    del t
    return k


def rows(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((ROWS, COLUMNS)).astype(np.float32)


def means(x: np.ndarray, columns: int = COLUMNS) -> np.ndarray:
    total = x[:, :columns].astype(np.float64).sum(axis=1) / COLUMNS
    return np.repeat(total[:, None], 64, axis=1).astype(np.float32)


def verdicts(found) -> list[tuple[str, str]]:
    return [(g.verdict, g.output) for g in found.groups]


def test_another_order_is_nobodys_fault(folder) -> None:
    x = rows()
    order = np.add.accumulate(x[:, ::-1], axis=1, dtype=np.float32)[:, -1:] / np.float32(512)
    golden = np.repeat(order, 64, axis=1)
    found = triage(saved(folder, mean()), {"x": x, "y": golden})
    assert set(verdicts(found)) == {("order", "y")}
    assert found.exit_code == 0
    assert found.groups[0].op == "pto.trowsum"


def test_a_sum_over_448_of_512_columns_is_a_wrong_golden(folder) -> None:
    x = rows(1)
    found = triage(saved(folder, mean()), {"x": x, "y": means(x, 448)})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert (group.verdict, group.op) == ("golden", "pto.trowsum")
    assert "first 448 of 512 columns of %x" in group.why
    assert found.exit_code == 1
    found = triage(saved(folder, mean()), {"x": x, "y": means(x, 448) * np.float32(512 / 448)})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert (group.verdict, group.op) == ("golden", "pto.trowsum")
    assert group.why == "it is what the first 448 of 512 columns of %x give, times 512/448"


def quantising() -> Kernel:
    """x in whole numbers, half to even."""
    k = Kernel("a2a3")
    t, q = k.tile("t", "f32", ROWS, 64), k.tile("u", "i32", ROWS, 64)
    k.load("x", t)
    k.op("pto.tcvt", [t], [q], "rmode = #pto<round_mode CAST_RINT>")
    k.store(q, "q")
    return k


def test_another_rounding_is_a_wrong_golden(folder) -> None:
    x = np.round(rows()[:, :64] * 8) / 2
    golden = (np.sign(x) * np.floor(np.abs(x) + 0.5)).astype(np.int32)
    found = triage(saved(folder, quantising()), {"x": x.astype(np.float32), "q": golden})
    (group,) = found.groups
    assert (group.verdict, group.op) == ("golden", "pto.tcvt")
    assert group.why == "it is rounded half away from zero"
    assert group.count == int((golden != np.rint(x)).sum())


@pytest.mark.parametrize("way", ["half away from zero", "towards zero", "up"])
def test_another_rounding_to_a_float_is_a_wrong_golden(folder, way) -> None:
    """Values half way between two of bf16, and, with other ways than halves, any; nothing is summed,
    so that no order explains it."""
    k = Kernel("a2a3")
    t, q = k.tile("t", "f32", ROWS, 64), k.tile("u", "bf16", ROWS, 64)
    k.load("x", t)
    k.op("pto.tcvt", [t], [q], "rmode = #pto<round_mode CAST_RINT>")
    k.store(q, "q")
    high = rows()[:, :64].view(np.uint32) & np.uint32(0xFFFF0000)
    low = np.random.default_rng(2).choice(
        np.array([0, 0x8000, 0x2345, 0xE777], np.uint32), high.shape
    )
    x = (high | (0 if way.startswith("half") else low)).view(np.float32)
    if way.startswith("half"):
        x = (high | np.uint32(0x8000)).view(np.float32)
    up = {
        "half away from zero": True,
        "towards zero": False,
        "up": (x > 0) & (x.view(np.uint32) != high),
    }
    golden = ((x.view(np.uint32) >> 16) + np.where(up[way], 1, 0)).astype(np.uint16)
    found = triage(saved(folder, k), {"x": x, "q": golden.view(ml_dtypes.bfloat16)})
    (group,) = found.groups
    assert (group.verdict, group.op, group.why) == ("golden", "pto.tcvt", f"it is rounded {way}")


def scaled() -> Kernel:
    """Each row of x by a scale of its own."""
    k = Kernel("a2a3")
    t, tmp = k.tile("t", "f32", ROWS, 64), k.tile("tmp", "f32", ROWS, 64)
    s = k.tile("s", "f32", ROWS, 1, layout="dn")
    k.load("x", t)
    k.load("scale", s)
    k.op("pto.trowexpandmul", [t, s, tmp], [t])
    k.store(t, "y")
    return k


def test_what_a_golden_has_taken_by_mistake_is_named(folder) -> None:
    """Rows in other places, the scale of the next row, an input in bf16."""
    x = rows(6)[:, :64]
    scale = np.linspace(0.5, 3.0, ROWS, dtype=np.float32).reshape(ROWS, 1)
    right, short = x * scale, x.astype(ml_dtypes.bfloat16).astype(np.float32)
    wrong = {
        "it has the values of the program off by a row": np.roll(right, 1, axis=0),
        "it has the values of the program transposed": right.T.reshape(right.shape),
        "it has -0.5 times the values of the program": right * np.float32(-0.5),
        "it is what %scale off by a row gives": x * np.roll(scale, -1, axis=0),
        "it is what %x rounded to bfloat16 gives": short * scale,
        "all of its values are numbers of float16: it was computed in that": (
            x.astype(np.float16) * scale.astype(np.float16)
        ).astype(np.float32),
    }
    choices = saved(folder, scaled())
    for told, golden in wrong.items():
        found = triage(choices, {"x": x, "scale": scale, "y": golden})
        assert {(g.verdict, g.why) for g in found.groups if g.verdict != "order"} == {
            ("golden", told)
        }


@pytest.mark.slow
def test_a_key_given_twice_is_a_wrong_golden(folder) -> None:
    """The 64 largest of 2,048 numbers with their places: the golden names one place twice."""
    program = Choices("@sort/topk").completed()
    run = program.program().run(timing=False).outputs
    golden = {n: run[n].copy() for n in ("values", "indices")}
    golden["indices"][0, 7] = golden["indices"][0, 6]
    found = triage(program, golden)
    (group,) = found.groups
    assert (group.verdict, group.output, group.count) == ("golden", "indices", 1)
    assert group.element == "indices[0, 7]"
    assert "twice" in group.why


def test_a_key_given_twice_moves_those_after_it() -> None:
    own = np.random.default_rng(0).permutation(64).reshape(2, 32)
    golden = own.copy()
    golden[1, 8:] = own[1, 7:-1]
    assert given_twice(golden, own) == f"row 1 has {own[1, 7]} twice, the program each once"
    golden[1, 20:22] = golden[1, 21:19:-1]  # in another order, too: something else
    assert given_twice(golden, own) == ""


def test_a_kernel_that_loses_digits(folder) -> None:
    """A sum in half precision; the golden is that of f64."""
    k = Kernel("a2a3")
    t, half = k.tile("t", "f32", ROWS, 64), k.tile("half", "f16", ROWS, 64)
    k.load("x", t)
    k.op("pto.tcvt", [t], [half], "rmode = #pto<round_mode CAST_RINT>")
    k.op("pto.tcvt", [half], [t], "rmode = #pto<round_mode CAST_RINT>")
    k.line("%many = arith.constant 1024.0 : f32")
    k.op("pto.tmuls", [t, ("%many", "f32")], [t])
    k.store(t, "y")
    x = rows(2)[:, :64]
    found = triage(saved(folder, k), {"x": x, "y": x * np.float32(1024)})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert (group.verdict, group.op) == ("kernel", "pto.tcvt")
    assert "f64" in group.why


def test_a_kernel_that_leaves_part_of_its_input_out(folder) -> None:
    x = rows(3)
    found = triage(saved(folder, mean(448)), {"x": x, "y": means(x)})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert group.verdict == "kernel"
    assert "last columns (from 448) of %x" in group.why


def test_a_kernel_with_another_operation(folder) -> None:
    x = rows(4)
    found = triage(saved(folder, mean(word="max")), {"x": x, "y": means(x)})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert (group.verdict, group.op) == ("kernel", "pto.trowmax")
    assert "pto.trowsum" in group.why


def test_a_board_outside_of_the_band(folder) -> None:
    x = rows(5)
    golden, board = means(x), means(x)
    board[3, 5] *= np.float32(1.01)
    found = triage(saved(folder, mean()), {"x": x, "y": golden}, {"y": board})
    (group,) = [g for g in found.groups if g.verdict != "order"]
    assert (group.verdict, group.of, group.count, group.element) == ("board", "board", 1, "y[3, 5]")


def test_what_is_equal_is_said(cli, folder) -> None:
    x = np.ones((ROWS, 64), np.float32)
    np.savez(folder / "g.npz", x=x, q=x.astype(np.int32))
    path = saved(folder, quantising()).file
    done = cli("triage", path, "--target", "a2a3", "--golden", folder / "g.npz")
    assert done.code == 0, done.err
    assert "everything is equal" in done.out + done.err
    wrong = x.astype(np.int32)
    wrong[2, 3] = 9
    np.savez(folder / "g.npz", x=x, q=wrong)
    done = cli("triage", path, "--golden", folder / "g.npz", "--format", "json")
    assert done.code == 1
    (group,) = json.loads(done.out)["groups"]
    assert (group["verdict"], group["output"], group["count"]) == ("golden", "q", 1)
    assert group["first"] == {
        "element": "q[2, 3]",
        "op": "pto.tcvt",
        "line": group["first"]["line"],
    }


def test_files_that_do_not_fit(cli, folder) -> None:
    path = saved(folder, quantising()).file
    np.savez(folder / "g.npz", z=np.ones(3))
    done = cli("triage", path, "--golden", folder / "g.npz")
    assert done.code == 2
    assert "has no array `z`" in done.err
    np.savez(folder / "g.npz", q=np.ones(3))
    done = cli("triage", path, "--golden", folder / "g.npz")
    assert done.code == 2
    assert "has 3 elements" in done.err
    assert cli("triage", path).code == 2
    assert cli("triage", path, "--golden", folder / "none.npz").code == 2
    assert cli("triage", path, "--golden", "kernel.txt").code == 2
