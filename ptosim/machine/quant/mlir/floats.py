"""Float literals as MLIR reads and prints them."""

from __future__ import annotations

import struct
from decimal import Decimal

_DIGITS = 17  # what a 64-bit float needs
_PADDING = 3  # zeros that a number without exponent may have before or after it


def float_text(value: float) -> str:
    """Return an f64 as MLIR prints it: six decimals if they are enough, all digits if a point is
    among them, else the bits in hex."""
    short = f"{value:.6e}"
    if float(short) == value:
        return short
    full = _all_digits(value)
    return full if "." in full else f"0x{struct.unpack('>Q', struct.pack('>d', value))[0]:016X}"


def _all_digits(value: float) -> str:
    sign = "-" if value < 0 else ""
    number = Decimal(f"{abs(value):.{_DIGITS - 1}e}")
    _, parts, low = number.as_tuple()
    digits = "".join(map(str, parts)).rstrip("0") or "0"
    exponent = int(low) + len(parts) - len(digits)  # of the last digit that is not 0
    top = exponent + len(digits) - 1
    if exponent >= 0:
        scientific = exponent > _PADDING or len(digits) + exponent > _DIGITS
    else:
        scientific = top < -_PADDING
    if scientific:
        mantissa = f"{digits[0]}.{digits[1:] or '0'}"
        return f"{sign}{mantissa}E{'+' if top >= 0 else ''}{top}"
    if exponent >= 0:
        return sign + digits + "0" * exponent
    if top >= 0:
        return f"{sign}{digits[: top + 1]}.{digits[top + 1 :]}"
    return f"{sign}0.{'0' * (-top - 1)}{digits}"


def float_of_bits(text: str) -> float:
    """Return the f64 whose bits a hex literal gives."""
    return struct.unpack(">d", struct.pack(">Q", int(text, 16)))[0]
