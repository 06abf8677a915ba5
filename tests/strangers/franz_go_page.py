"""The program of the guide's page about franz-go, built and run as a reader would."""

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from strangers.copied_orders import are_copied
from strangers.franz_go import KADM, KGO, go_paths
from strangers.suite import (
    CACHE,
    FAILED,
    PASSED,
    ROOT,
    NotRun,
    Results,
    Suite,
    Target,
    build,
    run_command,
)

_PAGE = ROOT / "docs/guide/clients/franz-go.md"
_FOLDER = CACHE / "franz-go-page"
_TEST = "orders are copied exactly once"


@dataclass(frozen=True)
class FranzGoPage(Suite):
    """One test: its program ends with status 0, and the topics hold what it says."""

    @property
    def expected(self) -> str:
        return "franz-go"

    def prepare(self, source: Path | None) -> None:
        if shutil.which("go") is None:
            raise NotRun("Go is missing: install it (1.26 or newer)")
        [program] = re.findall(r"^```go\n(.*?)^```$", _PAGE.read_text(), re.M | re.S)
        _FOLDER.mkdir(parents=True, exist_ok=True)
        (_FOLDER / "main.go").write_text(program)
        modules = "\n".join(f"\t{each.replace('@', ' ')}" for each in (KGO, KADM))
        (_FOLDER / "go.mod").write_text(f"module page\n\ngo 1.25\n\nrequire (\n{modules}\n)\n")
        build(["go", "mod", "tidy"], _FOLDER, environment=go_paths())
        build(["go", "build", "-o", "page", "."], _FOLDER, environment=go_paths())

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        status = run_command([os.fspath(_FOLDER / "page"), target.address], target.log, limit=120)
        is_right = status == 0 and are_copied(target.address)
        return {_TEST: PASSED if is_right else FAILED}


SUITES = (FranzGoPage("franz-go page", {"group.initial.rebalance.delay.ms": "0"}),)
