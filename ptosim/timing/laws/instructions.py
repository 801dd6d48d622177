"""What one instruction of a vector region takes: latency, time on a port, which port.

Instructions without a row of their own count as the class that their name belongs to. Loads and
stores go beside the ports that execute; their latency stands in the frame of a function."""

from __future__ import annotations

from dataclasses import dataclass

from ptosim.ground.isa.costs import CostRow, CostTable
from ptosim.timing.laws.shapes import VectorStep

_MEMORY = {
    "vld": "load", "vsld": "load", "vgather": "load", "pld": "load", "vst": "store",
    "vsst": "store", "vscatter": "store", "pst": "store",
}  # fmt: skip
_CLASSES = (
    ("vci", "vdup"), ("vcg", "vcgmax"), ("vcp", "vcadd"), ("vc", "vcadd"), ("vexp", "vexp"),
    ("vln", "vln"), ("vsqrt", "vsqrt"), ("vrec", "vdiv"), ("vrsqrt", "vsqrt"), ("vdiv", "vdiv"),
    ("vmod", "vdiv"), ("vmul", "vmul"), ("vma", "vmul"), ("vaxpy", "vmul"), ("vlrelu", "vmul"),
    ("vprelu", "vmul"), ("vneg", "vmul"), ("vadd", "vadd"), ("vsub", "vsub"), ("vsel", "vsel"),
    ("vbitsort", "vsort"), ("vmrgsort", "vmerge"), ("vintlv", "vperm"), ("vdintlv", "vperm"),
    ("vpack", "vperm"), ("vsqz", "vperm"), ("vusqz", "vperm"), ("p", "vmask"),
)  # fmt: skip
_SPECIAL = {"vcvt": "vcvt", "vcmp": "vcmp", "vcmps": "vcmp", "vcls": "vlogic"}
_TWICE = ("vcadd", "vcmax", "vcmin", "vcpadd")
"""One port only has these; their rows say so by twice the time."""

_ONE_PORT = (*_TWICE, "vdup", "vci")

_NOTHING = ("mem_bar", "vbitcast", "pbitcast", "init_align", "sprclr", "tile_buf_addr", "castptr")


@dataclass(frozen=True, slots=True)
class Timed:
    """An instruction on the pipeline: cycles to its result, cycles on a port, cycles until another
    instruction can use the result, `load`, `store` or nothing, and whether one port only has it."""

    latency: float
    busy: float
    distance: float
    memory: str
    confidence: str
    one_port: bool = False
    on_port: float = 0  # cycles on the one port


def timed(step: VectorStep, table: CostTable) -> Timed:
    """Return what an instruction takes on a target that has vector regions."""
    memory = next((kind for prefix, kind in _MEMORY.items() if step.name.startswith(prefix)), "")
    if memory:
        return _access(table, step.name, memory)
    if step.name in _NOTHING or step.name.startswith("arith."):
        return Timed(0, 0, 0, "", "documented")
    row = instruction_row(table, step.name)
    wide = step.bits > 16
    latency = row["latency"] if wide else row.get("latency16", row["latency"])
    busy = row["busy"] if wide else row.get("busy16", row["busy"])
    distance = max(latency - table["function.forward"]["cycles"], 0)
    on_port = busy / 2 if step.name in _TWICE else busy
    one_port = step.name in _ONE_PORT
    return Timed(latency, busy, distance, "", row.confidence, one_port, on_port)


def _access(table: CostTable, name: str, memory: str) -> Timed:
    """A load or store: by a row of its own or that of gathers, else that of all of them."""
    known = table.rows.get(f"instruction.{name}")
    if known is None and name.startswith("vgather"):
        known = table["instruction.vgather"]
    if known is not None:
        return Timed(known["latency"], known["busy"], 0, memory, known.confidence)
    row = table[f"function.{memory}"]
    return Timed(row["cycles"], 1, 0, memory, row.confidence)


def instruction_row(table: CostTable, name: str) -> CostRow:
    """Return the row of an instruction, or that of its class."""
    rows = table.rows
    known = rows.get(f"instruction.{name}")
    if known is not None:
        return known
    word = _SPECIAL.get(name) or next((c for p, c in _CLASSES if name.startswith(p)), "vlogic")
    return rows[f"instruction.{word}"]
