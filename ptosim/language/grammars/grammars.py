"""Grammars of editors, made from the rows of the ISA; `python -m
ptosim.language.grammars.grammars` writes them.

Operations, element types and enums are listed, so that a name that no row has looks different; what
only a parser can tell is left to the language server's semantic tokens."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from ptosim.ground.isa.rows import isa
from ptosim.ground.isa.schema import enums
from ptosim.language.grammars import tree_sitter
from ptosim.language.syntax.driver import load_tables

FOLDER = Path(__file__).parents[2] / "editors"
_NAMED_ELEMENTS = ("f16", "f32", "f64", "bf16", "tf32", "hif8", "index", "none")
_ELEMENTS = rf"(?:[su]?i\d+|ui\d+|{'|'.join(_NAMED_ELEMENTS[:6])}|f8E\w+|f4E\w+|index|none)"
_DIALECTS = "pto|arith|math|scf|func|memref|cf|quant|builtin|vector|llvm"
_DOTTED = rf"(?:{_DIALECTS})\.\w[\w.]*"


def operations() -> list[str]:
    """Return every name of an operation, of any date, without `module` and `func` words."""
    return sorted({name for name in isa().names() if "." in name})


def keywords() -> list[str]:
    """Return the words that start or join statements."""
    words = load_tables("pto.lark").keywords
    return sorted(w for w in words if re.fullmatch(r"[a-z_]+", w))


def members() -> list[str]:
    """Return the members of all enums that are words."""
    return sorted(
        {m for e in enums().values() for m in e.members if re.fullmatch(r"[A-Za-z_]\w+", m)}
    )


def textmate() -> dict[str, Any]:
    """Return the TextMate grammar of `.pto`."""
    return {
        "name": "PTO assembly",
        "scopeName": "source.pto",
        "fileTypes": ["pto"],
        "patterns": [{"include": f"#{name}"} for name in _patterns() if name != "braces"],
        "repository": _patterns(),
    }


_NUMBER = r"(?<![\w%@#.])-?(?:0x[0-9a-fA-F]+|\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)(?![\w.])"


def _short() -> str:
    """Operations of two words without their dialect, as bare lines have them (`tmov.v2v`)."""
    pto = (name.removeprefix("pto.") for name in operations() if name.startswith("pto."))
    return "|".join(re.escape(name) for name in sorted(pto, key=len, reverse=True) if "." in name)


def _apart(pattern: str, *, after: str = r"(?![\w.])") -> str:
    """A pattern that is a word of its own."""
    return rf"(?<![\w.%@!#])(?:{pattern}){after}"


def _known() -> str:
    """All operations as one pattern, the longest of a dialect first."""
    by_dialect: dict[str, list[str]] = {}
    for name in operations():
        dialect, _, rest = name.partition(".")
        by_dialect.setdefault(dialect, []).append(re.escape(rest))
    ordered = {d: "|".join(sorted(n, key=len, reverse=True)) for d, n in by_dialect.items()}
    whole = (rf"{dialect}\.(?:{rest})" for dialect, rest in ordered.items())
    return "|".join([*whole, _short()])


_ATTRIBUTE = rf"(?<=\{{){_DOTTED}|(?<=\{{ ){_DOTTED}|" + _apart(
    _DOTTED, after=r"(?=\s*(?:=(?!=)|[,}]))"
)
"""A dotted name that is no operation: the first or last of a dictionary, or one with a value.
Inside `attributes { }` every one is."""


_INSIDE = [{"name": "entity.other.attribute-name.pto", "match": _apart(_DOTTED, after="")}]


def _patterns() -> dict[str, Any]:
    simple = {
        "comment": ("comment.line.double-slash.pto", "//.*$"),
        "value": ("variable.other.pto", r"%[\w$.-]+(?:#\d+)?"),
        "function": ("entity.name.function.pto", r"@[\w$.-]+"),
        "block": ("entity.name.label.pto", r"\^\w+"),
        "type": ("storage.type.pto", r"!(?:pto\.)?[\w.]+"),
        "element": ("support.type.pto", _apart(rf"(?:[\d?]+x)*{_ELEMENTS}")),
        "operation": ("support.function.pto", _apart(_known())),
        "dotted": ("entity.other.attribute-name.pto", _ATTRIBUTE),
        "unknown": ("invalid.illegal.unknown.pto", _apart(_DOTTED, after="")),
        "keyword": ("keyword.control.pto", _apart("|".join(keywords()), after=r"(?![\w.=])")),
        "member": ("constant.language.pto", _apart("|".join(members()))),
        "number": ("constant.numeric.pto", _NUMBER),
    }
    string = {
        "name": "string.quoted.double.pto",
        "begin": '"',
        "end": '"|$',
        "patterns": [{"name": "constant.character.escape.pto", "match": r"\\."}],
    }
    attribute = {
        "match": r"(#pto\.\w+)(?:(<)([^<>]*)(>))?",
        "captures": {
            "1": {"name": "entity.other.attribute-name.pto"},
            "3": {"patterns": [{"include": "#member"}, {"include": "#number"}]},
        },
    }
    dictionary = {
        "begin": r"(?<![\w.])(attributes)\s*(\{)",
        "beginCaptures": {"1": {"name": "keyword.control.pto"}},
        "end": r"\}",
        "patterns": [{"include": "#braces"}, *_INSIDE, {"include": "$self"}],
    }
    braces = {"begin": r"\{", "end": r"\}", "patterns": dictionary["patterns"]}
    made: dict[str, Any] = {
        "string": string, "attribute": attribute, "dictionary": dictionary, "braces": braces,
    }  # fmt: skip
    return made | {key: {"name": n, "match": pattern} for key, (n, pattern) in simple.items()}


def template() -> dict[str, Any]:
    """Return the grammar of `.pto.j2`: Jinja's brackets in assembly."""
    inside = [
        {"name": "string.quoted.jinja", "match": r"'[^']*'|\"[^\"]*\""},
        {"name": "constant.numeric.jinja", "match": r"\b\d+\b"},
        {
            "name": "keyword.control.jinja",
            "match": r"\b(?:for|endfor|if|elif|else|endif|set|in|is|not|and|or|macro|endmacro)\b",
        },
        {"name": "variable.other.jinja", "match": r"\b[A-Za-z_]\w*\b"},
    ]
    brackets = [
        ("comment.block.jinja", r"\{#", r"#\}", []),
        ("meta.embedded.jinja", r"\{%-?", r"-?%\}", inside),
        ("meta.embedded.jinja", r"\{\{", r"\}\}", inside),
    ]
    made = [{"name": n, "begin": b, "end": e, "patterns": p} for n, b, e, p in brackets]
    return {
        "name": "PTO assembly template",
        "scopeName": "source.pto.j2",
        "fileTypes": ["pto.j2"],
        "patterns": [*made, {"include": "source.pto"}],
    }


def in_python() -> dict[str, Any]:
    """Return the grammar of assembly in Python strings whose first line is the comment `// pto`."""
    return {
        "scopeName": "source.pto.in-python",
        "injectionSelector": "L:source.python -comment",
        "patterns": [
            {
                "begin": f"({quotes})(?=\\s*//\\s*pto\\b)",
                "beginCaptures": {"1": {"name": "punctuation.definition.string.begin.python"}},
                "end": f"({quotes})",
                "endCaptures": {"1": {"name": "punctuation.definition.string.end.python"}},
                "contentName": "meta.embedded.pto",
                "patterns": [{"include": "source.pto"}],
            }
            for quotes in ('"""', "'''")
        ],
    }


def vim() -> str:
    """Return the syntax file of Vim and Neovim."""
    names = " ".join(operations())
    return f"""" Made by `python -m ptosim.language.grammars.grammars` from the rows of the ISA.
if exists("b:current_syntax")
  finish
endif
setlocal iskeyword+=.
syntax match ptoComment "//.*$"
syntax region ptoString start=+"+ skip=+\\\\"+ end=+"\\|$+
syntax match ptoValue "%[A-Za-z0-9_$.-]\\+\\(#\\d\\+\\)\\?"
syntax match ptoFunction "@[A-Za-z0-9_$.-]\\+"
syntax match ptoAttribute "#pto\\.\\w\\+"
syntax match ptoType "![A-Za-z0-9_.]\\+"
syntax match ptoNumber "\\<-\\?\\(0x\\x\\+\\|\\d\\+\\(\\.\\d*\\)\\?\\([eE][+-]\\?\\d\\+\\)\\?\\)\\>"
syntax keyword ptoKeyword {" ".join(keywords())}
syntax keyword ptoMember {" ".join(members())}
syntax keyword ptoOperation {names}
highlight default link ptoComment Comment
highlight default link ptoString String
highlight default link ptoValue Identifier
highlight default link ptoFunction Function
highlight default link ptoAttribute PreProc
highlight default link ptoType Type
highlight default link ptoNumber Number
highlight default link ptoKeyword Keyword
highlight default link ptoMember Constant
highlight default link ptoOperation Statement
let b:current_syntax = "pto"
"""


def files() -> dict[Path, str]:
    """Return every file that is made, and its text."""
    syntaxes = FOLDER / "vscode" / "syntaxes"
    data = {"pto": textmate(), "pto-j2": template(), "pto-in-python": in_python()}
    made = {
        syntaxes / f"{n}.tmLanguage.json": json.dumps(d, indent=1) + "\n" for n, d in data.items()
    }
    made[FOLDER / "vim" / "syntax" / "pto.vim"] = vim()
    trees = FOLDER / "tree-sitter"
    made[trees / "src" / "parser.c"] = tree_sitter.parser(
        (("operation", operations()), ("keyword", keywords()), ("type", _NAMED_ELEMENTS),
         ("constant", members()))
    )  # fmt: skip
    made[trees / "queries" / "highlights.scm"] = tree_sitter.HIGHLIGHTS
    made[trees / "queries" / "folds.scm"] = tree_sitter.FOLDS
    return made


if __name__ == "__main__":
    for path, text in files().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
