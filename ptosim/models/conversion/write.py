"""What a conversion leaves in its folder: the quantised model, programs with data, the record."""

from __future__ import annotations

import json
from pathlib import Path

from ptosim.ground.errors import UsageError
from ptosim.ground.files import write_file
from ptosim.models.conversion.convert import Conversion
from ptosim.models.emit import write_programs


def write(folder: Path, made: Conversion, record: dict[str, object]) -> int:
    """Write `model.onnx`, `convert.json` and the programs of every layer; return how many programs.
    Raises UsageError where that is not possible."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise UsageError(f"cannot write to {folder}: {problem.strerror}") from problem
    write_file(folder / "model.onnx", made.quantised.proto.SerializeToString())
    write_file(folder / "convert.json", json.dumps(record, indent=1) + "\n")
    programs = [
        (f"{target}_{form}_{index:02}_{name}", ran)
        for (target, form), found in made.outcome.programs.items()
        for index, (name, ran) in enumerate(found)
    ]
    write_programs(folder, programs)
    return len(programs)
