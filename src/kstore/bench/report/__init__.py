"""What a run produces: the verdict, JSON results, text tables, an HTML page, comparisons.

Modules:

- compare: Compare two runs: which of kstore's figures are slower or faster
- device_classes: Classes of storage devices, with the ranges that published figures of each class
  span
- grade: The grade of a machine for a log, and the sentence that gives its reason
- html_page: Results as a self-contained HTML page: the verdict, at most ten plots, and every table
- plots: The plots of a run's page: at most ten, each readable without a mouse
- results: The JSON file of a run: its contents, and how it is written and read
- sentences: One sentence for each figure of the verdict: what it means for a log, in records and
  consumers
- shift: How much longer one run took than another, with an exact interval
- side_by_side: The verdicts of two runs beside each other: which of two disks, on one screen
- text_table: Results as text tables: every figure with its interval and its fraction of the ceiling
- units: Figures as text: durations, rates, sizes, counts
- verdict: The verdict on one screen: at most 23 lines of 80 columns
"""
