"""`python -m tests.assurance.mutation --data FOLDER --count N --seed S [--room R]`: how many changes of
ptosim's own code the tests notice.

In each room N places inside of functions are drawn; at each the code is changed (a comparison, an operator, a
constant, a condition, a result), and the tests that execute the line (as `tests.assurance.branches` has
recorded them, the quickest first) run in a copy of this process: the change is found if one fails or does
not end. A change that no test executes counts as missed. The code of a live function is exchanged, so a
change costs no start of Python; code of modules and classes outside of functions is not changed."""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import coverage
import pytest
from _pytest.runner import runtestprotocol

from tests.assurance.branches import DATA, QUIET, SECONDS, room_of
from tests.support.paths import TREE

MOST_TESTS = 24
"""Tests of a change: the quickest that execute its line."""
LEAST_PATIENCE, PATIENCE = 3.0, 6.0
"""Seconds a change may take, and times what its tests take: then it counts as one that does not end."""
_COMPARED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift, ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Site:
    """A place that can be changed: the file, the number of the node in it, its line and function."""

    file: str
    node: int
    line: int
    function: str
    begins: int


def sites(file: Path) -> Iterator[Site]:
    """Every place inside of the functions of a file that `changed` knows how to change."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    numbers = {id(node): number for number, node in enumerate(ast.walk(tree))}
    for name, function in _functions(tree, ""):
        begins = min((d.lineno for d in function.decorator_list), default=function.lineno)
        for statement in function.body:
            for node in ast.walk(statement):
                if _can_change(node):
                    yield Site(str(file), numbers[id(node)], node.lineno, name, begins)


def _functions(tree: ast.AST, within: str) -> Iterator[tuple[str, ast.FunctionDef]]:
    """Outermost functions and methods, with their qualified names."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node, f"{within}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _functions(node, within)


def _can_change(node: ast.AST) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, bool)
    if isinstance(node, ast.Return):
        return node.value is not None and not isinstance(node.value, ast.Constant)
    if isinstance(node, ast.BinOp):
        text = isinstance(node.left, ast.Constant | ast.JoinedStr)
        return type(node.op) in _OPERATORS and not (text and not _is_number(node.left))
    if isinstance(node, ast.Compare):
        return type(node.ops[0]) in _COMPARED
    return isinstance(node, ast.BoolOp | ast.If) or (
        isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    )


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


def changed(site: Site) -> tuple[CodeType | None, str]:
    """The code of the site's function with the change, None if it is not found; and what was changed."""
    tree = ast.parse(Path(site.file).read_text(encoding="utf-8"))
    node: Any = next(n for number, n in enumerate(ast.walk(tree)) if number == site.node)
    before = ast.unparse(copy.copy(node)).partition("\n")[0]
    if isinstance(node, ast.Constant):
        node.value = (not node.value) if isinstance(node.value, bool) else node.value + 1
    elif isinstance(node, ast.Return):
        node.value = ast.copy_location(ast.Constant(None), node.value)
    elif isinstance(node, ast.BinOp):
        node.op = _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.Compare):
        node.ops[0] = _COMPARED[type(node.ops[0])]()
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.If):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    else:
        node.op = ast.UAdd()  # `+x` of a truth value is that value
    after = ast.unparse(node).partition("\n")[0]
    code = compile(ast.fix_missing_locations(tree), site.file, "exec")
    return _code_of(code, site), f"{before} -> {after}"


def _code_of(code: CodeType, site: Site) -> CodeType | None:
    for inner in filter(lambda c: isinstance(c, CodeType), code.co_consts):
        if inner.co_qualname == site.function and inner.co_firstlineno == site.begins:
            return inner
        if found := _code_of(inner, site):
            return found
    return None


class Runner:
    """Runs the tests of each change in a copy of the process in which they were collected."""

    def __init__(
        self, tests: dict[Site, list[str]], seconds: dict[str, float], workers: int
    ) -> None:
        self.drawn, self.tests, self.workers = list(tests), tests, workers
        self.seconds = seconds
        self.found: dict[Site, bool] = {}
        self.what: dict[Site, str] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        for file in {
            site.file for site in self.drawn
        }:  # what is loaded later could not be exchanged
            import_module(".".join(Path(file).relative_to(TREE).with_suffix("").parts))
        gc.unfreeze()
        functions: dict[tuple[str, str, int], list[FunctionType]] = {}
        for thing in gc.get_objects():
            if type(thing) is FunctionType and thing.__code__.co_filename.startswith(str(TREE)):
                code = thing.__code__
                place = (code.co_filename, code.co_qualname, code.co_firstlineno)
                functions.setdefault(place, []).append(thing)
        running: dict[int, tuple[Site, float]] = {}
        for site in self.drawn:
            chosen = [items[name] for name in self.tests[site] if name in items]
            live = functions.get((site.file, site.function, site.begins), [])
            code, self.what[site] = changed(site)
            if not chosen or not live or code is None:
                self.found[site] = False
                continue
            while len(running) >= self.workers:
                self._wait(running)
            patience = LEAST_PATIENCE + PATIENCE * sum(self.seconds[i.nodeid] for i in chosen)
            running[_started(live, code, chosen)] = (site, time.monotonic() + patience)
        while running:
            self._wait(running)
        return True

    def _wait(self, running: dict[int, tuple[Site, float]]) -> None:
        """Until one of those that run has ended, or has run too long."""
        while True:
            for pid, (site, deadline) in running.items():
                done, status = os.waitpid(pid, os.WNOHANG)
                if not done and time.monotonic() < deadline:
                    continue
                if not done:
                    os.kill(pid, 9)
                    os.waitpid(pid, 0)
                self.found[site] = not done or status != 0
                del running[pid]
                return
            time.sleep(0.01)


def _started(live: list[FunctionType], code: CodeType, items: list[pytest.Item]) -> int:
    """Start a process that has the change and ends with 1 if one of the tests fails."""
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        for function in live:
            function.__code__ = code
        status = int(any(r.failed for i in items for r in runtestprotocol(i, log=False)))
    finally:
        os._exit(status)


def _drawn(
    folder: Path, seconds: dict[str, float], count: int, seed: int, room: str | None
) -> dict[Site, list[str]]:
    """Sites of each room, with the quickest tests that execute their lines."""
    data = coverage.CoverageData(str(folder / DATA))
    data.read()
    rooms: dict[str, list[Site]] = {}
    for file in sorted((TREE / "ptosim").rglob("*.py")):
        rooms.setdefault(room_of(str(file)), []).extend(sites(file))
    draw = random.Random(seed)
    drawn: dict[Site, list[str]] = {}
    for name, all_of_it in sorted(rooms.items()):
        if room not in (None, name):
            continue
        for site in draw.sample(all_of_it, min(count, len(all_of_it))):
            tests = data.contexts_by_lineno(site.file).get(site.line, [])
            quick = sorted((t for t in tests if t in seconds), key=lambda t: (seconds[t], t))
            drawn[site] = quick[:MOST_TESTS]
    return drawn


def main() -> int:
    """Print the score of each room as rows of runs.toml, and what was missed in a file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("/tmp/ptosim-branches"))
    parser.add_argument("--count", type=int, default=500, help="changes in each room")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--room")
    parser.add_argument("-j", "--workers", type=int, default=1)
    options = parser.parse_args()
    seconds = json.loads((options.data / SECONDS).read_text(encoding="utf-8"))
    tests = _drawn(options.data, seconds, options.count, options.seed, options.room)
    runner = Runner(tests, seconds, options.workers)
    files = sorted({name.partition("::")[0] for names in tests.values() for name in names})
    words = ["-q", "-n", "0", "-p", "no:cacheprovider", *QUIET, "-m", "", "-s"]
    pytest.main([*words, *(str(TREE / f) for f in files)], plugins=[runner])
    made, caught = Counter[str](), Counter[str]()
    missed = options.data / "missed.txt"
    with missed.open("w", encoding="utf-8") as out:
        for site in runner.drawn:
            room = room_of(site.file)
            made[room] += 1
            caught[room] += runner.found[site]
            if not runner.found[site]:
                place = f"{Path(site.file).relative_to(TREE)}:{site.line}"
                out.write(f"{place} {runner.what[site]} ({len(tests[site])} tests)\n")
    for room in sorted(made):
        sys.stdout.write(
            f'[[mutation]]\nroom = "{room}"\nseed = {options.seed}\nall = {made[room]}\n'
            f"found = {caught[room]}\n\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
