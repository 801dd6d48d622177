"""The preprocessor: macros are expanded and markers are taken out, and each character of what is
left knows its place in the file.

`#include <…>` is not opened: the names of the library are built in. A quoted file beside the
kernel is read, under the limit of its size; what comes from it has the place of its `#include`.
For a stranger's kernel (`--untrusted`) it has to be in the folder of the kernel or below."""

from __future__ import annotations

import copy
import io
import os
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any

from ptosim.ground.errors import UsageError
from ptosim.ground.files import read_text
from ptosim.ground.limits import current
from ptosim.ground.records import dataclass, field
from ptosim.ground.source import Source
from ptosim.language.cpp.state import CppError, needs_extra

MARKERS = frozenset(
    [
        "AICORE",
        "__simd_vf__",
        "__simt_vf__",
        "__aicore__",
        "__gm__",
        "__in__",
        "__out__",
        "__ubuf__",
        "__cbuf__",
        "__ca__",
        "__cb__",
        "__cc__",
        "__tf__",
        "PTO_INTERNAL",
        "PTO_INST",
        "PTO_INLINE",
        "__inline__",
        "__forceinline__",
        "__restrict__",
        "__fbuf__",
        "__sync_noalias__",
        "__sync_out__",
        "__sync_in__",
        "__host__",
        "__device__",
        "noexcept",
        "volatile",
    ]
)
"""Words that say nothing about values."""
KERNEL = "__global__"
_VECTOR_SCOPE = "__VEC_SCOPE__"
ARCHES = {
    "a2a3": {"__NPU_ARCH__": "2201", "PTO_NPU_ARCH_A2A3": "1", "__CCE_AICORE__": "220",
             "MEMORY_BASE": "1"},
    "a5": {"__NPU_ARCH__": "3101", "PTO_NPU_ARCH_A5": "1", "__CCE_AICORE__": "310",
           "REGISTER_BASE": "1"},
}  # fmt: skip
CORES = {
    ("a2a3", "vector"): ("__DAV_VEC__", "__DAV_C220_VEC__"),
    ("a2a3", "cube"): ("__DAV_CUBE__", "__DAV_C220_CUBE__"),
    ("a5", "vector"): ("__DAV_VEC__", "__DAV_C310_VEC__"),
    ("a5", "cube"): ("__DAV_CUBE__", "__DAV_C310_CUBE__"),
}
SIMULATOR = "__CPU_SIM"
"""What is predefined for the profile `cpu`, in the place of an architecture."""
CORE_WORDS = frozenset(word for words in CORES.values() for word in words)
MOST_TOKENS = 2_000_000
"""Tokens of a file after its macros were expanded."""
MOST_ON_THE_WAY = 2_000_000
"""Tokens of all expansions on the way: those of macros in macros count again."""


@dataclass(slots=True)
class Expanded:
    """A text without directives, and where its characters come from."""

    source: Source
    text: str
    kernels: list[int] = field(default_factory=list)
    """Where `__global__` was, in the text."""
    marks: list[int] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    runs: set[int] = field(default_factory=set)
    """Which of the marks begin plain lines, whose characters are as far apart as in the file."""

    def place(self, offset: int) -> int:
        """Return the place in the file of a character of the text."""
        at = bisect_right(self.marks, offset) - 1
        if at in self.runs:
            return self.places[at] + offset - self.marks[at]
        return self.places[at] if at >= 0 else 0


def expand(
    source: Source, arch: str, core: str | None, defines: Mapping[str, str] | None = None
) -> Expanded:
    """Return a file with its macros expanded for a target, and for one kind of core or for both.
    Raises CppError for `#error` and for macros that expand without end, UsageError where the
    extra is not installed."""
    reader = _reader(source)
    is_simulator = SIMULATOR in (defines or {})
    words = {} if is_simulator else dict(ARCHES[arch])
    if core:
        words.update(dict.fromkeys(CORES[arch, core], "1"))
    words.update(defines or {})
    for name, value in words.items():
        reader.define(f"{name} {value}")
    folded = _Folded(source.text, reader.macros)
    reader.line_of = folded.line
    try:
        reader.parse(folded.text, source.name)
        return _Writer(source, reader, folded).written()
    except (IndexError, AttributeError, TypeError, ValueError):  # of the package, on broken lines
        raise CppError(0, "the preprocessor cannot read the directives of this file") from None


def asks_core(source: Source) -> bool:
    """Does a file ask for which core it is compiled?"""
    return any(word in source.text for word in CORE_WORDS)


def _reader(source: Source) -> Any:
    """Return what expands one file, and counts what it expands."""
    try:
        import pcpp
    except ImportError:
        raise needs_extra() from None

    reader: Any = pcpp.Preprocessor()
    reader.line_of = lambda line: line  # of the file, from one of what the package is given
    expand_macros, on_directive = reader.expand_macros, reader.on_directive_handle
    count = 0

    def leave_out(*_: Any, **__: Any) -> Any:
        raise pcpp.OutputDirective(pcpp.Action.IgnoreAndRemove)

    def directive(word: Any, *rest: Any) -> Any:
        """Of `#if` and others, in parts that are left out too."""
        return leave_out() if word.value in _IGNORED else on_directive(word, *rest)

    def unknown(word: Any, *rest: Any) -> Any:
        """Of a directive that the package does not have, in parts that are read."""
        if word.value == "error":
            words = "".join(t.value for t in rest[0]).strip()
            raise CppError(_line_start(source, reader.line_of(word.lineno)), f"#error {words}")
        return leave_out()

    def error(file: str, line: int, message: str) -> None:
        raise CppError(
            _line_start(source, reader.line_of(line)), f"the preprocessor says: {message}"
        )

    def expanded(tokens: Any, expanding_from: Any = ()) -> Any:
        nonlocal count
        if tokens:
            tokens[0].__class__.__copy__ = _copied
        found = expand_macros(tokens, list(expanding_from))
        count += len(found) if expanding_from else 0
        if count > MOST_ON_THE_WAY or len(expanding_from) > _DEEPEST:
            at = _line_start(source, reader.line_of(found[0].lineno if found else 1))
            raise CppError(at, f"macros expand to more than {MOST_ON_THE_WAY:,} words")
        return found

    includes = _Includes(source, reader)
    reader.include, reader.on_file_open = includes.included, includes.opened
    reader.line_directive = None
    reader.on_include_not_found = leave_out
    reader.on_unknown_macro_in_defined_expr = lambda _: False
    reader.on_unknown_macro_in_expr = lambda _: 0
    reader.on_unknown_macro_function_in_expr = lambda _: lambda *_: 0
    reader.on_directive_handle, reader.on_error = directive, error
    reader.on_directive_unknown = unknown
    reader.expand_macros = expanded
    _with_optional_parts(reader)
    return reader


def _copied(token: Any) -> Any:
    """Return a copy of a token as `copy.copy` makes it, which the package asks for each word that a
    macro stands for, in a quarter of the time."""
    made = object.__new__(token.__class__)
    made.__dict__.update(token.__dict__)
    return made


_OPTIONAL = "__VA_OPT__"


def _with_optional_parts(reader: Any) -> None:
    """Teach the package `__VA_OPT__(…)`, whose content counts where there are further arguments: a
    macro that has it is two, of which each use takes one."""
    prescan, expand_args = reader.macro_prescan, reader.macro_expand_args

    def scanned(macro: Any) -> None:
        if macro.variadic and any(t.value == _OPTIONAL for t in macro.value):
            macro.ways = copy.copy(macro), copy.copy(macro)
            for is_given, way in enumerate(macro.ways):
                way.value = _chosen_parts(reader, macro.value, bool(is_given))
                prescan(way)
        prescan(macro)

    def with_args(macro: Any, args: list[Any]) -> Any:
        ways = getattr(macro, "ways", None)
        if ways is not None:
            last = reader.expand_macros(copy.copy(args[-1]))
            macro = ways[any(t.type not in reader.t_WS for t in last)]
        return expand_args(macro, args)

    reader.macro_prescan, reader.macro_expand_args = scanned, with_args


def _chosen_parts(reader: Any, tokens: Sequence[Any], is_given: bool) -> list[Any]:
    """Return what a macro stands for, with what its `__VA_OPT__` have in brackets or without."""
    chosen: list[Any] = []
    depth = 0  # of brackets in a part; 0 is outside of all
    is_named = False  # between the name of a part and its bracket
    for token in tokens:
        word = token.value
        if depth == 0 and (is_named or word == _OPTIONAL):
            is_named, depth = word != "(", int(word == "(")
            continue
        is_part = depth > 0
        depth += {"(": 1, ")": -1}.get(word, 0) if is_part else 0
        if not is_part or (is_given and depth):
            chosen.append(token)
    if depth or is_named:
        reader.on_error("", tokens[-1].lineno, f"{_OPTIONAL} is not followed by (…)")
    return chosen


class _Includes:
    """The files that a file includes: so many, so deep and so large at most, and none that never
    ends; a stranger's kernel has those of its own folder."""

    def __init__(self, source: Source, reader: Any) -> None:
        self._source, self._reader, self._include = source, reader, reader.include
        self._begins, self._count, self._size = 0, 0, 0

    def included(self, tokens: Any, original: Any) -> Any:
        """Take the place of an `#include` of the file itself, and expand it."""
        if tokens and not self._reader.temp_path[1:]:
            line = self._reader.line_of(tokens[0].lineno)
            self._begins = _line_start(self._source, line)
        return self._include(tokens, original)

    def opened(self, _: bool, path: str) -> io.StringIO:
        """The text of an included file. Raises OSError for one that is not there, CppError for one
        that may not be read."""
        file = Path(path)
        if not file.exists():
            raise FileNotFoundError(path)
        self._count += 1
        if len(self._reader.temp_path) > _DEEPEST_FILE or self._count > MOST_FILES:
            raise CppError(self._begins, "files include one another without end")
        folder = Path(self._source.name).resolve().parent
        if not current().trusts and not file.resolve().is_relative_to(folder):
            raise CppError(self._begins, f"{path} is not below the kernel's folder (--untrusted)")
        try:
            text = read_text(file)
        except UsageError as problem:
            raise CppError(self._begins, str(problem)) from problem
        self._source.beside.append(path)
        self._size += len(text)
        if self._size > current().file_size:
            raise CppError(self._begins, "the included files are larger than a file may be")
        return io.StringIO(text)


_IGNORED = ("pragma", "warning", "line")
_DEEPEST = 200
_DEEPEST_FILE = 50
MOST_FILES = 2000
"""Files that a file includes, each as often as it is read."""


def _line_start(source: Source, line: int) -> int:
    starts = source._starts()
    return starts[min(max(line, 1), len(starts)) - 1]


class _Folded:
    """A text with its plain lines taken out: those in which nothing is to be expanded or marked.
    One line with a name takes the place of each run of them, so that the preprocessor decides
    whether they are read, and need not see the words in them."""

    def __init__(self, text: str, macros: Iterable[str]) -> None:
        self.runs: dict[str, tuple[int, str]] = {}
        """By its name the place of a run, and its text without comments."""
        text = _BREAKS.sub(" ", text)
        lines = text.split("\n")
        self.lines: list[int] = []
        """Which line of the file each line is, both from 0 on."""
        self.markers: list[str] = []
        """Words in plain lines that are marked and left out."""
        self._begins = [0, *accumulate(len(line) + 1 for line in lines)]
        if any(words in text for words in _WHOLE) or _QUOTED.search(text):
            self.text, self.lines = text, [*range(len(lines))]
        else:
            self.text = self._folded(text, lines, macros)
        self.starts = [0, *accumulate(len(line.rstrip()) + 1 for line in self.text.split("\n"))]
        """Where its lines begin as the preprocessor sees them, without blanks at their ends."""

    def _folded(self, text: str, lines: Sequence[str], macros: Iterable[str]) -> str:
        defined = {*macros, *_DEFINED.findall(text)}
        self.markers = [word for word in _MARKS if word not in defined and word in text]
        special = _special(w for w in {*defined, *_WORDS} - {*self.markers} if w in text)
        out: list[str] = []
        run: list[str] = []
        following = _Following()
        done = 0  # lines

        def alone() -> None:
            """A line in which something begins, or goes on."""
            nonlocal done
            self._close(run, done, out)
            self.lines.append(done)
            out.append(lines[done])
            following.after(lines[done])
            done += 1

        for at in self._to_look_at(text, special):
            while following and done < at:
                alone()
            run += lines[done:at]
            done = max(done, at)
            code, slashes, comment = lines[at].partition("//")
            is_plain = slashes and not following and not special.search(code)
            if is_plain and "\\" not in comment and "*/" not in comment:
                run.append(code + " " * (len(lines[at]) - len(code)))
                done += 1
            else:
                alone()
        while following and done < len(lines):
            alone()
        run += lines[done:]
        self._close(run, len(lines), out)
        return "\n".join(out)

    def _to_look_at(self, text: str, special: re.Pattern[str]) -> list[int]:
        """Return the lines with something special, or a comment, in order."""
        both = re.compile(f"//|{special.pattern}").search
        known: dict[str, bool] = {}
        found: list[int] = []
        for at, line in enumerate(text.split("\n")):
            is_special = known.get(line)
            if is_special is None:
                is_special = known[line] = both(line) is not None
            if is_special:
                found.append(at)
        return found

    def _close(self, run: list[str], end: int, out: list[str]) -> None:
        """The plain lines in front of a line are one."""
        if not run:
            return
        first = end - len(run)
        name = f"{_RUN}{len(self.runs)}"
        self.runs[name] = (self._begins[first], "\n".join(run))
        self.lines.append(first)
        out.append(name)
        run.clear()

    def line(self, number: int) -> int:
        """Return the line of the file that a line is, both from 1 on."""
        at = min(max(number, 1), len(self.lines)) - 1
        return self.lines[at] + 1 if self.lines else 1

    def place(self, token: Any, starts: Sequence[int]) -> int:
        """Return the place in the file of a token, whose lines begin at `starts`."""
        line = token.lineno - 1
        return starts[self.line(token.lineno) - 1] + token.lexpos - self.starts[line]


class _Following:
    """Is the next line part of what is on the lines before: a directive, a comment, a macro's
    use?"""

    def __init__(self) -> None:
        self.depth = 0
        self.goes_on = self.in_comment = False

    def __bool__(self) -> bool:
        return self.goes_on

    def after(self, line: str) -> None:
        """Take a line that is not plain."""
        if not self.goes_on:
            self.depth = 0
        if self.in_comment or "/*" in line:
            self.in_comment = line.rfind("*/") <= line.rfind("/*")
        self.depth += line.count("(") - line.count(")")
        last = line.rstrip()[-1:]
        self.goes_on = (
            self.in_comment or self.depth > 0 or not last or last in "\\/" or last.isidentifier()
        )


def _special(names: Iterable[str]) -> re.Pattern[str]:
    """Return what finds a character or name for which the preprocessor must see a line."""
    words = "|".join(map(re.escape, names)) or "$."  # which is nowhere
    return re.compile(rf"[#\"'\\]|/\*|<<<|>>>|[^\x00-\x7f]|\b(?:{words})\b")


_RUN = "__ptosim_run_"
_WHOLE = ('R"', "??/", "%:", "__LINE__", _RUN)
_QUOTED = re.compile(r'#[ \t]*include[ \t]*"')
"""Texts with one of these are not folded: others are read into them, lines may be in what is no
code, or have to keep their numbers."""
_DEFINED = re.compile(r"\bdefine[ \t\\]*\n?[ \t]*(\w+)")
_BREAKS = re.compile("[\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
"""What the preprocessor takes for ends of lines, and nobody else."""
_MARKS = (*sorted(MARKERS), KERNEL)
_WORDS = frozenset((*_MARKS, _VECTOR_SCOPE, "__LINE__", "__FILE__", "__COUNTER__"))

_TYPENAME = re.compile(r"([(,={]\s*|\breturn\s+)(typename)(?=\s+[\w:]+(?:<[^;{}()]*>)?\s*::)")
"""`typename A::B` in an expression, whose grammar has no such word: it says nothing there."""

_PRAGMA = re.compile(r'\b_Pragma[ \t]*\([ \t]*"(?:[^"\\\n]|\\.)*"[ \t]*\)')

_ASSIGNMENT = r"(\w+) ([-+*/%&|^]?=) ([^(){};,=]+|[^(){};,=]*\([^(){};]*\)),"
_ASSIGNMENTS = re.compile(rf"\({_ASSIGNMENT}(?: {_ASSIGNMENT})*")
"""`(a = 2, a + 1)`, which the grammar does not take: the assignments get brackets of their own in
the place of their blanks."""


def _apart(assignments: re.Match[str]) -> str:
    return re.sub(_ASSIGNMENT, r"(\1\2\3),", assignments[0])


_MEMBER = re.compile(
    r"([=(,+\-*/%&|^?:<!~\[{;]\s*|\breturn\s+)"
    r"\((\s*\w+(?:<[^;{}()]*>)?(?:::\w+)*::(\w+)\s*)\)(?=\s*[-+*&])"
)
"""`(A::b) - 1`, which the grammar takes for `-1` as an `A::b`."""
_MEMBER_END = re.compile(r"::\w+\s*\)\s*[-+*&]")
"""What every one of them ends with, which is found sooner."""
_TYPE_NAMES = frozenset(("DType", "RawDType", "type", "T", "Type", "value_type", "half", "float"))


def _without_brackets(found: re.Match[str]) -> str:
    is_type = found[3] in _TYPE_NAMES or found[3].endswith("_t")
    is_declared = re.search(rf"(?:using|struct|class|enum)\s+{found[3]}\b", found.string)
    return found[0] if is_type or is_declared else f"{found[1]} {found[2]} "


class _Writer:
    """Writes the tokens that are left, and notes where each comes from."""

    def __init__(self, source: Source, reader: Any, folded: _Folded) -> None:
        self.source, self.reader, self.folded = source, reader, folded
        self.out: list[str] = []
        self.length = 0
        self.made = Expanded(source, "")
        self.at = 0
        self.own: dict[str, bool] = {}
        self.launch = 0  # brackets that are open inside `<<<…>>>`
        words = "|".join(folded.markers)
        self.marker = re.compile(rf"\b(?:{words})\b") if words else None

    def written(self) -> Expanded:
        tokens = iter(self.reader.token, None)
        count = 0
        pending: Any = None
        for token in tokens:
            count += 1
            if count > MOST_TOKENS:
                raise CppError(self.at, f"macros expand to more than {MOST_TOKENS:,} words")
            if pending is not None:
                token, pending = self._joined(pending, token)
            elif token.value in ("<<", ">>"):
                pending = token
                continue
            if token is not None:
                self._token(token)
        if pending is not None:
            self._token(pending)
        text = "".join(self.out)
        if "_Pragma" in text:
            text = _PRAGMA.sub(lambda found: " " * len(found[0]), text)
        if "typename" in text:
            text = _TYPENAME.sub(lambda found: found[1] + " " * len(found[2]), text)
        text = _ASSIGNMENTS.sub(_apart, text)
        if _MEMBER_END.search(text):
            text = _MEMBER.sub(_without_brackets, text)
        self.made.text = text
        return self.made

    def _joined(self, first: Any, second: Any) -> tuple[Any, Any]:
        """Begin or end the words of a launch: `<<` and `<` are `<<<`."""
        if first.value == "<<" and second.value == "<":
            self._write("(__launch__(", first)
            self.launch += 1
            return None, None
        if first.value == ">>" and second.value == ">" and self.launch:
            self._write(")", first)
            self.launch -= 1
            self._swallow = True
            return None, None
        self._token(first)
        return (None, second) if second.value in ("<<", ">>") else (second, None)

    _swallow = False

    def _token(self, token: Any) -> None:
        value = token.value
        if value in self.folded.runs:
            self._run(*self.folded.runs[value])
            return
        if self._swallow and value.strip():
            self._swallow = False
            self._write("," if value == "(" else value, token)
            return
        if value in MARKERS:
            value = ""
        elif value == KERNEL:
            self._place(token)
            self.made.kernels.append(self.length)
            value = ""
        elif value == _VECTOR_SCOPE:
            value = f"{_VECTOR_SCOPE}();"  # a call that is refused where it is reached
        elif token.type in ("CPP_COMMENT1", "CPP_COMMENT2", "CPP_LINECONT"):
            value = " "
        self._write(value, token)

    def _run(self, start: int, text: str) -> None:
        """Write plain lines."""
        if self._swallow and text.strip():
            self._swallow = False
            text = re.sub(r"\A(\s*)\(", r"\1,", text)
        end = 0
        for found in self.marker.finditer(text) if self.marker is not None else ():
            self._plain(start + end, text[end : found.start()])
            end = found.end()
            if found[0] == KERNEL:
                self.made.kernels.append(self.length)
        self._plain(start + end, text[end:])

    def _plain(self, start: int, text: str) -> None:
        """Write what is as in the file."""
        self.at = start
        self.made.runs.add(len(self.made.marks))
        self._append(text)

    def _write(self, value: str, token: Any) -> None:
        self._place(token)
        self._append(value if value.isascii() else value.encode("ascii", "replace").decode())

    def _append(self, plain: str) -> None:
        self.made.marks.append(self.length)
        self.made.places.append(self.at)
        self.out.append(plain)
        self.length += len(plain)

    def _is_own(self, file: str) -> bool:
        """Is a token of this file, not of one that it includes?"""
        if file not in self.own:
            own = os.path.basename(self.source.name)
            self.own[file] = os.path.basename(file) == own
        return self.own[file]

    def _place(self, token: Any) -> None:
        """Find a token in the file: where it is written, or the use of the macro it is from."""
        if not self._is_own(getattr(token, "source", None) or self.source.name):
            return
        text, starts = self.source.text, self.source._starts()
        if token.lineno > len(self.folded.lines):
            return
        line = self.folded.line(token.lineno)
        if line > len(starts):
            return
        at = self.folded.place(token, starts)
        end = starts[line] if line < len(starts) else len(text) + 1
        if text.startswith(token.value, at) and at < end and not _is_expanded(token):
            self.at = at
            return
        start = starts[line - 1]
        if not start <= self.at < end:
            self.at = start + len(text[start:end]) - len(text[start:end].lstrip())


def _is_expanded(token: Any) -> bool:
    return bool(getattr(token, "expanded_from", None))
