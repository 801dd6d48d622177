"""ptosim: a bit-accurate, cycle-approximate simulator of the PTO tile ISA of Ascend NPUs.

program = ptosim.load("kernel.pto", target="a5")
result = program.run({"x": array, "y": array})
result.outputs["y"]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from ptosim.api import check, load
    from ptosim.arguments import Arg
    from ptosim.diagnostics.model import Diagnostic, Severity
    from ptosim.errors import (
        InternalError,
        IsaDataError,
        LimitError,
        ProgramError,
        PtosimError,
        Trap,
        UnsupportedError,
        UsageError,
    )
    from ptosim.program import Program
    from ptosim.quant.engine import quantize
    from ptosim.quant.inverse import dequantize
    from ptosim.results import Result

# Public name -> module; loaded on first use, because `ptosim check` must not wait for NumPy.
_PUBLIC = {
    "check": "ptosim.api",
    "load": "ptosim.api",
    "quantize": "ptosim.quant.engine",
    "dequantize": "ptosim.quant.inverse",
    "Arg": "ptosim.arguments",
    "Program": "ptosim.program",
    "Result": "ptosim.results",
    "Diagnostic": "ptosim.diagnostics.model",
    "Severity": "ptosim.diagnostics.model",
    "PtosimError": "ptosim.errors",
    "ProgramError": "ptosim.errors",
    "Trap": "ptosim.errors",
    "UnsupportedError": "ptosim.errors",
    "UsageError": "ptosim.errors",
    "LimitError": "ptosim.errors",
    "IsaDataError": "ptosim.errors",
    "InternalError": "ptosim.errors",
}

__all__ = [
    "Arg",
    "Diagnostic",
    "InternalError",
    "IsaDataError",
    "LimitError",
    "Program",
    "ProgramError",
    "PtosimError",
    "Result",
    "Severity",
    "Trap",
    "UnsupportedError",
    "UsageError",
    "check",
    "dequantize",
    "load",
    "quantize",
]


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'ptosim' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
