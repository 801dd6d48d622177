"""What scratch means for each operation: `isa/scratch.toml`."""

from __future__ import annotations

from functools import lru_cache

from ptosim.ground.errors import IsaDataError
from ptosim.ground.isa.data import TomlTable, read_toml
from ptosim.ground.isa.dates import at_date, holds
from ptosim.ground.isa.schema import ScratchDef, ScratchEffect

_KEYS = frozenset(
    (
        "of", "variant", "on", "until", "since", "name", "when", "effect", "counts", "needed",
        "bytes", "static", "shapes", "missing", "hidden", "rules",
    )
)  # fmt: skip
_CURE = "the library writes past the end of a smaller scratch tile"
_ABOUT_WRITTEN_ONES = frozenset(("of", "on", "name", "rules", "variant"))


@lru_cache(maxsize=1)
def _entries() -> dict[str, list[TomlTable]]:
    found: dict[str, list[TomlTable]] = {}
    for entry in read_toml("scratch.toml")["scratch"]:
        unknown = entry.keys() - _KEYS
        if unknown:
            raise IsaDataError(f"isa/scratch.toml: {entry['of']}: unknown {', '.join(unknown)}")
        for name in entry["of"].split():
            found.setdefault(name, []).append(entry)
    return found


def scratch_names() -> list[str]:
    """Return the operations that the table names, without dialect."""
    return list(_entries())


def _of(mnemonic: str, date: str) -> list[TomlTable]:
    found = (entry for entry in _entries().get(mnemonic, ()) if holds(entry, date))
    return [
        {k: v for k, v in at_date(e, date).items() if k not in ("since", "until")} for e in found
    ]


def scratch_of(mnemonic: str, date: str) -> tuple[ScratchDef, ...]:
    """Return what a date says of the scratch of an operation, in the order of the table."""
    return tuple(
        ScratchDef(
            name=entry.get("name", "tmp"),
            target=entry.get("on"),
            variant=entry.get("variant"),
            when=entry.get("when"),
            effect=ScratchEffect(entry["effect"]) if "effect" in entry else None,
            counts=entry.get("counts", False),
            needed=entry.get("needed"),
            bytes=entry.get("bytes"),
            static=tuple(entry.get("static", "").split()),
            shapes=entry.get("shapes", entry.get("static", "")),
            missing=entry.get("missing"),
            hidden=entry.get("hidden", False),
        )
        for entry in _of(mnemonic, date)
        if entry.keys() - _ABOUT_WRITTEN_ONES
    )


def scratch_rules(mnemonic: str, date: str) -> list[TomlTable]:
    """Return the rules about scratch that a program gives, as a row has them."""
    found = []
    for entry in _of(mnemonic, date):
        for rule in entry.get("rules", ()):
            given = entry.get("name", "tmp")
            when = f"{given} and ({rule['when']})" if "when" in rule else given
            on = {"on": entry["on"]} if "on" in entry else {}
            cure = {"help": _CURE} if rule.get("code") == "PTO2019" else {}
            found.append({**cure, **rule, **on, "when": when})
    return found
