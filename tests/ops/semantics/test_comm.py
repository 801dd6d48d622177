"""Transfers between devices in one process: copies between buffers, events, signals of cores."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ptosim
from tests.support.text import Kernel

TARGETS = ["a2a3", "a5"]
SESSION = (
    "%session = pto.build_async_session(%scratch, %ws : {tile}, !pto.ptr<i8>) "
    "{{sync_id = 1}} -> !pto.async_session"
)
EVENT = "!pto.async_event"
SESSION_TYPE = "!pto.async_session"


def session(k: Kernel) -> None:
    tile = k.tile("scratch", "ui8", 1, 32)
    k.arg("ws", "!pto.ptr<i8>")
    k.line(SESSION.format(tile=tile.type))


def transfer(k: Kernel, name: str, dst, src, event: str) -> None:
    k.line(
        f"{event} = pto.{name}({dst[0]}, {src[0]}, %session : {dst[1]}, {src[1]}, {SESSION_TYPE})"
        f" -> {EVENT}"
    )


EDGES = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-45, -3.4e38, 1.5], np.float32)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["tput_async", "tget_async"])
def test_an_asynchronous_transfer_copies_bits(target, name):
    """A window at an offset; every bit arrives, and nothing around the window changes."""
    k = Kernel(target)
    session(k)
    src = k.view("x", "f32", (1, 8), shape=(4, 8), offsets=(2, 0))
    dst = k.view("y", "f32", (1, 8), shape=(4, 8), offsets=(1, 0))
    transfer(k, name, dst, src, "%e")
    k.line(f"%ok = pto.wait_async_event(%e, %session : {EVENT}, {SESSION_TYPE}) -> i1")
    k.line(f"%done = pto.test_async_event(%e, %session : {EVENT}, {SESSION_TYPE}) -> i1")
    one, pointer = k.const(1, "i32"), k.arg("z", "!pto.ptr<i32>")
    k.line("%both = arith.andi %ok, %done : i1")
    k.line("scf.if %both {")
    k.line(f"pto.store_scalar {one}, {pointer}[{k.const(0)}] : !pto.ptr<i32>, i32")
    k.line("}")
    x = np.stack([EDGES[::-1], -EDGES, EDGES, EDGES])
    y = np.full((4, 8), 7, np.float32)
    result = k.run({"x": x, "y": y, "ws": np.zeros(64, np.int8), "z": np.zeros(1, np.int32)})
    expected = y.copy()
    expected[1] = x[2]
    np.testing.assert_array_equal(result.outputs["y"].view(np.uint32), expected.view(np.uint32))
    assert result.outputs["z"][0] == 1
    assert not result.findings


def test_what_was_copied_can_be_loaded_after_the_wait():
    """Without the wait the load meets the copy: a race."""
    for waits in (True, False):
        k = Kernel("a5", sync="manual")
        session(k)
        src, dst = k.view("x", "f32", (1, 64)), k.view("y", "f32", (1, 64))
        transfer(k, "tput_async", dst, src, "%e")
        if waits:
            k.line(f"%ok = pto.wait_async_event(%e, %session : {EVENT}, {SESSION_TYPE}) -> i1")
        t = k.tile("t", "f32", 1, 64)
        k.op("pto.tload", [dst], [t])
        args = {"x": np.ones((1, 64), np.float32), "y": np.zeros((1, 64), np.float32)}
        result = k.run({**args, "ws": np.zeros(64, np.int8)})
        assert bool(result.findings) != waits


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", ["tput", "tget", "tbroadcast"])
def test_a_put_is_a_copy(target, name):
    k = Kernel(target)
    tile = k.tile("t", "f32", 1, 8)
    src, dst = k.view("x", "f32", (2, 8)), k.view("y", "f32", (2, 8))
    k.op(f"pto.{name}", [src, tile], [dst])
    x = np.stack([EDGES, -EDGES])
    got = k.run({"x": x, "y": np.zeros((2, 8), np.float32)}, uninit="zero").outputs["y"]
    np.testing.assert_array_equal(got.view(np.uint32), x.view(np.uint32))


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "i32", "i8"])
def test_a_put_can_add(dtype):
    """One rounding to the element type; integers wrap."""
    kind = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32,
            "i8": np.int8}[dtype]  # fmt: skip
    x = np.array([1, 100, 127, -128, 3, 5, 0, 77], np.float64).astype(kind)
    y = np.array([0.5, 100, 1, -1, -3, 0.25, 0, 51], np.float64).astype(kind)
    k = Kernel("a5")
    src, dst = k.view("x", dtype, (1, 8)), k.view("y", dtype, (1, 8))
    k.op("pto.tput", [src], [dst], "atomicType = #pto<atomic_type atomic_add>")
    got = k.run({"x": x, "y": y}).outputs["y"].reshape(-1)
    exact = x.astype(np.float64) + y.astype(np.float64)
    if dtype.startswith("i"):
        bits = 8 * np.dtype(kind).itemsize
        exact = (exact + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)
    np.testing.assert_array_equal(got.astype(np.float64), exact.astype(kind).astype(np.float64))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("op", ["Sum", "Max", "Min"])
def test_ranks_are_combined_in_their_order(target, op):
    """A sum of f32 shows the order: the large values cancel before the small one comes, or not."""
    top = float(np.finfo(np.float32).max)
    columns = [(1e8, -1e8, 1), (1, 1e8, -1e8), (-0.0, -0.0, 0.0), (3, np.nan, 1), (np.inf, 1, -1),
               (top, top, -top)]  # fmt: skip
    ranks = np.array(columns, np.float32).T.copy()
    k = Kernel(target)
    sources = [k.view("x", "f32", (1, 6), shape=(3, 6), offsets=(n, 0)) for n in range(3)]
    scratch = k.tile("t", "f32", 1, 8)
    dst = k.view("y", "f32", (1, 6))
    k.op("pto.treduce", [*sources, scratch], [dst], f"op = #pto<reduce_op {op}>")
    got = k.run({"x": ranks, "y": np.zeros((1, 6), np.float32)}, uninit="zero").outputs["y"][0]
    expected = {
        "Sum": [1, 0, 0, np.nan, np.inf, np.inf],
        "Max": [1e8, 1e8, 0, np.nan, np.inf, top],
        "Min": [-1e8, -1e8, 0, np.nan, -1, -top],
    }
    np.testing.assert_array_equal(got, np.array(expected[op], np.float32))


CONDITIONS = {"EQ": 3, "NE": 0, "GT": 2, "GE": 3, "LT": 4, "LE": 3}


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("cmp", CONDITIONS)
def test_a_core_waits_for_signals_of_the_other(target, cmp):
    """The vector core stores and notifies three times; the cube core loads after that only."""
    k = Kernel(target, sync="auto")
    signal, one = k.view("s", "i32", (1, 2)), (k.const(1, "i32"), "i32")
    k.line("%which = pto.get_subblock_idx")
    k.line(f"%first = arith.cmpi eq, %which, {k.const(0, 'i64')} : i64")
    k.line("pto.section.cube {")
    value = (k.const(CONDITIONS[cmp], "i32"), "i32")
    k.op("pto.twait", [signal, value], [], f"cmp = #pto<wait_cmp {cmp}>")
    k.load("y", k.tile("m", "f32", 16, 16, layout="nz", loc="mat"))
    k.line("}")
    k.line("pto.section.vector {")
    k.line("scf.if %first {")
    t = k.tile("t", "f32", 16, 16)
    k.load("x", t)
    k.store(t, "y")
    k.line("pto.barrier #pto.pipe<PIPE_ALL>")
    for _ in range(3):
        k.op("pto.tnotify", [signal, one], [], "op = #pto<notify_op AtomicAdd>")
    k.line("}")
    k.line("}")
    seen = {}

    class Look:
        def on_commit(self, core, inst, bound) -> None:
            if inst.op.name == "pto.tload" and core.kind == "cube":
                seen["mat"] = np.frombuffer(core.space("mat").data, np.float32)[:8].copy()

    x = np.arange(256, dtype=np.float32).reshape(16, 16)
    args = {"x": x, "y": np.zeros((16, 16), np.float32), "s": np.zeros((1, 2), np.int32)}
    if cmp in ("LT", "LE"):
        args["s"] += 2**31 - 2  # the third addition wraps around
        expected = 2**31 - 2 + 3 - 2**32
    else:
        expected = 3
    result = k.run(args, observers=[Look()])
    assert (result.outputs["s"] == expected).all()
    np.testing.assert_array_equal(seen["mat"], x.reshape(-1)[:8])
    assert not result.findings


def test_waiting_for_a_signal_that_never_comes():
    k = Kernel("a5")
    k.op("pto.twait", [k.view("s", "i32", (1, 2)), (k.const(1, "i32"), "i32")], [])
    with pytest.raises(ptosim.Trap) as stopped:
        k.run({"s": np.array([[1, 0]], np.int32)})
    assert stopped.value.diagnostics[-1].code == "PTO5006"


@pytest.mark.parametrize("signals", [(1, 1), (1, 0)])
def test_a_signal_can_be_asked_for(signals):
    """All of a block have to compare true."""
    k = Kernel("a2a3")
    view = k.view("s", "i32", (1, 2))
    one = k.const(1, "i32")
    k.line(f"%ok = pto.ttest {view[0]}, {one} {{cmp = #pto<wait_cmp EQ>}} : ({view[1]}, i32) -> i1")
    k.line("scf.if %ok {")
    k.op("pto.tnotify", [view, (k.const(9, "i32"), "i32")], [], "op = #pto<notify_op Set>")
    k.line("}")
    got = k.run({"s": np.array([signals], np.int32)}).outputs["s"]
    np.testing.assert_array_equal(got[0], [9, 9] if signals == (1, 1) else signals)


@pytest.mark.parametrize(("name", "sizes", "dtype"), [
    ("tput", (1, 4), "f32"), ("tget", (2, 4), "f32"), ("tput", (1, 8), "i32"),
    ("tnotify", (1, 8), "f32"), ("treduce", None, "f32"),
])  # fmt: skip
def test_operands_that_do_not_fit_stop_the_run(name, sizes, dtype):
    k = Kernel("a5")
    dst = k.view("y", "f32", (1, 8))
    if sizes is None:
        k.op("pto.treduce", [k.tile("t", "f32", 1, 8)], [dst])
    elif name == "tnotify":
        k.op("pto.tnotify", [dst, (k.const(1, "i32"), "i32")], [])
    else:
        k.op(f"pto.{name}", [k.view("x", dtype, sizes)], [dst])
    kind = np.int32 if dtype == "i32" else np.float32
    args = {"y": np.zeros((1, 8), np.float32)} | ({"x": np.zeros(8, kind)} if "x" in k.args else {})
    with pytest.raises(ptosim.Trap) as stopped:
        k.run(args, uninit="zero")
    assert stopped.value.diagnostics[-1].code == "PTO6025"
