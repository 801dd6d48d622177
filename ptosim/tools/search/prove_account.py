"""What a rule of the proof says of an operation, held against the function of the operation.

The function is executed twice: on memory as it is, and with every byte that the rule does not
read as its complement. Neither time may a byte change that the rule does not name as written, and
what is written must be the same both times. So an effect cannot hide behind bytes that happen to
hold what it writes, nor a result depend on bytes that are not said to be read."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ptosim.ground.records import NamedTuple
from ptosim.machine.core import Core
from ptosim.tools.search.prove_memory import HashedMemory, Place, Unprovable

Bytes = tuple[Place, np.ndarray]
"""A memory and numbers of bytes in it."""


class Told(NamedTuple):
    """The bytes that an operation reads, writes, and leaves without a meaning."""

    read: list[Bytes]
    written: list[Bytes]
    spoiled: list[Bytes]


def try_account(
    memory: HashedMemory, core: Core, told: Told, function: Callable[[], object]
) -> None:
    """Execute the function of an operation on two contents; memory is left as it was. Raises
    Unprovable where it does something else than what was told."""
    places = [("gm", number) for number in range(len(memory.buffers))]
    places += [memory.space(core, name) for name in core.spaces]
    actual = {place: memory.of(place).actual for place in places}
    kept = {place: content.copy() for place, content in actual.items()}
    left: list[dict[Place, np.ndarray]] = []
    try:
        for complement in (False, True):
            begun = _begun(kept, told.read) if complement else kept
            for place, content in begun.items():
                actual[place][:] = content
            function()
            left.append({p: c.copy() for p, c in actual.items()})
            _refuse_others(begun, left[-1], [*told.written, *told.spoiled])
    finally:
        for place, content in kept.items():
            actual[place][:] = content
    for place, numbers in told.written:
        for where, spoiled in told.spoiled:
            numbers = np.setdiff1d(numbers, spoiled) if where == place else numbers
        if not np.array_equal(left[0][place][numbers], left[1][place][numbers]):
            raise Unprovable("depends on bytes that the rules do not name")


def _begun(kept: dict[Place, np.ndarray], read: list[Bytes]) -> dict[Place, np.ndarray]:
    made = {place: ~content for place, content in kept.items()}
    for place, numbers in read:
        made[place][numbers] = kept[place][numbers]
    return made


def _refuse_others(
    begun: dict[Place, np.ndarray], left: dict[Place, np.ndarray], written: list[Bytes]
) -> None:
    for place, content in begun.items():
        changed = content != left[place]
        for where, numbers in written:
            if where == place:
                changed[numbers] = False
        if changed.any():
            name = "global memory" if place[0] == "gm" else place[0]
            raise Unprovable(f"changes bytes of {name} that the rules do not name")
