"""Events between the cores of a block, and communication between devices."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import ptosim
from ptosim.ground.diagnostics.model import ProgramError
from ptosim.shell.main import main

_CORES = """#include <pto/pto-inst.hpp>
using namespace pto;
#if defined(__DAV_CUBE__)
#define ON_CUBE true
#else
#define ON_CUBE false
#endif
#if defined(__DAV_VEC__)
#define ON_VEC true
#else
#define ON_VEC false
#endif
// out = relu(a x b): the cube core stores the product, or moves it to the vector cores.
AICORE void k(__gm__ float *out, __gm__ half *a, __gm__ half *b, __gm__ float *between) {
    GlobalTensor<float, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> whole(between);
    Tile<TileType::Vec, float, 16, 32> moved, result;
    TASSIGN(moved, 0x0);
    TASSIGN(result, 0x8000);
    EVENT ready;
    ready.Init<3>();
    if constexpr (ON_CUBE) {
        GlobalTensor<half, Shape<1, 1, 1, 32, 32>, Stride<1024, 1024, 1024, 32, 1>> ga(a), gb(b);
        Tile<TileType::Mat, half, 32, 32, BLayout::ColMajor, 32, 32, SLayout::RowMajor> ma, mb;
        TileLeft<half, 32, 32> left;
        TileRight<half, 32, 32> right;
        TileAcc<float, 32, 32> acc;
        TASSIGN(ma, 0x0);
        TASSIGN(mb, 0x8000);
        TASSIGN(left, 0x0);
        TASSIGN(right, 0x0);
        TASSIGN(acc, 0x0);
        TLOAD(ma, ga);
        TLOAD(mb, gb);
        PtoSetWaitFlag<PIPE_MTE2, PIPE_MTE1>();
        TMOV(left, ma);
        TMOV(right, mb);
        PtoSetWaitFlag<PIPE_MTE1, PIPE_M>();
        TMATMUL(acc, left, right);
        PtoSetWaitFlag<PIPE_M, PIPE_FIX>();
        GIVEN
    }
    if constexpr (ON_VEC) {
        const int rows = get_subblockid() * 16 * 32;
        GlobalTensor<float, Shape<1, 1, 1, 16, 32>, Stride<512, 512, 512, 32, 1>>
            half_of(between + rows), go(out + rows);
        TAKEN
        TRELU(result, moved);
        PtoSetWaitFlag<PIPE_V, PIPE_MTE3>();
        TSTORE(go, result);
    }
}
"""
_WAYS = {
    "through memory": (
        "Event<Op::TSTORE_ACC, Op::TLOAD, false>",
        "TSTORE(whole, acc); ready.Record();",
        "ready.Wait<3>(); TLOAD(moved, half_of); PtoSetWaitFlag<PIPE_MTE2, PIPE_V>();",
    ),
    "from core to core": (
        "Event<Op::TMOV_A2V, Op::TRELU, false>",
        "ready = TMOV<AccToVecMode::DualModeSplitM>(moved, acc);",
        "ready.Wait<3>();",
    ),
}


@pytest.mark.parametrize(
    ("way", "target"),
    [("through memory", "a2a3"), ("through memory", "a5"), ("from core to core", "a5")],
)
def test_an_event_between_cores_is_a_flag_of_its_number(way: str, target: str) -> None:
    """On A5 the cube core signals both vector cores, whose flags are 16 apart."""
    event, given, taken = _WAYS[way]
    text = _CORES.replace("EVENT", event).replace("GIVEN", given).replace("TAKEN", taken)
    draw = np.random.default_rng(3)
    a, b = (draw.integers(-3, 4, (32, 32)).astype(np.float16) for _ in "ab")
    out = np.zeros((32, 32), np.float32)
    program = ptosim.load(text, target=target, filename="k.cpp")
    names = {arg.name for arg in program.signature()}
    args = {"out": out, "a": a, "b": b, "between": np.zeros(1024, np.float32)}
    result = program.run({name: value for name, value in args.items() if name in names})
    wanted = np.maximum(a.astype(np.float32) @ b.astype(np.float32), 0)
    np.testing.assert_array_equal(result.outputs["out"], wanted)
    assert not [d for d in result.findings if d.is_error]


_DEVICES = """#include <pto/pto-inst.hpp>
AICORE void k(__gm__ float *y, __gm__ float *x, __gm__ int32_t *s) {
    using namespace pto;
    using G = GlobalTensor<float, Shape<1, 1, 1, 8, 64>, Stride<512, 512, 512, 64, 1>>;
    Tile<TileType::Vec, float, 8, 64> a, b;
    TASSIGN(a, 0x0);
    TASSIGN(b, 0x4000);
    G gx(x), gy(y), gz(y + 512);
    comm::Signal signal(s);
    G both[2] = {gx, gx}, ends[2] = {gy, gz};
    CALL
}
"""
_CALLS = {
    "comm::TPUT(gy, gx, a); comm::TGET(gz, gx, a, b);": (1, 1),
    "pto::comm::TPUT<AtomicType::AtomicAdd>(gy, gx, a);": (1, 0),
    "comm::TNOTIFY(signal, 3, comm::NotifyOp::Set); comm::TWAIT(signal, 3, comm::WaitCmp::GE);"
    "if (comm::TTEST(signal, 3, comm::WaitCmp::EQ)) { comm::TPUT(gz, gx, a); }": (0, 1),
    "auto g = comm::ParallelGroup<G>::Create(ends, 2, 0);"
    "if (g.GetSize() == 2 && g.GetRootIdx() == 0) comm::TBROADCAST(g, gx, a);": (1, 1),
    "comm::ParallelGroup<G> g(both, 2, 1);comm::TREDUCE(g, gz, a, b, comm::ReduceOp::Sum);": (0, 2),
}


@pytest.mark.parametrize("call", _CALLS)
def test_communication_between_devices(call: str) -> None:
    program = ptosim.load(_DEVICES.replace("CALL", call), target="a5", filename="k.cpp")
    args = {"y": np.zeros(1024, np.float32), "x": np.ones(512, np.float32),
            "s": np.zeros(1, np.int32)}  # fmt: skip
    names = {arg.name for arg in program.signature()}
    result = program.run({name: value for name, value in args.items() if name in names})
    first, second = result.outputs["y"].reshape(2, 512)
    assert (set(first), set(second)) == tuple({float(v)} for v in _CALLS[call])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("comm::TBROADCAST(gy, gx, a);", "takes a ParallelGroup"),
        ("comm::TPUT(gy, gx);", "takes dst, src, buf: the last is one tile or two"),
        ("comm::ParallelGroup<G> g(both, 2, 1); comm::TREDUCE(g, gz, a, comm::ReduceOp::Sum);",
         "takes group, dst, acc, recv: the last is one tile or two"),
        ("comm::TPUT(gy);", "takes more arguments"),
        ("auto g = comm::ParallelGroup<G>::Create(ends, 3, 0); comm::TBROADCAST(g, gx, a);",
         "a group of 3"),
    ],
)  # fmt: skip
def test_wrong_communication_is_told(call: str, words: str) -> None:
    with pytest.raises(ProgramError, match=words):
        ptosim.load(_DEVICES.replace("CALL", call), target="a5", filename="k.cpp")


def test_macros_of_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`#error` counts only in parts that are read."""
    file = tmp_path / "k.cpp"
    first = "#ifndef ROWS\n#error give ROWS\n#endif\n"
    file.write_text(f"{first}AICORE void k(__gm__ float *y) {{ y[0] = ROWS; }}\n")
    assert main(["check", str(file)]) == 3
    assert "#error give ROWS" in capsys.readouterr().err
    assert main(["check", str(file), "--define", "ROWS=7"]) == 0
    capsys.readouterr()
    assert main(["fmt", str(file), "--define", "ROWS=7", "--to", "pto"]) == 0
    assert "constant 7.0" in capsys.readouterr().out
    file.write_text("AICORE void k(__gm__ float *y) { throw 1; }\n")
    assert [
        main([word, str(file), *rest]) for word, *rest in (["check"], ["fmt", "--to", "pto"])
    ] == [5, 5]
    file.write_text("AICORE void k(__gm__ float *y) { y[0] = ROWS; }\n")
    page = ["report", str(file), "--define", "ROWS=7", "-o", str(tmp_path / "k.html")]
    assert main([*page, "--arg", "y=zeros:f32:1x8"]) == 0
    assert main(["check", str(file), "--define", "7=ROWS"]) == 2
