"""Speed, measured: `python -m tests.bench` prints ratios beside absolute figures. Nothing here asserts."""
