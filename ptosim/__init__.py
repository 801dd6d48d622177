"""ptosim: a bit-accurate, cycle-approximate simulator of the PTO tile ISA of Ascend NPUs.

program = ptosim.load("kernel.pto", target="a5")
result = program.run({"x": array, "y": array})
result.outputs["y"]
"""

from __future__ import annotations

from ptosim.ground.version import __version__ as __version__

TYPE_CHECKING = False  # as type checkers know it: `typing` would load `re` and `functools`

if TYPE_CHECKING:
    from typing import Any

    from ptosim.analysis.memory_map import MemoryMap
    from ptosim.api import check, load, load_chain, run_chain
    from ptosim.debug.program import Program
    from ptosim.ground.diagnostics.model import Diagnostic, Severity
    from ptosim.ground.errors import (
        DescriptionError,
        FindingsError,
        InternalError,
        IsaDataError,
        LimitError,
        ProgramError,
        PtosimError,
        Trap,
        UnsupportedError,
        UsageError,
    )
    from ptosim.quant.inverse import dequantize
    from ptosim.quant.quantize import quantize
    from ptosim.quant.scaled import Affine, FixedPoint
    from ptosim.run.arguments import Arg
    from ptosim.run.chain.chain import Chain
    from ptosim.run.chain.runner import ChainResult
    from ptosim.run.results import Result
    from ptosim.search.judge import judge
    from ptosim.search.sweep import sweep
    from ptosim.search.tune_ask import tune
    from ptosim.testing.kernel import assert_clean, kernel
    from ptosim.timing.report.totals import CostReport

# Public name -> module; loaded on first use, because `ptosim check` must not wait for NumPy.
_PUBLIC = {
    "check": "ptosim.api",
    "load": "ptosim.api",
    "load_chain": "ptosim.api",
    "run_chain": "ptosim.api",
    "quantize": "ptosim.quant.quantize",
    "dequantize": "ptosim.quant.inverse",
    "FixedPoint": "ptosim.quant.scaled",
    "Affine": "ptosim.quant.scaled",
    "Arg": "ptosim.run.arguments",
    "Chain": "ptosim.run.chain.chain",
    "ChainResult": "ptosim.run.chain.runner",
    "Program": "ptosim.debug.program",
    "Result": "ptosim.run.results",
    "kernel": "ptosim.testing.kernel",
    "tune": "ptosim.search.tune_ask",
    "assert_clean": "ptosim.testing.kernel",
    "judge": "ptosim.search.judge",
    "sweep": "ptosim.search.sweep",
    "CostReport": "ptosim.timing.report.totals",
    "MemoryMap": "ptosim.analysis.memory_map",
    "load_ipython_extension": "ptosim.cli.magic",
    "Diagnostic": "ptosim.ground.diagnostics.model",
    "Severity": "ptosim.ground.diagnostics.model",
    "PtosimError": "ptosim.ground.errors",
    "ProgramError": "ptosim.ground.errors",
    "Trap": "ptosim.ground.errors",
    "UnsupportedError": "ptosim.ground.errors",
    "UsageError": "ptosim.ground.errors",
    "FindingsError": "ptosim.ground.errors",
    "DescriptionError": "ptosim.ground.errors",
    "LimitError": "ptosim.ground.errors",
    "IsaDataError": "ptosim.ground.errors",
    "InternalError": "ptosim.ground.errors",
}

__all__ = [
    "Affine",
    "Arg",
    "Chain",
    "ChainResult",
    "CostReport",
    "DescriptionError",
    "Diagnostic",
    "FindingsError",
    "FixedPoint",
    "InternalError",
    "IsaDataError",
    "LimitError",
    "MemoryMap",
    "Program",
    "ProgramError",
    "PtosimError",
    "Result",
    "Severity",
    "Trap",
    "UnsupportedError",
    "UsageError",
    "assert_clean",
    "check",
    "dequantize",
    "judge",
    "kernel",
    "load",
    "load_chain",
    "quantize",
    "run_chain",
    "sweep",
    "tune",
]


def __dir__() -> list[str]:
    """Return every public name, those not loaded yet among them."""
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> Any:
    module = _PUBLIC.get(name)
    if module is None:
        raise AttributeError(f"module 'ptosim' has no attribute {name!r}")
    import importlib

    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value
