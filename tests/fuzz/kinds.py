"""The inputs that are no programs: what they are changed from, and how."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from tests.fuzz.case import Case
from tests.fuzz.files import GRAPH, KERNEL, SMALLER_GRAPH, archive, frame, words_of
from tests.fuzz.models import changed, models
from tests.fuzz.mutations import mutated, mutated_bytes

SUFFIXES = {
    "program": ".pto", "sidecar": ".sidecar", "chain": ".chain", "npy": ".npy", "npz": ".npz",
    "bin": ".bin", "onnx": ".onnx", "mlir": ".mlir", "task": ".task", "words": ".words",
    "script": ".dbg", "frames": ".frames", "table": ".table", "request": ".request",
    "space": ".space", "rows": ".rows", "model": ".model", "jobs": ".jobs",
    "graph": ".graph", "samples": ".samples", "cpp": ".cpp",
}  # fmt: skip
"""Kind of a case -> the ending of a file that holds one."""
BINARY = frozenset(("npy", "npz", "bin", "onnx", "model", "frames", "samples"))
WEIGHTS = {
    "sidecar": 4, "chain": 3, "npy": 3, "npz": 2, "bin": 1, "onnx": 1, "mlir": 4, "task": 1,
    "words": 5, "script": 4, "frames": 6, "table": 2, "request": 2, "space": 3, "rows": 2,
    "model": 2, "jobs": 2, "graph": 3, "samples": 2, "cpp": 4,
}  # fmt: skip
"""How often each kind is tried, among each other."""

_CPP = Path(__file__).parents[1] / "data" / "cpp"
_SIDECARS = (
    'summary = "a kernel"\ntargets = ["a5"]\nseed = 3\n[args]\nx = "randn:f32:8x8:1"\n'
    'y = "zeros:f32:8x8"\ns = 0.5\n[expect]\ny = "randn:f32:8x8:1"\n[tolerance]\n'
    "y = { rtol = 1e-3, atol = 2.5, ulp = 4 }\n",
    'targets = ["a2a3", "a5"]\nlevel = 2\nentry = "k"\nblock_num = 2\nranks = 1\nprofile = "hw"\n'
    'sync = "auto"\ncompat = "2026-08"\nexit_code = 1\ncodes = ["PTO5201"]\n[args]\n'
    'x = "arange:f32:8x8"\ny = "@x"\ns = "1e-3"\n',
)
_CHAINS = (
    'schema = 1\nsummary = "two"\ntargets = ["a5"]\nrepeat = 2\ncounter = "layer"\n[kernels]\n'
    'k = "k.pto"\nj = { file = "k.pto", entry = "k", level = 2, sync = "auto", block_num = 1 }\n'
    '[buffers]\nx = "randn:f32:8x8:1"\ny = "empty:f32:8x8"\n[[launch]]\nkernel = "k"\n'
    'name = "first"\nargs = { x = "x", y = "y", s = "layer * 2" }\n[[launch]]\nkernel = "j"\n'
    'repeat = 2\ncounter = "i"\nargs = { x = "y", y = "x", s = "i - 1" }\nexpect = { y = "randn:f32:8x8:4" }\n'
    '[expect]\ny = "randn:f32:8x8:1"\n[tolerance]\ny = { rtol = 1e-3, atol = 1e5 }\n',
)
_TASKS = (
    'src = "randint:ui8:4x8"\nweights = "randint:i8:8x4"\nsrc-scale = 0.02\nsrc-zp = 3\n'
    'wei-scales = 0.01\ndst-scale = 0.013\ndst-zp = 100\nbias = 0.5\npost-op = ["relu"]\n',
    'conv = true\nsrc = "randint:ui8:1x2x4x4"\nweights = "randint:i8:2x2x3x3"\nsrc-scale = 0.02\n'
    'wei-scales = [0.01, 0.02]\nwei-mask = 1\ndst = "f32"\nstrides = "1,1"\npadding = "1,1,1,1"\n'
    'dilation = "1,1"\ngroups = 1\npost-op = ["sum:0.5", "clip:0:6"]\ndst-before = "randn:f32:1x2x4x4"\n',
)
_MLIR = (
    "func.func @f(%x: tensor<4x!quant.uniform<i8:f32, 0.5:-3>>) -> tensor<4xf32> {\n"
    "  %y = quant.dcast %x : tensor<4x!quant.uniform<i8:f32, 0.5:-3>> to tensor<4xf32>\n"
    "  %z = quant.qcast %y : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5:-3>>\n"
    "  %w = quant.scast %z : tensor<4x!quant.uniform<i8:f32, 0.5:-3>> to tensor<4xi8>\n"
    "  return %y : tensor<4xf32>\n}\n",
    "!a = !quant.uniform<i8<-127:127>:f32:1, {2.0:1, 3.0:-1}>\n"
    "!b = !quant.uniform<u8:f32:{0:1, 1:2}, {{1.0:2, 2.0:1}, {3.0, 4.0:9}}>\n"
    "!c = !quant.calibrated<f32<-0.998:1.2321>>\n!d = !quant.any<i8<-8:7>:f32>\n"
    "!e = !quant.uniform<i4:f16:0, {0.5, 1.0}>\n"
    "!g = tensor<?x8x!quant.uniform<i4:f32:1, {1.0, 0x3F800000}>>\n",
)
_LINES = (
    "run KERNEL --arg x=randn:f32:8x8:3 --arg y=zeros:f32:8x8 --arg s=0.5 --seed 7 --no-timing",
    "run KERNEL --arg x=ones:f32:8x8 --arg y=@x --arg s=1e3 --out y=y.npy --format json -q",
    "run KERNEL --entry k --block-num 2 --uninit zero --commit retire --sanitize races,flags",
    "run KERNEL --expect y=zeros:f32:8x8 --rtol 1e-3 --atol 2 --ulp 4 --fail-on warning",
    "run KERNEL --dump %a@tload --set tquant.rounding=stochastic --profile page --color always",
    "check KERNEL --select PTO52 --ignore PTO7101 --max-findings 3 --format github --strict",
    "check KERNEL --target a2a3 --level 3 --planner modern --compat 2026-04 --legacy --dry-run",
    "cost KERNEL --by stage --format csv",
    "cost KERNEL --max-instructions 100 --trace t.json --arg s=3",
    "map KERNEL -o m.html --format html --sync manual",
    "diff KERNEL KERNEL --rtol 0.5 --slower 20 --format json",
    "port KERNEL --from a5 --to a2a3 --seed 2",
    "expand KERNEL --format json",
    "stats KERNEL --value %b@tmuls --axis 1 --bits 4 --unsigned --narrow --no-timing",
    "fmt KERNEL --check --to dps --compat-to 2026-08 --plan --insert-sync --diff",
    "explain PTO5201 --format json",
    "ops tadd --status",
    "targets --format json",
    "help cost",
    "quant convert randn:f32:4x4:1 --from real --to affine --scale 0.1 --zp 3 --out i8",
    "quant diff randn:f32:4x8 --scale 0.1,0.2 --axis 0 --block 4 --scheme onnx,pto-hw --no-saturate",
    "quant types KERNEL --mlir 22",
    "quant reorder randn:f32:4x4 --dst-mask 1 --dst-zp 3 --target a5",
    "quant schemes --format json",
    "report KERNEL -o r.html --seed 3 --no-timing",
    "run KERNEL -o r.html --max-seconds 3 --max-memory 300M --max-instructions 900",
    "cost KERNEL --block-num 5 -o c.html --view chain",
    "calibrate --from KERNEL --check --target a5",
    "tune KERNEL --target a5 --trials 2 --seconds 3 --seeds 1 --arg s=2 --no-rewrites",
    "tune KERNEL --target a2a3 --const c8=8,4 --sampler random --seed 3 --keep 2 --seconds 3 --format json",
    "test KERNEL --target a5 -j 1 --format json",
    "judge KERNEL --seed 3 --fresh 0 --times",
    "completion bash",
)
_COMMANDS = (
    "step 2|next|tiles|tile %a[0:2, 0:6] hex|t %b codes|tile %x|diff|mem ub 0x0..0x3f|mem gm x 0+32 f32|"
    "x -m UB -f float32[] 0x0 -s 32 -c 2|map ub|pipes|events|fifo|scalars|cost|timeline|list|l 20,22|"
    "info line|info program|info findings|info cores|break tmuls if %i == 3|tbreak tload|b 22 core 0|c|"
    "delete 1|disable|enable 1|condition 1 %i > 0|ignore 1 1|run|watch %b[0, 0]|rc|restart|"
    "watch outside 100 %b|watch ub 0x0..0x3f|watch gm y[4, 0]|watch flag V MTE3 1|watch nan %b|"
    "watch %i if %i > 4|break pipe MTE3|commands\nprint %i\ntiles\nend|display %i * 2|p abs(%a).max()|"
    "p %b[1, 0:3]|p any(%b > 2) and %i < 3|set $limit = 200|p (%b > $limit).sum()|p $pc, $core, $line|"
    "why %b[1, 3]|why|last-write %b[1, 3]|goto #14|last-write ub 0x20|reverse-step|rn 2|finish|until 15|"
    "help|help moving|explain PTO5201|undisplay 1|quant %b|core 0|thread 1|threads|up|history|"
    "p [[1, 2], 3][0]|p -%a ** 2 // 3|p %a @ %b|save s.dbg|find %a 0.5|stats %a"
)
_SCRIPT = tuple(_COMMANDS.split("|"))


_TABLES = (
    "Device_id,Op Name,OP Type,Task Type,Task Start Time(us),Task Duration(us),Block Dim,Input Shapes,"
    "Input Data Types,Output Shapes,Output Data Types,aiv_time(us),aiv_total_cycles,aiv_vec_time(us)\n"
    + "".join(
        f'0,TADD_kernel,TADD,AI_VECTOR_CORE,1.0\t,{4 + n / 9},1,"""{n},64;{n},64""",FLOAT;FLOAT,"""{n},64""",'
        f"FLOAT,{2 + n / 9},{n * 40 + 1850},{n / 30}\n"
        for n in (8, 16, 24, 32, 48, 64)
    ),
    "pc,cycles,source\n1,3,k.pto:13\n2,5,k.pto:14\n",
    '{"displayTimeUnit": "ns", "traceEvents": [\n'
    '{"ph": "M", "name": "process_name", "pid": 1, "tid": 0, "args": {"name": "core0.veccore0"}},\n'
    '{"ph": "M", "name": "thread_name", "pid": 1, "tid": 5, "args": {"name": "VECTOR"}},\n'
    + "".join(
        f'{{"ph": "X", "name": "TADD({n}x64,f32)", "pid": 1, "tid": 5, "ts": {n * 9}, "dur": {n / 900 + 0.02}}},\n'
        for n in (8, 16, 24, 32, 48, 64)
    )
    + '{"ph": "X", "name": "tmuls", "pid": 1, "tid": 5, "ts": 7, "dur": 0.1, "args": {"line": 14, "busy": 60}}\n]}\n',
)
_ASKED = (
    '{"id": 1, "argv": ["check", "k.pto"], "cwd": "/tmp", "env": {"A": "b"}, "stdin": "x"}\n'
    '{"cancel": 1}\n{"id": "x", "argv": [], "streams": {"stdin": "utf-8"}}\n',
)


_SPACES = (
    'conditions = ["c8 % 2 == 0"]\ntargets = ["a5"]\nblock_num = "max(c8 // 8, 1)"\n[parameters]\n'
    'c8 = [8, 4]\nc1 = [1]\n[args]\nx = "randn:f32:8x8:1"\ny = "zeros:f32:{c8}x8"\ns = 0.5\n'
    '[expect]\ny = "zeros:f32:8x8"\n[tolerance]\ny = { rtol = 1e-3 }\n',
    'level = 2\nsync = "auto"\ncompat = "2026-08"\nprofile = "hw"\nentry = "k"\n[parameters]\n'
    "c8 = { from = 8, to = 16, step = 8 }\nc1 = { from = 1, to = 4, times = 2 }\n",
)
_ROWS = (
    '{"params": {"c8": 8, "c1": 1}, "target": "a5", "ok": false, "stage": "values", "reason": "64 '
    'differ", "cycles": 772, "us": 0.468, "ub_bytes": 512, "gm_bytes": 512, "values": false}\n'
    '{"params": {"c8": 4, "c1": 1}, "target": "a5", "ok": true, "stage": "done", "reason": null, '
    '"cycles": 70.5, "us": 0.1, "ub_bytes": 256, "gm_bytes": 4, "values": null}\n',
)


_JOBS = (
    '{"id": 7, "text": TEXT, "target": "a5", "args": {"x": "randn:f32:8x8", "y": "zeros:f32:8x8", '
    '"s": 0.5}, "expect": {"y": {"file": "randn:f32:8x8:1", "rtol": 1e-5, "atol": 1e3}}, "seeds": [1, 2], '
    '"limits": {"instructions": 900, "seconds": 3, "memory": 99000000}}\n',
    '{"text": TEXT, "target": ["a2a3", "a5"], "entry": "k", "level": 2, "sync": "auto", "compat": '
    '"2026-08", "block_num": 2, "args": {"x": "ones:f32:8x8", "y": "@x", "s": 1}}\n{"id": "b"}\n',
)


def _jobs(rng: Random) -> bytes:
    return content_of("jobs", mutated(rng.choice(_JOBS), rng, _JOBS))


def _array(array: np.ndarray) -> bytes:
    buffer = io.BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


@cache
def _arrays() -> list[bytes]:
    rng = np.random.default_rng(1)
    plain = rng.standard_normal((8, 8)).astype(np.float32)
    return [
        _array(plain),
        _array(np.asfortranarray(plain)),
        _array(plain.astype(">f4")),
        _array(rng.integers(-8, 8, 64).astype(np.int8)),
        _array(np.array(3.0)),
        _array(np.array(["a", "b"])),
        _array(np.zeros((2, 0), np.float16)),
    ]


@cache
def _archives() -> list[bytes]:
    return _both_archives(x=np.ones((8, 8), np.float32), y=np.arange(3))


@cache
def _samples() -> list[bytes]:
    """Samples of the input of `GRAPH`, and of other types."""
    values = np.random.default_rng(1).standard_normal((2, 4, 8)).astype(np.float32)
    others = (np.full((4, 8), "a"), np.zeros((4, 8), "V4"), values.astype(complex), values[0] > 0)
    return [*_both_archives(x=values), *(archive(x=other) for other in others)]


def _both_archives(**arrays: Any) -> list[bytes]:
    """Archives of arrays, one of them compressed."""
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return [archive(**arrays), buffer.getvalue()]


def _requests(rng: Random) -> bytes:
    """A session of an editor: launch, go to where tiles have values, then requests at random."""
    sent = [*_BEGINNING, *rng.sample(_REQUESTS, rng.randrange(1, 12))]
    return b"".join(
        frame({"seq": n, "type": "request", "command": c, "arguments": a})
        for n, (c, a) in enumerate(sent, 1)
    )


_BEGINNING: Sequence[tuple[str, dict]] = (
    ("initialize", {"adapterID": "x"}),
    ("launch", {"program": "k.pto", "timing": False}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": "tmuls"}]}),
    ("continue", {"threadId": 1}),
    ("scopes", {"frameId": 1}),
)
_SOURCE = {"path": "k.pto", "name": "k.pto"}
_REQUESTS: Sequence[tuple[str, dict]] = (
    ("setBreakpoints", {"source": _SOURCE, "breakpoints": [{"line": 13, "condition": "%i > 3"}]}),
    ("setBreakpoints", {"source": _SOURCE, "breakpoints": [{"line": 14, "logMessage": "{%i}"}]}),
    ("setFunctionBreakpoints", {"breakpoints": [{"name": "tmuls", "hitCondition": "2"}]}),
    ("dataBreakpointInfo", {"name": "%b", "variablesReference": 1}),
    ("setDataBreakpoints", {"breakpoints": [{"dataId": "%b", "accessType": "write"}]}),
    ("setExceptionBreakpoints", {"filters": ["races", "nan"]}),
    ("configurationDone", {}), ("threads", {}), ("continue", {"threadId": 1}),
    ("next", {"threadId": 1}), ("stepIn", {"threadId": 1, "granularity": "instruction"}),
    ("stepBack", {"threadId": 1}), ("reverseContinue", {"threadId": 1}), ("stepOut", {"threadId": 1}),
    ("stackTrace", {"threadId": 1, "startFrame": 0, "levels": 5}), ("scopes", {"frameId": 1}),
    ("variables", {"variablesReference": 1, "start": 0, "count": 3, "format": {"hex": True}}),
    ("variables", {"variablesReference": 2, "filter": "indexed"}),
    ("evaluate", {"expression": "%a[0, 0] * 2", "frameId": 1, "context": "watch"}),
    ("evaluate", {"expression": "tiles", "context": "repl"}),
    ("evaluate", {"expression": "watch %b[0, 0] if %i > 1", "context": "repl"}),
    ("setDataBreakpoints", {"breakpoints": [{"dataId": "outside 2 %b", "condition": "%i < [4][0]"}]}),
    ("readMemory", {"memoryReference": "vec:0:0", "offset": 4, "count": 64}),
    ("source", {"source": _SOURCE, "sourceReference": 0}), ("restart", {}), ("pause", {"threadId": 1}),
    ("completions", {"text": "ti", "column": 3, "frameId": 1}), ("exceptionInfo", {"threadId": 1}),
    ("disconnect", {"terminateDebuggee": True}), ("terminate", {}),
)  # fmt: skip
_Make = Callable[[Random], bytes]


def _message(command: str, arguments: dict, number: int) -> str:
    sent = {"seq": number, "type": "request", "command": command, "arguments": arguments}
    return json.dumps(sent)


TEXTS: dict[str, Sequence[str]] = {
    "sidecar": _SIDECARS,
    "chain": _CHAINS,
    "mlir": _MLIR,
    "graph": (GRAPH, SMALLER_GRAPH),
    "task": _TASKS,
    "table": _TABLES,
    "request": _ASKED,
    "space": _SPACES,
    "rows": _ROWS,
    "jobs": _JOBS,
    "cpp": tuple(p.read_text() for p in sorted(_CPP.rglob("*.cpp"))),
    "words": tuple(words_of(line).decode() for line in _LINES),
    "script": tuple(f"until 15\n{line}" for line in _SCRIPT),
    "frames": tuple(
        "\n".join(_message(*sent, n) for n, sent in enumerate((*_BEGINNING, request), 1))
        for request in _REQUESTS
    ),
}
"""Kind of a file -> texts that a sweep changes."""
STEADY = {"script": 1, "frames": len(_BEGINNING)}
"""The first lines that a sweep leaves: how to come to the state that the last one asks about."""


def content_of(kind: str, text: str) -> bytes:
    """Return the content of a file that a text of `TEXTS` is for, whole or changed."""
    if kind == "frames":
        sent = (line.encode("utf-8", "replace") for line in text.split("\n"))
        return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(line), line) for line in sent)
    if kind == "jobs":
        text = text.replace("TEXT", json.dumps(KERNEL))
    return text.encode("utf-8", "replace")


def _changed(texts: Sequence[str]) -> _Make:
    return lambda rng: mutated(rng.choice(texts), rng, texts).encode("utf-8", "replace")


def _script(rng: Random) -> bytes:
    lines = [rng.choice(_SCRIPT) for _ in range(rng.randrange(1, 8))]
    return mutated("\n".join(lines), rng, _SCRIPT).encode("utf-8", "replace")


def _words(rng: Random) -> bytes:
    lines = TEXTS["words"]
    text = rng.choice(lines)
    if rng.random() < 0.5:  # a word of another command line
        text = f"{text}\n{rng.choice(rng.choice(lines).split(chr(10)))}"
    return mutated(text, rng, lines).encode("utf-8", "replace")


def _bytes(seeds: Callable[[], Sequence[bytes]]) -> _Make:
    return lambda rng: mutated_bytes(rng.choice(seeds()), rng)


def _frames(rng: Random) -> bytes:
    content = _requests(rng)
    if rng.random() < 0.6:  # inside the messages, whose lengths stay right
        body = mutated(content.decode("utf-8", "replace"), rng, [content.decode()])
        parts = [p.partition("\r\n\r\n")[2] for p in body.split("Content-Length:")[1:]]
        data = (p.encode("utf-8", "replace") for p in parts)
        return b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(d), d) for d in data)
    return mutated_bytes(content, rng)


_MAKERS: dict[str, _Make] = {kind: _changed(texts) for kind, texts in TEXTS.items()} | {
    "npy": _bytes(_arrays),
    "npz": _bytes(_archives),
    "samples": _bytes(_samples),
    "bin": _bytes(lambda: [bytes(256)]),
    "onnx": _bytes(models),
    "model": changed,
    "jobs": _jobs,
    "words": _words,
    "script": _script,
    "frames": _frames,
}


def made(rng: Random, kind: str | None = None) -> Case:
    """Return a changed input of a kind, or of one chosen at random."""
    if kind is None:
        kinds = [k for k in WEIGHTS if k not in ("onnx", "model") or models()]
        kind = rng.choices(kinds, [WEIGHTS[k] for k in kinds])[0]
    return Case(_MAKERS[kind](rng), kind)


def read_case(path: Path) -> Case:
    """Return the case that a file holds; its ending says the kind."""
    kind = next(k for k, suffix in SUFFIXES.items() if suffix == path.suffix)
    return Case(path.read_bytes(), kind)
