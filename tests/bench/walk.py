"""How far an operand of TQUANT walks: modules that its functions are in, and calls that go from one
room (a package of the top level) to another, from text to bytes. Short walks are read quickly."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import ptosim
from ptosim.ground.isa.cache import programs_directory
from ptosim.launch.launch import Launch
from ptosim.launch.prepared import RunOptions
from tests.bench.timing import Figure

ROOT = Path(ptosim.__file__).parent
PROGRAM = programs_directory() / "quant" / "int8_sym.pto"


class _Steps:
    """A profiler that counts: modules entered, and changes of room between one call and the next."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.switches = 0
        self._room = ""

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if event != "call" or not frame.f_code.co_filename.startswith(f"{ROOT}/"):
            return
        module = frame.f_code.co_filename.removeprefix(f"{ROOT}/")
        room = module.partition("/")[0]
        self.modules.add(module)
        self.switches += bool(self._room) and room != self._room
        self._room = room


def _counted(what: str, function: Callable[[], object], modules: int, switches: int) -> Figure:
    steps = _Steps()
    sys.setprofile(steps)
    try:
        function()
    finally:
        sys.setprofile(None)
    return Figure(
        f"walk of an operand: {what}",
        f"{len(steps.modules)} modules",
        "changes of room",
        f"{steps.switches}",
        f"<= {modules} modules, {switches} changes",
    )


def walk() -> list[Figure]:
    """Load, launch and first execution of `@quant/int8_sym`, each for the second time in the process:
    what happens once is no part of the way."""

    def load() -> ptosim.Program:
        return ptosim.load(PROGRAM, target="a2a3")

    def launch() -> Launch:
        options = RunOptions(timing=False, sanitize="none")
        program = load()
        made = Launch.of(program.front, program.profile, options, program.entry(), None)
        made.start()
        return made

    launch().engine.run()
    program, prepared = load(), launch()
    options = RunOptions(timing=False, sanitize="none")

    def again() -> None:
        Launch.of(program.front, program.profile, options, program.entry(), None).start()

    return [
        _counted("load", load, 35, 1000),
        _counted("launch", again, 20, 300),
        _counted("execution", prepared.engine.run, 30, 90),
    ]
