"""State of the simulated machine: memory spaces, tiles as views of their bytes, global memory,
cores."""
