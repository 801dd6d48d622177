"""ptosim: a bit-accurate, cycle-approximate simulator of the PTO tile ISA of Ascend NPUs.

program = ptosim.load("kernel.pto", target="a5")
result = program.run({"x": array, "y": array})
result.outputs["y"]
"""

from __future__ import annotations

from ptosim.ground import __version__ as __version__
from ptosim.ground.progress import show_by

TYPE_CHECKING = False  # as type checkers know it: `typing` would load `re` and `functools`

if TYPE_CHECKING:
    from typing import Any

    from ptosim.debug.program import Program
    from ptosim.ground.diagnostics.model import (
        DescriptionError,
        Diagnostic,
        FindingsError,
        ProgramError,
        Severity,
        Trap,
        UnsupportedError,
    )
    from ptosim.ground.errors import (
        InternalError,
        IsaDataError,
        LimitError,
        PtosimError,
        UsageError,
    )
    from ptosim.launch.analysis.memory_map import MemoryMap
    from ptosim.launch.arguments import Arg
    from ptosim.launch.chain.chain import Chain
    from ptosim.launch.chain.runner import ChainResult
    from ptosim.launch.results import Result
    from ptosim.machine.quant.inverse import dequantize
    from ptosim.machine.quant.quantize import quantize
    from ptosim.models.quant.scaled import Affine, FixedPoint
    from ptosim.time.report.totals import CostReport
    from ptosim.tools.api import check, load, load_chain, run_chain
    from ptosim.tools.search.judge import judge
    from ptosim.tools.search.sweep import sweep
    from ptosim.tools.search.tune_ask import tune
    from ptosim.tools.testing.plugin import assert_clean, kernel

# Public name -> module; loaded on first use, because `ptosim check` must not wait for NumPy.
_PUBLIC = {
    "check": "ptosim.tools.api",
    "load": "ptosim.tools.api",
    "load_chain": "ptosim.tools.api",
    "run_chain": "ptosim.tools.api",
    "quantize": "ptosim.machine.quant.quantize",
    "dequantize": "ptosim.machine.quant.inverse",
    "FixedPoint": "ptosim.models.quant.scaled",
    "Affine": "ptosim.models.quant.scaled",
    "Arg": "ptosim.launch.arguments",
    "Chain": "ptosim.launch.chain.chain",
    "ChainResult": "ptosim.launch.chain.runner",
    "Program": "ptosim.debug.program",
    "Result": "ptosim.launch.results",
    "kernel": "ptosim.tools.testing.plugin",
    "tune": "ptosim.tools.search.tune_ask",
    "assert_clean": "ptosim.tools.testing.plugin",
    "judge": "ptosim.tools.search.judge",
    "sweep": "ptosim.tools.search.sweep",
    "CostReport": "ptosim.time.report.totals",
    "MemoryMap": "ptosim.launch.analysis.memory_map",
    "load_ipython_extension": "ptosim.shell.magic",
    "Diagnostic": "ptosim.ground.diagnostics.model",
    "Severity": "ptosim.ground.diagnostics.model",
    "PtosimError": "ptosim.ground.errors",
    "ProgramError": "ptosim.ground.diagnostics.model",
    "Trap": "ptosim.ground.diagnostics.model",
    "UnsupportedError": "ptosim.ground.diagnostics.model",
    "UsageError": "ptosim.ground.errors",
    "FindingsError": "ptosim.ground.diagnostics.model",
    "DescriptionError": "ptosim.ground.diagnostics.model",
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


def _picture(shown: Any) -> str:
    """Return what a notebook shows of an object; only then are the views loaded."""
    from ptosim.views.notebook import html_of

    return html_of(shown)


show_by(_picture)
