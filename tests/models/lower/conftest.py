"""Without the onnx package its tests are left out."""

from __future__ import annotations

import importlib.util

collect_ignore = (
    [] if importlib.util.find_spec("onnx") else ["models.py", "test_onnx.py", "test_onnx_faults.py"]
)
