"""Predicates of rules about the cube at the micro level: loads of L0 and the fixpipe. Each returns
True, or a `Fault` whose words are the message."""

from __future__ import annotations

from typing import Any

from ptosim.passes.verify.rules import Fault, predicate


@predicate("PTO2012", "expects {names} to be in range")
def within(low: int, high: int | None, *views: Any) -> bool | Fault:
    """Constant operands are in a range that begins at 0 or 1."""
    for view in views:
        if view is None or not isinstance(view.const, int):
            continue
        const = view.const
        if const < low:
            return Fault(f"{view.name} must be {'greater than zero' if low else 'non-negative'}")
        if high is not None and const > high:
            return Fault(f"{view.name} must be <= {high} to fit the hardware control field")
    return True


@predicate("PTO2001", "expects either four shape-derived or six full positional operands")
def one_form(
    controls: Any, shape: str, shape_names: str, sizes: Any, full: str, full_names: str, steps: Any
) -> bool | Fault:
    """The named controls of a load are those of one of two groups, and no other control has a place
    without a name."""
    if controls is None:
        return True
    given = [
        [n for n, v in zip(names.split(), values, strict=True) if v is not None]
        for names, values in ((shape_names, sizes), (full_names, steps))
    ]
    if controls and not any(given):
        return Fault("expects either four shape-derived or six full positional operands")
    if controls or all(given):
        return Fault(f"cannot mix {shape} operands with {full} operands")
    if not any(given):
        return Fault(f"requires either all {shape} operands or all {full} operands")
    form, names = (shape, shape_names) if given[0] else (full, full_names)
    missing = next((n for n in names.split() if n not in (*given[0], *given[1])), None)
    return True if missing is None else Fault(f"{form} form requires {missing}")


def _is_fp4(view: Any) -> bool:
    return view is not None and view.family is not None and view.family.startswith("f4")


@predicate("PTO2014", "requires packed FP4 elements at both ends")
def both_fp4(src: Any, dst: Any) -> bool | Fault:
    """Numbers of 4 bits go to numbers of 4 bits."""
    if _is_fp4(src) == _is_fp4(dst):
        return True
    side = "destination" if _is_fp4(src) else "source"
    return Fault(f"requires packed FP4 {side} element type f4e1m2x2 or f4e2m1x2")


@predicate("PTO2190", "expects {names} to be aligned")
def aligned_address(pointer: Any, unit: int, side: str) -> bool | Fault:
    """The address of a pointer is a multiple where the text fixes it."""
    address = static_address(pointer.value)
    if address is None or address % unit == 0:
        return True
    return Fault(
        f"statically known LOAD.MX {side} address must be aligned to {unit} bytes, got {address}"
    )


def static_address(value: Any) -> int | None:
    """The address of a pointer that is made of constants, None for another."""
    owner = getattr(value, "owner", None)
    if owner is None:
        return None
    if "offset" in owner.bound and "ptr" in owner.bound:
        base, offset = static_address(owner.bound["ptr"].value), owner.bound["offset"].const
        if base is None or not isinstance(offset, int):
            return None
        return base + offset * value.type.elem.bits // 8
    source = owner.bound.get("src")
    if "points_into" not in owner.traits or source is None:
        return None
    return source.const if isinstance(source.const, int) else static_address(source.value)
