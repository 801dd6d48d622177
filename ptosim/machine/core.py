"""A core: its memory spaces, its registers, and where its scalar unit stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ptosim.isa.machines import MachineDef
from ptosim.machine.gm import GmBuffer
from ptosim.machine.space import MemorySpace

# Slots with a fixed meaning; the values of the program start at FIRST_SLOT.
SLOT_STACK = 0  # return addresses, a linked tuple (pc, rest)
SLOT_KIND = 1  # "cube", "vector", or "any" for a core that executes both kinds of section
SLOT_BLOCK = 2
SLOT_SUBBLOCK = 3
SLOT_BLOCK_NUM = 4
SLOT_SUBBLOCK_NUM = 5
FIRST_SLOT = 6

CUBE_SPACES = frozenset(("mat", "left", "right", "acc", "bias", "scaling"))


class Core:
    """One core of a cluster. `slots` holds the values of the program, `pc` the next instruction."""

    __slots__ = (
        "bounds", "halted", "index", "kind", "machine_def", "pc", "registers", "seed", "slots", "spaces",
        "uninit",
    )  # fmt: skip

    def __init__(
        self, index: int, kind: str, machine_def: MachineDef, uninit: str, seed: int
    ) -> None:
        self.index = index
        self.kind = kind
        self.machine_def = machine_def
        self.uninit = uninit
        self.seed = seed
        self.spaces: dict[str, MemorySpace] = {}
        self.slots: list[Any] = []
        self.pc = 0
        self.halted = False
        self.registers: dict[str, int] = {"ctrl": 0}
        self.bounds: list[Any] = []

    def space(self, name: str) -> MemorySpace:
        """Return a memory space; its bytes exist from the first use."""
        space = self.spaces.get(name)
        if space is None:
            size = self.machine_def.spaces[name].bytes
            seed = self.seed * 1000 + self.index
            space = self.spaces[name] = MemorySpace(name, size, self.uninit, seed)
        return space


@dataclass(slots=True)
class Machine:
    """All cores and the global memory they share."""

    definition: MachineDef
    cores: list[Core] = field(default_factory=list)
    buffers: list[GmBuffer] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class CoreState:
    """Everything of a core that can change."""

    pc: int
    halted: bool
    slots: tuple[Any, ...]
    spaces: dict[str, bytes]
    registers: dict[str, int]


@dataclass(frozen=True, slots=True)
class MachineState:
    """Everything of a machine that can change."""

    cores: tuple[CoreState, ...]
    buffers: tuple[bytes, ...]


def snapshot(machine: Machine) -> MachineState:
    """Return a copy of the state of a machine."""
    cores = tuple(
        CoreState(
            core.pc,
            core.halted,
            tuple(core.slots),
            {name: space.snapshot() for name, space in core.spaces.items()},
            dict(core.registers),
        )
        for core in machine.cores
    )
    return MachineState(cores, tuple(b.data.tobytes() for b in machine.buffers))


def restore(machine: Machine, state: MachineState) -> None:
    """Put a state back; bytes change in place, so views of memory stay valid."""
    for core, saved in zip(machine.cores, state.cores, strict=True):
        core.pc, core.halted = saved.pc, saved.halted
        core.slots[:] = saved.slots
        core.registers.clear()
        core.registers.update(saved.registers)
        for name in core.spaces.keys() - saved.spaces.keys():
            fresh = MemorySpace(
                name, core.spaces[name].size, core.uninit, core.seed * 1000 + core.index
            )
            core.spaces[name].restore(fresh.snapshot())
        for name, data in saved.spaces.items():
            core.space(name).restore(data)
    for buffer, data in zip(machine.buffers, state.buffers, strict=True):
        buffer.data[:] = memoryview(data)
