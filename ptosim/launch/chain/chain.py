"""A chain that was read: its kernels are loaded and decided once, its launches run in order."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ptosim.ground.diagnostics.model import DescriptionError, Diagnostic, Sink, finding
from ptosim.ground.errors import UsageError
from ptosim.ground.ir.core import Value
from ptosim.ground.ir.types import MemRefType, PtrType, ScalarType
from ptosim.ground.records import NamedTuple, dataclass
from ptosim.ground.source import Span
from ptosim.ground.words import MOST_BITS, nearest
from ptosim.language.place.cores import peer_functions
from ptosim.launch import array_files as values
from ptosim.launch.arguments import Alias, array_argument, scalar_argument
from ptosim.launch.chain.file import ChainFile, KernelEntry, LaunchEntry, read_chain
from ptosim.launch.chain.ledger import Stage, Streams
from ptosim.launch.compare import Choices
from ptosim.launch.description import Tolerance
from ptosim.launch.program import LoadedProgram
from ptosim.launch.sources import described
from ptosim.machine.pages import POISON, native

_OPERATORS: dict[type, Callable[[int, int], int]] = {
    ast.Add: lambda a, b: a + b,
    ast.Sub: lambda a, b: a - b,
    ast.Mult: lambda a, b: a * b,
    ast.FloorDiv: lambda a, b: a // b,
    ast.Mod: lambda a, b: a % b,
}
_WINDOW = re.compile(r"\s*([^\[\]\s]+)\s*(?:\[([^\[\]:]*)(:[^\[\]:]*)?\])?\s*")


class ExpressionError(ValueError):
    """An expression cannot be read, or means nothing."""


@dataclass(frozen=True, slots=True)
class Window:
    """A buffer, or rows of it: row `first`, or rows from `first` to before `last`."""

    buffer: str
    first: str | None = None
    last: str | None = None

    def of(self, array: np.ndarray, counters: Mapping[str, int]) -> np.ndarray:
        """Return the part of an array, as a view. Raises ExpressionError for rows that it does not
        have."""
        if self.first is None:
            return array
        rows = len(array) if array.ndim else 0
        first = value_of(self.first, counters) if self.first else 0
        end = first + 1
        if self.last is not None:
            end = value_of(self.last, counters) if self.last else rows
        if not 0 <= first < end <= rows:
            raise ExpressionError(f"rows {first} to {end - 1} are not among the {rows} rows")
        part = array[first:end]
        return part[0] if self.last is None and array.ndim > 1 else part


def window_of(text: str) -> Window:
    """Return the window that a text names: `NAME`, `NAME[ROW]` or `NAME[FIRST:LAST]`."""
    found = _WINDOW.fullmatch(text)
    if found is None:
        raise ExpressionError("it is no NAME, NAME[ROW] or NAME[FIRST:LAST]")
    name, first, last = found.groups()
    if first is not None and last is None and not first.strip():
        raise ExpressionError("no row is named between the brackets")
    return Window(
        name, first.strip() if first is not None else None, last[1:].strip() if last else last
    )


def value_of(text: str, counters: Mapping[str, int]) -> int:
    """Return the number that an expression of numbers and counters is now: + - * // % and brackets.
    Raises ExpressionError for anything else, and for numbers that no type holds."""
    try:
        tree = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        raise ExpressionError(f"`{text}` is no expression") from None
    try:
        return _value(tree, counters)
    except RecursionError:
        raise ExpressionError("it is nested too deeply") from None


def _value(node: ast.expr, counters: Mapping[str, int]) -> int:
    found = _computed(node, counters)
    if found.bit_length() > MOST_BITS:
        raise ExpressionError(f"it has a number of more than {MOST_BITS} bits")
    return found


def _computed(node: ast.expr, counters: Mapping[str, int]) -> int:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    if isinstance(node, ast.Name):
        if node.id not in counters:
            known = ", ".join(counters) or "none"
            raise ExpressionError(f"there is no counter `{node.id}` (counters: {known})")
        return counters[node.id]
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_value(node.operand, counters)
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        left, right = _value(node.left, counters), _value(node.right, counters)
        if right == 0 and isinstance(node.op, (ast.FloorDiv, ast.Mod)):
            raise ExpressionError("it divides by 0")
        return _OPERATORS[type(node.op)](left, right)
    raise ExpressionError("it has more than whole numbers, counters, + - * // % and brackets")


_EMPTY = "empty:"


class Kernel(NamedTuple):
    """A kernel that was loaded for a target: its entry, what that takes, and its launch options."""

    program: LoadedProgram
    entry: str
    values: Mapping[str, Value]
    block_num: int | None


class Bound(NamedTuple):
    """One launch: its stage, kernel, arguments, and of each that is an array the buffer, the first
    byte there, and the place in the file."""

    stage: Stage
    launch: LaunchEntry
    kernel: Kernel
    args: dict[str, Any]
    parts: dict[str, tuple[str, int, Span]]
    is_last: bool


@dataclass(slots=True)
class Chain:
    """Kernels on shared buffers, for one target. Made by `ptosim.load_chain`."""

    file: ChainFile
    target: str
    kernels: dict[str, Kernel]
    profile: str = "hw"

    @property
    def name(self) -> str:
        """The name of the file without its ending."""
        return self.file.name

    @property
    def findings(self) -> list[Diagnostic]:
        """What the static checks of the kernels found."""
        found: list[Diagnostic] = []
        for kernel in self.kernels.values():
            found += [d for d in kernel.program.findings if d not in found]
        return found

    def make_buffers(
        self, given: Mapping[str, Any] | None = None, uninit: str = "poison"
    ) -> dict[str, np.ndarray]:
        """Return the buffers before the first launch: those of the file, and arrays or SPECs that
        are given over them. Raises UsageError for a name that the file does not have,
        DescriptionError for a SPEC that means nothing."""
        file, made = self.file, {}
        given = given or {}
        for name in given.keys() - file.buffers.keys():
            raise UsageError(
                f"the chain has no buffer `{name}`",
                help=nearest(name, file.buffers, f"buffers: {', '.join(file.buffers)}"),
            )
        sink = Sink()
        for name, spec in file.buffers.items():
            try:
                held = given.get(name, spec)
                held = _made(held, file.folder if name not in given else None, uninit)
                if not isinstance(held, np.ndarray):
                    raise UsageError(f"`{spec}` is no array")
            except UsageError as problem:
                if name in given:
                    raise
                place = file.places.value(("buffers", name))
                text = f"buffer `{name}`: {problem}"
                help = problem.help or "write it as the SPEC of --arg, or `empty:f32:16x64`"
                sink.report("PTO1085", text, place, help=help)
                continue
            made[name] = held
        if sink.has_errors:
            raise DescriptionError(list(sink))
        return made

    def is_given(self, name: str) -> bool:
        """True if a buffer has content before the first launch."""
        return not self.file.buffers[name].startswith(_EMPTY)

    def bind(self, buffers: Mapping[str, np.ndarray]) -> list[Bound]:
        """Return every launch with its arguments, in order. Raises DescriptionError with every
        argument that does not fit."""
        sink, bound, streams = Sink(), [], Streams()
        for number in range(self.file.repeat):
            for launch in self.file.launches:
                for i in range(launch.repeat):
                    last = number + 1 == self.file.repeat and i + 1 == launch.repeat
                    bound.append(
                        self._bind(launch, number, i, buffers, sink, streams, is_last=last)
                    )
            if sink.has_errors:
                break
        if sink.has_errors:
            raise DescriptionError(list(sink))
        return bound

    def _bind(
        self,
        launch: LaunchEntry,
        number: int,
        i: int,
        buffers: Mapping[str, np.ndarray],
        sink: Sink,
        streams: Streams,
        *,
        is_last: bool,
    ) -> Bound:
        file, kernel = self.file, self.kernels[launch.kernel]
        counters = {file.counter: number} if file.repeat > 1 else {}
        counters |= {launch.counter: i} if launch.repeat > 1 else {}
        told = ", ".join(f"{n} {v}" for n, v in counters.items())
        known = counters | {file.counter: number, launch.counter: i}
        place = file.places.key(launch.path)
        stage = streams.issue(launch.name, place, told, launch.stream, launch.after)
        bound = Bound(stage, launch, kernel, {}, {}, is_last)
        _check_names(file, launch, kernel, sink)
        for name, text in launch.args.items():
            value = kernel.values.get(name)
            if value is None:
                continue
            place = file.places.value((*launch.path, "args", name))
            try:
                _bind_argument(bound, name, text, value, known, buffers, place)
            except _Wrong as wrong:
                sink.report(wrong.code, str(wrong), place, help=wrong.help)
            except UsageError as problem:
                text = f"launch {stage}: {problem}"
                sink.report("PTO6123", text, place, help=problem.help or "give it another value")
        return bound

    def expected(self, specs: Mapping[str, str], path: tuple[str | int, ...]) -> dict[str, Any]:
        """Return arrays that buffers are compared with, and how near they must be. Raises
        DescriptionError for a SPEC that means nothing."""
        found = {}
        for name, spec in specs.items():
            try:
                array = values.parse_expectation(spec, self.file.folder)
            except UsageError as problem:
                place = self.file.places.value((*path, name))
                help = problem.help or "write it as the SPEC of --arg"
                text = f"expected values of `{name}`: {problem}"
                raise DescriptionError([finding("PTO1085", text, place, help=help)]) from problem
            found[name] = array, self.file.tolerance.get(name, Tolerance())
        return found


class _Wrong(Exception):
    def __init__(self, code: str, message: str, help: str | None) -> None:
        super().__init__(message)
        self.code, self.help = code, help


def _made(held: Any, folder: Path | None, uninit: str) -> Any:
    """The array of a buffer; nobody else has it."""
    if isinstance(held, str) and held.startswith(_EMPTY):
        array = values.parse_spec(f"zeros:{held.removeprefix(_EMPTY)}", folder)
        if uninit != "zero":
            array.reshape(-1).view(np.uint8)[:] = POISON
        return array
    if isinstance(held, str):
        held = values.parse_spec(held, folder)
        if not isinstance(held, np.ndarray):
            return held
    else:
        held = native(np.array(held))
    return held if held.flags.c_contiguous and held.flags.writeable else held.copy()


def _check_names(file: ChainFile, launch: LaunchEntry, kernel: Kernel, sink: Sink) -> None:
    """Report arguments that the kernel does not have, and those that are not given."""
    for name in launch.args.keys() - kernel.values.keys():
        sink.report(
            "PTO1084",
            f"kernel `{launch.kernel}` has no argument `{name}`",
            file.places.key((*launch.path, "args", name)),
            notes=(f"arguments: {', '.join(kernel.values) or 'none'}",),
            help=nearest(name, kernel.values, "remove it"),
        )
    missing = [name for name in kernel.values if name not in launch.args]
    if missing:
        listed = ", ".join(f"`{name}`" for name in missing)
        sink.report(
            "PTO1086",
            f"launch `{launch.name}` does not give {listed} of kernel `{launch.kernel}`",
            file.places.key((*launch.path, "args")),
            help=f"write `{missing[0]} = …`: a buffer for a pointer, a number for a scalar",
        )


def _bind_argument(
    bound: Bound,
    name: str,
    text: Any,
    value: Value,
    counters: Mapping[str, int],
    buffers: Mapping[str, np.ndarray],
    place: Span,
) -> None:
    type_, stage = value.type, bound.stage
    if isinstance(type_, ScalarType):
        if isinstance(text, str):
            text = _evaluated(text, counters, stage, name)
        bound.args[name] = scalar_argument(name, type_, text)
        return
    if not isinstance(text, str):
        help = f"name a buffer: {', '.join(buffers) or 'there is none'}"
        raise _Wrong("PTO6123", f"launch {stage}: `{name}` is {type_}, not the number {text}", help)
    if not isinstance(type_, (PtrType, MemRefType)):
        raise _Wrong("PTO6123", f"launch {stage}: `{name}` is {type_}, no pointer", None)
    try:
        window = window_of(text)
        if window.buffer not in buffers:
            help = nearest(window.buffer, buffers, f"buffers: {', '.join(buffers) or 'none'}")
            message = f"launch {stage}: there is no buffer `{window.buffer}` for `{name}`"
            raise _Wrong("PTO1084", message, help)
        whole = buffers[window.buffer]
        part = window.of(whole, counters)
    except ExpressionError as problem:
        raise _Wrong(
            "PTO1088",
            f"launch {stage}: `{text}` for `{name}`: {problem}",
            "a window is NAME[ROW] or NAME[FIRST:LAST], with whole numbers and counters",
        ) from None
    array_argument(name, type_.elem, part)
    offset = part.__array_interface__["data"][0] - whole.__array_interface__["data"][0]
    bound.parts[name] = window.buffer, offset, place
    same = (n for n, a in bound.args.items() if isinstance(a, np.ndarray) and _is_same(a, part))
    first = next(same, None)
    bound.args[name] = part if first is None else Alias(first)


def _is_same(one: np.ndarray, other: np.ndarray) -> bool:
    first, second = one.__array_interface__["data"][0], other.__array_interface__["data"][0]
    return first == second and one.nbytes == other.nbytes


def _evaluated(text: str, counters: Mapping[str, int], stage: Stage, name: str) -> int:
    try:
        return value_of(text, counters)
    except ExpressionError as problem:
        raise _Wrong(
            "PTO1088",
            f"launch {stage}: `{text}` for the scalar `{name}`: {problem}",
            "write a number, or an expression of whole numbers and counters: `layer * 2 + 1`",
        ) from None


def load(path: str | Path, target: str | None = None, **choices: Any) -> Chain:
    """Read the file of a chain, and load its kernels for a target (the first one that the file
    names). `choices` are those of a program (`profile`, `switches`, `compat`, `legacy`, …) and win
    over the file's. Raises DescriptionError for what is wrong in the file, ProgramError for a
    kernel that is."""
    file = read_chain(described(path))
    return of_file(file, target or file.targets[0], **choices)


def of_file(file: ChainFile, target: str, **choices: Any) -> Chain:
    """Load the kernels of a chain for a target, each once."""
    given = {n: v for n, v in file.options.items() if n != "seed"} | choices
    kernels, sink = {}, Sink()
    for name in dict.fromkeys(launch.kernel for launch in file.launches):
        try:
            kernels[name] = _load(file.kernels[name], target, given)
        except UsageError as problem:
            sink.report(
                "PTO1087",
                f"kernel `{name}`: {problem}",
                file.kernels[name].place,
                help=problem.help or "name a file relative to the chain's, or a shipped `@name`",
            )
    if sink.has_errors:
        raise DescriptionError(list(sink))
    return Chain(file, target, kernels, str(given.get("profile") or "hw"))


def _load(entry: KernelEntry, target: str, given: Mapping[str, Any]) -> Kernel:
    asked = {**given, **entry.options}
    choices = Choices(entry.file, target, **asked).completed()
    program = choices.program()
    name = program.entry(choices.entry)
    resolved = program.front.resolved
    functions = peer_functions(resolved, resolved.functions[name])
    taken = {value.name: value for function in functions for value in reversed(function.args)}
    ordered = {arg.name: taken[arg.name] for arg in program.signature(name)}
    return Kernel(program, name, ordered, choices.block_num)
