"""Lessons as notebooks: the text, the program in a cell that writes its file, and the commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ptosim.ground.files import write_file
from ptosim.tools.lessons.course import Lesson, lessons


def write_notebooks(folder: Path) -> list[Path]:
    """Write a notebook for each lesson; return the paths."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for each in lessons():
        path = folder / f"{each.name}.ipynb"
        write_file(path, json.dumps(_notebook(each), indent=1) + "\n")
        written.append(path)
    return written


def _notebook(lesson: Lesson) -> dict[str, Any]:
    learn = f"!ptosim learn {lesson.number} --folder ."
    cells = [
        _cell("markdown", lesson.text),
        _cell("code", f"%%writefile {lesson.file}\n{lesson.start}"),
        _cell("code", f"{learn} --check"),
        _cell("markdown", "Stuck? A hint each time, and the solution."),
        _cell("code", f"{learn} --hint"),
        _cell("code", f"# {learn} --solution"),
    ]
    for number, cell in enumerate(cells, 1):
        cell["id"] = f"{lesson.name}-{number}"
    return {
        "cells": cells,
        "metadata": {"kernelspec": {"name": "python3", "display_name": "Python 3"}},
        "nbformat": 4,
        "nbformat_minor": 5,
    }


def _cell(kind: str, text: str) -> dict[str, Any]:
    own = {"outputs": [], "execution_count": None} if kind == "code" else {}
    return {"cell_type": kind, "metadata": {}, "source": text.splitlines(keepends=True), **own}
