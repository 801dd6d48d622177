"""Programs for one vector instruction: registers and masks from arrays, many batches in one loop.

out = Lanes().input("a", "f32", images).mask("m", 32, masks).result("r", "f32").run(
    "%r = pto.vneg %a, %m : !pto.vreg<64xf32>, !pto.mask<b32> -> !pto.vreg<64xf32>")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import ptosim

BITS = {"f32": 32, "f16": 16, "bf16": 16}


def bits_of(name: str) -> int:
    return BITS.get(name) or int(name.lstrip("uis"))


def vreg(name: str) -> str:
    """The register type of an element type."""
    return f"!pto.vreg<{2048 // bits_of(name)}x{name}>"


def mask_type(bits: int) -> str:
    return f"!pto.mask<b{min(bits, 32)}>"


ORDERED = "pto.barrier #pto.pipe<PIPE_ALL>"
"""Code of micro instructions alone is given no flags: what is under test waits for its data here."""


def module(function: str, *, kind: str | None = "vector") -> str:
    """A module around functions."""
    attr = f", pto.kernel_kind = #pto.kernel_kind<{kind}>" if kind else ""
    return f'module attributes {{pto.target_arch = "a5"{attr}}} {{\n{function}\n}}\n'


def kernel(args: str, body: str, *, kind: str | None = "vector") -> str:
    """A module with one function."""
    return module(f"  func.func @kernel({args}) {{\n{body}\n    return\n  }}", kind=kind)


def run(
    text: str,
    args: dict[str, Any],
    *,
    compat: str | None = None,
    switches: dict[str, str] | None = None,
    **options: Any,
) -> ptosim.Result:
    """Run a program as a date of the language reads it, without one as the newest does."""
    return ptosim.load(text, compat=compat, switches=switches).run(args, **options)


class Lanes:
    """Inputs and results of instructions that are executed once for each batch.

    Inputs are transferred to UB whole, a row of 256 (masks: 32) bytes for each batch; the results come
    back the same way.
    """

    def __init__(self) -> None:
        self._batches = 0
        self._address = 0
        self._setup: list[str] = []
        self._loads: list[str] = []
        self._stores: list[str] = []
        self._args: dict[str, np.ndarray] = {}
        self._ins: list[str] = []
        self._outs: list[str] = []
        self._sizes: dict[str, int] = {}

    def input(self, name: str, elem: str, images: Sequence[bytes]) -> Lanes:
        """A register with the given content in each batch."""
        self._array(name, images, 256)
        self._pointer(name, elem, 2048 // bits_of(elem))
        self._loads.append(
            f"%{name} = pto.vlds %p_{name}[%o_{name}] : !pto.ptr<{elem}, ub> -> {vreg(elem)}"
        )
        return self

    def mask(self, name: str, bits: int, images: Sequence[bytes]) -> Lanes:
        """A predicate with the given image in each batch."""
        self._array(name, images, 32)
        self._pointer(name, "ui8", 32)
        self._loads.append(
            f'%{name} = pto.plds %p_{name}[%o_{name}], "NORM" : !pto.ptr<ui8, ub>, index -> {mask_type(bits)}'
        )
        return self

    def result(self, name: str, elem: str) -> Lanes:
        """A register that is stored whole after each batch."""
        self._output(name, 256)
        self._pointer(name, elem, 2048 // bits_of(elem))
        bits = min(bits_of(elem), 32)
        self._setup_mask(bits)
        self._stores.append(
            f"pto.vsts %{name}, %p_{name}[%o_{name}], %all{bits} : {vreg(elem)}, !pto.ptr<{elem}, ub>, "
            f"{mask_type(bits)}"
            if bits_of(elem) < 64
            else f'pto.vsts %{name}, %p_{name}[%o_{name}], %all8 {{dist = "NORM_B8"}} : {vreg(elem)}, '
            f"!pto.ptr<{elem}, ub>, !pto.mask<b8>"
        )
        if bits_of(elem) == 64:
            self._setup_mask(8)
        return self

    def mask_result(self, name: str, bits: int) -> Lanes:
        """A predicate that is stored whole after each batch."""
        self._output(name, 32)
        self._pointer(name, "ui8", 32)
        self._stores.append(
            f'pto.psts %{name}, %p_{name}[%o_{name}], "NORM" : {mask_type(bits)}, !pto.ptr<ui8, ub>, index'
        )
        return self

    # -- parts ------------------------------------------------------------------------------------

    def _array(self, name: str, images: Sequence[bytes], size: int) -> None:
        assert all(len(image) == size for image in images), name
        self._batches = len(images)
        self._args[name] = np.frombuffer(b"".join(images), np.uint8)
        self._sizes[name] = size
        self._ins.append(name)

    def _output(self, name: str, size: int) -> None:
        self._args[name] = np.zeros(self._batches * size, np.uint8)
        self._sizes[name] = size
        self._outs.append(name)

    def _pointer(self, name: str, elem: str, step: int) -> None:
        self._setup.append(f"%a_{name} = arith.constant {self._address} : i64")
        self._setup.append(f"%p_{name} = pto.castptr %a_{name} : i64 -> !pto.ptr<{elem}, ub>")
        self._setup.append(f"%b_{name} = pto.castptr %a_{name} : i64 -> !pto.ptr<ui8, ub>")
        self._setup.append(f"%s_{name} = arith.constant {step} : index")
        self._loads.insert(0, f"%o_{name} = arith.muli %i, %s_{name} : index")
        self._address += -(-len(self._args[name]) // 32) * 32

    def _setup_mask(self, bits: int) -> None:
        line = f'%all{bits} = pto.pset_b{bits} "PAT_ALL" : {mask_type(bits)}'
        if line not in self._loads:
            self._loads.append(line)

    def _copy(self, name: str, *, to_ub: bool) -> str:
        size = len(self._args[name])
        if to_ub:
            return (
                f"pto.mte_gm_ub %g_{name}, %b_{name}, 0, {size} nburst(1, 0, 0) : !pto.ptr<ui8>, "
                "!pto.ptr<ui8, ub>"
            )
        return f"pto.mte_ub_gm %b_{name}, %g_{name}, {size} nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>"

    def text(self, *lines: str, setup: Sequence[str] = ()) -> str:
        """The program with the instructions under test in the loop."""
        args = ", ".join(f"%g_{name}: !pto.ptr<ui8>" for name in self._args)
        body = [
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            f"%n = arith.constant {self._batches} : index",
            *setup,
            *self._setup,
            *(self._copy(name, to_ub=True) for name in self._ins),
            ORDERED,
            "pto.vecscope {",
            "scf.for %i = %c0 to %n step %c1 {",
            *self._loads,
            *lines,
            *self._stores,
            "}",
            "}",
            ORDERED,
            *(self._copy(name, to_ub=False) for name in self._outs),
        ]
        inner = "\n".join(body)
        return (
            'module attributes {pto.target_arch = "a5", pto.kernel_kind = #pto.kernel_kind<vector>} {\n'
            f"func.func @kernel({args}) {{\n{inner}\nreturn\n}}\n}}\n"
        )

    def run(self, *lines: str, setup: Sequence[str] = (), **options: Any) -> dict[str, list[bytes]]:
        """Run; return the bytes of each result in each batch."""
        args = {f"g_{name}": array for name, array in self._args.items()}
        # Bytes are compared here, nothing else: other tests watch and time.
        options = {"sanitize": "none", "timing": False, **options}
        result = run(self.text(*lines, setup=setup), args, **options)
        found = {}
        for name in self._outs:
            size, data = self._sizes[name], result.outputs[f"g_{name}"].tobytes()
            found[name] = [data[i : i + size] for i in range(0, len(data), size)]
        return found


def in_ub(
    memory: bytes,
    *lines: str,
    setup: Sequence[str] = (),
    outside: Sequence[str] = (),
    **options: Any,
) -> tuple[bytes, list[str]]:
    """Run instructions in a vector region on the first bytes of UB (`outside`: after the region).

    Return those bytes, and the codes of what was found. `%u8` … `%f32` point to byte 0.
    """
    pointers = [
        f"%{elem} = pto.castptr %zero : i64 -> !pto.ptr<{elem}, ub>"
        for elem in ("ui8", "i8", "i16", "ui16", "i32", "ui32", "i64", "f16", "bf16", "f32")
    ]
    size = len(memory)
    body = [
        "%zero = arith.constant 0 : i64",
        *pointers,
        *setup,
        f"pto.mte_gm_ub %g, %ui8, 0, {size} nburst(1, 0, 0) : !pto.ptr<ui8>, !pto.ptr<ui8, ub>",
        ORDERED,
        *(("pto.vecscope {", *lines, "}") if lines else ()),
        *((ORDERED, *outside) if outside else ()),
        ORDERED,
        f"pto.mte_ub_gm %ui8, %g, {size} nburst(1, 0, 0) : !pto.ptr<ui8, ub>, !pto.ptr<ui8>",
    ]
    result = run(
        kernel("%g: !pto.ptr<ui8>", "\n".join(body)),
        {"g": np.frombuffer(memory, np.uint8)},
        **options,
    )
    codes = [finding.code for finding in result.findings]
    return result.outputs["g"].tobytes(), codes
