"""Results in the XML that pytest and jest-junit write."""

from pathlib import Path
from xml.etree import ElementTree

from strangers.suite import FAILED, PASSED, SKIPPED, NotRun, Results


def read_results(path: Path, *, last_parts: int = 1) -> Results:
    """What became of each test: ``file::test``, with so many parts of the class's dotted name.

    A test that failed and whose fixtures failed afterwards counts once. Raises NotRun if there
    is no report, or no test in it.
    """
    if not path.exists():
        raise NotRun("the suite ended without a report")
    found: Results = {}
    for case in ElementTree.parse(path).iter("testcase"):
        kinds = {child.tag for child in case}
        became = PASSED
        if kinds & {"failure", "error"}:
            became = FAILED
        elif "skipped" in kinds:
            became = SKIPPED
        where = ".".join(case.get("classname", "").split(".")[-last_parts:])
        name = f"{where}::{case.get('name')}"
        if found.get(name) != FAILED:
            found[name] = became
    if not found:
        raise NotRun("the suite's report has no tests")
    return found
