"""What is done with files that are no programs: sidecars, chains, arrays, models, MLIR text, tasks,
scripts of the debugger, command lines, and the bytes that an editor sends to the debug adapter."""

from __future__ import annotations

import contextlib
import io
import json
import os
import queue
import shlex
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from ptosim.debug.dap.server import Server
from ptosim.shell.serve.protocol import line_of, request_of
from tests.fuzz.case import Case, Different
from tests.fuzz.models import samples

Runner = Callable[[Case, Path], int]
KERNEL = """module attributes {pto.target_arch = "a5"} {
  func.func @k(%x: !pto.ptr<f32>, %y: !pto.ptr<f32>, %s: f32) attributes {pto.kernel} {
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c8 = arith.constant 8 : index
    %vx = pto.make_tensor_view %x, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xf32>
    %vy = pto.make_tensor_view %y, shape = [%c8, %c8], strides = [%c8, %c1] : !pto.tensor_view<8x8xf32>
    %px = pto.partition_view %vx, offsets = [%c0, %c0], sizes = [%c8, %c8] : !pto.tensor_view<8x8xf32> -> !pto.partition_tensor_view<8x8xf32>
    %py = pto.partition_view %vy, offsets = [%c0, %c0], sizes = [%c8, %c8] : !pto.tensor_view<8x8xf32> -> !pto.partition_tensor_view<8x8xf32>
    %a = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
    %b = pto.alloc_tile : !pto.tile_buf<vec, 8x8xf32>
    pto.tload ins(%px : !pto.partition_tensor_view<8x8xf32>) outs(%a : !pto.tile_buf<vec, 8x8xf32>)
    scf.for %i = %c0 to %c8 step %c1 {
      pto.tmuls ins(%a, %s : !pto.tile_buf<vec, 8x8xf32>, f32) outs(%b : !pto.tile_buf<vec, 8x8xf32>)
    }
    pto.tstore ins(%b : !pto.tile_buf<vec, 8x8xf32>) outs(%py : !pto.partition_tensor_view<8x8xf32>)
    return
  }
}
"""
"""The program that sidecars, chains, arrays and scripts belong to."""
GRAPH = """func.func @mlp(%x: tensor<4x8xf32>) -> tensor<4x2xf32> {
  %w0 = arith.constant dense<[[0.5, -0.25, 0.125], [0.1, 0.2, 0.3], [-1.0, 1.0, 0.5], [0.3, 0.1, 0.7], [0.2, 0.4, -0.6], [0.1, 0.1, 0.9], [0.8, 0.5, 0.2], [-0.3, 0.3, 0.6]]> : tensor<8x3xf32>
  %b0 = "tosa.const"() <{values = dense<"0x0000003F0000803E000000BF"> : tensor<3xf32>}> : () -> tensor<3xf32>
  %w1 = arith.constant dense<[[0.5, 0.25, -0.125], [0.1, 0x3F000000, 1.0e-1]]> : tensor<2x3xf32>
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<4x3xf32>
  %e = tensor.empty() : tensor<4x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<4x3xf32>) -> tensor<4x3xf32>
  %m = linalg.matmul ins(%x, %w0 : tensor<4x8xf32>, tensor<8x3xf32>) outs(%f : tensor<4x3xf32>) -> tensor<4x3xf32>
  %a = tosa.add %m, %b0 : (tensor<4x3xf32>, tensor<3xf32>) -> tensor<4x3xf32>
  %r = arith.maximumf %a, %zeros : tensor<4x3xf32>
  %c = tosa.clamp %r {min_val = 0.0 : f32, max_val = 3.4028235e+38 : f32} : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %s = tosa.reshape %c : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %e1 = tensor.empty() : tensor<3x2xf32>
  %wt = linalg.transpose ins(%w1 : tensor<2x3xf32>) outs(%e1 : tensor<3x2xf32>) permutation = [1, 0]
  %e2 = tensor.empty() : tensor<4x2xf32>
  %y = linalg.matmul ins(%s, %wt : tensor<4x3xf32>, tensor<3x2xf32>) outs(%e2 : tensor<4x2xf32>) -> tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}
"""
"""A model that `quant convert` reads."""
SMALLER_GRAPH = """func.func @f(%x: tensor<?x8xf32>) -> tensor<4x8xf32> {
  %w = "tosa.const"() {value = dense<0.5> : tensor<8x8xf32>} : () -> tensor<8x8xf32>
  %n = arith.constant dense<[1, 0x2]> : tensor<2xi64>
  %t = tosa.transpose %w {perms = array<i32: 1, 0>} : (tensor<8x8xf32>) -> tensor<8x8xf32>
  %m = tosa.matmul %x, %t : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %b = linalg.broadcast ins(%m : tensor<4x8xf32>) outs(%m : tensor<4x8xf32>) dimensions = [0]
  %g = math.tanh %b : tensor<4x8xf32>
  return %g : tensor<4x8xf32>
}
"""
LIMITS = ("--max-instructions", "5000", "--max-memory", "500M")
_ARGS = ("--arg", "x=randn:f32:8x8:1", "--arg", "y=zeros:f32:8x8", "--arg", "s=0.5")


def _documented(words: list[str]) -> int:
    from tests.fuzz.commands import documented

    return documented(words)


def _kernel(folder: Path) -> Path:
    path = folder / "k.pto"
    if not path.exists():
        path.write_text(KERNEL, encoding="utf-8")
    return path


def _beside(name: str, *words: str, suffix: str = "") -> Runner:
    """A command in whose words FILE is the changed file and KERNEL the program."""

    def run(case: Case, folder: Path) -> int:
        kernel, path = _kernel(folder), folder / name
        path.write_bytes(case.content)
        named = {"KERNEL": str(kernel), "FILE": f"{path}{suffix}"}
        try:
            return _documented([_filled(word, named) for word in words])
        finally:
            path.unlink()

    return run


def _filled(word: str, named: dict[str, str]) -> str:
    for name, value in named.items():
        word = word.replace(name, value)
    return word


def _words(case: Case, folder: Path) -> int:
    """A whole command line, a word a line; it has a folder of its own, for it may write over what
    is there."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        return _in_its_folder(case, Path(own))


def _in_its_folder(case: Case, folder: Path) -> int:
    kernel = _kernel(folder)
    words = [w.replace("KERNEL", str(kernel)) for w in case.text.split("\n")]
    if any(w in FORBIDDEN or w.startswith("--wa") for w in words):
        return 2  # what waits for a person is not tried
    with contextlib.chdir(folder), _quiet_input():
        return _documented(words)


FORBIDDEN = frozenset(
    ("dap", "debug", "serve", "lsp", "selftest", "-i", "--in-place", "--watch", "--tui")
)
"""Words of command lines that wait for input, or that write into files they were given."""


@contextlib.contextmanager
def _quiet_input():
    import sys

    before, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(b""), encoding="utf-8")
    try:
        yield
    finally:
        sys.stdin = before


def _script(case: Case, folder: Path) -> int:
    """A script of the debugger, without the commands that evaluate Python or write files."""
    kernel, path = _kernel(folder), folder / "script.dbg"
    lines = [x for x in case.text.split("\n") if not x.strip().lower().startswith(("py", "dump"))]
    path.write_bytes("\n".join(lines).encode("utf-8", "replace"))
    with contextlib.chdir(folder), _quiet_input():
        return _documented(
            ["debug", str(kernel), "-nx", "--batch", "-x", str(path), "--no-timing", *_ARGS]
        )


def _request(case: Case, folder: Path) -> int:
    """A line that a program sends to the server: refused with a reason, or understood, and then
    what it asks can be answered."""
    for line in case.content.split(b"\n"):
        try:
            request = request_of(line)
        except ValueError:
            continue
        line_of(request).decode()
        env = {} if "cancel" in request else request.get("env", {})
        for name, value in env.items():
            os.fsencode(f"{name}={value}")
    return 0


def frame(message: Any) -> bytes:
    """Return a message with its header."""
    body = json.dumps(message).encode()
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


class _Inbox(queue.Queue):
    """The inbox of a server; `idle` is set while the server waits for a message."""

    def __init__(self) -> None:
        self.idle = threading.Event()
        super().__init__()

    def _put(self, item: Any) -> None:
        self.idle.clear()
        super()._put(item)

    def _qsize(self) -> int:  # asked by `get`, before it waits
        size = super()._qsize()
        if not size:
            self.idle.set()
        return size


class _Editor(io.BytesIO):
    """What an editor sends that waits for each answer before its next request."""

    def __init__(self, content: bytes, inbox: _Inbox) -> None:
        super().__init__(content)
        self._inbox = inbox
        self._has_left = False

    def readline(self, *most: Any) -> bytes:
        """Return the next line of a header, the first of one when the server waits for it."""
        self._inbox.idle.wait()
        return b"" if self._has_left else super().readline(*most)

    def leave(self) -> None:
        """Send nothing more: nobody is there who would take it."""
        self._has_left = True
        self._inbox.idle.set()


IN_HASTE = b'"pause"'
"""An editor who asks for this sends everything at once: a request comes while the run moves."""


def _frames(case: Case, folder: Path) -> int:
    """Serve what an editor sends, who then moves the run; none of it ends in an internal error."""
    _kernel(folder)
    moves = b"".join(
        frame({"seq": 1 << 20, "type": "request", "command": c, "arguments": {"threadId": 1}})
        for c in ("next", "continue")
    )
    sink, inbox = io.BytesIO(), _Inbox()
    editor = _Editor(case.content + moves, inbox)
    in_haste = IN_HASTE in case.content
    server = Server(io.BytesIO(case.content + moves) if in_haste else editor, sink)
    server._inbox = inbox
    broken: list[BaseException] = []

    def failed(what: threading.ExceptHookArgs) -> None:
        if what.exc_value is not None:
            broken.append(what.exc_value)
        server._inbox.put(None)

    before, threading.excepthook = threading.excepthook, failed
    try:
        with contextlib.chdir(folder):
            code = server.serve()
    finally:
        editor.leave()
        threading.excepthook = before
    if broken:
        raise broken[0]
    told = sink.getvalue().decode("utf-8")
    if "Traceback (most recent call last)" in told or "internal error" in told:
        raise Different(f"{_last_line(told)}\n{told}")
    return code


def _last_line(told: str) -> str:
    at = told.rfind("Traceback (most recent call last)")
    return told[at:].partition('"}')[0].replace("\\n", "\n").rstrip().rpartition("\n")[2]


def _converted(*words: str) -> Runner:
    """`quant convert` of a model, with samples of its inputs."""

    def run(case: Case, folder: Path) -> int:
        import numpy as np

        path, data = folder / "m.onnx", folder / "samples.npz"
        path.write_bytes(case.content)
        np.savez(data, **cast("dict[str, Any]", samples(case.content)))
        given = ("--calibration", str(data), "--target", "a5", *words)
        try:
            return _documented(["quant", "convert", str(path), *given])
        finally:
            path.unlink()
            data.unlink()

    return run


def _calibrated(name: str, samples: bytes | None = None) -> Runner:
    """`quant convert` of the small model of `GRAPH`: as it is with changed samples, or changed."""

    def run(case: Case, folder: Path) -> int:
        model, data = folder / name, folder / "samples.npz"
        model.write_bytes(case.content if samples is not None else GRAPH.encode())
        data.write_bytes(case.content if samples is None else samples)
        try:
            return _documented(
                ["quant", "convert", str(model), "--calibration", str(data), "--target", "a5"]
            )
        finally:
            model.unlink()
            data.unlink()

    return run


def archive(**arrays: Any) -> bytes:
    """Return an archive of arrays."""
    import numpy as np

    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def _two_samples() -> bytes:
    import numpy as np

    return archive(x=np.random.default_rng(1).standard_normal((2, 4, 8)).astype(np.float32))


RUNNERS: dict[str, dict[str, Runner]] = {
    "sidecar": {
        "run": _beside("k.toml", "run", "KERNEL", "--no-timing", *LIMITS),
        "check": _beside("k.toml", "check", "KERNEL"),
        "test": _beside("k.toml", "test", "-j", "1", "KERNEL", *LIMITS),
    },
    "chain": {"run": _beside("c.toml", "run", "--chain", "FILE", "--no-timing", *LIMITS)},
    "npy": {
        "run": _beside(
            "x.npy", "run", "KERNEL", "--arg", "x=FILE", *_ARGS[2:], "--no-timing", "--expect",
            "y=FILE",
        ),
        "quant diff": _beside("x.npy", "quant", "diff", "FILE", "--scale", "0.1"),
        "quant explore": _beside("x.npy", "quant", "explore", "FILE", "--target", "a5"),
        "quant convert": _beside(
            "x.npy", "quant", "convert", "FILE", "--scale", "0.5", "--to", "affine"
        ),
    },
    "npz": {
        "run": _beside(
            "x.npz", "run", "KERNEL", "--arg", "x=FILE", *_ARGS[2:], "--no-timing", suffix=":x"
        ),
        "quant diff": _beside("x.npz", "quant", "diff", "FILE", suffix=":x"),
    },
    "bin": {
        "run": _beside(
            "x.bin", "run", "KERNEL", "--arg", "x=FILE", *_ARGS[2:], "--no-timing",
            suffix=":f32:8x8",
        )
    },
    "onnx": {
        "quant onnx": _beside("m.onnx", "quant", "onnx", "FILE", "--target", "a5"),
    },
    "model": {
        "quant onnx": _beside("m.onnx", "quant", "onnx", "FILE", "--target", "a5"),
        "quant audit": _beside("m.onnx", "quant", "audit", "FILE", "--target", "a5"),
        "quant convert": _converted(),
        "quant convert --type": _converted("--type", "mxfp8", "--partial"),
        "quant convert --activations": _converted("--activations", "ui8", "--max-drop", "5"),
        "quant convert --after": _converted("--after", "choose", "--per", "tensor"),
    },
    "graph": {"quant convert": _calibrated("m.mlir", _two_samples())},
    "samples": {"quant convert": _calibrated("m.mlir")},
    "jobs": {"judge": _beside("jobs.jsonl", "judge", "FILE", "--seed", "1", *LIMITS)},
    "mlir": {
        "quant types": _beside("m.mlir", "quant", "types", "FILE"),
        "quant types --mlir": _beside("m.mlir", "quant", "types", "FILE", "--mlir", "22"),
        "check": _beside("m.mlir", "check", "FILE"),
        "fmt": _beside("m.mlir", "fmt", "FILE", "--lower-quant"),
    },
    "cpp": {
        "check": _beside("k.cpp", "check", "FILE", "--target", "a5", *LIMITS),
        "check a2a3": _beside("k.cpp", "check", "FILE", "--target", "a2a3", "--profile", "cpu", *LIMITS),
        "fmt": _beside("k.cpp", "fmt", "FILE", "--to", "pto", "--target", "a5"),
        "run": _beside("k.cpp", "run", "FILE", "--target", "a2a3", "--no-timing", *LIMITS),
        "cost": _beside("k.cpp", "cost", "FILE", "--target", "a5", *LIMITS),
        "map": _beside("k.cpp", "map", "FILE", "--define", "__PTO_AUTO__", "--target", "a5"),
    },
    "task": {"quant plan": _beside("t.toml", "quant", "plan", "FILE", "--target", "a5")},
    "table": {
        "calibrate": _beside(
            "op_summary.csv", "calibrate", "--from", "FILE", "--target", "910b1", *LIMITS
        ),
        "calibrate --check": _beside(
            "op_summary.csv", "calibrate", "--from", "FILE", "--check", "--program", "KERNEL",
            "--target", "a5", *LIMITS,
        ),
    },
    "space": {
        "sweep": _beside(
            "s.toml", "sweep", "KERNEL", "--space", "FILE", "--no-store", "-j", "1",
            "--point-seconds", "2", "--max-seconds", "5", *LIMITS,
        )
    },
    "rows": {
        "sweep": _beside("rows.jsonl", "sweep", "FILE", "--baseline", "FILE"),
        "sweep --format": _beside("rows.jsonl", "sweep", "FILE", "--format", "html"),
    },
    "request": {"serve": _request},
    "words": {"command line": _words},
    "script": {"debug": _script},
    "frames": {"dap": _frames},
}  # fmt: skip
"""Kind of a case -> what is done with it."""


def words_of(line: str) -> bytes:
    """Return a command line as the content of a case."""
    return "\n".join(shlex.split(line)).encode()
