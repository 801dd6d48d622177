"""A line at the end of the run: how much was compared with the conformance data."""

from __future__ import annotations

from tests.conformance.data import CASES, COMPARED


def pytest_terminal_summary(terminalreporter):
    groups = sorted({key.split()[0] for key in COMPARED})
    for group in groups:
        counts = [f"{COMPARED[f'{group} {what}']} {what}" for what in ("arrays", "elements")]
        left_out = COMPARED[f"{group} left out"]
        note = f", {left_out} elements left to rules" if left_out else ""
        terminalreporter.write_line(f"conformance {group}: {', '.join(counts)} compared{note}")
    for group in sorted({key.split()[0] for key in CASES}):
        counts = [
            f"{count} {key.partition(' ')[2]}"
            for key, count in CASES.items()
            if key.startswith(group)
        ]
        terminalreporter.write_line(f"conformance {group}: {', '.join(counts)} of the cases")
