"""The canonical text of a program: `parse(print(p))` is `p`, and printing that again changes
nothing.

What was written is kept (items in order, types as spelled, comments); spaces, line ends and
indentation are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ptosim.ground.ir.core import Attr, Block, Module, Node, Operation, Region, Tok

_INDENT = "  "


def print_module(module: Module) -> str:
    """Return the canonical text of a module, comments included."""
    return _Printer(module).run()


Lines = list[tuple[Operation | Region, int]]
"""Operations, and ends of regions, with their lines, counted from 0."""


def print_placed(module: Module) -> tuple[str, Lines]:
    """Return the canonical text of a module, and in which line each operation of it begins and each
    region ends."""
    printer = _Printer(module)
    return printer.run(), printer.places


class _Printer:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.lines: list[str] = []
        self.places: Lines = []
        beside = [(c.start, c) for c in module.comments]
        beside += [(name.start, (name, value)) for name, value in module.aliases]
        self.beside = sorted(beside, key=lambda entry: entry[0])
        self.next_beside = 0
        self.depth = 0

    def run(self) -> str:
        for op in self.module.ops:
            self._operation(op)
        self._before(len(self.module.source.text) + 1)
        return "\n".join(self.lines) + "\n" if self.lines else ""

    # -- lines, aliases and comments --------------------------------------------------------------

    def _line(self, text: str) -> None:
        self.lines.append(_INDENT * self.depth + text if text else "")

    def _before(self, offset: int) -> None:
        """Print the aliases and comments in front of an offset. Comments on lines of their own
        keep theirs; one after code stays after that line."""
        while self.next_beside < len(self.beside):
            start, beside = self.beside[self.next_beside]
            if start >= offset:
                return
            self.next_beside += 1
            if isinstance(beside, Tok):
                self._comment(beside)
            else:
                self._line(self._alias(*beside))

    def _comment(self, comment: Tok) -> None:
        source = self.module.source.text
        start = source.rfind("\n", 0, comment.start) + 1
        if source[start : comment.start].strip() and self.lines:
            self.lines[-1] += "  " + comment.value.rstrip()
        else:
            self._line(comment.value.rstrip())

    def _alias(self, name: Tok, value: Any) -> str:
        if isinstance(value, tuple):  # a location
            text = " ".join(self.module.source.text[slice(*value)].split())
        else:
            text = _attr_text(value) if isinstance(value, Attr) else value.value
        return f"{name.value[:-1].strip()} = {text}"

    # -- operations -------------------------------------------------------------------------------

    def _operation(self, op: Operation) -> None:
        self._before(op.start)
        self.places.append((op, len(self.lines)))
        head = f"{_results(op)} = " if op.result_tokens else ""
        text = head + _BODIES[op.form](op)
        self._with_regions(op, text)

    def _with_regions(self, op: Operation, text: str) -> None:
        tail = _loc(op, self.module)
        if not op.regions:
            self._line(text + tail)
            return
        if op.form == "generic":
            self._generic_regions(op, text, tail)
            return
        for i, region in enumerate(op.regions):
            join = _JOINS.get(op.name, ("",))[min(i, len(_JOINS.get(op.name, ("",))) - 1)]
            opening = text if i == 0 else "} " + join
            if op.name == "scf.index_switch":
                opening = self._switch_opening(op, text, i)
            self._line(f"{opening.rstrip()} {{")
            self._region(region)
        self._line("}" + _after_regions(op) + tail)

    def _switch_opening(self, op: Operation, text: str, index: int) -> str:
        label = f"case {op.items[index].value}" if index < len(op.items) else "default"
        return f"{text} {label}" if index == 0 else f"}} {label}"

    def _generic_regions(self, op: Operation, text: str, tail: str) -> None:
        for i in range(len(op.regions)):
            self._line(f"{text} ({{" if i == 0 else "}, {")
            self._region(op.regions[i])
        self._line("})" + _generic_tail(op) + tail)

    def _region(self, region: Region) -> None:
        self.depth += 1
        for block in region.blocks:
            self._block(block)
        self._before(region.end)
        self.places.append((region, len(self.lines)))
        self.depth -= 1

    def _block(self, block: Block) -> None:
        if block.label is not None:
            self._before(block.label.start)
            args = ", ".join(f"{tok.value}: {type_.value}" for tok, type_ in block.args if type_)
            suffix = f"({args})" if args else ""
            self.depth -= 1
            self._line(f"{block.label.value}{suffix}:")
            self.depth += 1
        for op in block.ops:
            self._operation(op)


_JOINS = {"scf.if": ("", "else"), "scf.while": ("", "do")}


def _results(op: Operation) -> str:
    return ", ".join(f"%{n}" if c == 1 else f"%{n}:{c}" for n, c, _ in op.result_tokens)


def _loc(op: Operation, module: Module) -> str:
    if op.loc is None:
        return ""
    start, end = op.loc
    return " " + " ".join(module.source.text[start:end].split())


def _attr_text(attr: Attr) -> str:
    suffix = f" : {attr.type.value}" if attr.type is not None else ""
    return _atom(attr.atom) + suffix


def _atom(atom: Any) -> str:
    if isinstance(atom, dict):
        return _dict(atom)
    if isinstance(atom, list):
        return f"[{', '.join(_attr_text(a) for a in atom)}]"
    if isinstance(atom, Node):
        return _item(atom)
    return atom.value


def _dict(attrs: dict[str, Attr]) -> str:
    return "{" + ", ".join(_pair(a) for a in attrs.values()) + "}"


def _pair(attr: Attr) -> str:
    key = attr.key.value if attr.key is not None else ""
    return key if attr.atom is None else f"{key} = {_attr_text(attr)}"


def _trailing(op: Operation, shown: Any = ()) -> str:
    """The attributes that no dictionary among the operands holds."""
    inside = {key for part in shown if isinstance(part, dict) for key in part}
    rest = {key: attr for key, attr in op.attrs.items() if key not in inside}
    return f" {_dict(rest)}" if rest else ""


def _types(types: Any) -> str:
    return ", ".join(t.value for t in types)


def _arrow(types: Any, *, always_paren: bool = False) -> str:
    text = _types(types)
    return text if len(types) == 1 and not always_paren else f"({text})"


def _item(item: Any) -> str:
    if isinstance(item, Tok):
        return item.value
    if isinstance(item, dict):
        return _dict(item)
    return _NODES[item.kind](item.parts)


def _indexed(parts: Any) -> str:
    base, *indices = parts
    type_ = f" : {indices.pop().value}" if indices[-1].type == "TYPE" else ""
    return f"{base.value}[{', '.join(map(_item, indices))}{type_}]"


_NODES: dict[str, Callable[[Any], str]] = {
    "indexed": _indexed,
    "keyword": lambda parts: f"{parts[0].value} = {_item(parts[1])}",
    "clause": lambda parts: parts[0].value + _item(parts[1]),
    "list": lambda parts: f"[{_sequence(parts)}]",
    "paren": lambda parts: f"({_sequence(parts)})",
    "symbol": lambda parts: f"{parts[0].value}({parts[1].value})",
    "flags": lambda parts: parts[0].value + parts[1].value,
    "launch": lambda parts: f"<<<{', '.join(map(_item, parts))}>>>",
    "func_type": lambda parts: f"({_types(parts[0].parts)}) -> {_arrow(parts[1].parts)}",
    "dps_word": lambda parts: parts[0].value,
}
_ATTACHED = frozenset((":", "->"))


def _sequence(items: Any) -> str:
    """Items with commas between values; `:` and `->` are between spaces, and after a type that
    follows one there is a comma again."""
    out = ""
    previous = ""
    for item in items:
        text = _item(item)
        if not out:
            out = text
        elif text in _ATTACHED or previous in _ATTACHED:
            out += f" {text}"
        else:
            out += f", {text}"
        previous = text
    return out


def _dps(op: Operation) -> str:
    parts = [op.name]
    if op.ins or op.ins_types:
        words_after = [v for v in op.ins if _is_after_types(op, v)]
        values = [_item(v) for v in op.ins if not isinstance(v, dict) and v not in words_after]
        inner = ", ".join(values)
        for extra in (v for v in op.ins if isinstance(v, dict)):
            inner += f" {_dict(extra)}" if inner else _dict(extra)
        types = f" : {_types(op.ins_types)}" if op.ins_types else ""
        if has_type_each(op) and len(values) == len(op.ins):
            pairs = zip(values, op.ins_types, strict=True)
            inner, types = ", ".join(f"{v} : {t.value}" for v, t in pairs), ""
        words = "".join(f" {_ins_word(c)}" for c in op.clauses if c.kind == "ins_word")
        after = "".join(f", {_item(v)}" for v in words_after)
        parts.append(f"ins({inner}{types}{words}{after})")
    if op.outs:
        types = f" : {_types(op.outs_types)}" if op.outs_types else ""
        parts.append(f"outs({', '.join(map(_item, op.outs))}{types})")
    elif op.outs_types:
        types = f": {_types(op.outs_types)}"
        parts.append(f"outs({types})" if op.is_listed else f"outs {types}")
    text = " ".join(parts) + _trailing(op, op.ins)
    for clause in op.clauses:
        if clause.kind != "dps_clause":
            text += "" if clause.kind == "ins_word" else f" {_item(clause)}"
            continue
        key, value, *type_ = clause.parts
        shown = _atom(value) if not isinstance(value, Tok) else value.value
        text += f" {key.value} = {shown}" + (f" : {type_[0].value}" if type_ else "")
    return text + (f" -> {_arrow(op.arrow)}" if op.arrow is not None else "")


_TYPE_EACH = frozenset(("pto.tmov", "pto.tstore"))
"""Operations whose inputs are each followed by their type (PTO assembler, assembly formats)."""


def has_type_each(op: Operation) -> bool:
    """True for an operation of which each input is printed with its type."""
    return op.name in _TYPE_EACH and len(op.ins) == len(op.ins_types)


def _is_after_types(op: Operation, value: Any) -> bool:
    """True for a string after the types: the axis of a mask."""
    if not op.ins_types or getattr(value, "type", "") != "STRING":
        return False
    return value.start > op.ins_types[-1].start


def _ins_word(word: Node) -> str:
    key, value, *type_ = word.parts
    return f"{key.value} {_item(value)}" + (f" : {type_[0].value}" if type_ else "")


def _items(op: Operation) -> str:
    text = op.name
    previous: Any = None
    for item in op.items:
        text += _separator(op, previous, item) + _item(item)
        previous = item
    if op.type_list:
        text += " : " + _type_items(op)
    text += "" if op.regions else _trailing(op, op.items)
    if op.name == "llvm.getelementptr" and op.arrow:
        return f"{text} -> {_types(op.arrow)}"  # the second one is no result
    if op.arrow and (op.bare_arrow or op.name.startswith(_BARE_RESULTS)):
        return f"{text} -> {_types(op.arrow)}"
    return text + (f" -> {_arrow(op.arrow)}" if op.arrow is not None else "")


def _separator(op: Operation, previous: Any, item: Any) -> str:
    """Operands are separated by commas; clauses, `key =` after none, words before lists and
    dictionaries follow a space; brackets and parentheses directly after the name touch it."""
    kind = item.kind if isinstance(item, Node) else ""
    if op.name == "llvm.alloca":
        return " "  # `%n x f32`
    if previous is None:
        return "" if kind in ("list", "paren", "launch") else " "
    before = previous.kind if isinstance(previous, Node) else ""
    if kind == "launch" or (before == "launch" and kind == "paren"):
        return ""
    if (
        before == "launch"
        or kind == "flags"
        or isinstance(item, dict)
        or isinstance(previous, dict)
    ):
        return " "
    if kind in ("clause", "keyword") and item.parts[0].value in _STATEMENTS:
        return ", "
    if kind == "clause" or (kind == "list" and _is_word(previous)):
        return " "
    if kind == "keyword":
        return ", " if op.name in _COMMA_KEYWORDS else " "
    if kind == "paren" and isinstance(previous, Tok) and previous.type == "SYMBOL":
        return ""
    if kind == "paren" or _is_word(item) or _is_word(previous):
        return _word_separator(previous, item)
    return " " if before == "clause" else ", "


_BARE_RESULTS = "pto.vmi."
"""Operations whose results are listed without parentheses (assembly formats)."""
_STATEMENTS = frozenset(("call", "module", "return"))
"""Words that begin a statement where no comma is before them."""
_COMMA_KEYWORDS = frozenset(("pto.make_tensor_view", "pto.partition_view", "pto.subview"))


def _is_word(item: Any) -> bool:
    return isinstance(item, Tok) and item.type == "BARE_ID"


def _word_separator(previous: Any, item: Any) -> str:
    if isinstance(item, Node):
        # A word that touches brackets is a clause: these are two operands, with a comma between.
        return ", " if item.kind == "paren" and _is_word(previous) else " "
    after_brackets = isinstance(previous, Node) and previous.kind in ("indexed", "list")
    if _is_word(item) and after_brackets and item.value not in _STATEMENTS:
        return " "
    return ", "


def _type_items(op: Operation) -> str:
    """The type list of an op: types, words in front of types, `to` between the types of a cast."""
    out = ""
    for part in op.type_list:
        text = _type_item(part)
        if isinstance(part, Tok) and part.type == "TO":
            out += " to "
        else:
            out += text if not out or out.endswith(" to ") else f", {text}"
    return out


def _type_item(part: Any) -> str:
    if isinstance(part, Tok):
        return part.value
    if part.kind == "paren_types":
        return f"({_types(part.parts)})"
    word, *types = part.parts
    if not types:
        return word.value
    space = "" if isinstance(types[0], Node) else " "
    return word.value + space + _type_item(types[0])


def _line_form(op: Operation) -> str:
    parts = ", ".join(map(_item, op.ins))
    text = f"{op.name} {parts}".rstrip() + _trailing(op)
    if op.types:
        text += f" : ({_types(op.types)})" if op.arrow else f" : {_types(op.types)}"
    return text + (f" -> {_arrow(op.arrow)}" if op.arrow is not None else "")


def _generic(op: Operation) -> str:
    values = ", ".join(map(_item, op.ins))
    props = f" <{_dict(op.props)}>" if op.props else ""
    labels = f"[{', '.join(map(_item, op.items))}]" if op.items else ""
    text = f'"{op.name}"({values}){labels}{props}'
    return text if op.regions else text + _generic_tail(op)


def _generic_tail(op: Operation) -> str:
    attrs = {k: a for k, a in op.attrs.items() if not op.props or k not in op.props}
    shown = f" {_dict(attrs)}" if attrs else ""
    return f"{shown} : ({_types(op.ins_types)}) -> {_arrow(op.arrow or [])}"


# -- operations with a syntax of their own --------------------------------------------------------


def _core(op: Operation) -> str:
    return _CORE.get(op.name, _plain_core)(op)


def _plain_core(op: Operation) -> str:
    return op.name


def _typed_values(op: Operation, name: str) -> str:
    text = name + _trailing(op)
    if op.ins:
        text += f" {', '.join(t.value for t in op.ins)} : {_types(op.ins_types)}"
    return text


def _module(op: Operation) -> str:
    symbol = "".join(f" {t.value}" for t in op.items)
    return f"module{symbol}" + (f" attributes {_dict(op.attrs)}" if op.attrs else "")


def _func(op: Operation) -> str:
    words = " ".join(t.value for t in op.items)
    args = ", ".join(_func_arg(a) for a in op.ins)
    results = f" -> {_arrow(op.arrow)}" if op.arrow else ""
    attrs = f" attributes {_dict(op.attrs)}" if op.attrs else ""
    return f"func.func {words}({args}){results}{attrs}"


def _func_arg(arg: Node) -> str:
    value, type_, attrs = arg.parts
    text = f"{value.value}: {type_.value}" if value is not None else type_.value
    return text + (f" {_dict(attrs)}" if attrs else "")


def _call(op: Operation) -> str:
    values = ", ".join(t.value for t in op.ins)
    return (
        f"func.call {op.items[0].value}({values}){_trailing(op)} : "
        f"({_types(op.ins_types)}) -> {_arrow(op.arrow or [])}"
    )


def _constant(op: Operation) -> str:
    literal = _atom(op.items[0])
    type_ = f" : {op.types[0].value}" if op.types else ""
    return f"arith.constant{_trailing(op)} {literal}{type_}"


def _for(op: Operation) -> str:
    variable, *carried = op.regions[0].blocks[0].args
    lower, upper, step = (t.value for t in op.ins)
    text = f"scf.for {variable[0].value} = {lower} to {upper} step {step}"
    if carried:
        inits = ", ".join(
            f"{a[0].value} = {i.value}" for a, i in zip(carried, op.outs, strict=True)
        )
        text += f" iter_args({inits}) -> ({_types(op.arrow)})"
    return text + (f" : {op.types[0].value}" if op.types else "")


def _succ(node: Node) -> str:
    label, values, types = node.parts
    given = f"({', '.join(v.value for v in values)} : {_types(types)})" if values else ""
    return label.value + given


def _branch(op: Operation) -> str:
    parts = [*(v.value for v in op.ins), *map(_succ, op.clauses)]
    return f"{op.name} {', '.join(parts)}{_trailing(op)}"


def _cf_switch(op: Operation) -> str:
    keys = ["default", *(t.value for t in op.items)]
    cases = ", ".join(f"{k}: {_succ(s)}" for k, s in zip(keys, op.clauses, strict=True))
    return f"{op.name} {op.ins[0].value} : {op.ins_types[0].value}, [{cases}]{_trailing(op)}"


def _if(op: Operation) -> str:
    head = " ".join([op.name, *(t.value for t in op.ins)])
    if op.name == "scf.index_switch":
        head += _trailing(op)
    if not op.arrow:
        return head
    always = op.name == "scf.if"
    return f"{head} -> {_arrow(op.arrow, always_paren=always)}"


def _while(op: Operation) -> str:
    args = op.regions[0].blocks[0].args
    inits = ", ".join(f"{a[0].value} = {i.value}" for a, i in zip(args, op.ins, strict=True))
    head = f"scf.while ({inits})" if inits else "scf.while ()"
    return f"{head} : ({_types(op.ins_types)}) -> {_arrow(op.arrow or [])}"


def _condition(op: Operation) -> str:
    text = f"scf.condition({op.outs[0].value}){_trailing(op)}"
    if op.ins:
        text += f" {', '.join(t.value for t in op.ins)} : {_types(op.ins_types)}"
    return text


def _strict(op: Operation) -> str:
    return f"{op.name}({', '.join(t.value for t in op.ins)})"


def _reinterpret(op: Operation) -> str:
    clauses = ", ".join(f"{c.parts[0].value}: {_item(c.parts[1])}" for c in op.clauses)
    return (
        f"{op.name} {op.ins[0].value} to {clauses}{_trailing(op)} : "
        f"{_types(op.types)} to {_types(op.arrow or [])}"
    )


def _after_regions(op: Operation) -> str:
    if op.name == "pto.strict_vecscope":
        return f" : ({_types(op.ins_types)}) -> {_arrow(op.arrow or [])}"
    if op.name in ("scf.for", "scf.if", "scf.while", "scf.execute_region") or op.name in _SCOPES:
        return _trailing(op)
    if op.form == "items":
        types = f" : {_types(op.outs_types)}" if op.outs_types else ""
        return _trailing(op, op.items) + types
    return ""


_SCOPES = frozenset(("pto.vecscope", "pto.section.cube", "pto.section.vector"))
_CORE = {
    "module": _module,
    "func.func": _func,
    "func.return": lambda op: _typed_values(op, "return"),
    "func.call": _call,
    "arith.constant": _constant,
    "scf.for": _for,
    "scf.if": _if,
    "scf.execute_region": _if,
    "scf.index_switch": _if,
    "scf.while": _while,
    "scf.condition": _condition,
    "scf.yield": lambda op: _typed_values(op, "scf.yield"),
    "cf.br": _branch,
    "cf.cond_br": _branch,
    "cf.switch": _cf_switch,
    "pto.strict_vecscope": _strict,
    "memref.reinterpret_cast": _reinterpret,
}
_BODIES = {"dps": _dps, "items": _items, "generic": _generic, "line": _line_form, "core": _core}
