"""A page on how a tensor fares in several formats: table, error histograms, scale maps. One file,
no scripts."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 62rem; padding: 0 1rem;
       color: #1c1f23; background: #fff; }
table { border-collapse: collapse; width: 100%; }
th, td { padding: .3rem .7rem; text-align: right; border-bottom: 1px solid #d9dde2; }
th:first-child, td:first-child { text-align: left; }
section { display: grid; grid-template-columns: 1fr 1fr; gap: 1.5rem; margin-top: 2rem; }
h2 { grid-column: 1 / -1; font-size: 1.1rem; margin: 0; }
figure { margin: 0; } figcaption { color: #596069; font-size: .85rem; }
svg { width: 100%; height: auto; background: #f5f6f8; }
@media (prefers-color-scheme: dark) {
  body { color: #e4e7ea; background: #16191d; } th, td { border-color: #383e45; }
  svg { background: #22272d; } figcaption { color: #9aa3ad; } }
"""
_BINS, _WIDE, _HIGH = 61, 480, 160
_CELLS = 96


def page(
    title: str,
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    pictures: Sequence[tuple[str, np.ndarray, np.ndarray]],
) -> str:
    """Return an HTML page: a table, then for each (name, errors, scales) a histogram of the errors
    and a map of the scales, which are a scalar, a vector or a matrix."""
    cells = "".join(f"<th>{escape(h)}</th>" for h in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in row)}</tr>\n" for row in rows)
    parts = "".join(_section(*picture) for picture in pictures)
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}'
        f"</title><style>{_STYLE}</style></head><body>\n<h1>{escape(title)}</h1>\n"
        f"<table><thead><tr>{cells}</tr></thead><tbody>\n{body}</tbody></table>\n{parts}"
        "</body></html>\n"
    )


def _section(name: str, errors: np.ndarray, scales: np.ndarray) -> str:
    return (
        f"<section><h2>{escape(name)}</h2>{_histogram(errors)}{_scale_map(np.asarray(scales))}"
        "</section>\n"
    )


def _histogram(errors: np.ndarray) -> str:
    """Bars of equal width over the range of the finite errors, heights as square roots."""
    finite = errors[np.isfinite(errors)]
    top = float(np.abs(finite).max(initial=0)) or 1.0
    counts, _ = np.histogram(finite, _BINS, (-top, top))
    tall = np.sqrt(counts / max(int(counts.max(initial=1)), 1))
    width = _WIDE / _BINS
    bars = "".join(
        f'<rect x="{i * width:.2f}" y="{_HIGH * (1 - h):.2f}" width="{width - 1:.2f}" '
        f'height="{_HIGH * h:.2f}" fill="#3f7fbf"/>'
        for i, h in enumerate(tall.tolist())
        if h
    )
    lost = errors.size - finite.size
    note = f"; {lost} not finite" if lost else ""
    return (
        f'<figure><svg viewBox="0 0 {_WIDE} {_HIGH}" role="img">{bars}</svg><figcaption>errors '
        f"from {-top:.4g} to {top:.4g}, heights as square roots{note}</figcaption></figure>"
    )


def _scale_map(scales: np.ndarray) -> str:
    """Cells as bright as the logarithm of their scale; large maps show every n-th one."""
    grid = scales.reshape(-1, scales.shape[-1] if scales.ndim > 1 else 1)
    if scales.ndim < 2:
        grid = grid.T
    steps = [-(-n // _CELLS) for n in grid.shape]
    grid = grid[:: steps[0], :: steps[1]].astype(np.float64)
    with np.errstate(all="ignore"):
        level = np.log2(grid)
    known = level[np.isfinite(level)]
    low, high = (float(known.min()), float(known.max())) if known.size else (0.0, 0.0)
    span = (high - low) or 1.0
    wide, tall = _WIDE / grid.shape[1], _HIGH / grid.shape[0]
    cells = "".join(
        f'<rect x="{c * wide:.2f}" y="{r * tall:.2f}" width="{wide + 0.1:.2f}" '
        f'height="{tall + 0.1:.2f}" fill="{_colour(float(level[r, c] - low) / span)}"/>'
        for r, c in np.ndindex(*grid.shape)
    )
    every = "" if steps == [1, 1] else f", every {steps[0]}x{steps[1]}"
    return (
        f'<figure><svg viewBox="0 0 {_WIDE} {_HIGH}" preserveAspectRatio="none" role="img">{cells}'
        f"</svg><figcaption>scales from {2**low:.4g} to {2**high:.4g}{every}</figcaption></figure>"
    )


def _colour(part: float) -> str:
    if not np.isfinite(part):
        return "#888888"
    low, high = (38, 52, 110), (250, 214, 90)
    mixed = (round(a + (b - a) * part) for a, b in zip(low, high, strict=True))
    return "#" + "".join(f"{v:02x}" for v in mixed)
