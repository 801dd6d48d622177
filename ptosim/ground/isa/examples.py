"""An example for each operation, as small as it can be: a program in real syntax.

`isa/examples/FAMILY.pto` has one program after the other; a line `// ---- NAME` begins each. Lines
after it say what is special: `// compat: DATE` (the date of the language that has the operation),
`// target: T` (it is for one target only), `// dump: true` (what passes of the assembler print),
`// run: OPTIONS` (what `ptosim run FILE` needs beside it), `// not run: WHY` (it is right, and
alone it cannot be executed).
"""

from __future__ import annotations

import re
from functools import lru_cache

from ptosim.ground.isa.cache import isa_directory
from ptosim.ground.isa.schema import OpDef
from ptosim.ground.records import dataclass

_BEGIN = re.compile(r"^// ---- (\S+)\n", re.MULTILINE)
_OPTION = re.compile(r"^// (compat|target|dump|run|not run): (.*)\n")


@dataclass(frozen=True, slots=True)
class Example:
    """A program that shows an operation."""

    name: str
    program: str
    compat: str | None = None
    target: str | None = None
    is_dump: bool = False
    not_run: str | None = None
    run: str = ""

    @property
    def entry(self) -> str | None:
        """The function that is run, where there are several."""
        found = re.search(r"--entry (\S+)", self.run)
        return found[1] if found is not None else None

    @property
    def line(self) -> str:
        """The operation itself, as the program has it; of one with a region its first line."""
        spelled = {"func.return": "return"}.get(self.name, self.name)
        word = re.compile(rf'(?<![\w.@])"?{re.escape(spelled)}"?(?![\w.])')
        found = next(line for line in self.program.splitlines() if word.search(line)).strip()
        return f"{found} … }}" if found.endswith("{") else found


def example_of(definition: OpDef) -> Example | None:
    """Return the example of an operation; None for one that has none."""
    return _examples(definition.family).get(definition.name)


@lru_cache(maxsize=1)
def all_examples() -> str:
    """Return the programs of all examples, one after the other."""
    paths = sorted((isa_directory() / "examples").glob("*.pto"))
    texts = (_BEGIN.sub("\n", path.read_text(encoding="utf-8")) for path in paths)
    return "".join(texts)


@lru_cache(maxsize=64)
def _examples(family: str) -> dict[str, Example]:
    path = isa_directory() / "examples" / f"{family}.pto"
    if not path.is_file():
        return {}
    parts = _BEGIN.split(path.read_text(encoding="utf-8"))[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {name: _example(name, text) for name, text in pairs}


def _example(name: str, text: str) -> Example:
    said: dict[str, str] = {}
    while (found := _OPTION.match(text)) is not None:
        said[found[1]] = found[2].strip()
        text = text[found.end() :]
    return Example(
        name, text.strip() + "\n", said.get("compat"), said.get("target"), "dump" in said,
        said.get("not run"), said.get("run", ""),
    )  # fmt: skip
