"""What a run produces: JSON results, text tables, an HTML page, a comparison of two runs."""
