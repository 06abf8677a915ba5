"""Diagrams and the style of self-contained HTML pages: SVG, drawn by matplotlib."""

import io
from importlib import import_module
from typing import Any

STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem;
  color: #1c2733; background: #fff }
h1 { font-size: 1.6rem } h2 { margin-top: 2.5rem; border-bottom: 1px solid #d5dde5 }
table { border-collapse: collapse; width: 100%; font-size: 14px }
td, th { text-align: left; padding: .15rem .6rem .15rem 0; vertical-align: top }
td.n, th.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
svg { max-width: 100%; height: auto }
"""
_INCHES = (8.5, 3.6)


class SvgDiagrams:
    """ImportError where matplotlib is not installed."""

    def __init__(self) -> None:
        matplotlib: Any = import_module("matplotlib")
        self._figure: Any = import_module("matplotlib.figure").Figure
        matplotlib.rcParams.update(
            {"svg.fonttype": "none", "font.size": 9, "axes.grid": True, "grid.alpha": 0.3}
        )

    def axes(self, height: float = _INCHES[1]) -> tuple[Any, Any]:
        """A figure of this height in inches, and its axes."""
        figure = self._figure(figsize=(_INCHES[0], height), layout="constrained")
        return figure, figure.subplots()

    def svg(self, figure: Any) -> str:
        """The SVG element of a figure; the same bytes for the same figure."""
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
        text = out.getvalue()
        return text[text.index("<svg") :]
