"""Lines at the end of the run: how much was compared with the conformance data."""

from __future__ import annotations

from tests.ops.conformance.data import COMPARED


def pytest_terminal_summary(terminalreporter):
    for group in sorted({key.split()[0] for key in COMPARED}):
        counts = [
            f"{count:,} {key.partition(' ')[2]}"
            for key, count in COMPARED.items()
            if key.split()[0] == group and count
        ]
        terminalreporter.write_line(f"conformance {group}: {', '.join(counts)}")
