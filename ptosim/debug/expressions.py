"""Expressions of the user: Python over the values of the program, `%name`, and `$name` for what the
debugger knows.

A tile, view or buffer is a NumPy array of what its elements mean, a scalar a number. As a condition
an array counts as true if one of its elements does."""

from __future__ import annotations

import ast
import builtins
import keyword
import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ptosim.debug.budget import MOST_ELEMENTS, is_number, one_evaluation, weight
from ptosim.debug.guarded import STEPS, Whole, function, guarded, numpy_names, rounded
from ptosim.debug.sheet import short_number
from ptosim.ground.errors import PtosimError, UsageError

_VALUE, _KNOWN = "ƒ", "ß"  # letters in place of % and $ in Python text, one for one
_REFERENCE = re.compile(r"([%$])([A-Za-z0-9_]+)")

_FUNCTIONS: dict[str, Any] = {
    **{name: getattr(builtins, name) for name in ("abs", "float", "len", "hex")},
    "int": Whole,
    "round": rounded,
    **{
        name: function(name)
        for name in (
            "all", "any", "argmax", "argmin", "array_equal", "count_nonzero", "exp", "inf",
            "isinf", "isnan", "log2", "max", "mean", "min", "nan", "sqrt", "sum", "where",
        )
    },
    **dict.fromkeys(("np", "numpy"), numpy_names()),
    **STEPS,
}  # fmt: skip


# NumPy imports parts of itself when they are used, in the name of who calls it.
_BUILTINS = {"__import__": __import__, **_FUNCTIONS}


class Unavailable(UsageError):
    """A value of the program that does not exist yet."""


class Expression:
    """A parsed expression. Raises UsageError, with the place, for text that is none."""

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        if not self.text:
            raise UsageError("an expression is missing", help="for example `print %x[0, 0:4]`")
        self._python = _translated(self.text)
        try:
            self.tree = ast.parse(self._python, mode="eval")
            code = guarded(ast.parse(self._python, mode="eval"))
            self._code = compile(code, "<expression>", "eval")
        except SyntaxError as problem:
            raise UsageError(_pointed(self.text, problem.offset, problem.msg)) from None
        except (ValueError, RecursionError, MemoryError) as problem:  # NUL, deep nesting
            raise UsageError(f"no expression: {_plain(str(problem))}") from None
        self.repeats = any(isinstance(node, ast.comprehension) for node in ast.walk(self.tree))
        """Whether a part is evaluated again and again, so that it may take long."""

    @property
    def is_condition(self) -> bool:
        """True for a comparison, `not`, `and`, `or`: true or false rather than a value."""
        node = self.tree.body
        if isinstance(node, ast.Call):
            return getattr(node.func, "id", "") in ("any", "all", "isnan", "isinf")
        negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.Invert))
        return negated or isinstance(node, (ast.Compare, ast.BoolOp))

    def references(self) -> list[str]:
        """Return the `%` and `$` names in order."""
        return [m.group(0) for m in _REFERENCE.finditer(self.text)]

    def evaluate(self, value: Callable[[str], Any], known: Mapping[str, Any]) -> Any:
        """Return the value; `value` gives those of the program by name, `known` those of the
        debugger. Raises UsageError for whatever is wrong with it, LimitError where it takes longer
        than the limits that hold."""
        names = _Names(value, known)
        try:
            with np.errstate(all="ignore"), one_evaluation():
                return eval(self._code, names)  # as globals, so that comprehensions have them
        except PtosimError:
            raise
        except Exception as problem:
            raise UsageError(f"`{self.text}`: {_plain(str(problem))}") from None


class _Names(dict[str, Any]):
    """Names while an expression is evaluated; `eval` asks for each one that is missing."""

    def __init__(self, value: Callable[[str], Any], known: Mapping[str, Any]) -> None:
        super().__init__(__builtins__=_BUILTINS)
        self._value, self._known = value, known

    def __missing__(self, name: str) -> Any:
        if name.startswith(_VALUE):
            return self._value(name[1:])
        if name.startswith(_KNOWN):
            if name[1:] in self._known:
                return self._known[name[1:]]
            raise UsageError(
                f"there is no `${name[1:]}`",
                help=f"there are {', '.join(map('$'.__add__, self._known))}",
            )
        if name in _FUNCTIONS:
            return _FUNCTIONS[name]
        raise UsageError(
            f"`{name}` is not a name here", help=f"a value of the program is written `%{name}`"
        )


def truth(value: Any) -> bool:
    """Return whether a condition holds: for an array, whether it does for any element. Raises
    UsageError for what is neither true nor false."""
    try:
        return bool(np.any(value))
    except (ValueError, TypeError) as problem:
        raise UsageError(f"the value is neither true nor false: {problem}") from None


def fingerprint(value: object) -> object:
    """Return something that is equal for equal values, NaN included. Raises UsageError for a value
    that is too large to be compared."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    return written(value, repr)


def written(value: Any, write: Callable[[Any], str]) -> str:
    """Return a value as text, written by `str`, `repr` or the like. Raises UsageError for one that
    has none, such as a number of thousands of digits."""
    try:
        if not isinstance(value, np.ndarray) and weight(value) > MOST_ELEMENTS:
            raise UsageError(f"the value has more than {MOST_ELEMENTS:,} elements")
        return write(value)
    except (ValueError, TypeError, RecursionError) as problem:
        raise UsageError(
            f"the value cannot be written: {_plain(str(problem))}",
            help="`hex` writes a whole number of any length",
        ) from None


def _is_operand(before: str) -> bool:
    """True if text ends with something that has a remainder."""
    word = re.search(r"\w*$", before)
    if word is not None and keyword.iskeyword(word.group()):
        return False
    return before[-1:].isalnum() or before[-1:] in (")", "]", "_")


def _translated(text: str) -> str:
    def one(match: re.Match[str]) -> str:
        sign, name = match.groups()
        before = text[: match.start()].rstrip()
        if sign == "%" and _is_operand(before):
            return match.group(0)  # the remainder of a division
        return (_VALUE if sign == "%" else _KNOWN) + name

    return _REFERENCE.sub(one, text)


def _plain(text: str) -> str:
    text = text.partition("; use sys.")[0]  # Python says how its own limit is set
    return text.replace(_VALUE, "%").replace(_KNOWN, "$")


def _pointed(text: str, offset: int | None, message: str) -> str:
    caret = " " * max((offset or 1) - 1, 0) + "^"
    return f"{_plain(message)}\n  {text}\n  {caret}"


def text_of(value: Any, blank: np.ndarray | None = None) -> str:
    """Return a value as text of a few lines; `?` for elements that are `blank`. Raises UsageError
    for one that has no text."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return _number_text(value)
    is_narrow = value.dtype.kind == "V" and is_number(value.dtype)
    shown = value.astype(np.float32) if is_narrow else value
    head = f"{'x'.join(map(str, value.shape))} {value.dtype}"
    if blank is not None:
        return f"{head}\n{written(shown, lambda array: _with_marks(array, blank))}"
    return f"{head}\n{written(shown, _summary)}"


def _summary(array: np.ndarray) -> str:
    return np.array2string(array, precision=6, threshold=_SHOWN, max_line_width=96)


_SHOWN = 64
"""Elements up to which an array is printed whole."""


def _with_marks(array: np.ndarray, blank: np.ndarray) -> str:
    known = array[~blank]
    texts = np.full(array.shape, "?", dtype="<U32")
    texts[~blank] = [short_number(v) for v in known.ravel()]
    width = max(map(len, texts.ravel()))
    aligned = {"numpystr": lambda text: text.rjust(width)}
    return np.array2string(texts, threshold=_SHOWN, max_line_width=96, formatter=aligned)  # type: ignore[arg-type]


def _number_text(value: Any) -> str:
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)).lower()
    is_real = isinstance(value, np.generic) and is_number(value.dtype) and value.dtype.kind != "c"
    return written(value, short_number if is_real or isinstance(value, (int, float)) else str)
