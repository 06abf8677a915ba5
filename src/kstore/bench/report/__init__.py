"""What a run produces: the verdict, JSON results, text tables, an HTML page, comparisons."""
