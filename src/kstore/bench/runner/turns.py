"""The contests of one installation, a round at a time: what ``interleave`` starts twice.

Runs in the interpreter of the installation that it measures, from its source text. Every line on
standard input allows the next step, a contest's start or one round; ``skip`` skips the contest.
Every line of standard output is a JSON object: ``{"waits": title}`` before a contest,
``{"waits": ""}`` before a round, ``{"result": ...}`` after a contest, ``{"failed": ...}`` for one
that failed.
"""

import json
import logging
import os
import sys
import tempfile
from collections.abc import Collection, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TextIO

from kstore.bench.contest import Contest, describe_error
from kstore.bench.report import results
from kstore.bench.runner.rounds import run
from kstore.bench.workload import Setting, Workload, workloads

MOST_ROUNDS = 1000
SKIP = "skip"
PEERS = 3  # contestants that are not kstore's, beside which its own are judged


def of_kstore(workload: str, names: Collection[str], goals: Collection[str]) -> set[str]:
    """The contestants that are kstore's: those whose name begins with ``kstore``.

    Without one, in a workload of the engine, those that a goal is about; else all.
    """
    ours = {name for name in names if name.startswith("kstore")}
    if not ours and workload.partition("/")[0] == "engine":
        ours = set(goals) & set(names)
    return ours or set(names)


def fewer(workload: str, contest: Contest) -> Contest:
    """A contest with kstore's contestants, its ceiling, and a few of the others: more rounds fit
    into the time."""
    ours = of_kstore(workload, contest.calls, [ours for ours, _, _ in contest.bars])
    real = [name for name in contest.calls if name not in ours | contest.targets]
    real.sort(key=lambda name: name != contest.ceiling)
    kept = ours | set(real[:PEERS])
    calls = {name: call for name, call in contest.calls.items() if name in kept}
    return replace(contest, calls=calls)


def chosen(words: Sequence[str]) -> list[Workload]:
    """The workloads of the words: the machine's, or those of the package ``engine``."""
    if any(word.partition("/")[0] == "engine" for word in words):
        return workloads(words, import_module("engine.workloads").CATALOG)
    return workloads(words)


def in_turn(words: Sequence[str], level: str, seconds: float, channel: TextIO) -> None:
    """Run the contests of the words, each for so many seconds, waiting before every round."""

    def send(message: dict[str, object]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def wait(title: str = "") -> str:
        send({"waits": title})
        if not (answer := sys.stdin.readline()):
            raise SystemExit(1)  # the one that started it has ended
        return answer.strip()

    def before_round(done: int, wanted: int) -> None:
        wait()

    for workload in chosen(words):
        folder = Path(tempfile.mkdtemp(dir=tempfile.gettempdir()))
        setting = Setting(folder, workload.size(level), level)
        for contest in workload.contests(setting):
            title = f"{workload.title}: {contest.name}"
            if wait(title) == SKIP:
                continue
            try:
                outcome = run(
                    fewer(workload.title, contest),
                    rounds=MOST_ROUNDS,
                    seconds=seconds,
                    on_progress=before_round,
                    keep_going=True,
                )
            except Exception as error:
                send({"failed": {"workload": title, "reason": describe_error(error)}})
                continue
            for name, reason in outcome.failed.items():
                send({"failed": {"workload": f"{title}: {name}", "reason": reason}})
            result = results.as_tree(workload.group, workload.title, outcome)
            for entry in result["contestants"]:  # large, and of no use here
                entry.pop("curve", None)
                entry.pop("hdr", None)
            send({"result": result})


if __name__ == "__main__":
    logging.getLogger("kstore").setLevel(logging.ERROR)  # the contests recover logs on purpose
    private = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what contests print does not disturb the messages
    in_turn(sys.argv[3:], sys.argv[1], float(sys.argv[2]), private)
