"""``make strangers``: the suites of Kafka's clients, in one table.

Status 0: every score is as expected. 1: a failure that is not expected, a pass where a failure was
expected, an error in the broker's log, or a suite that did not run.
"""

import argparse
import json
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from strangers import (
    aiokafka,
    confluent_python,
    franz_go,
    franz_go_page,
    kafka_python,
    kafka_tools,
    kafkajs,
    kafkajs_page,
    librdkafka,
)
from strangers.brokers import BROKERS, broker_for
from strangers.expectations import Score, judge, read_expectations, to_run_again
from strangers.suite import CACHE, ROOT, NotRun, Suite, Target
from strangers.table import Run, lines_of

SUITES: tuple[Suite, ...] = (
    *kafka_python.SUITES,
    *franz_go.SUITES,
    *franz_go_page.SUITES,
    *kafka_tools.SUITES,
    *confluent_python.SUITES,
    *librdkafka.SUITES,
    *aiokafka.SUITES,
    *kafkajs.SUITES,
    *kafkajs_page.SUITES,
)
LOGS = ROOT / "out" / "strangers"
_TIMES = 3  # that an unsteady test runs, and a retried one that failed


def main(words: Sequence[str] | None = None) -> int:
    arguments = _parser().parse_args(words)
    sources = {name: Path(path).resolve() for name, path in map(_pair, arguments.source)}
    chosen = [each for each in SUITES if _is_chosen(each, arguments.suite)]
    if not chosen:
        raise SystemExit(f"no suite is called {' or '.join(arguments.suite)}")
    LOGS.mkdir(parents=True, exist_ok=True)
    CACHE.mkdir(parents=True, exist_ok=True)
    ready = {each.name: _prepare(each, sources.get(each.expected)) for each in chosen}
    pairs = [
        (each, name)
        for each in chosen
        for name in arguments.at or BROKERS
        if name not in each.not_at
    ]
    run_one = partial(_run, ready=ready, may_be_missing=arguments.missing_sources)
    # A broker ends with the thread that started it: each pair is one task.
    with ThreadPoolExecutor(arguments.jobs) as pool:
        runs = list(pool.map(lambda pair: run_one(*pair), pairs))
    print("", *lines_of(runs), sep="\n")
    return 0 if all(run.is_right for run in runs) else 1


def _pair(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not equals:
        raise SystemExit(f"--source takes NAME=PATH, not {text}")
    return name, path


def _parser() -> argparse.ArgumentParser:
    names = ", ".join(each.name for each in SUITES)
    parser = argparse.ArgumentParser(prog="make strangers", description=__doc__)
    parser.add_argument("suite", nargs="*", help=f"or the beginning of a name; all: {names}")
    parser.add_argument(
        "--at",
        action="append",
        choices=BROKERS,
        help="a broker; default: all, kstore and the two of Kafka",
    )
    parser.add_argument("--source", action="append", default=[], metavar="NAME=PATH",
        help="the source tree of a suite that no registry has",
    )  # fmt: skip
    parser.add_argument("--missing-sources", action="store_true",
        help="a suite without its source tree is shown as not run, and is no error",
    )  # fmt: skip
    parser.add_argument("--jobs", type=int, default=1, metavar="N",
        help="suites that run at a time, each with a broker of its own",
    )  # fmt: skip
    return parser


def _is_chosen(suite: Suite, names: Sequence[str]) -> bool:
    """By its full name, or by the name that its variants share."""
    return not names or suite.name in names or suite.expected in names


def _prepare(suite: Suite, source: Path | None) -> str:
    """Why a suite cannot run; empty: it is ready."""
    if suite.needs_source and source is None:
        return f"no source tree: give --source {suite.expected}=PATH"
    print(f"==> {suite.name}: made ready", flush=True)
    try:
        suite.prepare(source)
    except NotRun as reason:
        return str(reason)
    return ""


def _run(suite: Suite, name: str, *, ready: dict[str, str], may_be_missing: bool) -> Run:
    if ready[suite.name]:
        missing = may_be_missing and suite.needs_source
        return Run(suite.name, name, 0, None, ready[suite.name], may_be_missing=missing)
    print(f"==> {suite.name} at {name}", flush=True)
    began = time.monotonic()
    log = LOGS / f"{suite.name.replace(' ', '-')}.{name}.log"
    log.unlink(missing_ok=True)
    try:
        with broker_for(suite, name, LOGS) as broker:
            score = _score(suite, Target(name, broker.address, log, broker.ports))
            errors = broker.errors()
    except NotRun as reason:
        return Run(suite.name, name, time.monotonic() - began, None, str(reason))
    run = Run(suite.name, name, time.monotonic() - began, score, broker_errors=errors)
    print(*lines_of([run])[1:], sep="\n", flush=True)
    return run


def _score(suite: Suite, target: Target) -> Score:
    expected = read_expectations(suite.expected, suite.name, target.name)
    results = suite.run(target)
    chosen = to_run_again(results, expected)
    again = [suite.run(target, chosen) for _ in range(1, _TIMES)] if chosen else []
    (LOGS / f"{suite.name.replace(' ', '-')}.{target.name}.json").write_text(
        json.dumps({"results": results, "again": again}, indent=1)
    )
    return judge(results, again, expected)


if __name__ == "__main__":
    sys.exit(main())
