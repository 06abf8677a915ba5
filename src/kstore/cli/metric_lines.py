"""Prints the metrics of a client as Kafka's ToolsUtils.printMetrics does."""

import math
from collections.abc import Mapping


def print_metrics(values: Mapping[str, float]) -> None:
    """An empty line, a header, and a line for each metric, sorted by name."""
    width = max(map(len, values), default=0)
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, value in sorted(values.items()):
        shown = "NaN" if math.isnan(value) else f"{value:.3f}"
        print(f"{name:<{width}} : {shown}")
