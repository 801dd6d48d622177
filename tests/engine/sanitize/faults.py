"""Programs with a fault, and twins that nearly have it: how such cases are written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.text import Kernel


@dataclass
class Case:
    """`make(wrong)` writes the program, with its fault or without."""

    name: str
    code: str
    target: str
    make: Callable[[Kernel, bool], None]
    cure: str
    check: bool = True  # found without values, too
    args: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)


CASES: list[Case] = []


def fault(code: str, *targets: str, cure: str, **keys: Any) -> Callable[[Any], Any]:
    """Register the maker of a program for some targets."""

    def register(make: Callable[[Kernel, bool], None]) -> Callable[[Kernel, bool], None]:
        name = make.__name__
        CASES.extend(Case(name, code, target, make, cure, **keys) for target in targets)
        return make

    return register


def through(k: Kernel, op: str, shape: tuple[int, int], at: tuple[int, int], dtypes=("f32", "f32"), attrs: str = "", count: int = 1) -> None:  # fmt: skip
    """Load x at one address, one operation, store y from another."""
    src = k.tile("s", dtypes[0], *shape, addr=at[0])
    dst = k.tile("d", dtypes[1], *shape, addr=at[1])
    k.load("gx", src)
    k.op(op, [src] * count, [dst], attrs)
    k.store(dst, "gy")
