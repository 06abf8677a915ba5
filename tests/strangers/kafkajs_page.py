"""The script of the guide's page about KafkaJS, run as a reader would."""

import os
import re
import shutil
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from strangers.copied_orders import are_copied
from strangers.kafkajs import VERSION
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

PAGE = ROOT / "docs/guide/clients/kafkajs.md"
_ADDRESS = '"127.0.0.1:9092"'  # in the script: that of the page's own broker
_FOLDER = CACHE / f"kafkajs-page-{VERSION}"
_TEST = "orders are copied exactly once"


@dataclass(frozen=True)
class KafkaJSPage(Suite):
    """One test: its script ends with status 0, and the topics hold what it says."""

    def prepare(self, source: Path | None) -> None:
        if shutil.which("node") is None or shutil.which("npm") is None:
            raise NotRun("node or npm is missing (Debian: apt-get install nodejs npm)")
        if not _FOLDER.exists():
            part = _FOLDER.with_name(f"{_FOLDER.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            part.mkdir(parents=True)
            (part / "package.json").write_text('{"name": "page", "private": true}')
            words = ["npm", "install", "--no-audit", "--no-fund", "--ignore-scripts"]
            build([*words, f"kafkajs@{VERSION}"], part)
            part.rename(_FOLDER)

    def run(self, target: Target, only: Collection[str] = ()) -> Results:
        # Each broker has a script of its own: suites run at a time.
        script = _FOLDER / f"page-{target.address.rpartition(':')[2]}.js"
        script.write_text(script_for(target.address))
        try:
            status = run_command(["node", os.fspath(script)], target.log, limit=120)
        finally:
            script.unlink()
        is_right = status == 0 and are_copied(target.address)
        return {_TEST: PASSED if is_right else FAILED}


def script_for(address: str) -> str:
    """The page's script, with another broker. Raises NotRun if the page has no one broker."""
    [script] = re.findall(r"^```javascript\n(.*?)^```$", PAGE.read_text(), re.M | re.S)
    if script.count(_ADDRESS) != 1:
        raise NotRun(f"{PAGE.name} does not name {_ADDRESS} once")
    return script.replace(_ADDRESS, f'"{address}"')


SUITES = (KafkaJSPage("KafkaJS page", {"group.initial.rebalance.delay.ms": "0"}),)
