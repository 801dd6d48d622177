"""The one writer of JSON: what has no form in JSON is refused, never turned into text unasked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from ptosim.ground.controls import in_json


def document(value: object) -> str:
    """Return a value as a JSON document of several lines. Raises TypeError for what JSON has no
    form for.

    Objects with `to_dict` are that dictionary and NumPy's numbers are numbers. NaN and infinities
    are the texts `nan`, `inf`, `-inf`.
    """
    return _dumps(value, indent=2) + "\n"


def line(value: object) -> str:
    """Return a value as JSON in one line without an end; otherwise as `document`."""
    return _dumps(value, indent=None)


def lines_of(values: Iterable[object]) -> str:
    """Return a line for each value."""
    return "".join(f"{line(value)}\n" for value in values)


def _dumps(value: object, indent: int | None) -> str:
    import json  # a report as text does without

    try:
        return in_json(json.dumps(value, indent=indent, ensure_ascii=False, allow_nan=False))
    except (TypeError, ValueError):  # something in it is not plain: walk through it
        plain = json.dumps(_plain(value), indent=indent, ensure_ascii=False, allow_nan=False)
        return in_json(plain)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(float(value))
    if isinstance(value, Mapping):
        return {key: _plain(content) for key, content in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(content) for content in value]
    if hasattr(value, "to_dict"):
        return _plain(value.to_dict())
    if hasattr(value, "dtype") and value.shape == ():
        return _plain(value.item())
    return value
