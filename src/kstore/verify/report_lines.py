"""The report of an audit as lines of text, and as an exit status. Pure functions."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kstore.integers import count_of

if TYPE_CHECKING:
    from kstore.verify.partition import VerifyReport

DAMAGE, WARNINGS = 1, 3  # exit statuses
_LISTS = (
    ("", "findings"),
    ("warning: ", "warnings"),
    ("in flight: ", "in_flight"),
    ("recovery is due: ", "recovery_due"),
)


def status_of(reports: Iterable["VerifyReport"]) -> int:
    """The exit status for some reports: damage takes precedence over warnings."""
    seen = list(reports)
    if not all(report.ok for report in seen):
        return DAMAGE
    return WARNINGS if any(report.warning_count for report in seen) else 0


def state_of(report: "VerifyReport") -> str:
    """The verdict on one partition, in a few words."""
    parts = []
    if report.finding_count:
        parts.append(count_of(report.finding_count, "finding"))
    if report.warning_count:
        parts.append(count_of(report.warning_count, "warning"))
    words = [", ".join(parts) or "ok"]
    words += ["in flight"] if report.in_flight else []
    words += ["recovery is due"] if report.recovery_due else []
    return ", ".join(words)


def finding_lines(report: "VerifyReport") -> list[str]:
    """A line for each fault, possible fault, and fault that recovery fixes."""
    lines = []
    for label, name in _LISTS:
        for found in getattr(report, name):
            at = "" if found.position is None else f" position {found.position}"
            offset = "" if found.offset is None else f" offset {found.offset}"
            lines.append(f"  {label}{found.kind}: {found.path}{at}{offset}: {found.sentence}")
    more = report.finding_count - len(report.findings) + report.warning_count - len(report.warnings)
    return [*lines, f"  ... and {more} more"] if more else lines
