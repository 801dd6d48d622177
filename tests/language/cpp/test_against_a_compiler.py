"""Kernels of scalars give what a compiler's program gives: random ones, of which the same text is compiled
and read. What C++ does not define is left out by the compiler's sanitizer."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.language.cpp.against import Compared, compare_batch
from tests.language.cpp.compiler import ARGUMENTS, compiled
from tests.language.cpp.scalars.compiled import MEMORY, SCALARS
from tests.language.cpp.scalars.kernel import kernel
from tests.support.paths import TREE

_BATCH = SCALARS.batch
_DEEP = 15
"""Batches in the deep tier besides the one of the default tier."""
_CONSTRUCTS = {
    **{f"a variable of type {kind}": rf"^ *{kind} v\d+ = " for kind in (
        "int8_t", "uint8_t", "int16_t", "uint16_t", "int", "uint32_t", "int64_t", "uint64_t", "size_t",
        "bool", "auto", "const int",
    )},
    "a conversion": r"static_cast<\w+>\(",
    "a conversion as C writes it": r"\(u?int\d+_t\)\(",
    "an extremum": r"std::(min|max)<",
    "a reference": r"auto &r\d+ = ",
    "an array": r" q\d+\[\d\] = \{",
    "an element of an array whose place the run says": r"q\d+\[\(\w+\) & \d\] \S*= ",
    "a struct": r"S p\d+;",
    "a copy of a struct": r"S p\d+ = p\d+;",
    "a member function": r"p\d+\.at\(",
    "a lambda of references": r"= \[&\]",
    "a lambda of values": r"= \[=\]",
    "a function of numbers": r"AICORE inline int f",
    "a function that changes its argument": r"AICORE inline void f\d+\(int &",
    "an instance of a template": r"t\d+<\w+, \d>\(",
    "if constexpr": r"if constexpr \(",
    "else": r"\} else \{",
    "else if": r"\} else if \(",
    "a case that goes on into the next one": r"case \d: \{\n(?:   .*\n)*  \}\n  case",
    "a default case": r"default: \{",
    "a loop that goes up": r"for \(\w+ c\d+ = .*; c\d+ < .*; c\d+\+\+\) \{",
    "a loop that goes down": r"for \(\w+ c\d+ = .*; c\d+ >=? .*; (c\d+--|--c\d+)\) \{",
    "a step of more than one": r"for \(.*; c\d+ \+= [23]\) \{",
    "a step that the body may change": r"for \(.*; c\d+ \+= \(\D\w* & 1\) \+ 1\) \{",
    "a step down of more than one": r"for \(.*; c\d+ -= [23]\) \{",
    "!= at the end": r"for \(.*; c\d+ != .*; ",
    "<= at the end": r"for \(.*; c\d+ <= .*; ",
    "a counter without sign": r"for \(uint32_t ",
    "a narrow counter": r"for \(uint(8|16)_t ",
    "a wide counter": r"for \(int64_t ",
    "two counters": r"for \(int c\d+ = 0, c\d+ = ",
    "two things that a step changes": r"for \(.*\+\+, \w+\+\+\) \{",
    "an end that is a variable": r"for \(.*; c\d+ < [nmxyz];",
    "an end that calls what changes something": r"for \(.*; c\d+ <=? .*l\d+\(.*; ",
    "an end that counts": r"for \(.*; c\d+ < \w+--; ",
    "a counter from before the loop": r"for \(; c\d+ < ",
    "a loop without a condition": r"for \(int c\d+ = 0;; c\d+\+\+\) \{",
    "while": r"while \(c\d+ [>!]=? ?\d+( && .*)?\) \{",
    "while that counts": r"while \(c\d+-- > 0\) \{",
    "do": r"\} while \(c\d+ > \d\);",
    "break": r"if \(.*\) break;",
    "continue": r"if \(.*\) continue;",
    "an early return": r"if \(.*\) return;",
    "an early return of a number": r"if \(.*\) return \d;",
    "a load": r" [^o\n]\S* \S*= .*out\[3 \+ \(.* & 3\)\]",
    "a store": r"^ *out\[3 \+ \(.* & 3\)\] = ",
    "a load with its store": r"^ *out\[3 \+ \(.* & 3\)\] \+= ",
}  # fmt: skip
_DATA = TREE / "tests" / "data" / "cpp"
_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")


@_compiler
@pytest.mark.sampled(0, 1)
@pytest.mark.parametrize("batch", range(1 + _DEEP))
def test_values_are_those_of_a_compiler(batch: int, sanitizer: None, tmp_path: Path) -> None:
    compare_batch(SCALARS, batch, _BATCH, tmp_path)


@_compiler
@pytest.mark.sampled(0)
def test_corners_of_the_language_are_read_as_a_compiler_reads_them(
    sanitizer: None, tmp_path: Path
) -> None:
    """A line is the body of a kernel, after `@@` where something is declared in front of it; on both
    targets in turn. Where g++ does the left side of an
    assignment first against [expr.ass] (`t[n] = f()` with an `f` that changes n) there is no line."""
    found = [*_corners("corners.txt", tmp_path)]
    assert [one.faults or one.refused for one in found if one.runs < len(ARGUMENTS)] == []


@_compiler
@pytest.mark.sampled(0)
def test_what_is_open_is_listed(sanitizer: None, tmp_path: Path) -> None:
    """These lines are C++, but get other values or are said to be none; one that is mended belongs to
    the corners."""
    found = [*_corners("open.txt", tmp_path)]
    assert [n for n, one in enumerate(found, 1) if not one.faults and not one.refused] == []


@_compiler
@pytest.mark.sampled(0)
def test_what_is_undefined_or_no_program_is_left_out(sanitizer: None, tmp_path: Path) -> None:
    """And nothing besides: the others of its batch are compared."""
    texts = [
        _kernel("out[0] = (int8_t)(n + 200); out[1] = (uint32_t)-1 > 0; out[6] = m % 4;"),
        _kernel("out[0] = 1 +;"),
        _kernel("out[0] = 2147483643 + n;"),
        _kernel("for (int i = 0; i != n; i += 2) i &= 1023; out[0] = 7;"),
    ]
    converted, no_program, sometimes, endless = compiled(texts, SCALARS.frame, tmp_path)
    assert converted == {(n, m): [n - 56, 1, 0, 1, 2, 3, m % 4] for n, m in ARGUMENTS}
    assert no_program == {}
    assert sometimes == {(n, m): [2147483643 + n, *MEMORY[1:]] for n, m in ARGUMENTS if n < 5}
    assert endless == {(0, 0): [7, *MEMORY[1:]]}


def test_another_value_is_told() -> None:
    """The comparison can fail: it is given what no compiler would say, of one pair of arguments."""
    found = Compared(SCALARS)
    text = _kernel("out[0] = n / 2;")
    found.add("wrong", text, "a5", {(5, 3): [3, *MEMORY[1:]]})
    found.add("right", text, "a2a3", {(5, 3): [2, *MEMORY[1:]]})
    (fault,) = found.faults
    assert fault.startswith("wrong on a5: n = 5, m = 3: out is [2, 0, 0, 1, 2, 3, 4], of C++ [3,")
    assert (found.kernels, found.runs) == (2, 1)


def test_what_is_refused_is_counted_and_an_internal_error_is_a_fault(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, right = Compared(SCALARS), {(0, 0): [*MEMORY]}
    found.add("refused", _kernel("goto end; end:;"), "a5", right)
    assert (len(found.refused), found.faults) == (1, [])
    monkeypatch.setattr("ptosim.language.cpp.reader._followed", lambda *_: {}["no such name"])
    found.add("internal", _kernel("out[0] = n;"), "a5", right)
    assert "KeyError" in found.faults[0]


def test_a_run_that_is_too_long_is_left_out() -> None:
    found = Compared(SCALARS)
    text = _kernel("for (int i = 0; i < 3000000; i++) out[3] += i & n;")
    found.add("long", text, "a5", {(1, 2): [*MEMORY]})
    assert (found.long, found.runs, found.faults) == (1, 0, [])


def test_a_seed_is_always_the_same_kernel() -> None:
    assert kernel(7) == kernel(7) != kernel(8)


@pytest.mark.sampled(0)
def test_a_seed_is_the_same_kernel_in_each_process() -> None:
    """No choice goes by the order of a set, which differs between processes."""
    code = "from tests.language.cpp.scalars.kernel import kernel; print(kernel(7), end='')"
    for order in ("1", "2"):
        made = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=TREE,
            env={"PYTHONHASHSEED": order, "PYTHONPATH": str(TREE)},
        )  # fmt: skip
        assert made.stdout == kernel(7)


def test_kernels_have_every_construct() -> None:
    texts = [kernel(seed) for seed in range(300)]
    assert [
        what
        for what, form in _CONSTRUCTS.items()
        if not any(re.search(form, text, re.MULTILINE) for text in texts)
    ] == []


def _corners(name: str, folder: Path) -> Iterator[Compared]:
    """Compare each line of a file of data."""
    texts = [_kernel(line) for line in (_DATA / name).read_text(encoding="utf-8").splitlines()]
    for number, (text, right) in enumerate(
        zip(texts, compiled(texts, SCALARS.frame, folder), strict=True), 1
    ):
        assert len(right) == len(ARGUMENTS), f"{name}:{number} is not defined for all arguments"
        one = Compared(SCALARS)
        one.add(f"{name}:{number}", text, ("a5", "a2a3")[number % 2], right)
        yield one


def _kernel(line: str) -> str:
    before, _, body = line.rpartition("@@")
    return f"{before}\n__global__ AICORE void k(__gm__ int *out, int n, int m) {{\n  {body}\n}}\n"
