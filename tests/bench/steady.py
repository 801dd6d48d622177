"""What `cost` of large launches takes: loops that repeat, and every round of them."""

from __future__ import annotations

from typing import Any

import ptosim
from ptosim.launch.sources import open_source
from tests.bench.programs import add_loop
from tests.bench.timing import Figure, best, calibration, peak_megabytes

GEMM = {"m": 4096, "k": 4096, "n": 4608, "rows": 8, "columns": 3}
ATTENTION = {"queries": 64 * 24, "keys": 16384}


def loops() -> list[Figure]:
    """A thousand million rounds of an addition; 10,000 rounds of it, and in full."""
    program = ptosim.load(add_loop(), target="a5")
    loop = calibration()
    many = best(lambda: program.cost(args={"n": 10**9}), 3)
    some = best(lambda: program.cost(args={"n": 10**4}), 3)
    full = best(lambda: program.cost(args={"n": 10**4}, steady=False), 3)
    beside = f"100k-addition loop {1000 * loop:.1f} ms"
    return [
        Figure("cost of 10^9 rounds", f"{1e3 * many:.1f} ms", beside, f"{many / loop:.1f}", "< 1 s"),
        Figure(
            "cost of 10^4 rounds, a period of them", f"{1e3 * some:.1f} ms",
            f"every round {1e3 * full:.1f} ms", f"{some / full:.3f}",
        ),
    ]  # fmt: skip


def launches() -> list[Figure]:
    """The products and the attention of a large model on 24 blocks."""
    return [
        *_launch("cost of GEMM 4096x4096x4608, 24 blocks", "gemm_grid", "a2a3", GEMM, "< 0.2 s"),
        *_launch("cost of attention, 16k keys, 24 blocks", "flash_attention", "a2a3", ATTENTION, "< 1 s"),
        *_launch("cost of attention, 16k keys, A5", "flash_attention", "a5", ATTENTION, "< 1 s"),
    ]  # fmt: skip


def _launch(what: str, name: str, target: str, args: dict[str, int], budget: str) -> list[Figure]:
    source = open_source(f"@cube/{name}").text
    sync = "auto" if name == "flash_attention" else "manual"
    entry = "cube_kernel" if name == "flash_attention" else name
    program = ptosim.load(source, target=target, sync=sync)

    def cost(**options: Any) -> None:
        program.cost(args=args, entry=entry, block_num=24, **options)

    quick = best(cost, 3)
    full = best(lambda: cost(steady=False, each_block=True), 1)
    return [
        Figure(what, f"{quick:.3f} s", f"every round and block {full:.2f} s",
               f"{quick / full:.3f}", budget),
    ]  # fmt: skip


def memory() -> list[Figure]:
    """Peak memory of 10^9 rounds and of the attention, beyond an interpreter with NumPy."""
    rounds = peak_megabytes(add_loop(), "program.cost(args={'n': 10**9})")
    attention = peak_megabytes(
        open_source("@cube/flash_attention").text,
        f"ptosim.load(program.front.source.text, target='a2a3', sync='auto').cost("
        f"args={ATTENTION}, entry='cube_kernel', block_num=24)",
    )
    return [
        Figure("peak memory, cost of 10^9 rounds", f"{rounds:.0f} MB", "", "", "as of 100"),
        Figure(
            "peak memory, cost of attention, 24 blocks", f"{attention:.0f} MB", "", "", "< 100 MB"
        ),
    ]
