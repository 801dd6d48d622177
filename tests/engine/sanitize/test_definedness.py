"""Which elements of a result were written with values. What is computed of bytes that nothing wrote
has no value either: that is reported where they are read first, and once."""

from __future__ import annotations

import numpy as np

from tests.support.text import Kernel


def run(*names: str, **options: object):
    """Eight of sixteen columns are loaded; operations on all of them; ten rows, eight stored."""
    k = Kernel("a5")
    x, y = k.tile("x", "f32", 8, 16), k.tile("y", "f32", 8, 16)
    k.load("src", k.alias("pto.treshape", "part", x, v_row=8, v_col=8))
    for name in names:
        k.op(f"pto.{name}", [x, (k.arg("s", "f32"), "f32")], [y])
        x = y
    k.store(y, "dst")
    given = {"src": np.ones((8, 8), np.float32), "dst": np.zeros((10, 16), np.float32), "s": 1.0}
    return k.run(given, **options)


def test_elements_computed_of_bytes_without_values_have_none():
    result = run("tadds")
    expected = np.zeros((10, 16), bool)
    expected[:8, :8] = True  # of the rest nothing was loaded, or nothing stored
    assert np.array_equal(result.definedness["dst"], expected)
    assert not result.definedness["src"].any()  # nothing writes it


def test_the_cause_is_reported_once():
    """In the place of its source too, and after other operations."""
    result = run("tadds", "tmuls", "tsubs")
    assert [d.code for d in result.findings] == ["PTO7101"]
    assert "'pto.tadds' reads %x" in result.findings[0].message
    assert result.definedness["dst"].sum() == 64


def test_without_the_sanitizer_nothing_is_known():
    assert dict(run("tadds", sanitize="none").definedness) == {}
