"""Stretches of global memory against a dictionary of every byte."""

from __future__ import annotations

import itertools
import random

from ptosim.time.pipes.last_uses import Spans


def test_stretches_are_what_a_table_of_bytes_says():
    """The last use of a byte counts; stretches stay sorted, apart, and never empty."""
    rng = random.Random(5)
    for _ in range(400):
        spans, table = Spans(), {}
        for time in range(rng.randrange(1, 30)):
            first = rng.randrange(30)
            end = first + rng.randrange(1, 12)
            spans.put(first, end, (time, time))
            table |= dict.fromkeys(range(first, end), (time, time))
            stretches = list(zip(spans.firsts, spans.ends, spans.items, strict=True))
            assert {b: use for a, e, use in stretches for b in range(a, e)} == table
            assert all(a < e for a, e, _ in stretches)
            assert all(e <= a for (_, e, _), (a, _, _) in itertools.pairwise(stretches))
            low = rng.randrange(30)
            high = low + rng.randrange(1, 12)
            over = {table[b] for b in range(low, high) if b in table}
            assert set(spans.over(low, high)) == over
            assert spans.latest == time
