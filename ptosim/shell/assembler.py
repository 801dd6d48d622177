"""Options of the PTO assembler (`ptoas`) on the command line: those that ptosim has under another
name become its own, those that change only what the assembler writes are read and dropped.

Source: PTO assembler (PTOAS) of August 2026, its options and the words with which it refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ptosim.ground.errors import UsageError
from ptosim.ground.records import dataclass

_LEVELS = {"level1": "1", "level2": "2", "level3": "3"}
_SYNC = (
    "--enable-insert-sync",
    "--enable-graph-sync-solver",
    "--enable-bufid_sync",
    "--enable-inject-barrier-all-sync",
)
"""Modes of automatic synchronisation; ptosim has one, which orders all that any of them orders."""

_SWITCHES = frozenset((
    *_SYNC, "--emit-pto-ir", "--emit-vpto", "--plan-memory-order-by-size", "--enable-op-fusion",
    "--enable-tile-op-expand", "--enable-shape-inference", "--enable-vexpdif-fusion",
    "--enable-vpto-soft-postupdate",
))  # fmt: skip
_VALUED = frozenset((
    "--pto-arch", "--pto-level", "--pto-backend", "--plan-memory-impl", "--mlir-print-ir-after",
    "--mlir-print-ir-before", "--cann-output-version", "--graph-sync-solver-event-id-max",
    "--vpto-scheduler",
))  # fmt: skip
_WORDS = {
    "--pto-arch": ("a2", "a3", "a2a3", "a5"),
    "--pto-level": (*_LEVELS, *_LEVELS.values()),
    "--pto-backend": ("emitc", "vpto"),
    "--plan-memory-impl": ("legacy", "modern"),
}
_ONLY_A5 = {
    "--enable-bufid_sync": "--enable-bufid_sync requires --pto-arch=a5",
    "--enable-op-fusion": "--enable-op-fusion=true requires --pto-arch=a5",
}
_OWN: dict[str, Callable[[str], Sequence[str]]] = {
    "--pto-arch": lambda word: ("--target", word),
    "--pto-level": lambda word: ("--level", _LEVELS.get(word, word)),
    "--plan-memory-impl": lambda word: ("--planner", word),
}
NAMES = _SWITCHES | _VALUED


@dataclass(slots=True)
class _Given:
    """An option of the assembler and its value."""

    name: str
    value: str

    @property
    def is_on(self) -> bool:
        """False for `--switch=false`."""
        return self.value not in ("false", "0")


def translated(argv: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return a command line with the assembler's options in the words of ptosim, of which a command
    has `known`. Raises UsageError for words, targets and pairs that the assembler refuses."""
    rest: list[str] = []
    given: list[_Given] = []
    for part in _parts(argv):
        if isinstance(part, _Given):
            given.append(part)
        else:
            rest.append(part)
    _refuse(given, rest)
    own: list[str] = []
    for option in given:
        words = _OWN[option.name](option.value) if option.name in _OWN else ()
        own += words if words and words[0] in known else ()
    is_automatic = any(o.name in _SYNC and o.is_on for o in given)
    if is_automatic and "--sync" in known and not any(w.startswith("--sync") for w in rest):
        own += ("--sync", "auto")
    return [*rest, *own]


def _parts(argv: Sequence[str]) -> Iterator[str | _Given]:
    words = iter(argv)
    for word in words:
        name, equals, value = word.partition("=")
        if name in _VALUED:
            yield _Given(name, value if equals else next(words, ""))
        elif name in _SWITCHES:
            yield _Given(name, value if equals else "true")
        else:
            yield word


def _refuse(given: Sequence[_Given], rest: Sequence[str]) -> None:
    for option in given:
        words = _WORDS.get(option.name, (option.value,))
        if option.value not in words:
            expected = " or ".join(f"'{w}'" for w in words)
            raise UsageError(f"invalid {option.name}='{option.value}', expected {expected}")
    modes = [o.name for o in given if o.name in _SYNC and o.is_on]
    if len(set(modes)) > 1:
        raise UsageError(f"{' and '.join(modes)} are mutually exclusive")
    target = next((o.value for o in given if o.name == "--pto-arch"), None) or _after(rest)
    for option in given:
        if option.is_on and option.name in _ONLY_A5 and target not in (None, "a5"):
            raise UsageError(_ONLY_A5[option.name])


def _after(rest: Sequence[str]) -> str | None:
    """The value of ptosim's own option for the target."""
    for word, following in zip(rest, [*rest[1:], ""], strict=True):
        name, equals, value = word.partition("=")
        if name == "--target":
            return value if equals else following
    return None
