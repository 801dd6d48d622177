"""Names of targets and devices, from `isa/targets/devices.toml`."""

from __future__ import annotations

from ptosim.ground.isa.data import read_toml

DEFAULT_TARGET = "a2a3"


def target_of_word(word: str) -> str | None:
    """Return the target that a word of the command line or of `pto.target_arch` names."""
    folded = word.strip().lower()
    for name, row in read_toml("targets/devices.toml")["target"].items():
        if folded in row["words"]:
            return name
    return None


def target_of_device(device: str) -> str | None:
    """Return the target of a device name such as `Ascend910B3`."""
    for name, row in read_toml("targets/devices.toml")["target"].items():
        if any(device.startswith(prefix) for prefix in row["devices"]):
            return name
    return None


def known_words() -> list[str]:
    """Return every target word."""
    rows = read_toml("targets/devices.toml")["target"].values()
    return [word for row in rows for word in row["words"]]


def known_devices() -> list[str]:
    """Return every device prefix."""
    rows = read_toml("targets/devices.toml")["target"].values()
    return [device for row in rows for device in row["devices"]]
