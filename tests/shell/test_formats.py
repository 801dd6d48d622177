"""A form of a report is a name with its writer: what has no writer cannot be asked for."""

from __future__ import annotations

import argparse
import csv
import json
import shlex
from collections.abc import Callable
from html.parser import HTMLParser
from itertools import islice
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from onnx import TensorProto

from ptosim.ground.isa.cache import programs_directory
from ptosim.shell.command import load
from ptosim.shell.main import COMMANDS, main
from ptosim.tools.site import build
from ptosim.tools.site.build import pages
from ptosim.views.render import FORMS
from tests.models.lower.models import one


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Every command and every command of a command, with its parser."""
    found: dict[str, argparse.ArgumentParser] = {}
    for name in COMMANDS:
        parser = argparse.ArgumentParser(prog=name)
        load(name).configure(parser)
        found[name] = parser
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                found |= {f"{name} {word}": sub for word, sub in action.choices.items()}
    return found


PARSERS = parsers()
WITH_FORMAT = [name for name, p in PARSERS.items() if "--format" in p._option_string_actions]


def test_there_are_commands_with_formats():
    assert len(WITH_FORMAT) >= 12


@pytest.mark.parametrize("name", WITH_FORMAT)
def test_every_format_has_its_writer(name):
    parser = PARSERS[name]
    forms = parser.get_default("forms")
    assert tuple(parser._option_string_actions["--format"].choices) == tuple(forms)
    assert {*forms} <= {*FORMS, "man"}  # a page for `man` is the report's own


@pytest.mark.parametrize("name", WITH_FORMAT)
def test_a_format_without_a_writer_is_refused(name, capsys):
    assert main([*name.split(), "--format", "yaml"]) == 2
    assert "invalid choice: 'yaml'" in capsys.readouterr().err


X = np.zeros((4, 6), np.float32)
SAMPLES = {
    "run": "@basics/vadd",
    "check": "@basics/vadd",
    "cost": "@basics/vadd",
    "why": "@basics/vadd z[3, 5]",
    "triage": f"@basics/vadd --golden {programs_directory() / 'basics' / 'vadd.npz'}",
    "calibrate": "--from {folder}/op_summary.csv --check",
    "map": "@basics/vadd",
    "report": "@basics/vadd",
    "test": f"{programs_directory() / 'basics' / 'vadd.pto'}",
    "diff": "@basics/vadd @basics/vadd",
    "validate": "@basics/vadd @basics/vadd",
    "tune": "@basics/vadd --trials 3",
    "prove": "--check {folder}/proof.json",
    "port": "@basics/vadd --from a2a3 --to a5",
    "expand": "@basics/vadd --target a5",
    "fmt": "@basics/vadd",
    "ops": "tadd",
    "judge": "{folder}/jobs.jsonl",
    "sweep": "@search/gemm.pto.j2 --space @search/gemm.toml --param TM=64 --param TN=64 "
    "--param M=128 --param N=128 --param TK=64 --param buffers=1,2 --no-store",
    "targets": "",
    "learn": "1 --folder {folder}",
    "site": "{folder}/site",
    "programs": "basics",
    "new": "vector {folder}/mine",
    "explain": "PTO5201",
    "quant audit": "@quant/int8_asym --target a5 --profile page",
    "quant convert": "randn:f32:4x64 --scale 0.5",
    "quant diff": "randn:f32:4x64",
    "quant explore": "randn:f32:8x64 --target a5",
    "quant onnx": "{folder}/model.onnx --target a5",
    "quant plan": "--src randint:i8:4x4 --weights randint:i8:4x4 --target a5",
    "quant reorder": "randn:f32:8x64 --target a5",
    "quant types": "{folder}/types.mlir",
    "quant schemes": "",
    "stats": "@basics/vadd",
    "help": "cost",
}
"""What each command is asked for; `selftest` runs all of the programs."""


def lines_of_json(text: str) -> object:
    return [json.loads(line) for line in text.splitlines()]


def table(text: str) -> object:
    rows = list(csv.DictReader(text.splitlines()))
    assert all(None not in row and None not in row.values() for row in rows)
    return rows


def page(text: str) -> object:
    reader = HTMLParser()
    reader.feed(text)
    return "</html>" in text


READERS: dict[str, Callable[[str], object]] = {
    "text": str.strip,
    "json": json.loads,
    "jsonl": lines_of_json,
    "sarif": lambda text: json.loads(text)["runs"],
    "junit": lambda text: ElementTree.fromstring(text).tag.startswith("testsuite"),
    "concise": lambda text: text.splitlines()[-1],
    "github": lambda text: all(line.startswith("::") for line in text.splitlines()),
    "csv": table,
    "html": page,
    "man": lambda text: text.startswith(".TH") and "\n.SH NAME\n" in text,
    "markdown": lambda text: text.startswith(("#", "|")),
}
"""Whether the text of a form can be read as that form, and has something in it."""
EMPTY = {(name, form) for name in ("check", "run") for form in ("jsonl", "github")}
EMPTY.add(("test", "github"))
"""Forms with a line for each finding."""


@pytest.mark.sampled(20, 40)
@pytest.mark.parametrize(
    ("name", "form"),
    [(n, f) for n in WITH_FORMAT if n != "selftest" for f in PARSERS[n].get_default("forms")],
)
def test_every_form_can_be_read_again(name, form, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(build, "pages", lambda: islice(pages(), 20))  # of a site of 756
    (tmp_path / "types.mlir").write_text("!quant.uniform<i8:f32, 0.5>\n")
    scaled = one(
        "QuantizeLinear", {"x": X, "s": np.float32(0.1)}, TensorProto.UINT8, [4, 6], ("x",)
    )
    onnx.save(scaled, tmp_path / "model.onnx")
    (tmp_path / "op_summary.csv").write_text(
        "Op Name,OP Type,Input Shapes,Input Data Types,aiv_vec_time(us)\n"
        'a,TADD,"64,64;64,64",FLOAT;FLOAT,0.09\n'
    )
    (tmp_path / "proof.json").write_text('{"format": "ptosim certificate", "version": 0}\n')
    (tmp_path / "jobs.jsonl").write_text('{"program": "@basics/vadd"}\n')
    words = shlex.split(SAMPLES[name].format(folder=tmp_path))
    code = main([*name.split(), *words, "--format", form])
    told = capsys.readouterr()
    assert code in (0, 1), told.err
    assert READERS[form](told.out) or (name, form) in EMPTY


@pytest.mark.parametrize(
    "words",
    [
        ("stats", "@basics/vadd"),
        ("diff", "@basics/vadd", "@basics/softmax"),
        ("port", "@basics/vadd", "--from", "a2a3", "--to", "a5"),
        ("why", "@basics/vadd", "z[0, 0]"),
    ],
    ids=lambda words: words[0],
)
def test_a_page_by_the_suffix_of_its_file(cli, tmp_path, words) -> None:
    """What a terminal shows in tables a page has too, with a title and without a request."""
    path = tmp_path / "page.html"
    cli(*words, "-o", path)
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    body = text[text.index("<body") :]
    assert "<table" in body or "<p" in body
    assert "http://" not in text.replace("http://www.w3.org", "")
