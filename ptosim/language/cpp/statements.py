"""Statements: what is known before the run is followed, the rest becomes branches."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from ptosim.ground.ir.core import Operation
from ptosim.ground.records import dataclass
from ptosim.language.build import Typed
from ptosim.language.cpp.copies import Copies
from ptosim.language.cpp.declared import (
    Collector,
    Declared,
    Overloads,
    field_of,
    has_word,
    identifiers,
    inner,
    name_node,
    named,
    text,
)
from ptosim.language.cpp.kinds import (
    BOOL,
    SCALARS,
    UNKNOWN,
    Array,
    Cell,
    Enum,
    Member,
    Named,
    Num,
    Pointer,
    Scalar,
    Tile,
    is_null,
    number,
)
from ptosim.language.cpp.library import is_numeric
from ptosim.language.cpp.names import AUTO
from ptosim.language.cpp.references import CHOSEN
from ptosim.language.cpp.state import CppError, refused


@dataclass(slots=True, eq=False)
class Frame:
    """A function that is being followed: has it returned, and what."""

    done: Cell
    value: Cell
    type: Any
    by_reference: bool = False


@dataclass(slots=True, eq=False)
class Round:
    """The body of a loop or switch: was it left, does it go on with the next round."""

    broke: Cell
    next: Cell | None


_STREAMED = re.compile(rb"(std\s*::\s*)?(cout|cerr|clog)\s*<<")
"""What is printed has no effect on values."""
_MOST_FORKS, LEAST_REPEATED = 3, 512  # of conditions; of statements that are looked at
_COMPOUND = frozenset(
    ("compound_statement", "if_statement", "for_statement", "while_statement", "do_statement",
     "switch_statement", "else_clause")
)  # fmt: skip


def _first_error(node: Any) -> Any:
    """Return the first part of a node that cannot be read."""
    while node.type != "ERROR" and not node.is_missing:
        inside = next((c for c in node.children if c.has_error or c.is_missing), None)
        if inside is None:
            return node
        node = inside
    return node


class Statements(Copies):
    """Execution of statements."""

    frame: Frame
    rounds: list[Round]

    def execute(self, node: Any) -> None:
        """Execute a statement."""
        self.step(node)
        if node.has_error:
            self._readable(node)
        handler = getattr(self, f"_s_{node.type}", None)
        if handler is None:
            raise refused(
                node,
                text(node)[:40],
                f"a {node.type.replace('_', ' ')} has no form in the IR",
                "write it with what the manual page `From C++` lists",
            )
        if self.host and self._only_for_host(node):
            try:
                handler(node)
            except CppError:  # it is not executed
                return
        else:
            handler(node)

    def _only_for_host(self, node: Any) -> bool:
        """Does a statement of a launch wrapper launch nothing, and call nothing of the file?"""
        if node.type == "static_assert_declaration" or b"__launch__" in node.text:
            return False
        return not any(isinstance(self.scope.find(w), Overloads) for w in identifiers(node))

    def _readable(self, node: Any) -> None:
        """A statement, or the head of a loop or branch, that was not read whole says nothing."""
        parts = [node]
        if node.type in _COMPOUND and not node.is_missing:
            heads = (field_of(node, n) for n in ("condition", "update", "initializer"))
            parts = [h for h in heads if h is not None and h.has_error]
            if node.type != "compound_statement":  # whose parts are statements
                parts += [c for c in node.children if c.type == "ERROR"]
        if parts:
            raise CppError(_first_error(parts[0]), "this cannot be read as C++")

    def execute_all(self, nodes: Sequence[Any]) -> None:
        """Execute statements in order, until one of them leaves."""
        runs = self.runs(nodes) if len(nodes) >= LEAST_REPEATED and not self.static else {}
        done = 0
        for i, node in enumerate(nodes):
            if i < done:
                continue
            if i in runs:
                done = i + self.repeated(nodes, i, *runs[i])
                if done > i:
                    continue
            length = len(self.make.ops)
            if self._forks(node):
                follow = partial(self.execute_all, nodes[i:])
                self.branch(self.forked, follow, follow)
                return
            self.execute(node)
            if len(self.make.ops) - length >= LEAST_REPEATED:
                runs = {**runs, **self.again(nodes, i)}
            left = self.left()
            if left.is_known and left.const:
                return
            if not left.is_known:
                rest = nodes[i + 1 :]
                if rest:
                    self.here(node)
                    self.branch(self.negated(left), partial(self.execute_all, rest), None)
                return

    runs: Any
    again: Any
    repeated: Any  # statements that are written out again and again: `repeats.py`
    forked: Num

    def _forks(self, node: Any) -> bool:
        """Does a declaration choose a tile or an event id by a condition of the run? Then what
        follows in its block is two branches, in each of which it is known."""
        if node.type != "declaration" or self.static or len(self.assumed) > _MOST_FORKS:
            return False
        child = next(iter(node.children_by_field_name("declarator")), None)
        value = field_of(child, "value") if child is not None else None
        while value is not None and value.type == "parenthesized_expression":
            value = named(value)[0]
        if value is None or value.type != "conditional_expression":
            return False
        is_event = text(field_of(node, "type")) == "event_t"
        if not is_event and not self._names_tile(field_of(value, "consequence")):
            return False
        self.step(node)
        self.here(node)
        self.forked = self.truth(self.ev(field_of(value, "condition")), node)
        return not self.forked.is_known

    def _names_tile(self, node: Any) -> bool:
        if node.type != "identifier":
            return False
        found = self.scope.find(text(node))
        return isinstance(found, Cell) and isinstance(found.value, Tile)

    def left(self) -> Num:
        """Return whether the statements that follow are left out."""
        cells = [self.frame.done]
        if self.rounds:
            cells += [c for c in (self.rounds[-1].broke, self.rounds[-1].next) if c is not None]
        found = Num(BOOL, False)
        for cell in cells:
            found = self.both("||", found, cell.value)
        return found

    # -- branches ----------------------------------------------------------------------------------

    def branch(
        self, condition: Num, yes: Callable[[], Any], no: Callable[[], Any] | None
    ) -> Operation | None:
        """Follow both ways of a condition that is not known; where variables differ afterwards,
        the branch yields them."""
        if condition.is_known:
            chosen = yes if condition.const else no
            if chosen is not None:
                chosen()
            return None
        op = self.make.branch(condition.name or "")
        mark, before = len(self.journal.entries), self.journal.count
        ends = []
        for way, holds in ((yes, True), (no, False)):
            with self.make.region(op), self.cached(), self._assuming(condition, holds):
                ops = self.make.ops
                if way is not None:
                    way()
            written = self.journal.written(mark, before)
            ends.append((ops, {id(c): c.value for c in written}, written))
            self.journal.rewind(mark)
        self._merge(op, condition, ends)
        if no is None and not op.result_tokens:
            op.regions = op.regions[:1]
        return op

    @contextmanager
    def _assuming(self, condition: Num, holds: bool) -> Iterator[None]:
        before = self.assumed
        self.assumed = {**before, condition.name or "": holds}
        try:
            yield
        finally:
            self.assumed = before

    def _merge(self, op: Operation, condition: Num, ends: list[Any]) -> None:
        cells = {id(c): c for _, _, written in ends for c in written}
        names: list[tuple[str, int, int]] = []
        types: list[str] = []
        yields: tuple[list[Typed], list[Typed]] = ([], [])
        for key, cell in cells.items():
            a, b = (end[1].get(key, cell.value) for end in ends)
            if not cell.soft:
                a, b = _given(a, b), _given(b, a)
            if a is b or (isinstance(a, Num) and a == b) or (isinstance(a, Member) and a == b):
                cell.set(a)
                continue
            if _are_truths(a, b):
                cell.set(condition if a.const else self._inverse(condition))
                continue
            if cell.soft or not isinstance(a, Num) or not isinstance(b, Num):
                cell.set(UNKNOWN)
                continue
            if is_null(a) or is_null(b):
                cell.set(UNKNOWN)
                continue
            type_ = self._meeting(cell, a, b)
            for values, ops, value in zip(yields, (ends[0][0], ends[1][0]), (a, b), strict=True):
                with self.make.into(ops), self.cached():  # it is known at the end of this way only
                    values.append(self.typed(self.cast(value, type_, self.make.at)))
            result = self.fresh()
            names.append((result.removeprefix("%"), 1, self.make.at))
            types.append(type_.value)
            cell.set(Num(type_, None, result))
        if not names:
            return
        op.result_tokens, op.arrow = names, self.make.types(types)
        for values, (ops, _, _) in zip(yields, ends, strict=True):
            with self.make.into(ops):
                self.make.typed("scf.yield", values)

    def _inverse(self, condition: Num) -> Num:
        return self.negated(condition)

    def _meeting(self, cell: Cell, a: Num, b: Num) -> Any:
        if isinstance(cell.type, (Scalar, Pointer)):
            return cell.type
        if isinstance(a.type, Pointer):
            return a.type if not a.is_known else b.type
        return a.type if a.type == b.type else self.common(a, b)

    # -- plain statements --------------------------------------------------------------------------

    def _s_compound_statement(self, node: Any) -> None:
        with self.scoped():
            self.execute_all(named(node))

    def _s_expression_statement(self, node: Any) -> None:
        for part in named(node):
            if _STREAMED.match(part.text) is not None:
                continue
            self.here(part)
            if part.type in ("assignment_expression", "update_expression", "call_expression"):
                self.lv(part) if part.type != "call_expression" else self.ev(part)
                if part.type != "call_expression":
                    continue
            else:
                self.lv(part) if part.type == "identifier" else self.ev(part)

    def lv(self, node: Any) -> Any:
        """Return the place that an expression names; of an assignment it is its target."""
        if node.type in ("assignment_expression", "update_expression"):
            self.here(node)
            return getattr(self, f"_e_{node.type}")(node)
        return super().lv(node)

    def _s_if_statement(self, node: Any) -> None:
        with self.scoped():
            clause = field_of(node, "condition")
            self._begin_in(clause)
            is_constant = has_word(node, "constexpr")
            self.static += is_constant
            condition = self.truth(self._asked_in(clause), clause)
            self.static -= is_constant
            if is_constant:
                self.known(condition, clause, "the condition of `if constexpr`")
            self.here(node)
            yes, no = field_of(node, "consequence"), field_of(node, "alternative")
            self.branch(condition, lambda: self.execute(yes), self._way(no))

    def _begin_in(self, clause: Any) -> None:
        """Execute what is in front of a condition: `(int y = n; y > 0)`."""
        first = field_of(clause, "initializer")
        if first is not None:
            for part in named(first) if first.type == "init_statement" else [first]:
                self.execute(part)

    def _asked_in(self, clause: Any) -> Any:
        """Return the value of a condition, which may declare it: `(int y = n)`."""
        asked = field_of(clause, "value")
        if asked is None or asked.type != "declaration":
            return self.ev(clause)
        value, declarator = field_of(asked, "value"), field_of(asked, "declarator")
        type_ = self.declared_type(field_of(asked, "type"), declarator)
        word = text(name_node(declarator))
        made = self._with_value(type_, value, asked, word, declarator)
        self.scope.names[word] = self.cell(made, self._held(made))
        return made

    def _e_declaration(self, node: Any) -> Any:
        why = "each round of the loop would declare it anew"
        raise refused(node, text(node)[:40], why, "declare it in front of the loop")

    def _way(self, node: Any) -> Callable[[], Any] | None:
        if node is None:
            return None
        inside = named(node)
        return lambda: self.execute_all(inside)

    def _s_switch_statement(self, node: Any) -> None:
        with self.scoped():
            clause = field_of(node, "condition")
            self._begin_in(clause)
            self._switched(node, self.num(self._asked_in(clause), node))

    def _switched(self, node: Any, value: Num) -> None:
        cases = [c for c in named(field_of(node, "body")) if c.type == "case_statement"]
        around = self.rounds[-1].next if self.rounds else None
        self.rounds.append(Round(self.cell(Num(BOOL, False), BOOL), around))
        with self.scoped():
            self._cases(value, cases, node)
        self.rounds.pop()

    def _cases(self, value: Num, cases: list[Any], node: Any) -> None:
        self.here(node)
        default = next((i for i, c in enumerate(cases) if field_of(c, "value") is None), None)
        labels = [(i, field_of(c, "value")) for i, c in enumerate(cases) if i != default]

        def from_case(i: int) -> None:
            body: list[Any] = []
            for case in cases[i:]:
                label = field_of(case, "value")
                body += [c for c in named(case) if label is None or c.id != label.id]
            self.execute_all(body)

        def choose(rest: list[Any]) -> None:
            if not rest:
                if default is not None:
                    from_case(default)
                return
            (i, label), *others = rest
            self.here(node)
            same = self.compare("==", value, self.num(self.ev(label), label), label)
            self.branch(same, lambda: from_case(i), lambda: choose(others))

        choose(labels)

    def _s_return_statement(self, node: Any) -> None:
        value = named(node)
        if value:
            by_reference = self.frame.by_reference
            found = self.named_place(value[0]) if by_reference else self.ev(value[0])
            type_ = self.frame.type
            if isinstance(found, list) and type_ is not None:
                found = self.constructed(type_, found, node)
            if isinstance(type_, (Scalar, Pointer)) and type_ != SCALARS["void"]:
                found = self.as_type(found, type_, node)
            self.frame.value.set(found)
        self.frame.done.set(Num(BOOL, True))

    def _s_break_statement(self, node: Any) -> None:
        self.rounds[-1].broke.set(Num(BOOL, True))

    def _s_continue_statement(self, node: Any) -> None:
        target = self.rounds[-1].next
        if target is None:
            raise CppError(node, "`continue` outside of a loop")
        target.set(Num(BOOL, True))

    def _s_static_assert_declaration(self, node: Any) -> None:
        self.assert_static(node)

    def _collected(self, node: Any) -> None:
        Collector(()).collect([node], self.scope)

    _s_alias_declaration = _s_type_definition = _s_using_declaration = _collected
    _s_struct_specifier = _s_class_specifier = _s_enum_specifier = _collected
    _s_union_specifier = _collected
    _s_namespace_alias_definition = _s_template_declaration = _collected

    def _s_comment(self, node: Any) -> None:
        """A comment says nothing."""

    _s_empty_statement = _s_comment

    def _s_attributed_statement(self, node: Any) -> None:
        """`[[likely]] { … }`: the attribute says nothing about values."""
        self.execute_all([c for c in named(node) if c.type != "attribute_declaration"])

    def _s_labeled_statement(self, node: Any) -> None:
        raise refused(node, text(node)[:30], "jumps to labels have no form in the IR", "use a loop")

    _s_goto_statement = _s_labeled_statement

    def _s_try_statement(self, node: Any) -> None:
        raise refused(node, "try", "kernels have no exceptions", "leave it out")

    def _s_throw_statement(self, node: Any) -> None:
        raise refused(node, text(node)[:40], "kernels have no exceptions", "return instead")

    # -- declarations ------------------------------------------------------------------------------

    def _s_declaration(self, node: Any) -> None:
        type_node = field_of(node, "type")
        if type_node.type.endswith("_specifier") and field_of(type_node, "body") is not None:
            self._collected(type_node)
        is_static = has_word(node, "constexpr")
        for child in node.children_by_field_name("declarator"):
            self.static += is_static
            try:
                self._declare(node, type_node, child)
            finally:
                self.static -= is_static

    def _declare(self, node: Any, type_node: Any, child: Any) -> None:
        self.here(child)
        value = field_of(child, "value") if child.type == "init_declarator" else None
        declarator = field_of(child, "declarator") if child.type == "init_declarator" else child
        name = name_node(declarator)
        if name is None:
            return
        if name.type == "structured_binding_declarator":
            is_reference = inner(declarator, "reference_declarator") is not None
            self.bind_parts(name, value, node, is_reference=is_reference)
            return
        word = text(name)
        function = inner(declarator, "function_declarator")
        if function is not None and inner(function, "parenthesized_declarator") is not None:
            raise refused(node, word, "pointers to functions are not followed", "call the function")
        type_ = self.declared_type(type_node, declarator if function is None else None)
        is_reference = inner(declarator, "reference_declarator") is not None
        if function is not None:
            made = self._made_with(
                type_, self._values(field_of(function, "parameters")), node, word
            )
        elif value is None:
            made = self._made_with(type_, [], node, word)
        elif is_reference:
            made = self._referred(type_, value, is_const=has_word(node, "const"))
        elif value.type == "argument_list":
            made = self._made_with(type_, [self.ev(a) for a in named(value)], node, word)
        else:
            made = self._with_value(type_, value, node, word, declarator)
        if is_reference and isinstance(made, (Cell, *CHOSEN)):
            self.scope.names[word] = made
            return
        is_plain = isinstance(type_, (Scalar, Pointer)) and not isinstance(made, Array)
        held = type_ if is_plain else self._held(made)
        if has_word(node, "const", "constexpr"):  # it is the member that it is made
            self.scope.names[word] = self.cell(made, held)
        else:
            self.scope.names[word] = self.variable_of_type(type_, made, held)

    def _referred(self, type_: Any, value: Any, *, is_const: bool) -> Any:
        """Return what a reference is bound to: a number of its own where it has another type."""
        made = self.named_place(value)
        if value.type == "conditional_expression" and not is_const:
            self.no_number(made, value)
        if not isinstance(made, (Cell, *CHOSEN)) or self.is_bound(type_, made, is_const=is_const):
            return made
        return self.as_type(self.taken(made, value), type_, value)

    no_number: Any

    def variable_of_type(self, type_: Any, made: Any, held: Any) -> Cell:
        """Return a variable; one of an enumeration of the file is a number, which branches and
        loops may change."""
        if type_ == AUTO and isinstance(made, Member):
            found = self.scope.space(made.enum)
            is_of_file = isinstance(found, Declared) and found.kind == "enum"
            type_ = Enum(made.enum) if is_of_file else type_
        if not isinstance(type_, Enum):
            return self.cell(made, held)
        made = number(made.const) if isinstance(made, Member) else made
        cell = self.cell(made, self._held(made))
        cell.enum = type_
        return cell

    def _held(self, made: Any) -> Any:
        return made.type if isinstance(made, Num) else None

    def _made_with(self, type_: Any, args: list[Any], node: Any, word: str) -> Any:
        if isinstance(type_, Named) and type_.name == "auto":
            return args[0]
        return self.constructed(type_, args, node, word)

    def _with_value(self, type_: Any, value: Any, node: Any, word: str, declarator: Any) -> Any:
        if value.type == "initializer_list":
            args = [self.ev(a) for a in named(value)]
            return self._made_with(self.sized(type_, declarator, len(args)), args, node, word)
        found = self.ev(value)
        if is_numeric(found):
            return self.as_type(found, type_, node)
        found = self.from_value(type_, found, node, word)
        is_pointer = isinstance(type_, Pointer) or value.type == "pointer_expression"
        return found if is_pointer else self.copied(found)

    def bind_parts(self, name: Any, value: Any, node: Any, *, is_reference: bool) -> None:
        """Name the parts of an object."""
        raise NotImplementedError

    def from_value(self, type_: Any, found: Any, node: Any, word: str) -> Any:
        """Return an object that is declared with `=` and a value that is no number."""
        if isinstance(found, Array) and isinstance(type_, Pointer):
            raise refused(
                node,
                word,
                "an array of the kernel is no pointer to global memory",
                "index the array itself",
            )
        return found

    def _values(self, params: Any) -> list[Any]:
        """`T x(a, b);` inside a function declares an object: what looks like parameters are
        values."""
        parts = named(params)
        if all(_is_plain(p) for p in parts):
            return [self.taken(self.entity_or_type(field_of(p, "type")), p) for p in parts]
        inside = self.parse_again(params)
        return [self.ev(p) for p in inside]

    def parse_again(self, node: Any) -> list[Any]:
        """Return the expressions of a list in parentheses that was read as parameters."""
        raise NotImplementedError


def _is_plain(param: Any) -> bool:
    if param.type != "parameter_declaration" or field_of(param, "declarator") is not None:
        return False
    return field_of(param, "type").type in ("type_identifier", "qualified_identifier")


def _given(a: Any, b: Any) -> Any:
    """What a function returns that has not returned yet is never read: a number of any value."""
    return Num(b.type, 0) if a is None and isinstance(b, Num) else a


def _are_truths(a: Any, b: Any) -> bool:
    both = isinstance(a, Num) and isinstance(b, Num) and a.is_known and b.is_known
    return both and a.type == BOOL and b.type == BOOL
