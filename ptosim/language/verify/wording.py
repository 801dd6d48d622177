"""Rules and conditions of the rows in words, with the names of their operands: what a reader of the
reference gets in place of the expressions that the verifier evaluates."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Sequence
from functools import lru_cache

from ptosim.ground.isa.schema import ConstraintDef, OpDef
from ptosim.ground.isa.targets import architecture
from ptosim.language.verify import rule_views  # noqa: F401 - registers all predicates
from ptosim.language.verify.rules import PREDICATES

_FILL = re.compile(r"""['"]?\{(=?[^{}]+)\}['"]?""")
_WHAT_CAME = re.compile(r",? (but got .*\{.*\}.*|not '\{=\w+\}')$")
"""The end of a message that says what the program has: a rule has no program yet."""
_NORM = re.compile(
    r"\b(expect|expects|expected|require|requires|must|only|cannot|not|exclusive|needs|takes|"
    r"duplicate|deprecated|ordinary|invalid|allows|never|no)\b|-only"
)
"""Words by which a text says what is asked for; one without them says what is wrong."""


def rule_words(rule: ConstraintDef, definition: OpDef) -> str:
    """Return what a rule of an operation asks for, as a phrase."""
    tree = _parsed(rule.expr)
    if rule.text is None:
        return _asked(tree)
    text = _filled(_WHAT_CAME.sub("", rule.text), rule, definition, tree)
    if _NORM.search(text) or isinstance(tree, ast.Constant):
        return text
    return f"{text}, unless {_clause(tree)}"


def condition_words(expr: str) -> str:
    """Return a condition as a clause: `tmp` becomes "`tmp` is given"."""
    return _clause(_parsed(expr))


@lru_cache(maxsize=4096)
def _parsed(expr: str) -> ast.expr:
    return ast.parse(expr, mode="eval").body


def _filled(text: str, rule: ConstraintDef, definition: OpDef, tree: ast.expr) -> str:
    title = architecture(rule.targets[0]).title if len(rule.targets) == 1 else ""
    text = re.sub(r"\b(of|on) \{arch\}", rf"\1 {title or 'the target'}", text)
    text = text.replace("{arch}", title).replace("{op}", definition.mnemonic)
    text = re.sub(r"dtype (\{\w+\.dtype\})", r"\1", text)
    text = re.sub(r"(\w+) = \{=\1\}", r"\1", text)
    text = re.sub(r"(?<=[\d}])x(?=\{)", " x ", text)
    names, words = _operands(tree), _strings(tree)
    text = text.replace("{names}", names).replace("{0}", words[-1] if words else "")
    return " ".join(_without_signs(_FILL.sub(_field, text)).split())


_SIGN_WORDS = {"==": "equal to", "!=": "other than", "<=": "at most", ">=": "at least"}
_IN_TEXT = re.compile(r"\b(\w+)\.(rows|cols|v_row|v_col|valid_row|valid_col)\b")
_LONE_SIGN = re.compile(r"(?P<be>\bbe |\bcount |\(\S+ )?(?P<sign>==|!=|<=|>=) ")


def _without_signs(text: str) -> str:
    """A message of the assembler that compares by signs, in words."""
    fields = {"valid_row": "valid rows", "valid_col": "valid columns"} | _FIELDS
    text = text.replace("sum(src.cols)", "the columns of all src")
    text = _IN_TEXT.sub(lambda found: f"{fields[found[2]]} of {found[1]}", text)

    def sign(found: re.Match[str]) -> str:
        before = found["be"] or "to be "
        return f"{before}{_SIGN_WORDS[found['sign']]} "

    return _LONE_SIGN.sub(sign, text)


def _field(found: re.Match[str]) -> str:
    inner = found[1]
    if inner.startswith("="):
        return _noun(_parsed(inner[1:]))
    operand, _, field = inner.partition(".")
    return f"{_FIELDS.get(field, field)} of `{operand}`" if field != "const" else f"`{operand}`"


def _asked(tree: ast.expr) -> str:
    """A rule without a text of its own: what its predicate says, or the condition."""
    name = _called(tree)
    if name is None:
        return f"expects that {_clause(tree)}"
    assert isinstance(tree, ast.Call)
    if name in _ASKED:
        return _ASKED[name](tree)
    words = _strings(tree)
    text = PREDICATES[name].text.replace("{0}", words[-1] if words else "")
    return text.replace("{names}", _operands(tree))


def _called(tree: ast.expr) -> str | None:
    if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name):
        return tree.func.id if tree.func.id in PREDICATES else None
    return None


# -- operands --------------------------------------------------------------------------------------


def _operands(tree: ast.expr, joint: str = "and") -> str:
    """The operands that a rule is about, in order."""
    given = tree.args if isinstance(tree, ast.Call) else list(ast.walk(tree))
    if not isinstance(tree, ast.Call):
        calls = [n for n in given if isinstance(n, ast.Call) and _called(n)]
        given = calls[0].args if calls else []
    named = [_noun(a) for a in given if isinstance(a, (ast.Name, ast.Attribute))]
    return listed([n for n in dict.fromkeys(named) if n != "the target"], joint)


def _strings(tree: ast.expr) -> list[str]:
    found = (n.value for n in ast.walk(tree) if isinstance(n, ast.Constant))
    return [value for value in found if isinstance(value, str)]


def listed(words: Sequence[str], joint: str = "and") -> str:
    """Return words as a list in a sentence."""
    *rest, last = words or ("",)
    return f"{', '.join(rest)} {joint} {last}" if rest else last


# -- predicates ------------------------------------------------------------------------------------

_SPACES = {
    "vec": "UB (vec)", "mat": "L1 (mat)", "left": "L0A (left)", "right": "L0B (right)",
    "acc": "L0C (acc)", "bias": "the bias table (bias)", "scaling": "the scaling buffer (scaling)",
    "gm": "global memory (gm)",
}  # fmt: skip


def _space(word: str) -> str:
    return listed([_SPACES.get(w, w) for w in word.split("/")], "or")


def _in_range(tree: ast.Call) -> str:
    low, high = (_noun(a) for a in tree.args[:2])
    names = listed([_noun(a) for a in tree.args[2:]])
    return f"expects {names} to be {low} {'or more' if high == 'nothing' else f'to {high}'}"


def _one_form(tree: ast.Call) -> str:
    first, second = (listed([f"`{w}`" for w in s.split()]) for s in _strings(tree)[1::2][:2])
    return f"expects either {first}, or {second}, and none of the others"


def _casts(tree: ast.Call) -> str:
    kinds, *size = _strings(tree)
    sizes = {"wider": ", of more bits", "narrower": ", of fewer bits", "equal": ", of as many bits"}
    return f"converts {kinds}{sizes[size[0]] if size else ''}"


def _at_most_one(tree: ast.Call) -> str:
    return f"expects at most one of {_operands(tree)}"


_ASKED: dict[str, Callable[[ast.Call], str]] = {
    "in_space": lambda t: f"expects {_operands(t)} to be in {_space(_strings(t)[-1])}",
    "within": _in_range,
    "one_form": _one_form,
    "casts": _casts,
    "at_most_one": _at_most_one,
    "aligned_address": lambda t: (
        f"expects the address of {_noun(t.args[0])} to be a multiple of {_noun(t.args[1])} bytes"
    ),
    "computes": lambda t: f"expects {_operands(t)} not to hold bf16x2, which is for conversions",
    "masks": lambda t: (
        f"requires {_noun(t.args[0])} to have as many lanes as {_noun(t.args[1])}, and bits for "
        "lanes of its width"
    ),
    "virtual_conversion": lambda _: (
        "expects element types of a conversion that exists, and the attributes that go with it"
    ),
    "older_conversion": lambda t: (
        f"expects element types that `{_strings(t)[0]}` converts, and the attributes that go with "
        "it"
    ),
    "scalar_of": lambda t: (
        f"expects {_noun(t.args[0])} to be a scalar of the element type of {_noun(t.args[1])}"
    ),
    "is_scalar": lambda t: f"expects {_operands(t)} to be a number of a fixed width, not an index",
    "same_valid_rows": lambda t: f"expects {_operands(t)} to have as many valid rows",
    "same_valid_cols": lambda t: f"expects {_operands(t)} to have as many valid columns",
    "each_alike": lambda t: f"requires all of {_operands(t)} to have one VMI vreg type",
    "same_bytes": lambda t: f"requires elements of {_operands(t)} to have as many bytes",
}

_HOLDS: dict[str, tuple[str, str]] = {
    "is_low_precision": ("{} is of low precision", "{} is not of low precision"),
    "is_fp4": ("{} has elements of 4 bits", "{} has no elements of 4 bits"),
    "is_constant": ("{} is a constant", "{} is no constant"),
    "same_valid": ("{} have the same valid shape", "{} have different valid shapes"),
    "same_shape": ("{} have the same shape", "{} have different shapes"),
    "same_numbers": ("{} hold as many numbers", "{} do not hold as many numbers"),
    "simt_pair": ("{} are types that convert", "{} are types that do not convert"),
    "alike": ("{} have one VMI vreg type", "{} have different VMI vreg types"),
    "masks": ("{} have as many lanes", "{} have different numbers of lanes"),
    "wraps_by_scratch": (
        "the conversion wraps by way of `tmp`", "the conversion does not wrap by way of `tmp`",
    ),
    "converts": (
        "the target's library converts {}", "the target's library does not convert {}",
    ),
    "lane_pair": (
        "the vector unit converts {}", "the vector unit does not convert {}",
    ),
    "in_order": ("the words are in their order", "the words are not in their order"),
    "transposes_in_blocks": ("{} are transposed in blocks", "{} are not transposed in blocks"),
    "is_unknown": ("{} is known only at run time", "{} is known"),
    "shuffle_within": ("the indices are lanes of {}", "an index is no lane of {}"),
    "simt_rounds": (
        "the conversion has that rounding mode", "the conversion does not have that rounding mode",
    ),
    "granule": ("{} have that granularity", "{} have another granularity"),
    "mask_of": ("{} agree", "{} do not agree"),
}  # fmt: skip


# -- numbers and words -----------------------------------------------------------------------------

_FIELDS = {
    "bits": "bits of an element", "dtype": "the element type", "family": "the element type",
    "loc": "the memory", "kind": "the kind", "rows": "rows", "cols": "columns",
    "v_row": "valid rows", "v_col": "valid columns", "count": "elements", "lanes": "lanes",
    "valid_count": "valid elements", "bytes": "bytes", "rank": "the rank", "type": "the type",
    "elem": "the element type", "len": "the number", "blayout": "blayout", "slayout": "slayout",
    "fractal": "the fractal size", "pad": "the pad value", "compact": "the compact form",
    "per": "the numbers in an element", "shape": "the shape", "layout": "the layout",
    "strides": "the strides", "value": "the value", "parts": "parts", "dims": "the dimensions",
}  # fmt: skip
_NAMES = {
    "target": "the target", "form": "the form", "results": "the number of results",
    "level": "the level", "backend": "the back end",
}  # fmt: skip
_SIGNS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "x", ast.FloorDiv: "/", ast.Mod: "modulo"}
_COUNTS = {
    "len": "the number of {}", "known_cols": "valid columns of {}", "columns": "columns of {}",
    "major_bytes": "the bytes of a row of {} (by columns: of a column)",
    "pattern_lanes": "the lanes that {} names", "arg_stride": "the columns of scratch for {}",
    "mask_times": "the elements for each that {} selects", "slot_count": "the slots of the FIFO",
    "wrap_scratch": "the scratch of a conversion that wraps, in", "simt_kind": "{}",
    "shuffle_count": "the number of indices", "lane_pair": "the conversion of {}",
}  # fmt: skip


def _noun(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return _NAMES.get(name, f"`{name.removeprefix('attr_')}`")
        case ast.Constant(value=value):
            return "nothing" if value is None else str(value)
        case ast.Attribute():
            return _field_noun(node)
        case ast.Tuple(elts=items):
            return listed(list(dict.fromkeys(map(_noun, items))), "or")
        case ast.UnaryOp(operand=operand):
            return f"-{_noun(operand)}"
        case ast.BinOp(left=left, op=op, right=right):
            return f"{_part(left)} {_SIGNS[type(op)]} {_part(right)}"
        case ast.IfExp():
            return _either(node)
        case ast.Call():
            return _call_noun(node)
    return f"what holds where {_clause(node)}"


def _either(node: ast.IfExp) -> str:
    body, other = _noun(node.body), _noun(node.orelse)
    if isinstance(node.test, ast.Name) and body == _noun(node.test):
        return f"{body} (without it {other})"
    return f"{body} where {_clause(node.test)}, else {other}"


def _part(node: ast.expr) -> str:
    text = _noun(node)
    return f"({text})" if isinstance(node, (ast.BinOp, ast.IfExp)) else text


def _field_noun(node: ast.Attribute) -> str:
    whole = _noun(node.value)
    if node.attr == "const":
        return whole
    return f"{_FIELDS.get(node.attr, f'`{node.attr}`')} of {whole}"


def _call_noun(node: ast.Call) -> str:
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    if name in ("min", "max"):
        which = "smaller" if name == "min" else "larger"
        return f"the {which} of {listed([_noun(a) for a in node.args])}"
    if name == "at":
        return f"number {_noun(node.args[1])} of {_noun(node.args[0])}"
    if name == "spelled":
        return f"how often the text has {listed(_strings(node)[0].split(), 'or')}"
    return _COUNTS[name].format(_operands(node))


# -- clauses ---------------------------------------------------------------------------------------

_TRUE: dict[str, tuple[str, str]] = {
    "is_page": (
        "the text is in the notation of the manual page", "outside of the manual page's notation",
    ),
    "snippet": ("the text is outside of any function", "the text is in a function"),
    "level_inferred": ("the level follows from the text", "the level is given"),
    "tile_operations": ("the function has tile operations", "the function has no tile operations"),
}  # fmt: skip
_FACTS = {
    "dyn_row": ("valid rows of {} are known only at run time", "valid rows of {} are static"),
    "dyn_col": ("valid columns of {} are known only at run time", "valid columns of {} are static"),
    "static": ("the type of {} fixes all extents", "the type of {} leaves extents open"),
    "is_part": ("{} is a part of a view", "{} is a whole view"),
    "low": ("{} is of low precision", "{} is not of low precision"),
    "is_integer": ("elements of {} are integers", "elements of {} are no integers"),
    "is_float": ("elements of {} are floats", "elements of {} are no floats"),
    "sat": ("{} can saturate", "{} cannot saturate"),
}
_KINDS = {
    "ptr": "a pointer", "vmi_vreg": "a VMI vector", "vmi_mask": "a VMI mask", "vreg": "a register",
    "packed": "several numbers in one", "integer": "an integer", "float": "a float",
    "scalar": "a scalar", "multi_tile": "a multi buffer", "gm_ptr": "a pointer to global memory",
}  # fmt: skip
_COMPARED = {
    ast.Eq: ("is", "is not"), ast.NotEq: ("is not", "is"), ast.In: ("is", "is not"),
    ast.NotIn: ("is not", "is"), ast.Is: ("is", "is not"), ast.IsNot: ("is not", "is"),
    ast.Lt: ("is less than", "is at least"), ast.GtE: ("is at least", "is less than"),
    ast.Gt: ("is more than", "is at most"), ast.LtE: ("is at most", "is more than"),
}  # fmt: skip


def _clause(node: ast.expr, holds: bool = True) -> str:
    match node:
        case ast.BoolOp(op=op, values=values):
            joint = "and" if isinstance(op, ast.And) == holds else "or"
            return f" {joint} ".join(_inner(v, holds, joint) for v in values)
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return _clause(operand, not holds)
        case ast.Compare(left=left, ops=[op], comparators=[right]):
            return _comparison(left, op, right, holds)
        case ast.Compare(left=left, ops=[*ops], comparators=[*rights]):
            pairs = zip([left, *rights], ops, rights, strict=False)
            return " and ".join(_comparison(*p, holds) for p in pairs)
        case ast.Call():
            return _call_clause(node, holds)
        case ast.Attribute(attr=attr, value=value) if attr in _FACTS:
            inner = value
            if attr in ("is_integer", "is_float"):
                inner = value.value.value if _is_element(value) else value  # type: ignore[attr-defined]
            return _FACTS[attr][not holds].format(_noun(inner))
        case ast.Name(id=name) if name in _TRUE:
            return _TRUE[name][not holds]
        case ast.Constant(value=value):
            return "always" if bool(value) == holds else "never"
    return f"{_noun(node)} is {'given' if holds else 'left out'}"


def _is_element(node: ast.expr) -> bool:
    """True for `operand.type.elem`."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute)


def _inner(node: ast.expr, holds: bool, joint: str) -> str:
    text = _clause(node, holds)
    is_mixed = isinstance(node, ast.BoolOp) and (
        " or " in text if joint == "and" else " and " in text
    )
    return f"({text})" if is_mixed else text


def _comparison(left: ast.expr, op: ast.cmpop, right: ast.expr, holds: bool) -> str:
    verb = _COMPARED[type(op)][not holds]
    if isinstance(right, ast.Constant) and right.value is None:
        return _presence(left, verb == "is")
    if isinstance(left, ast.Compare) or isinstance(right, (ast.Compare, ast.BoolOp)):
        both = "exactly where" if verb == "is" else "exactly where it is not so that"
        return f"{_clause(left)} {both} {_clause(right)}"
    if _is_rest(left) and _noun(right) == "0":
        assert isinstance(left, ast.BinOp)
        a, noun = "a" if verb == "is" else "no", _noun(left.left)
        return f"{noun} {'are' if _MANY.match(noun) else 'is'} {a} multiple of {_part(left.right)}"
    words = [e.value for e in ast.walk(right) if isinstance(e, ast.Constant)]
    if isinstance(left, ast.Attribute) and left.attr == "loc" and None not in words:
        return f"{_noun(left.value)} {verb} in {listed([_space(str(w)) for w in words], 'or')}"
    if _is_kind(left) and None not in words:
        whole = _noun(left.value) if isinstance(left, ast.Attribute) else _noun(left)
        return f"{whole} {verb} {listed([_kind(str(w)) for w in words], 'or')}"
    if isinstance(left, ast.Attribute) and left.attr == "rnd" and words == [""]:
        return f"{_noun(left.value)} {'rounds' if verb == 'is not' else 'does not round'}"
    if isinstance(left, ast.Attribute) and left.attr == "bits" and isinstance(op, ast.Eq):
        return (
            f"elements of {_noun(left.value)} have {'not ' if not holds else ''}{_noun(right)} bits"
        )
    noun = _noun(left)
    return f"{noun} {verb.replace('is', 'are', 1) if _MANY.match(noun) else verb} {_noun(right)}"


_MANY = re.compile("(valid )?(rows|columns|elements|bits|lanes|bytes|parts) ")
"""Nouns of more than one."""


def _presence(left: ast.expr, is_absent: bool) -> str:
    if isinstance(left, ast.Call):
        return _call_clause(left, not is_absent)
    return f"{_noun(left)} is {'left out' if is_absent else 'given'}"


def _is_rest(node: ast.expr) -> bool:
    return isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)


def _is_kind(node: ast.expr) -> bool:
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id == "simt_kind"
    return isinstance(node, ast.Attribute) and node.attr == "kind"


def _kind(word: str) -> str:
    return _KINDS.get(word, f"a {word}")


def _call_clause(node: ast.Call, holds: bool) -> str:
    assert isinstance(node.func, ast.Name)
    name = node.func.id
    if name == "element_in":
        words = listed(_strings(node)[-1].split("/"), "or")
        return f"elements of {_operands(node)} are {'' if holds else 'not '}{words}"
    if name == "written":
        return f"the text has {'' if holds else 'no '}`{_strings(node)[0]}`"
    if name in _HOLDS:
        return _HOLDS[name][not holds].format(_operands(node))
    if name in _COUNTS or name == "spelled":
        return f"{_call_noun(node)} is {'above 0' if holds else '0'}"
    return f"{'' if holds else 'not so: '}{_asked(node)}"
