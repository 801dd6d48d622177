"""Programs with holes: what makes the text of one point of a space.

`kernel.pto.j2` is a Jinja2 template (sandboxed; extra `ptosim[search]`), a Python function gives
the text, or a program, for keyword arguments, and of a plain file named constants
(`%c16 = arith.constant 16 : index`) get other values. Texts are made by the process that asks, so
workers need nothing but ptosim."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from ptosim.ground.confined import little_memory
from ptosim.ground.diagnostics.model import ProgramError, Sink
from ptosim.ground.errors import UsageError
from ptosim.ground.files import is_file, read_text
from ptosim.ground.isa.cache import of_the_caller
from ptosim.ground.limits import current
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source, with_line_feeds
from ptosim.language.syntax.parser import parse
from ptosim.launch.sources import read_source, source_path
from ptosim.tools.search.space import Space

MOST_TEXT = 16 << 20
"""Characters that one point may have."""
MOST_BITS = 4096
"""Of a whole number in a template."""
TEMPLATES = (".j2", ".jinja", ".jinja2")


class MakeError(UsageError):
    """A point has no text: its template or function raised (PTO7603)."""


class Maker(Protocol):
    """Makes the texts of points; `name` is what reports call it."""

    name: str

    def text(self, params: Mapping[str, Any]) -> str:
        """Return the program of a point. Raises MakeError."""
        ...


class Template:
    """A Jinja2 template. It can compute with its parameters and reach nothing else: no files, no
    imports, no attributes of Python's own. A parameter that is not in the space is an error."""

    def __init__(self, name: str, text: str) -> None:
        """Raises UsageError for a text that is no template (PTO7603) and where Jinja2 is missing
        (PTO7605), or the limits are those for strangers."""
        if not current().trusts:
            raise UsageError(f"{name} is a template, and none is rendered with --untrusted")
        try:
            from jinja2 import TemplateSyntaxError

            surroundings = _sandbox()
        except ImportError as problem:
            raise missing_extra("a template", "search", problem) from problem
        self.name = name
        try:
            with little_memory():  # constants are computed when it is compiled
                self._template = surroundings.from_string(text)
        except MemoryError as problem:
            raise _too_large(name) from problem
        except TemplateSyntaxError as problem:
            raise UsageError(f"PTO7603: {name}:{problem.lineno}: {problem.message}") from problem

    def text(self, params: Mapping[str, Any]) -> str:
        """Return the text of a point, see `Maker`."""
        parts, size = [], 0
        try:
            with little_memory():
                for part in self._template.generate(**params):
                    size += len(part)
                    if size > MOST_TEXT:
                        raise ValueError(f"it makes more than {MOST_TEXT:,} characters")
                    parts.append(part)
        except MemoryError as problem:
            raise _too_large(self.name) from problem
        except Exception as problem:  # whatever a template's arithmetic and Jinja2 raise
            raise _failed(self.name, problem) from problem
        return "".join(parts)


def _sandbox() -> Any:
    """Jinja2's sandbox, in which products and powers have an end too: Python computes one of them
    to its end, whatever limit was reached meanwhile."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Sandbox(ImmutableSandboxedEnvironment):
        intercepted_binops = frozenset(("*", "**"))

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            """Compute a product or a power. Raises ValueError for what is too large."""
            if _is_huge(operator, left, right):
                raise ValueError(f"`{operator}` makes something too large")
            return super().call_binop(context, operator, left, right)

    return Sandbox(
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )


def _is_huge(operator: str, left: Any, right: Any) -> bool:
    whole = [n for n in (left, right) if isinstance(n, int)]
    if operator == "**":
        return len(whole) == 2 and left.bit_length() * right > MOST_BITS
    texts = [n for n in (left, right) if isinstance(n, (str, bytes, list, tuple))]
    if texts and whole:
        return len(texts[0]) * whole[0] > MOST_TEXT
    return sum(n.bit_length() for n in whole) > MOST_BITS


class Function:
    """A Python function of the caller: keyword arguments in, text or a program out."""

    def __init__(self, make: Callable[..., Any], name: str = "") -> None:
        self._make = make
        self.name = name or getattr(make, "__name__", "make")

    def text(self, params: Mapping[str, Any]) -> str:
        """Return the text of a point, see `Maker`."""
        try:
            with of_the_caller():
                made = self._make(**params)
        except ProgramError as problem:  # it loaded the program itself: here each target judges it
            made = _rejected_text(problem)
            if made is None:
                raise _failed(self.name, problem) from problem
        except Exception as problem:
            raise _failed(self.name, problem) from problem
        front = getattr(made, "front", None)  # a program that was loaded
        made = front.source.text if front is not None else made
        if not isinstance(made, str):
            kind = type(made).__name__
            raise MakeError(f"PTO7603: {self.name} gives {kind}, no text and no program")
        return made


def _rejected_text(problem: ProgramError) -> str | None:
    """The program that findings are about."""
    return next((d.span.source.text for d in problem.diagnostics if d.span is not None), None)


class Constants:
    """A plain program of which named constants get other values."""

    def __init__(self, source: Source, names: Sequence[str]) -> None:
        """Raises UsageError (PTO7604) for a name that is no constant of the program."""
        self.name = source.label
        self._text = source.text
        found = _constants(source)
        self._places = {name: found.get(name, []) for name in names}
        missing = next((name for name, places in self._places.items() if not places), None)
        if missing is not None:
            listed = ", ".join(found) or "none"
            raise UsageError(
                f"PTO7604: {source.label} has no {_forms(source).format(missing)}",
                help=f"constants: {listed}",
            )

    def text(self, params: Mapping[str, Any]) -> str:
        """Return the text of a point, see `Maker`. A name that several functions define is
        changed in all of them."""
        places = [(s, e, params[n]) for n, at in self._places.items() for s, e in at]
        text = self._text
        for start, end, value in sorted(places, reverse=True):
            word = str(value).lower() if isinstance(value, bool) else str(value)
            text = text[:start] + word + text[end:]
        return text


_LITERAL = re.compile(r"arith\.constant\s+(?P<value>[^\s:]+)")
_IN_CPP = re.compile(
    r"^[ \t]*#[ \t]*define[ \t]+(?P<macro>\w+)[ \t]+(?P<word>[^\s/]+)[ \t]*(?://.*|/\*.*)?$"
    r"|\bconstexpr\b[\w\s:<>]*?\b(?P<name>\w+)\s*=\s*(?P<value>[^;,{}]+?)\s*;", re.MULTILINE
)  # fmt: skip
"""What has a value in C++: `#define NAME 16`, `constexpr int NAME = 16;`."""


def _forms(source: Source) -> str:
    is_cpp = source.is_cpp
    return "`#define {0} …` and no `constexpr … {0} = …`" if is_cpp else "`%{} = arith.constant …`"


def _constants(source: Source) -> dict[str, list[tuple[int, int]]]:
    """Where the literals of constants are, by the name of the constant."""
    if source.is_cpp:
        places: dict[str, list[tuple[int, int]]] = {}
        for one in _IN_CPP.finditer(source.text):
            name, value = ("macro", "word") if one["macro"] else ("name", "value")
            places.setdefault(one[name], []).append(one.span(value))
        return places
    module = parse(source, Sink())
    found: dict[str, list[tuple[int, int]]] = {}
    for op in module.walk():
        if op.name != "arith.constant" or len(op.result_tokens) != 1:
            continue
        literal = _LITERAL.search(source.text, op.start, op.end)
        if literal is not None:
            name = op.result_tokens[0][0].lstrip("%")
            found.setdefault(name, []).append(literal.span("value"))
    return found


def maker_of(source: str | Path | Callable[..., Any], space: Space) -> Maker:
    """Return what makes the texts: of a function itself, of `file.py:function`, of a template by
    its suffix, else of a program (a path or `@name`) whose constants have the names of the space's
    parameters. Raises UsageError for what cannot be read, PTO7603, PTO7604, PTO7605."""
    if callable(source):
        return Function(source)
    name = str(source)
    path, _, function = name.rpartition(":")
    if path.endswith(".py") and function:
        return Function(function_of(Path(path), function), name)
    if name.endswith(TEMPLATES):
        return Template(name, _template_text(name))
    return Constants(read_source(source_path(name)), list(space.values))


def _template_text(name: str) -> str:
    from ptosim.ground.isa.cache import programs_directory

    path = programs_directory() / name[1:] if name.startswith("@") else Path(name)
    return with_line_feeds(read_text(path))


def function_of(path: Path, name: str) -> Callable[..., Any]:
    """Return a function of a Python file of the caller, which is executed. Raises UsageError
    (PTO7603) for a file that cannot be executed or has no such function."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not is_file(path):
        raise UsageError(f"PTO7603: there is no Python file {path}")
    module = importlib.util.module_from_spec(spec)
    try:
        with of_the_caller():
            spec.loader.exec_module(module)
    except Exception as problem:
        raise _failed(str(path), problem) from problem
    found = getattr(module, name, None)
    if not callable(found):
        raise UsageError(f"PTO7603: {path} has no function `{name}`")
    return found


def missing_extra(what: str, extra: str, problem: ImportError) -> UsageError:
    """Return the error for a library that an extra brings."""
    return UsageError(
        f"PTO7605: {what} needs {problem.name}", help=f"pip install 'ptosim[{extra}]'"
    )


def _too_large(name: str) -> MakeError:
    return MakeError(f"PTO7603: {name} takes more memory than a template may")


def _failed(name: str, problem: Exception) -> MakeError:
    reason = " ".join(str(problem).split()) or type(problem).__name__
    place = getattr(problem, "lineno", None)
    where = f"{name}:{place}" if isinstance(place, int) else name
    return MakeError(f"PTO7603: {where} raises {type(problem).__name__}: {reason}")


# What all that works on jobs agrees on: a job, how many are handed out, one that was lost.

Work = Callable[[Any], Any]
AHEAD = 2
"""Jobs of each worker that are handed out before results come back: none of them waits, and a
space of millions of points is never in memory. What loky's queue has no room for (twice the workers
and one more) it could not forget when it is closed."""


@dataclass(frozen=True, slots=True)
class Lost:
    """What is known of a job whose process ended twice."""

    reason: str = "PTO7611: the process that worked on it ended, and so did another one"
