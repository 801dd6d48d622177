"""The command line for these tests; without the onnx package they are left out."""

from __future__ import annotations

import importlib.util

from tests.cli.conftest import cli

__all__ = ["cli"]

collect_ignore = (
    [] if importlib.util.find_spec("onnx") else ["models.py", "test_onnx.py", "test_onnx_faults.py"]
)
