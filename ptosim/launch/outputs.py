"""What a run leaves in its arrays, by name. Of a large array of generated data only the parts that
the run reached exist; the rest is made when somebody asks for the array."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ptosim.ground.records import NamedTuple


class Unmade(NamedTuple):
    """An array of which a part exists: how to make all of it, its type and shape, its first
    elements (at most so many), and the pieces that exist."""

    make: Callable[[], np.ndarray]
    dtype: np.dtype
    shape: tuple[int, ...]
    first: Callable[[int], np.ndarray]
    pieces: Callable[[], Iterable[np.ndarray]]


class Outputs(dict[str, np.ndarray]):
    """Arrays by name: a dictionary that makes an array when it is asked for."""

    def __init__(self, held: dict[str, np.ndarray | Unmade]) -> None:
        super().__init__({n: a for n, a in held.items() if not isinstance(a, Unmade)})
        self._unmade = {n: a for n, a in held.items() if isinstance(a, Unmade)}
        self._names = list(held)

    def part(self, name: str) -> Unmade | None:
        """Return an array of which nobody has asked for all yet; None for any other."""
        return self._unmade.get(name)

    def __missing__(self, name: str) -> np.ndarray:
        made = self._unmade.pop(name).make()  # KeyError for a name that it does not have
        super().__setitem__(name, made)
        return made

    def __setitem__(self, name: str, array: np.ndarray) -> None:
        self._unmade.pop(name, None)
        if name not in self._names:
            self._names.append(name)
        super().__setitem__(name, array)

    def __delitem__(self, name: str) -> None:
        if self._unmade.pop(name, None) is None:
            super().__delitem__(name)
        self._names.remove(name)

    def __contains__(self, name: object) -> bool:
        return name in self._unmade or super().__contains__(name)

    def __len__(self) -> int:
        return len(self._names)

    def __iter__(self) -> Iterator[str]:  # without it `dict(outputs)` would not ask for arrays
        return iter(self._names)

    def keys(self) -> Any:
        """Return the names."""
        return dict.fromkeys(self._names).keys()

    def get(self, name: str, default: Any = None) -> Any:
        """Return an array, or something else where there is none."""
        try:
            return self[name]
        except KeyError:
            return default

    def pop(self, name: str, *default: Any) -> Any:
        """Return an array and forget it."""
        if name not in self and default:
            return default[0]
        array = self[name]
        del self[name]
        return array

    def _all(self) -> dict[str, np.ndarray]:
        return {name: self[name] for name in self._names}

    def items(self) -> Any:
        """Return names and arrays; makes every array."""
        return self._all().items()

    def values(self) -> Any:
        """Return the arrays; makes every one."""
        return self._all().values()

    def copy(self) -> dict[str, np.ndarray]:
        """Return a dictionary of all arrays."""
        return self._all()

    def __or__(self, other: Any) -> Any:
        return self._all() | dict(other)

    def __ror__(self, other: Any) -> Any:
        return dict(other) | self._all()

    def __eq__(self, other: object) -> bool:
        return self._all() == other

    __hash__ = None  # type: ignore[assignment]  # as of every dictionary

    def __repr__(self) -> str:
        return repr(self._all())

    def __reduce__(self) -> Any:
        return dict, (self._all(),)
