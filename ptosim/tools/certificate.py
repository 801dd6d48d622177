"""Certificates of proofs: what was assumed, and an argument that a second checker goes through.

The checker is small and shares nothing with the prover (`search/prove*.py`) but what reads and
executes programs. It runs both texts anew under what the certificate assumes, keeps for each byte
which expression of the inputs it belongs to and which byte of it, tries each form of an operation
on other contents (what its rule does not read must not change its result, and one element of a
source only the results that the rule makes of it), and compares the expressions at the end and
every line of the argument with what the certificate says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from ptosim.engine.core.bound import Inst, Kind
from ptosim.ground.diagnostics.model import Diagnostic, Origin, Severity
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions, run_frontend
from ptosim.launch.generated import random_scalar
from ptosim.launch.program import LoadedProgram
from ptosim.machine.core import Core
from ptosim.machine.effects.account import effects_of
from ptosim.machine.effects.strided import Touch
from ptosim.machine.tile import TileRef
from ptosim.machine.values import GmView
from ptosim.ops.base.binding import OpFault
from ptosim.ops.scalar.numbers import ScalarFault
from ptosim.tools.certificate_rules import (
    MOVES,
    Bytes,
    Place,
    Rule,
    Unfollowed,
    combined,
    in_order,
    mixed,
    refuse_shifted,
    rule_of,
    runs,
    text_hash,
    whole_key,
    whole_of,
)

FORMAT, VERSION = "ptosim certificate", 1
APART = "arguments that do not overlap"
_NUMBERS = frozenset(("arith", "scf", "cf", "func", "math", "index"))
"""Dialects whose operations compute numbers, or decide where the program goes on."""
_ALONE = ("pipes", "comm")
"""Families whose handles are of more than one core."""
_KEYS = {"format", "version", "claim", "assumptions", "programs", "argument", "results", "digest"}


def certificate(first: Any, second: Any) -> dict[str, Any]:
    """Return the certificate of two programs that are equal for all contents; each has `program`,
    `entry`, `args` and `block_num`. Raises UsageError with the reason where the checker does not
    come to that end."""
    sides = [_text_of(one) for one in (first, second)]
    assumed = _assumptions(first)
    if assumed["scalars"] != _assumptions(second)["scalars"]:
        raise UsageError("no certificate: the programs have other scalars")
    found = _argued(sides, assumed)
    if isinstance(found, str):
        raise UsageError(f"no certificate: the second checker says that {found}")
    made = {
        "format": FORMAT, "version": VERSION, "claim": _claim(assumed), "assumptions": assumed,
        "programs": sides, "argument": found["argument"], "results": found["results"],
    }  # fmt: skip
    return {**made, "digest": _digest(made)}


def check(given: Any) -> str:
    """Return why a certificate does not hold, '' if it does. Raises UsageError for what is none."""
    if not isinstance(given, dict) or given.get("format") != FORMAT:
        raise UsageError("this is no certificate of ptosim")
    if given.get("version") != VERSION or set(given) != _KEYS:
        return "it has other parts than a certificate of this version"
    rest = {key: value for key, value in given.items() if key != "digest"}
    if given["digest"] != _digest(rest):
        return "it was changed: its digest is another"
    try:
        if given["claim"] != _claim(given["assumptions"]):
            return "it claims something else than it assumes"
        found = _argued(given["programs"], given["assumptions"])
    except (KeyError, TypeError, ValueError, AttributeError, IndexError):
        return "a part of it has another form than it should"
    if isinstance(found, str):
        return found
    for part in ("argument", "results"):
        if given[part] != found[part]:
            return f"the {part} of the programs is another than it says"
    return ""


def _digest(parts: Mapping[str, Any]) -> str:
    text = json.dumps(parts, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()


def _claim(assumed: Mapping[str, Any]) -> str:
    scalars = ", ".join(f"{n}={v}" for n, v in assumed["scalars"].items()) or "none"
    shapes = ", ".join(
        f"{n} {'x'.join(map(str, shape))} {dtype}" for n, (dtype, shape) in
        assumed["arrays"].items()
    )  # fmt: skip
    return (
        f"equal for all contents; scalars {scalars}; shapes {shapes}; blocks {assumed['blocks']}; "
        f"{assumed['overlap']}"
    )


def _text_of(one: Any) -> dict[str, Any]:
    front = one.program.front
    if front.source.is_cpp or front.source.part:
        raise UsageError("no certificate: a kernel in C++, or a part of a file")
    text = front.source.text
    return {
        "name": front.source.name, "entry": one.program.entry(one.entry), "level": front.level,
        "sync": front.sync, "compat": front.compat, "planner": front.settings.planner,
        "legacy": front.legacy,
        "sha256": hashlib.sha256(text.encode()).hexdigest(), "text": text,
    }  # fmt: skip


def _assumptions(one: Any) -> dict[str, Any]:
    program = one.program
    function = program.front.resolved.functions[program.entry(one.entry)]
    types = {v.name: v.type for v in function.args}
    scalars, arrays = {}, {}
    outputs = program.run(
        dict(one.args or {}),
        entry=one.entry,
        block_num=one.block_num,
        timing=False,
        sanitize="none",
    ).outputs
    for name, type_ in types.items():
        if isinstance(type_, ScalarType):
            scalars[name] = (one.args or {}).get(name, random_scalar(type_))
        elif name in outputs:
            arrays[name] = [str(outputs[name].dtype), list(outputs[name].shape)]
    return {
        "target": program.chip, "profile": program.profile.name,
        "switches": dict(sorted(program.profile.switches.items())),
        "scalars": {n: v.item() if isinstance(v, np.generic) else v for n, v in scalars.items()},
        "arrays": arrays, "blocks": one.block_num or 1, "overlap": APART,
    }  # fmt: skip


# -- the argument ----------------------------------------------------------------------------------


def _argued(sides: Sequence[Mapping[str, Any]], assumed: Mapping[str, Any]) -> dict[str, Any] | str:
    """Go through both programs: the argument and the results, or why there is none."""
    if assumed["overlap"] != APART or len(sides) != 2:
        return "it assumes something else than two programs whose arguments are apart"
    if assumed["profile"] != "hw":
        return "only the profile `hw` has certificates"
    walked = []
    for side in sides:
        if hashlib.sha256(side["text"].encode()).hexdigest() != side["sha256"]:
            return "a text is another than its hash"
        try:
            walked.append(_walked(side, assumed))
        except Unfollowed as problem:
            return f"{side['name']}: {problem}"
        except PtosimError as problem:
            return f"{side['name']} does not run: {problem}"
    one, other = walked
    for name in {**one.memory, **other.memory}:
        a, b = one.memory.get(name), other.memory.get(name)
        if a is None or b is None or not a.is_equal(b):
            return f"%{name} is not the same expression in both programs"
    results = {
        name: hashlib.sha256(held.expressions.tobytes() + held.places.tobytes()).hexdigest()
        for name, held in one.memory.items()
    }
    return {"argument": [w.steps for w in walked], "results": results}


@dataclass(frozen=True, slots=True)
class _Walked:
    memory: Mapping[str, Bytes]
    steps: list[dict[str, Any]]


def _walked(side: Mapping[str, Any], assumed: Mapping[str, Any]) -> _Walked:
    asked = FrontOptions(
        assumed["target"], side["level"], side["sync"], side["compat"], legacy=side["legacy"],
        planner=side["planner"],
    )  # fmt: skip
    front = run_frontend(Source(str(side["name"]), side["text"]), asked)
    program = LoadedProgram.of(front, "hw", assumed["switches"])
    args: dict[str, Any] = dict(assumed["scalars"])
    args.update((n, _ones(dtype, shape)) for n, (dtype, shape) in assumed["arrays"].items())
    walker = _Walker(str(side["sha256"]), _digest(assumed))
    result = program.run(
        args, entry=side["entry"], block_num=assumed["blocks"], timing=False, observers=[walker]
    )
    wrong = next(filter(_is_doubt, result.findings), None)
    if wrong is not None:
        raise Unfollowed(f"{wrong.code}: {wrong.message}")
    names = {b.number: b.name for b in walker.machine.buffers}
    memory = {names[p[1]]: held for p, held in walker.memories.items() if p[0] == "gm"}
    module = front.resolved.module
    steps = [
        {"line": module.span(op).line, "op": op.name, "rule": rule, "times": tally[0],
         "reads": tally[1], "writes": tally[2]}
        for (op, rule), tally in walker.steps.items()
    ]  # fmt: skip
    return _Walked(memory, sorted(steps, key=lambda s: (s["line"], s["op"], s["rule"])))


def _ones(dtype: str, shape: Sequence[int]) -> np.ndarray:
    import ml_dtypes

    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return np.ones([int(n) for n in shape], kind)


def _is_doubt(found: Diagnostic) -> bool:
    if found.is_error:
        return True
    is_hardware = found.code.startswith(("PTO5", "PTO7101")) and found.origin is Origin.HARDWARE
    return is_hardware and found.severity > Severity.NOTE


_Table = tuple[np.ndarray, ...] | None
"""Bytes that are moved, where they come from, bytes that get constants, and these."""


class _Walker:
    """Looks on while an engine executes, and follows the expressions."""

    def __init__(self, name: str, assumed: str) -> None:
        self.name, self.assumed = name, assumed
        self.memories: dict[Place, Bytes] = {}
        self.steps: dict[tuple[Any, str], list[int]] = {}
        self._tables: dict[Any, _Table] = {}
        self._tried: set[Any] = set()
        self._adders: dict[tuple[int, str], int] = {}
        self._added: dict[Place, np.ndarray] = {}
        self._numbers = count()

    def on_start(self, engine: Any) -> None:
        """Give each byte of the arguments a number."""
        self.engine, self.machine = engine, engine.machine
        if any(core.spaces for core in self.machine.cores):
            raise Unfollowed("tiles are among its arguments")
        for buffer in self.machine.buffers:
            places = np.arange(buffer.size, dtype=np.uint64)
            self.memories["gm", buffer.number] = Bytes(
                mixed(places + text_hash("argument", buffer.name, self.assumed))
            )

    def memory(self, place: Place) -> Bytes:
        """Return a memory; on chip it begins undefined, which is equal to nothing."""
        if place not in self.memories:
            self.memories[place] = Bytes(self._undefined(len(self.content(place))))
        return self.memories[place]

    def content(self, place: Place) -> np.ndarray:
        """Return the bytes of a memory of the run."""
        if place[0] == "gm":
            return self.machine.buffers[place[1]].data
        return np.frombuffer(self.machine.cores[place[1]].space(place[0]).data, np.uint8)

    def _undefined(self, size: int) -> np.ndarray:
        key = text_hash("undefined", self.name, id(self), next(self._numbers))
        return mixed(np.arange(size, dtype=np.uint64) + key)

    def on_commit(self, core: Core, inst: Inst, bound: Any) -> None:
        """Follow an instruction."""
        op = inst.op
        if inst.kind is Kind.EXEC and op is not None:
            try:
                self._follow(core, inst, bound.binding)
            except Unfollowed as problem:
                raise Unfollowed(f"`{op.name}`: {problem}") from None
        elif op is not None and not _is_scalar(inst):
            raise Unfollowed(f"`{op.name}` is not followed")

    def _follow(self, core: Core, inst: Inst, op: Any) -> None:
        if any(owner is not core for owner, _ in op.made):
            raise Unfollowed("it writes memory of another core")
        tiles = [v for v in op.values.values() if isinstance(v, (TileRef, GmView))]
        if not tiles:
            if op.op.definition.family not in ("sync", "views"):
                raise Unfollowed("there is no rule for it")
            return
        if any(0 in (t.v_row, t.v_col) for n, t in op.values.items()
               if isinstance(t, TileRef) and n != "tmp"):  # fmt: skip
            return

        def place(value: Any) -> Place:
            is_view = isinstance(value, GmView)
            return ("gm", value.memory) if is_view else (value.type.loc, core.number)

        if op.op.attributes.get("atomicType") == "atomic_add":
            self._whole(core, inst, op, adds=True)
        elif (rule := rule_of(op, core, place)) is not None:
            self._compute(core, inst, op, rule)
        elif op.op.name not in MOVES or not self._move(core, inst, op, place):
            self._whole(core, inst, op)
        self._spoil(op)

    def _note(self, op: Any, rule: str, reads: int, writes: int) -> None:
        tally = self.steps.setdefault((op.op, rule), [0, 0, 0])
        for at, more in enumerate((1, reads, writes)):
            tally[at] += more

    def _compute(self, core: Core, inst: Inst, op: Any, rule: Rule) -> None:
        for part in rule.reads:
            refuse_shifted(part, rule.write)
        shapes = (p.at.shape for p in (*rule.reads, rule.write))
        key = core.number, inst.pc, int(rule.key), *shapes
        if key not in self._tried:
            self._tried.add(key)
            self._try(core, inst, op, rule)
        made = rule.make([self.memory(p.place).read(p.at) for p in rule.reads])
        self.memory(rule.write.place).write(
            rule.write.at, np.broadcast_to(made, rule.write.at.shape[:-1])
        )
        self._note(op, rule.kind, sum(p.at.size for p in rule.reads), rule.write.at.size)

    def _whole(self, core: Core, inst: Inst, op: Any, *, adds: bool = False) -> None:
        """What has no rule of its own: every byte that it writes of all that it reads, in the
        shapes, layouts and places that its operands have. What it `adds` to it reads, too."""
        reads, writes = whole_of(op, adds=adds)
        if adds:
            reads = [*reads, *(("there", place, at) for _, place, at in writes)]
            self._refuse_others(writes, (core.number, inst.pipe))
        made: np.ndarray = np.asarray(whole_key(op, core))
        key = core.number, inst.pc, int(made), tuple(len(at) for _, _, at in (*reads, *writes))
        if key not in self._tried:
            self._tried.add(key)
            for fill in range(5):
                self._try_whole(core, inst, op, reads, writes, fill)
        for name, place, at in reads:
            held = self.memory(place)
            each = combined(held.expressions[at], held.places[at].astype(np.uint64))
            made = combined(made, in_order(text_hash(name), each, 0))
        for name, place, at in writes:
            held = self.memory(place)
            numbers = np.arange(len(at), dtype=np.uint64)
            held.expressions[at] = combined(text_hash("whole", name), made, numbers)
            held.places[at] = 0
        kind = "adds" if adds else "whole"
        self._note(op, kind, sum(len(at) for *_, at in reads), sum(len(a) for *_, a in writes))

    def _refuse_others(self, writes: Any, who: tuple[int, str]) -> None:
        """Raise Unfollowed where somebody else has added: in which order is not given."""
        number = self._adders.setdefault(who, len(self._adders) + 1)
        for _, place, at in writes:
            added = self._added.setdefault(place, np.zeros(len(self.content(place)), np.int32))
            if ((added[at] != 0) & (added[at] != number)).any():
                raise Unfollowed("several cores or pipes add to one place, in no given order")
            added[at] = number

    def _try_whole(
        self, core: Core, inst: Inst, op: Any, reads: Any, writes: Any, fill: int
    ) -> None:
        """Change what is not read, of the present content or of another one of what is: nothing but
        what is written changes, and that not by what is not read."""
        places = {p for _, p, _ in (*reads, *writes)} | {(n, core.number) for n in core.spaces}
        rng, left = np.random.default_rng(fill), []
        begun = {p: self.content(p).copy() for p in places}
        for _, p, at in reads if fill else ():
            some = rng.integers(0, 256, len(at), np.uint8)
            begun[p][at] = (some, some & 0x3F, some * 0, some | 0xFF)[fill - 1]
        for is_noise in (False, True):
            given = {p: rng.integers(0, 256, len(c), np.uint8) if is_noise else c
                     for p, c in begun.items()}  # fmt: skip
            for _, p, at in reads:
                given[p][at] = begun[p][at]
            try:
                found = self._executed(core, inst, op, given)
            except (OpFault, ScalarFault, ValueError, IndexError):
                return  # an index that leads nowhere: the content is none to try
            for p, content in given.items():
                may = np.zeros(len(content), bool)
                may[self._spoiled(op, p)] = True
                for at in (a for _, q, a in writes if q == p):
                    may[at] = True
                if (found[p] != content)[~may].any():
                    raise Unfollowed("it writes bytes that its effects do not name")
            left.append(found)
        for _, p, at in writes:
            kept = np.setdiff1d(at, self._spoiled(op, p))
            if not np.array_equal(left[0][p][kept], left[1][p][kept]):
                raise Unfollowed("its result depends on bytes that its effects do not name")

    def _spoil(self, op: Any) -> None:
        """Scratch and padding are undefined afterwards."""
        for reached, _ in effects_of(op).spoils:
            if not isinstance(reached.where, str) or reached.where.startswith("register"):
                continue
            place = (reached.where, reached.core.number)
            held = self.memory(place)
            parts = reached.parts if not isinstance(reached, Touch) else None
            for start, stop in runs(reached, parts):
                low, high = max(start, 0), min(stop, len(held.expressions))
                held.expressions[low:high] = self._undefined(max(high - low, 0))
                held.places[low:high] = 0

    # -- other contents ---------------------------------------------------------------------------

    def _regions(self, op: Any, place: Any) -> list[tuple[Place, int, int]]:
        """The memory of the operands, those that overlap as one."""
        found = []
        for value in op.values.values():
            if isinstance(value, GmView):
                found.append((place(value), *value.span()))
            elif isinstance(value, TileRef):
                end = value.addr + max(value.type.bytes, value.layout.reach)
                found.append((place(value), value.addr, min(end, len(self.content(place(value))))))
        merged: list[tuple[Place, int, int]] = []
        for region in sorted(found, key=lambda r: (str(r[0]), r[1])):
            if merged and merged[-1][0] == region[0] and region[1] < merged[-1][2]:
                merged[-1] = (region[0], merged[-1][1], max(merged[-1][2], region[2]))
            else:
                merged.append(region)
        return merged

    def _executed(
        self, core: Core, inst: Inst, op: Any, changed: Mapping[Place, np.ndarray]
    ) -> dict[Place, np.ndarray]:
        """What the function of an operation leaves on other contents; memory is as before then."""
        places = [("gm", b.number) for b in self.machine.buffers]
        places += [(name, core.number) for name in core.spaces]
        kept = {p: self.content(p).copy() for p in places}
        binding = self.engine.binding(core, inst, op.values)
        binding.emit = lambda finding: None
        try:
            for p, content in changed.items():
                self.content(p)[:] = content
            with np.errstate(all="ignore"):
                inst.semantics(binding)()
            return {p: self.content(p).copy() for p in places}
        finally:
            for p, content in kept.items():
                self.content(p)[:] = content

    def _try(self, core: Core, inst: Inst, op: Any, rule: Rule) -> None:
        """Change what the rule does not read, then one element of each source."""
        rng = np.random.default_rng(inst.pc)
        places = {p.place for p in (*rule.reads, rule.write)} | {
            (name, core.number) for name in core.spaces
        }
        begun = {p: self.content(p).copy() for p in places}
        noise = {p: rng.integers(0, 256, len(c), np.uint8) for p, c in begun.items()}
        for part in rule.reads:
            noise[part.place][part.at] = begun[part.place][part.at]
        first, second = (self._executed(core, inst, op, given) for given in (begun, noise))
        result = rule.write.place
        if not np.array_equal(first[result][rule.write.at], second[result][rule.write.at]):
            raise Unfollowed("its result depends on bytes that its rule does not read")
        written = np.zeros(len(noise[result]), bool)
        written[rule.write.at] = True
        changed = (second[result] != noise[result]) & ~written
        changed[self._spoiled(op, result)] = False
        if changed.any():
            raise Unfollowed("it writes bytes that its rule does not name")
        for part in rule.reads:
            self._try_element(core, inst, op, rule, (part, begun, first), rng)

    def _try_element(
        self, core: Core, inst: Inst, op: Any, rule: Rule, what: Any, rng: np.random.Generator
    ) -> None:
        part, begun, first = what
        row, col = (int(rng.integers(0, n)) for n in part.at.shape[:2])
        other = {p: c.copy() for p, c in begun.items()}
        other[part.place][part.at[row, col]] ^= np.uint8(0x15)
        left = self._executed(core, inst, op, other)[rule.write.place][rule.write.at]
        differs = (left != first[rule.write.place][rule.write.at]).any(axis=-1)
        rows, cols = differs.shape
        may = np.zeros_like(differs)
        one_row, one_col = part.at.shape[0] == 1, part.at.shape[1] == 1
        is_product = rule.kind == "product"
        index = next(i for i, each in enumerate(rule.reads) if each is part)
        all_rows = (one_row and rows > 1) or (is_product and index == 1)
        all_cols = (one_col and cols > 1) or (is_product and index == 0)
        may[slice(None) if all_rows or rule.kind == "column" else row,
            slice(None) if all_cols or rule.kind == "row" else col] = True  # fmt: skip
        if (differs & ~may).any():
            raise Unfollowed("an element changes results that its rule does not make of it")

    def _spoiled(self, op: Any, place: Place) -> np.ndarray:
        found = [np.zeros(0, np.int64)]
        for reached, _ in effects_of(op).spoils:
            if isinstance(reached.where, str) and (reached.where, reached.core.number) == place:
                parts = reached.parts if not isinstance(reached, Touch) else None
                found += [np.arange(max(a, 0), b) for a, b in runs(reached, parts)]
        every = np.concatenate(found)
        return every[every < len(self.content(place))]

    # -- moves ------------------------------------------------------------------------------------

    def _move(self, core: Core, inst: Inst, op: Any, place: Any) -> bool:
        """Follow what only moves bytes; False for what does more."""
        regions = self._regions(op, place)
        shape = tuple(
            (v.spec, v.memory) if isinstance(v, GmView) else v for v in op.values.values()
        )
        key = core.number, inst.pc, shape, tuple(b - a for _, a, b in regions)
        if key not in self._tables:
            self._tables[key] = self._table(core, inst, op, regions)
        table = self._tables[key]
        if table is None:
            return False
        targets, sources, fixed, constants = table
        held = [self.memory(p) for p, _, _ in regions]
        parts = [(m.expressions[a:b], m.places[a:b])
                 for m, (_, a, b) in zip(held, regions, strict=True)]  # fmt: skip
        every = [np.concatenate(column) for column in zip(*parts, strict=True)]
        moved = [column.copy() for column in every]
        for column, given in zip(moved, every, strict=True):
            column[targets] = given[sources]
        moved[0][fixed] = mixed(constants.astype(np.uint64) + text_hash("constant"))
        moved[1][fixed] = 0
        at = 0
        for memory, (_, a, b) in zip(held, regions, strict=True):
            memory.expressions[a:b] = moved[0][at : at + b - a]
            memory.places[a:b] = moved[1][at : at + b - a]
            at += b - a
        self._note(op, "move", len(targets), len(targets) + len(fixed))
        return True

    def _table(self, core: Core, inst: Inst, op: Any, regions: Any) -> _Table:
        """Which byte comes from where, None if more than moves is done: each byte is told by what
        it holds in seven contents drawn at random, of which no two bytes have the same; two more
        confirm it, with other bytes around the operands."""
        size = sum(b - a for _, a, b in regions)
        rng = np.random.default_rng(size)
        begun = rng.integers(0, 256, (9, size), np.uint8)
        left = np.stack(
            [self._left(core, inst, op, regions, c, i >= 7) for i, c in enumerate(begun)]
        )
        same = (left == begun).all(axis=0)
        fixed = (left == left[:1]).all(axis=0) & ~same
        weights = (256 ** np.arange(7, dtype=np.uint64))[:, None]
        codes, found = ((c[:7].astype(np.uint64) * weights).sum(axis=0) for c in (begun, left))
        order = np.argsort(codes)
        targets = np.flatnonzero(~same & ~fixed)
        at = np.searchsorted(codes[order], found[targets]).clip(0, size - 1)
        sources = order[at]
        is_told = len(np.unique(codes)) == size
        if not is_told or not np.array_equal(begun[:, sources], left[:, targets]):
            return None
        return targets, sources, np.flatnonzero(fixed), left[0][fixed]

    def _left(
        self, core: Core, inst: Inst, op: Any, regions: Any, content: np.ndarray, is_around: bool
    ) -> np.ndarray:
        changed: dict[Place, np.ndarray] = {}
        if is_around:
            every = [(name, core.number) for name in core.spaces]
            changed = {p: ~self.content(p) for p in every}
        for part, (p, a, b) in _cut(content, regions):
            changed.setdefault(p, self.content(p).copy())[a:b] = part
        left = self._executed(core, inst, op, changed)
        return np.concatenate([left[p][a:b] for p, a, b in regions])


def _cut(content: np.ndarray, regions: Any) -> Iterator[tuple[np.ndarray, Any]]:
    at = 0
    for region in regions:
        size = region[2] - region[1]
        yield content[at : at + size], region
        at += size


def _is_scalar(inst: Inst) -> bool:
    if inst.op is None or inst.kind in (Kind.VECTOR, Kind.REGION):
        return False
    definition = inst.op.definition
    family = definition.family if definition is not None else "core"
    if inst.op.has("in_local_array") or (inst.op.has("handle") and family not in _ALONE):
        return True
    return inst.op.name.partition(".")[0] in _NUMBERS or family in ("views", "core", "sync")
