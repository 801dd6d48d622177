"""The first line of a report: the version, and the choices that it holds for."""

from __future__ import annotations

from ptosim.ground import __version__
from ptosim.ground.isa.dates import DEFAULT_DATE, Profile
from ptosim.ground.isa.targets import machine
from ptosim.language.frontend import Front
from ptosim.launch.program import LoadedProgram
from ptosim.views.table import Text


def header(program: LoadedProgram, entry: str) -> dict[str, object]:
    """Return the choices that every report states first."""
    return header_fields(program, program.profile, entry)


def header_fields(chosen: LoadedProgram | Front, profile: Profile, entry: str) -> dict[str, object]:
    """Return the choices of a program or a checked module, and why those that nobody gave are what
    they are."""
    front = chosen.front if isinstance(chosen, LoadedProgram) else chosen
    because = front.settings.reasons
    return {
        "version": __version__,
        "target": chosen.target,
        "chip": chosen.chip,
        "compat": chosen.compat,
        "level": chosen.level,
        "sync": chosen.sync,
        "profile": _profile(profile),
        "entry": entry,
        **({"because": because} if because else {}),
    }


def _profile(profile: Profile) -> str:
    changed = ", ".join(f"{k}={profile[k]}" for k in profile.overridden)
    return f"{profile.name} ({changed})" if changed else profile.name


def header_line(fields: dict[str, object]) -> str:
    """Return the first line of a report; the chip and the date of the language are left out where
    they are the usual ones."""
    version, chip = fields["version"], machine(str(fields["chip"]))
    left_out = ["version", "because"]
    if chip.is_usual:
        left_out.append("chip")
    if fields["compat"] == DEFAULT_DATE:
        left_out.append("compat")
    rest = " · ".join(f"{k} {v}" for k, v in fields.items() if k not in left_out)
    return f"ptosim {version} · {rest}"


def heading(program: LoadedProgram, entry: str) -> Text:
    """Return the first line of the report on a program."""
    return Text(header_line(header(program, entry)), style="bold")
