"""Switches of the semantics and the profiles that set them, from `isa/switches.toml` and
`isa/profiles/`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from ptosim.ground.errors import UsageError
from ptosim.ground.isa.data import read_toml, toml_names
from ptosim.ground.nearest import nearest
from ptosim.ground.records import dataclass, field


@dataclass(frozen=True, slots=True)
class SwitchDef:
    """A switch: the values it takes, its default for each target, and what it decides."""

    name: str
    values: tuple[str, ...]
    default: Mapping[str, str]
    text: str
    library: str | None = None
    """The default for kernels in C++, where the library differs from the assembler."""
    open: bool = False
    """True if no public source says what the hardware does."""
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """By its value, what it sets of other switches where it is set itself."""


@dataclass(frozen=True, slots=True)
class Profile:
    """A set of switch values for a target, with the single switches that the caller overrode."""

    name: str
    target: str
    switches: Mapping[str, str]
    overridden: tuple[str, ...]

    def __getitem__(self, switch: str) -> str:
        return self.switches[switch]


@lru_cache(maxsize=1)
def switches() -> dict[str, SwitchDef]:
    """Return every switch by name."""
    made = {}
    for name, row in read_toml("switches.toml")["switch"].items():
        default = row["default"]
        table: dict[str, str] = default if isinstance(default, dict) else {}
        table = table or dict.fromkeys(("a2a3", "a5"), str(default))
        library, is_open = row.get("library"), row.get("open", False)
        values, sets = tuple(row["values"]), row.get("sets", {})
        made[name] = SwitchDef(name, values, table, row["text"], library, is_open, sets)
    return made


@lru_cache(maxsize=1)
def profiles() -> dict[str, dict[str, str]]:
    """Return what every profile sets, by name."""
    return {
        file.removeprefix("profiles/").removesuffix(".toml"): read_toml(file)["set"]
        for file in toml_names("profiles")
    }


def make_profile(
    name: str,
    target: str,
    overrides: Mapping[str, str] | None = None,
    *,
    library: bool = False,
) -> Profile:
    """Return a profile for a target, for a kernel in C++ (`library`) with what the library does
    where it differs from the assembler; raises UsageError for a profile, switch or value that is
    not there."""
    if name not in profiles():
        known_names = f"known: {', '.join(profiles())}"
        raise UsageError(f"unknown profile `{name}`", help=nearest(name, profiles(), known_names))
    known = switches()
    values = {
        s.name: s.library if library and s.library is not None else s.default[target]
        for s in known.values()
    }
    values |= profiles()[name]
    for key, value in (overrides or {}).items():
        if key not in known:
            hint = nearest(key, known, f"known: {', '.join(known)}")
            raise UsageError(f"unknown switch `{key}`", help=hint)
        if value not in known[key].values:
            raise UsageError(
                f"switch `{key}` does not take `{value}`",
                help=f"values: {', '.join(known[key].values)}",
            )
        values |= known[key].sets.get(value, {})
    values |= overrides or {}
    return Profile(name, target, values, tuple(overrides or ()))
