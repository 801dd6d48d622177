"""Programs that come with the package."""

from __future__ import annotations

from ptosim.launch.description import sidecar_of
from ptosim.launch.sources import shipped_names, source_path


def on_one_device() -> tuple[str, ...]:
    """Return the names of the shipped programs but those whose launch needs several devices, which
    not every command has."""
    return tuple(name for name in shipped_names() if not _has_ranks(name))


def _has_ranks(name: str) -> bool:
    beside = sidecar_of(source_path(f"@{name}"))
    return beside is not None and beside.options.get("ranks", 1) != 1
