"""Hashes of 64 bits in place of values: what a byte of memory holds, as an expression of inputs.

Every byte has one. The bytes of a whole element are made from the hash of the element in a way that
can be undone, so that an element is read back as what was written; bytes of different elements that
are read as one (another type at the same address) are a mixture of their hashes. Two expressions
that differ have one hash with a chance of 2**-64 for each pair of elements that is compared."""

from __future__ import annotations

import hashlib
from functools import lru_cache

import numpy as np

Hashes = np.ndarray
"""An array of uint64; arithmetic wraps."""

_ONE, _TWO = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0x9E3779B97F4A7C15)
WIDEST = 8


def salt(*words: object) -> np.uint64:
    """Return the hash of words, by their text."""
    text = "\x1f".join(map(repr, words)).encode()
    return np.uint64(int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little"))


def mixed(values: Hashes) -> Hashes:
    """Return a one-to-one scramble of each value (splitmix64, Steele and others 2014)."""
    with np.errstate(over="ignore"):
        values = values + _STEP
        values = (values ^ (values >> np.uint64(30))) * _ONE
        values = (values ^ (values >> np.uint64(27))) * _TWO
        return values ^ (values >> np.uint64(31))


def joined(key: np.uint64, *parts: Hashes) -> Hashes:
    """Return the hash of an operation (`key`) on operands in their order; shapes broadcast."""
    found: Hashes = np.asarray(key)
    for part in parts:
        found = mixed(found * _TWO ^ mixed(part))
    return found


def along(key: np.uint64, values: Hashes, axis: int) -> Hashes:
    """Return the hash of all elements along an axis, each by its place."""
    count = values.shape[axis]
    shape = [1] * values.ndim
    shape[axis] = count
    return joined(key, total(mixed(values ^ weights(count).reshape(shape)), axis))


def total(values: Hashes, axis: int) -> Hashes:
    """Return sums along an axis, which wrap."""
    return np.add.reduce(values, axis=axis, dtype=np.uint64)


@lru_cache(maxsize=256)
def weights(count: int) -> Hashes:
    """Return one odd number for each place."""
    return mixed(np.arange(count, dtype=np.uint64) ^ salt("places")) | np.uint64(1)


@lru_cache(maxsize=1)
def _of_bytes() -> tuple[Hashes, Hashes, Hashes]:
    """For each byte of an element: the factor and the summand that make it from the hash of the
    element, and the factor that undoes the first."""
    factors = mixed(np.arange(WIDEST, dtype=np.uint64) ^ salt("factors")) | np.uint64(1)
    inverse = np.array([pow(int(f), -1, 1 << 64) for f in factors], np.uint64)
    return factors, mixed(factors), inverse


def as_bytes(elements: Hashes, width: int) -> Hashes:
    """Return the hashes of the bytes of elements, one more dimension of `width` at the end."""
    factors, summands, _ = _of_bytes()
    return elements[..., None] * factors[:width] + summands[:width]


def as_elements(content: Hashes) -> Hashes:
    """Return the hashes of elements by those of their bytes, the last dimension."""
    width = content.shape[-1]
    _, summands, inverse = _of_bytes()
    written = (content - summands[:width]) * inverse[:width]
    whole = (written == written[..., :1]).all(axis=-1)
    if whole.all():
        return written[..., 0]
    other = joined(salt("bytes", width), *(content[..., i] for i in range(width)))
    return np.where(whole, written[..., 0], other)


def constant(content: np.ndarray) -> Hashes:
    """Return the hashes of bytes that do not depend on any input, by their values."""
    return _constants()[content]


@lru_cache(maxsize=1)
def _constants() -> Hashes:
    return mixed(np.arange(256, dtype=np.uint64) ^ salt("constant"))


@lru_cache(maxsize=16)
def zero(width: int) -> np.uint64:
    """Return the hash of an element whose bytes are all the constant 0."""
    return as_elements(constant(np.zeros((1, width), np.uint8)))[0]
