"""Loads and stores of one vector region with the memory barriers between them, in registers of the
machine and in logical vectors.

The account is of elements: which of UB each access touches, and what it holds, as names (`x7` for an
element of the input, `k3` for a constant), so that a store of what is there already is told apart.
The rule (PTO micro-instruction specification, memory barriers): the vector unit may execute a load
before an earlier store, a store before an earlier store, and a store before an earlier load, unless a
barrier of that kind is between or the later one takes a result of the earlier one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random

LANES = 64
ELEMENTS = 512
"""Elements of UB that the programs use."""
BARRIERS = {
    "VST_VLD": ("store", "load"),
    "VST_VST": ("store", "store"),
    "VLD_VST": ("load", "store"),
    "VV_ALL": ("any", "any"),
    "ST_LD": ("scalar", "scalar"),
}
"""Word of a barrier -> which accesses before it happen before which after it."""


@dataclass(frozen=True)
class Step:
    """A load of 64 elements from `at` on, a store of `count` of them, or a barrier (`word`). `register`
    is loaded or stored; a register of its own holds the constant of each number."""

    kind: str
    at: int = 0
    register: str = ""
    count: int = LANES
    word: str = ""

    def touched(self) -> range:
        """The elements that it reads or writes."""
        return range(self.at, self.at + self.count)


@dataclass(frozen=True)
class Region:
    """A program of one region. `logical`: of logical vectors."""

    name: str
    steps: tuple[Step, ...]
    logical: bool
    target: str = "a5"

    def text(self) -> str:
        """The program as text: `x` is copied into UB, the region works on it."""
        used = sorted({s.register for s in self.steps if s.register[:1] == "k"})
        places = sorted({s.at for s in self.steps if s.kind != "barrier"})
        lines = [f"%o{at} = arith.constant {at} : index" for at in places]
        lines += [f"%f{r} = arith.constant {1000 + int(r[1:])}.0 : f32" for r in used]
        inner = [*self._prelude(used), *map(self._line, self.steps)]
        size = 4 * ELEMENTS
        flag = 'pto.{}_flag["PIPE_MTE2", "PIPE_V", "EVENT_ID0"]'.format
        body = "\n".join(lines)
        region = "\n".join(inner)
        return (
            f'module attributes {{pto.target_arch = "{self.target}", pto.kernel_kind = '
            "#pto.kernel_kind<vector>} {\nfunc.func @k(%x: !pto.ptr<f32, gm>) attributes {pto.kernel} {\n"
            f"%zero = arith.constant 0 : i64\n%q = pto.castptr %zero : i64 -> {UB}\n{body}\n"
            f"pto.mte_gm_ub %x, %q, 0, {size} nburst(1, {size}, {size}) : !pto.ptr<f32, gm>, {UB}\n"
            f"{flag('set')}\n{flag('wait')}\npto.vecscope {{\n{region}\n}}\nreturn\n}}\n}}\n"
        )

    def _prelude(self, constants: list[str]) -> Iterator[str]:
        if self.logical:
            yield from (f"%{r} = pto.vmi.vbrc %f{r} : f32 -> {LOGICAL}" for r in constants)
            return
        yield f'%all = pto.pset_b32 "PAT_ALL" : {MASK}'
        yield f'%some = pto.pset_b32 "PAT_VL8" : {MASK}'
        yield from (f"%{r} = pto.vdup %f{r}, %all : f32, {MASK} -> {REGISTER}" for r in constants)

    def _line(self, step: Step) -> str:
        if step.kind == "barrier":
            return f'pto.mem_bar "{step.word}"'
        if self.logical:
            if step.kind == "load":
                return f"%{step.register} = pto.vmi.vload %q[%o{step.at}] : {UB} -> {LOGICAL}"
            return f"pto.vmi.vstore %{step.register}, %q[%o{step.at}] : {LOGICAL}, {UB}"
        if step.kind == "load":
            return f"%{step.register} = pto.vlds %q[%o{step.at}] : {UB} -> {REGISTER}"
        mask = "all" if step.count == LANES else "some"
        return f"pto.vsts %{step.register}, %q[%o{step.at}], %{mask} : {REGISTER}, {UB}, {MASK}"

    def conflict(self, *, chains: bool = False, last: bool = False) -> tuple[int, int] | None:
        """Return the first two accesses that nothing orders directly, with `chains` not through others
        either; None where there are none. With `last` an element remembers only its last access."""
        held = [f"x{n}" for n in range(ELEMENTS)]
        order = self._order(chains)
        registers: dict[str, list[str]] = {}
        accessed: dict[int, int] = {}
        seen: list[tuple[int, dict[int, str]]] = []  # accesses, with what they saw or left
        for number, step in enumerate(self.steps):
            if step.kind == "barrier":
                continue
            if step.kind == "load":
                registers[step.register] = [held[e] for e in step.touched()]
                now = {e: held[e] for e in step.touched()}
            else:
                known = registers.get(step.register, [step.register] * LANES)
                now = dict(zip(step.touched(), known, strict=False))
            for before, then in seen:
                if last:
                    then = {e: c for e, c in then.items() if accessed[e] == before}
                if self._meet(before, number, then, now) and before not in order[number]:
                    return before, number
            seen.append((number, now))
            accessed |= dict.fromkeys(now, number)
            if step.kind == "store":
                for element, content in now.items():
                    held[element] = content
        return None

    def _meet(self, one: int, two: int, then: dict[int, str], now: dict[int, str]) -> bool:
        """True where the order of two accesses can be seen: a load of what is stored before, a store
        over something else."""
        if self.steps[two].kind == "load":
            return self.steps[one].kind == "store" and bool(then.keys() & now.keys())
        return any(then[e] != now[e] for e in then.keys() & now.keys())

    def _order(self, chains: bool) -> list[set[int]]:
        """The accesses that are before each one: those that are directly, with `chains` those before
        them, too."""
        found: list[set[int]] = []
        for two in range(len(self.steps)):
            before = {one for one in range(two) if self._directly(one, two)}
            found.append(before.union(*(found[one] for one in before if chains)))
        return found

    def _directly(self, one: int, two: int) -> bool:
        first, second = self.steps[one], self.steps[two]
        if "barrier" in (first.kind, second.kind):
            return False
        if first.kind == "load" and second.register == first.register:
            return True
        words = (s.word for s in self.steps[one:two] if s.kind == "barrier")
        return any(
            before in ("any", first.kind) and after in ("any", second.kind)
            for before, after in map(BARRIERS.__getitem__, words)
        )

    def verdict(self) -> tuple[str, str]:
        """What the account says, and an example: `race`, `ordered`, `chained` where all that meets is
        ordered, but some of it only through other accesses, so that the rule in words is broken, or
        `hidden` where what meets a store is a load of bytes that another load reads after it: that one
        is all that is remembered of them, so this is not always found."""
        if self.conflict() is None:
            return "ordered", ""
        found = self.conflict(chains=True)
        if found is None:
            return "chained", ""
        word = "race" if self.conflict(chains=True, last=True) else "hidden"
        return word, " | ".join(self._line(self.steps[n]) for n in found)


UB = "!pto.ptr<f32, ub>"
REGISTER, MASK, LOGICAL = "!pto.vreg<64xf32>", "!pto.mask<b32>", "!pto.vmi.vreg<64xf32>"


def region(seed: int, *, logical: bool) -> Region:
    """Accesses at random whose places meet in part, with the barriers that they need."""
    rng = Random(f"region {seed} {logical}")
    steps: list[Step] = []
    for number in range(rng.randrange(3, 8)):
        at = 8 * rng.choice((0, 0, 2, 4, 8, 12))
        if rng.random() < 0.45:
            steps.append(Step("load", at, f"r{number}"))
            continue
        loaded = [s.register for s in steps if s.kind == "load"]
        register = rng.choice(loaded) if loaded and rng.random() < 0.6 else f"k{number}"
        count = 8 if not logical and rng.random() < 0.3 else LANES
        steps.append(Step("store", at, register, count))
    made = Region(f"{'logical' if logical else 'region'}{seed}", tuple(steps), logical)
    while (found := made.conflict()) is not None:
        one, two = (made.steps[n].kind for n in found)
        word = next(w for w, kinds in BARRIERS.items() if kinds == (one, two))
        word = "VV_ALL" if rng.random() < 0.2 else word
        steps = [*made.steps[: found[1]], Step("barrier", word=word), *made.steps[found[1] :]]
        made = replace(made, steps=tuple(steps))
    return made


def changed(made: Region) -> Iterator[tuple[str, Region]]:
    """Yield a region with one barrier dropped, of another kind, or moved up or down."""
    steps = made.steps
    for at, step in enumerate(steps):
        if step.kind != "barrier":
            continue
        yield f"drop {at}", replace(made, steps=(*steps[:at], *steps[at + 1 :]))
        for word in BARRIERS:
            other = replace(step, word=word)
            yield f"{word} at {at}", replace(made, steps=(*steps[:at], other, *steps[at + 1 :]))
        for to in (at - 1, at + 1):
            if 0 <= to < len(steps):
                moved = list(steps)
                moved[at], moved[to] = moved[to], moved[at]
                yield f"{at} to {to}", replace(made, steps=tuple(moved))
