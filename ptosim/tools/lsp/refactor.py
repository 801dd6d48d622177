"""The whole text written in another way, as `ptosim fmt` and `check --fix` do it: computed only
when the editor asks for the edit of an action that was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ptosim.ground.diagnostics.fix import repair
from ptosim.ground.diagnostics.model import Diagnostic
from ptosim.ground.errors import PtosimError, UsageError
from ptosim.ground.records import dataclass
from ptosim.ground.source import Source
from ptosim.language.frontend import FrontOptions
from ptosim.launch.analysis.insert_sync.write import rewritten
from ptosim.tools.api import check_source
from ptosim.tools.lsp.document import Document, Settings

Made = tuple[str, str]
"""The new text, and what is to be said of it ('' for nothing)."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """An action on the whole text: its title, whether it mends findings, and what it does."""

    title: str
    mends: bool
    make: Callable[[Document], Made]


def _options(settings: Settings, *, keeps_sync: bool = True) -> FrontOptions:
    sync = settings.sync if keeps_sync else None
    return FrontOptions(settings.target, settings.level, sync, settings.compat)


def _fixed(document: Document) -> Made:
    settings = document.settings

    def check(source: Source) -> Sequence[Diagnostic]:
        return check_source(
            source, settings.target, settings.level, settings.sync, compat=settings.compat
        ).findings

    made = repair(document.source, check)
    left = "; ".join(f"{d.code}: {reason}" for d, reason in made.stuck)
    return made.source.text, left


def _completed(*, plan: bool, flags: bool) -> Callable[[Document], Made]:
    def make(document: Document) -> Made:
        options = _options(document.settings, keeps_sync=False)
        text, notes = rewritten(document.source, options, plan=plan, insert_sync=flags)
        return text, "; ".join(note.message for note in notes)

    return make


def _buffered(document: Document) -> Made:
    from ptosim.tools.search.rewrite import NotApplicable, double_buffer  # brings the solver

    try:
        made = double_buffer(document.source, _options(document.settings), None)
    except NotApplicable as reason:
        raise UsageError(f"the text is left as it is: {reason}") from reason
    return made.source.text, str(made)


def _form(form: str) -> Callable[[Document], Made]:
    def make(document: Document) -> Made:
        from ptosim.language.rewrite.forms import convert
        from ptosim.language.rewrite.requoted import requoted

        settings = document.settings
        written = requoted if form in ("quoted", "short") else convert
        return written(document.source, form, settings.target, settings.compat), ""

    return make


REWRITES = {
    "fix": Rewrite("mend all that can be mended", True, _fixed),
    "flags": Rewrite(
        "insert the flags and barriers that are needed", False, _completed(plan=False, flags=True)
    ),
    "plan": Rewrite(
        "write addresses and flags (level 3)", False, _completed(plan=True, flags=True)
    ),
    "buffers": Rewrite("two buffers in loops that load, with a proof", False, _buffered),
    "ssa": Rewrite("tile operations with results (SSA)", False, _form("ssa")),
    "dps": Rewrite("tile operations with `outs` (DPS)", False, _form("dps")),
    "quoted": Rewrite("PTO operations in the quoted form of MLIR", False, _form("quoted")),
    "short": Rewrite("quoted operations in the short form", False, _form("short")),
}
"""What an action does, by its name."""


def offered(document: Document) -> list[str]:
    """Return the names of the actions for a text: mending where something can be mended, the others
    where the assembler takes the text."""
    names = ["fix"] if any(f.fixes for f in document.mendable) else []
    if document.checked.is_rejected:
        return names
    ops = [op for op in document.resolved.ops if op.definition is not None]
    if any(op.definition is not None and op.definition.form == "dps" for op in ops):
        names += ("flags", "plan", "buffers", "ssa", "dps")
    written = {op.form for op in ops}
    names += ["quoted"] if written & {"dps", "items"} else []
    return [*names, *(["short"] if "generic" in written else [])]


def made(document: Document, name: str) -> Made:
    """Return the text after an action, and what is to be said. Raises UsageError for one that does
    not exist, or that leaves the text as it is and why."""
    if name not in REWRITES:
        raise UsageError(f"there is no action `{name}`")
    try:
        text, told = REWRITES[name].make(document)
    except PtosimError as problem:
        raise UsageError(f"{REWRITES[name].title}: {problem}") from problem
    if text == document.text:
        raise UsageError(f"{REWRITES[name].title}: the text stays as it is. {told}".rstrip(". "))
    return text, told
