"""The readers of text never raise what is not theirs, whatever they are given: programs, types,
descriptions, expressions, messages.

`HYPOTHESIS_PROFILE=long` tries hundreds of times as many texts."""

from __future__ import annotations

import io
import json
import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ptosim
from ptosim.debug.dap.variables import BrokenMessage, read_message
from ptosim.ground.diagnostics.model import Sink
from ptosim.ground.errors import PtosimError
from ptosim.ground.source import Source
from ptosim.language.syntax.parser import parse
from ptosim.language.syntax.printer import print_module
from ptosim.launch.array_files import load_npy, load_npz, parse_spec
from ptosim.launch.description import sidecar_of
from ptosim.machine.quant.mlir.passes import find
from tests.fuzz.mutations import NUMBERS, STRANGE

settings.register_profile(
    "parsers", max_examples=20, deadline=None, derandomize=True, database=None,
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
settings.register_profile("long", settings.get_profile("parsers"), max_examples=2000)
PROFILE = settings.get_profile(os.environ.get("HYPOTHESIS_PROFILE", "parsers"))

WORDS = (
    "pto.tadd", "pto.tload", "pto.alloc_tile", "pto.vadd", "pto.vmi.vload", "pto.set_flag", "scf.for",
    "scf.if", "func.func", "module", "arith.constant", "return", "ins", "outs", "to", "step", "else",
    "attributes", "iter_args", "%a", "%b:2", "%c0", "@f", "^bb0", '"PIPE_V"', "#pto<pipe PIPE_V>",
    "!pto.ptr<f32>", "!pto.tile_buf<vec, 8x8xf32>", "!pto.vreg<64xf32>", "memref<8xf32>", "index", "f32",
    "dense<1.0>", "loc(unknown)", "// text", "\n", " ", "->", "=", ":", ",", "(", ")", "[", "]", "{", "}", "<", ">",
)  # fmt: skip
token = st.sampled_from((*WORDS, *STRANGE, *NUMBERS))
program = st.lists(token, max_size=40).map(" ".join) | st.text(max_size=80)


@PROFILE
@given(program)
def test_programs(text: str) -> None:
    """What is parsed without an error prints as a text that is read back as the same."""
    sink = Sink()
    module = parse(Source("k.pto", text), sink)
    if sink.has_errors:
        return
    printed, again = print_module(module), Sink()
    assert print_module(parse(Source("k.pto", printed), again)) == printed
    assert not again.has_errors


@PROFILE
@given(program)
def test_check_returns_findings(text: str) -> None:
    assert isinstance(ptosim.check(f"{text}\n", dry_run=False), list)


parts = st.sampled_from(
    ("!quant.uniform", "<", ">", "i8", "u4", "f32", "f16", ":", "{", "}", ",", "1.0", "0", "-3", "<-8:7>", "1:2", "0x7F80")
)  # fmt: skip


@PROFILE
@given(st.lists(parts | token, max_size=20).map("".join))
def test_quantised_types(text: str) -> None:
    list(find(f"!quant.uniform<{text}"))


toml = st.lists(
    st.sampled_from(
        ("[args]\n", "[[args]]\n", "x", "=", '"randn:f32:8x8"', "3", "[", "]", "{", "}", ",", "\n", "true", "1e400",
         "entry", "level", "targets", '"a5"', "seed", "9" * 5000, "1979-05-27", "'", '"""', "expect", "tolerance", ".")
    )
    | st.text(max_size=4),
    max_size=30,
).map("".join)  # fmt: skip


@PROFILE
@given(toml)
def test_sidecars(text: str) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "k.toml"
        path.write_bytes(text.encode("utf-8", "replace"))
        with suppress(PtosimError):
            sidecar_of(path.with_suffix(".pto"))


@PROFILE
@given(st.text(max_size=30) | st.lists(token, max_size=6).map(":".join))
def test_specs(text: str) -> None:
    with suppress(PtosimError):
        parse_spec(text)


json_value = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
)


@PROFILE
@given(
    st.lists(st.binary(max_size=40) | json_value.map(lambda v: json.dumps(v).encode()), max_size=5),
    st.booleans(),
)
def test_messages(bodies: list[bytes], headed: bool) -> None:
    head = b"Content-Length: %d\r\n\r\n" if headed else b"Content-Length:%d\n"
    stream = io.BytesIO(b"".join(head % len(body) + body for body in bodies))
    for _ in range(200):
        try:
            if read_message(stream) is None:
                return
        except BrokenMessage:
            continue
    pytest.fail("the end of the stream is never reached")


@PROFILE
@given(st.data(), st.booleans())
def test_arrays(data: st.DataObject, packed: bool) -> None:
    """A file of NumPy with some bytes changed is an array, or refused in one line."""
    buffer = io.BytesIO()
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    (np.savez(buffer, x=array) if packed else np.save(buffer, array))
    content = bytearray(buffer.getvalue())
    for _ in range(data.draw(st.integers(0, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=4))
    with TemporaryDirectory() as folder:
        path = Path(folder) / "x.np"
        path.write_bytes(content)
        with suppress(PtosimError):
            found = load_npz(path, "x") if packed else load_npy(path)
            assert isinstance(found, np.ndarray)
