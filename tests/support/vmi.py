"""Programs for operations on logical vectors: lanes from lists of bit patterns, results the same way.

out = Vectors().input("a", "f32", patterns).mask("m", booleans).result("r", "f32", 8).run(
    "%r = pto.vmi.vneg %a, %m : !pto.vmi.vreg<8xf32>, !pto.vmi.mask<8xpred> -> !pto.vmi.vreg<8xf32>")
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.oracle.lanes import join, split
from tests.oracle.vmi import bits_of
from tests.support.micro import kernel, run

DIALECT = {"hif8", "f4E1M2x2", "f4E2M1x2", "bf16x2"}


def spelled(elem: str) -> str:
    """An element type as the text writes it."""
    return f"!pto.{elem}" if elem in DIALECT else elem


def vreg(count: int, elem: str) -> str:
    return f"!pto.vmi.vreg<{count}x{spelled(elem)}>"


def mask_type(count: int) -> str:
    return f"!pto.vmi.mask<{count}xpred>"


class Vectors:
    """Inputs that are loaded, lines under test, results that are stored."""

    def __init__(self) -> None:
        self._address = 0
        self._setup: list[str] = []
        self._loads: list[str] = []
        self._stores: list[str] = []
        self._args: dict[str, np.ndarray] = {}
        self._ins: list[str] = []
        self._outs: dict[str, tuple[str, int]] = {}
        self.codes: list[str] = []
        self.messages: list[str] = []

    def input(self, name: str, elem: str, patterns: Sequence[int]) -> Vectors:
        """A vector of these lanes."""
        count = len(patterns)
        held = "i32" if elem == "bf16x2" else elem
        self._memory(name, held, join(patterns, bits_of(held) // 8))
        self._ins.append(name)
        register = name if held == elem else f"{name}_bits"
        self._loads.append(
            f"%{register} = pto.vmi.vload %p_{name}[%c0] : !pto.ptr<{spelled(held)}, ub> -> "
            f"{vreg(count, held)}"
        )
        if held != elem:
            self._loads.append(
                f"%{name} = pto.vmi.vinterpret_cast %{register} : {vreg(count, held)} -> "
                f"{vreg(count, elem)}"
            )
        return self

    def mask(self, name: str, lanes: Sequence[bool]) -> Vectors:
        """A mask of these lanes; nothing in the text says which."""
        count = len(lanes)
        self.input(f"b_{name}", "ui8", [int(bool(on)) for on in lanes])
        data, mask = vreg(count, "ui8"), mask_type(count)
        self._loads += [
            f'%all_{name} = pto.vmi.pset "PAT_ALL" : {mask}',
            f'%{name} = pto.vmi.vcmps %b_{name}, %u0, %all_{name} {{cmp = "ne"}} : {data}, ui8, '
            f"{mask} -> {mask}",
        ]
        return self

    def result(self, name: str, elem: str, count: int) -> Vectors:
        """A vector that is stored whole."""
        held = "i32" if elem == "bf16x2" else elem
        self._memory(name, held, bytes(count * bits_of(held) // 8))
        self._outs[name] = (held, count)
        register = name
        if held != elem:
            register = f"{name}_bits"
            self._stores.append(
                f"%{register} = pto.vmi.vinterpret_cast %{name} : {vreg(count, elem)} -> "
                f"{vreg(count, held)}"
            )
        self._stores.append(
            f"pto.vmi.vstore %{register}, %p_{name}[%c0] : {vreg(count, held)}, "
            f"!pto.ptr<{spelled(held)}, ub>"
        )
        return self

    def mask_result(self, name: str, count: int) -> Vectors:
        """A mask that is stored as 1 and 0."""
        self.result(f"n_{name}", "ui8", count)
        data, mask = vreg(count, "ui8"), mask_type(count)
        store = self._stores.pop()
        self._stores += [
            f"%one_{name} = pto.vmi.vbrc %u1 : ui8 -> {data}",
            f"%zero_{name} = pto.vmi.vbrc %u0 : ui8 -> {data}",
            f"%n_{name} = pto.vmi.vsel %{name}, %one_{name}, %zero_{name} : {mask}, {data}, {data} "
            f"-> {data}",
            store,
        ]
        return self

    def _memory(self, name: str, elem: str, data: bytes) -> None:
        padded = data + bytes(-len(data) % 32)
        self._args[name] = np.frombuffer(padded, np.uint8).copy()
        self._setup += [
            f"%a_{name} = arith.constant {self._address} : i64",
            f"%p_{name} = pto.castptr %a_{name} : i64 -> !pto.ptr<{spelled(elem)}, ub>",
            f"%b_{name} = pto.castptr %a_{name} : i64 -> !pto.ptr<ui8, ub>",
        ]
        self._address += -(-len(padded) // 256) * 256

    def text(self, *lines: str, setup: Sequence[str] = ()) -> str:
        """The program."""
        args = ", ".join(f"%g_{name}: !pto.ptr<ui8>" for name in self._args)
        copy_in = [
            f"pto.mte_gm_ub %g_{n}, %b_{n}, 0, {len(self._args[n])} nburst(1, 0, 0) : "
            "!pto.ptr<ui8>, !pto.ptr<ui8, ub>"
            for n in self._ins
        ]
        copy_out = [
            f"pto.mte_ub_gm %b_{n}, %g_{n}, {len(self._args[n])} nburst(1, 0, 0) : "
            "!pto.ptr<ui8, ub>, !pto.ptr<ui8>"
            for n in self._outs
        ]
        body = [
            "%c0 = arith.constant 0 : index",
            "%u0 = arith.constant 0 : ui8",
            "%u1 = arith.constant 1 : ui8",
            *setup,
            *self._setup,
            *copy_in,
            "pto.vecscope {",
            *self._loads,
            *lines,
            *self._stores,
            "}",
            *copy_out,
        ]
        return kernel(args, "\n".join(body))

    def run(self, *lines: str, setup: Sequence[str] = (), **options: Any) -> dict[str, list[int]]:
        """Run; return the lanes of each result. `codes` are those of the findings, but of what the
        assembler has no lowering for: a run does not mind."""
        args = {f"g_{name}": array for name, array in self._args.items()}
        options = {"sanitize": "none", "timing": False, **options}
        result = run(self.text(*lines, setup=setup), args, **options)
        found = [f for f in result.findings if not f.code.startswith("PTO236")]
        self.codes = [f.code for f in found]
        self.messages = [f.message for f in found]
        found = {}
        for name, (elem, count) in self._outs.items():
            width = bits_of(elem) // 8
            found[name] = split(result.outputs[f"g_{name}"].tobytes()[: count * width], width)
        return {n.removeprefix("n_"): lanes for n, lanes in found.items()}
