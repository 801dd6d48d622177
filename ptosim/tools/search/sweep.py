"""Every point of a space on every target: which are refused and why, what the others cost.

Rows come out in the order of the space, whoever computed them and however often the sweep was
stopped on the way. None is left out: a point that a condition refuses has a row as well."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ptosim.ground.errors import UsageError
from ptosim.ground.progress import Progress
from ptosim.ground.records import dataclass, field, replace
from ptosim.language.targets import check_target_word
from ptosim.launch.description import Tolerance
from ptosim.launch.sources import described
from ptosim.tools.search.engines import Workers, engine_of
from ptosim.tools.search.point import Row, evaluate, refused_row
from ptosim.tools.search.request import Recipe, Request, read_recipe
from ptosim.tools.search.source import Lost, MakeError, Maker, maker_of
from ptosim.tools.search.space import Params, Space, space_of
from ptosim.tools.search.store import Store, front_of, key_of

if TYPE_CHECKING:
    import numpy as np

TARGETS = ("a2a3", "a5")
"""Where points are judged unless somebody says where."""
LOST = "worker"
"""The stage of a point whose process ended."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rows of a sweep, in the order of its points; `kept` of them were known already."""

    name: str
    rows: list[Row]
    kept: int = 0

    def __repr__(self) -> str:
        ok = sum(row["ok"] for row in self.rows)
        return f"<Sweep of {self.name}: {len(self.rows):,} rows, {ok:,} of them ok>"

    def _repr_html_(self) -> str:
        """Return the pictures of the sweep, for a notebook."""
        from ptosim.views.render import fragment
        from ptosim.views.report import Section
        from ptosim.views.sweep_report import pictures
        from ptosim.views.table import Text

        fronts = {target: self.pareto(target) for target in self.targets}
        return fragment([Section("", [Text(repr(self))]), *pictures(self.rows, fronts)])

    @property
    def targets(self) -> list[str]:
        """The targets of the rows."""
        return list(dict.fromkeys(row["target"] for row in self.rows))

    def of(self, target: str) -> list[Row]:
        """Return the rows of a target that nothing refused, the fastest first."""
        found = [row for row in self.rows if row["target"] == target and row["ok"]]
        return sorted(found, key=lambda row: row["cycles"])

    def best(self, target: str | None = None) -> Row | None:
        """Return the fastest row (of a target, else in microseconds of any); None if there is
        none."""
        if target is not None:
            return next(iter(self.of(target)), None)
        found = [row for name in self.targets for row in self.of(name)[:1]]
        return min(found, key=lambda row: row["us"], default=None)

    def pareto(self, target: str) -> list[Row]:
        """Return the rows of a target that no other one beats in cycles, bytes moved and bytes of
        UB (of L1 where UB is the same in all) together, the fastest first."""
        return front_of(self.of(target))

    @property
    def refused(self) -> dict[str, int]:
        """How many rows were refused, by stage."""
        found: dict[str, int] = {}
        for row in self.rows:
            if not row["ok"]:
                found[row["stage"]] = found.get(row["stage"], 0) + 1
        return found


@dataclass(frozen=True, slots=True)
class Job:
    """One point on one target, as a worker gets it."""

    text: str
    params: Params
    target: str
    request: Request
    name: str


def work(job: Job) -> Row:
    """Judge one point: what workers execute."""
    return evaluate(job.text, job.params, job.target, job.request, job.name)


@dataclass(slots=True)
class Plan:
    """What a sweep is of, and what has become of it so far."""

    maker: Maker
    space: Space
    recipe: Recipe
    targets: Sequence[str]
    store: Store | None = None
    rows: dict[int, Row] = field(default_factory=dict)
    kept: int = 0
    best: Row | None = None
    keys: dict[int, str | None] = field(default_factory=dict)
    given: dict[int, tuple[int, Job]] = field(default_factory=dict)
    """Jobs that are being worked on, by their numbers: those of the rows and the jobs."""
    asked: int = 0

    @property
    def size(self) -> int:
        """How many rows there will be."""
        return self.space.size * len(self.targets)

    def jobs(self) -> Iterator[Job]:
        """Yield what has to be computed; rows that are known without are entered."""
        for number, params in enumerate(self.space.points()):
            first = number * len(self.targets)
            try:
                refusal = self._refusal(params)
                if refusal is None:
                    text, request = self.maker.text(params), self.recipe.at(params)
                    yield from self._wanted(first, text, params, request)
                    continue
            except MakeError as problem:
                refusal = "template", str(problem)
            for at, target in enumerate(self.targets):
                self.enter(first + at, refused_row(params, target, *refusal))

    def _refusal(self, params: Params) -> tuple[str, str] | None:
        condition = self.space.refusal(params)
        return ("space", f"not {condition}") if condition else None

    def _wanted(self, first: int, text: str, params: Params, request: Request) -> Iterator[Job]:
        for at, target in enumerate(self.targets, first):
            key = key_of(text, params, target, request) if self.store is not None else None
            row = self.store.get(key) if self.store is not None and key is not None else None
            if row is not None:
                self.kept += 1
                self.enter(at, row)
                continue
            self.keys[at] = key
            job = Job(text, params, target, request, self.maker.name)
            self.given[self.asked] = at, job
            self.asked += 1
            yield job

    def take(self, number: int, result: Row | Lost) -> None:
        """Enter the result of a job, by its number among the jobs."""
        at, job = self.given.pop(number)
        if isinstance(result, Lost):
            self.enter(at, refused_row(job.params, job.target, LOST, result.reason))
            return
        key = self.keys.pop(at)
        if self.store is not None and key is not None:
            self.store.put(key, result)
        self.enter(at, result)

    def enter(self, at: int, row: Row) -> None:
        """Enter a row, and remember the best one."""
        self.rows[at] = row
        if row["ok"] and (self.best is None or row["us"] < self.best["us"]):
            self.best = row

    def sweep(self) -> Sweep:
        """Return what there is, in order."""
        return Sweep(self.maker.name, [self.rows[at] for at in sorted(self.rows)], self.kept)


def execute(plan: Plan, engine: Workers, progress: Progress | None = None) -> Sweep:
    """Compute what is missing. Raises UsageError where nothing could be tried (PTO7602) or no
    point has a text (PTO7603); what an interrupt leaves is in `plan` and its store."""
    for number, result in engine.map(work, plan.jobs()):
        plan.take(number, result)
        if progress is not None:
            progress.done, progress.best = len(plan.rows), said(plan.best)
    sweep = plan.sweep()
    _refuse_nothing(sweep, plan)
    return sweep


def _refuse_nothing(sweep: Sweep, plan: Plan) -> None:
    stages = sweep.refused
    if stages.get("space") == len(sweep.rows):
        raise UsageError(
            f"PTO7602: the conditions refuse every one of {plan.space.size:,} points; the first: "
            f"{sweep.rows[0]['reason']}"
        )
    if stages.get("template", 0) + stages.get("space", 0) == len(sweep.rows):
        raise MakeError(next(r["reason"] for r in sweep.rows if r["stage"] == "template"))


def said(best: Row | None) -> str:
    """Return the best row in a few words; '' for none."""
    if best is None:
        return ""
    params = " ".join(f"{n}={v}" for n, v in best["params"].items())
    return f"{best['us']:,.2f} us on {best['target']} ({params})"


def recipe_of(
    space: Space | Mapping[str, Any] | str | Path,
    expect: Mapping[str, Any] | None,
    args: Mapping[str, Any] | Callable[[Params], Mapping[str, Any]] | None,
    options: Mapping[str, Any],
) -> tuple[Space, Recipe]:
    """Return the space, and how its points are launched, from what a caller gives: a file has both,
    and what is given goes before it."""
    recipe = Recipe()
    if isinstance(space, (str, Path)):
        space, recipe = read_recipe(described(space))
    block_num = options.get("block_num", recipe.block_num)
    request = replace(recipe.request, **{n: v for n, v in options.items() if n != "block_num"})
    if callable(args):
        recipe = replace(recipe, make_args=args)
    elif args is not None:
        request = replace(request, args={**request.args, **args})
    if expect is not None:
        request = replace(request, expect={**request.expect, **expect})
    return space_of(space), replace(recipe, request=request, block_num=block_num)


def sweep(
    make: str | Path | Callable[..., Any],
    space: Space | Mapping[str, Any] | str | Path,
    *,
    targets: Sequence[str] | str | None = None,
    expect: Mapping[str, str | np.ndarray | Callable[..., Any]] | None = None,
    args: Mapping[str, Any] | Callable[[Params], Mapping[str, Any]] | None = None,
    tolerance: Mapping[str, Tolerance | Mapping[str, Any]] | None = None,
    jobs: int | None = None,
    cluster: str | None = None,
    store: str | Path | None = None,
    **options: Any,
) -> Sweep:
    """Judge every point of a space on every target and return the rows.

    `make` is a function of the parameters that gives text or a program, a template
    (`kernel.pto.j2`), or a program whose constants have the names of the parameters. `space` is a
    mapping (`{"TM": [16, 32], "conditions": ["TM * TN <= 4096"]}`) or a TOML file. `args` are
    arrays, numbers or SPECs in which `{TM}` is the parameter, or a function of the parameters;
    `expect` gives outputs: arrays, SPECs, functions of the arguments. `jobs` processes (1), or a
    `cluster` of Dask (`tcp://…`, `local:4`), work on it; `store` is a file that keeps results, with
    which a sweep that was stopped goes on. `options`: entry, level, sync, compat, profile,
    block_num (a number, or an expression of the parameters), seed, limits.

    Raises UsageError for what cannot be read or tried; a point that is wrong is a row."""
    if tolerance is not None:
        options["tolerance"] = {
            n: t if isinstance(t, Tolerance) else Tolerance(**t) for n, t in tolerance.items()
        }
    points, recipe = recipe_of(space, expect, args, options)
    wanted = (targets,) if isinstance(targets, str) else targets or recipe.targets or TARGETS
    for word in wanted:
        check_target_word(word)
    maker = maker_of(make, points)
    engine = engine_of(jobs, cluster)
    kept = Store(store) if store is not None else None
    try:
        return execute(Plan(maker, points, recipe, list(wanted), kept), engine)
    finally:
        engine.close()
        if kept is not None:
            kept.close()
