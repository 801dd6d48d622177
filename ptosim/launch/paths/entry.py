"""An entry followed along all its paths, for a check: what comes to what one following says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import BudgetError, PtosimError, UsageError
from ptosim.ground.ir.types import ScalarType
from ptosim.ground.isa.profiles import Profile
from ptosim.ground.records import NamedTuple
from ptosim.language.frontend import Front
from ptosim.language.promises import told_by
from ptosim.launch.dry_run import BUDGET, Followed
from ptosim.launch.paths.explore import RUNS, Explored, explore
from ptosim.launch.paths.requirements import Requirement, requirements_of, told_of
from ptosim.launch.paths.verdict import Coverage, coverage_of, findings_of, is_covered

if TYPE_CHECKING:
    from ptosim.launch.paths.facts import Facts


class EntryPaths(NamedTuple):
    """What the paths of an entry bring out, beside its first following."""

    findings: list[Diagnostic]
    coverage: Coverage
    requirements: list[Requirement]
    is_decided: bool
    """True if the runs decide what the first following left open."""
    inside: dict[str, int]
    """Values of the scalars that are not given which break nothing."""


def paths_of(
    front: Front,
    profile: Profile,
    entry: str,
    args: Mapping[str, Any],
    first: Followed,
    known: Iterable[tuple[str, object]],
    runs: int = RUNS,
    facts: Facts | None = None,
    blocks: int | None = None,
) -> EntryPaths | None:
    """Follow an entry along its paths; None where nothing depends on what is not known. Raises
    UsageError for facts that no values meet."""
    if not first.begun or first.stopped or not _is_open(front, entry, args, first):
        return None
    try:
        explored = explore(front, profile, entry, args, runs, BUDGET, facts, blocks)
    except (BudgetError, UsageError):
        raise
    except PtosimError:
        return None  # what its assumed values bring out concerns nobody
    if not explored.has_symbols:
        return None
    found = findings_of(front, entry, explored, known)
    coverage = coverage_of(front, entry, explored)
    required = requirements_of(front, entry, explored)
    return EntryPaths(
        [*found, *told_of(front, required)], coverage, required, is_covered(first, explored),
        _inside(front, entry, explored),
    )  # fmt: skip


def _inside(front: Front, entry: str, explored: Explored) -> dict[str, int]:
    """The arguments of the first run that counts, but for those that tell where a core is."""
    plan = front.plans.get(entry)
    functions = plan.reached if plan is not None else [front.resolved.functions[entry]]
    names = {v.name for f in functions for v in f.args if not told_by(v)}
    runs = explored.valid[:1]
    return {s.name: v for r in runs for s, v in r.noted.symbols.items() if s.name in names}


def _is_open(front: Front, entry: str, args: Mapping[str, Any], first: Followed) -> bool:
    """True if something of an entry is not known before the run."""
    if first.is_open:
        return True
    plan = front.plans.get(entry)
    functions = plan.reached if plan is not None else [front.resolved.functions[entry]]
    return any(
        isinstance(value.type, ScalarType) and value.name not in args
        for function in functions
        for value in function.args
    ) or any(op.has("tells_core") for function in functions for op in function.ops)
