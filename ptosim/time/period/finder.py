"""Finds the period of a loop among the states that its rounds begin with.

A state is everything that decides how the loop goes on, relative to the round: what has to be the
same (`key`, and whatever `is_even` compares), and what may move by the same amount in each period,
as times and counters do. A round may contain whole loops: the summary of one is a step of it like
any other. What repeats is found here; what is done with it is the business of who asks."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

State = TypeVar("State")


class Finder(Generic[State]):
    """The states of the rounds of a loop so far. With `is_even` a period has to have come twice,
    from the first to the second and to the third of three states; without, states that have one key
    are equal, and once is enough."""

    def __init__(self, is_even: Callable[[State, State, State], bool] | None = None) -> None:
        self.states: list[State] = []
        self._is_even = is_even
        self._rounds: dict[Hashable, list[int]] = {}

    def look(self, key: Hashable, state: State) -> int:
        """Add the state of the next round; return the fewest rounds of a period that ends with it,
        0 if there is none."""
        at = len(self.states)
        self.states.append(state)
        seen = self._rounds.setdefault(key, [])
        found = next((at - b for b in reversed(seen) if self._is_period(at, at - b)), 0)
        seen.append(at)
        return found

    def apart(self, rounds: int, count: int) -> list[State]:
        """Return so many states, the last one at the end, which lie a number of rounds apart."""
        return self.states[-1 - rounds * (count - 1) :: rounds]

    def clear(self) -> None:
        """Forget all states."""
        self.states.clear()
        self._rounds.clear()

    def _is_period(self, at: int, rounds: int) -> bool:
        if self._is_even is None:
            return True
        if at < 2 * rounds:
            return False
        states = self.states
        return self._is_even(states[at - 2 * rounds], states[at - rounds], states[at])
