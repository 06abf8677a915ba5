"""The contests of one installation, a call at a time: what ``interleave`` starts twice.

Runs in the interpreter of the installation that it measures, from its source text. Every line on
standard input allows the next step, a contest's start or one contestant's calls of a round:
``skip`` skips the contest, and ``end``, before the first call of a round, ends it. A start may have
a JSON object, how often to call contestants in a round: the other installation measured it.
Every line of standard output is a JSON object: ``{"waits": title}`` before a contest,
``{"waits": "", "round": n, "calls": ...}`` before a call, ``{"result": ...}`` after a contest,
``{"failed": ...}`` for one that failed.
"""

import json
import logging
import os
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TextIO

from kstore.bench.contest import Contest, describe_error
from kstore.bench.report import results
from kstore.bench.runner.rounds import run
from kstore.bench.workload import Setting, Workload, workloads

MOST_ROUNDS = 1000
SKIP, END = "skip", "end"


def of_kstore(workload: str, names: Collection[str], goals: Collection[str]) -> set[str]:
    """The contestants that are kstore's: those whose name begins with ``kstore``.

    Without one, in a workload of the engine, those that a goal is about; else all.
    """
    ours = {name for name in names if name.startswith("kstore")}
    if not ours and workload.partition("/")[0] == "engine":
        ours = set(goals) & set(names)
    return ours or set(names)


def only_kstore(workload: str, contest: Contest) -> Contest:
    """A contest of kstore's contestants: the others are the same code in both installations."""
    ours = of_kstore(workload, contest.calls, [ours for ours, _, _ in contest.bars])
    calls = {name: call for name, call in contest.calls.items() if name in ours}
    return replace(contest, calls=calls)


def chosen(words: Sequence[str]) -> list[Workload]:
    """The workloads of the words: the machine's, or those of the package ``engine``."""
    if any(word.partition("/")[0] == "engine" for word in words):
        return workloads(words, import_module("engine.workloads").CATALOG)
    return workloads(words)


def in_turn(words: Sequence[str], level: str, channel: TextIO) -> None:
    """Run the contests of the words, waiting before every call."""

    def send(message: dict[str, object]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    def wait(title: str = "", number: int = 0, calls: Mapping[str, int] | None = None) -> str:
        send({"waits": title, "round": number, "calls": dict(calls or {})})
        if not (answer := sys.stdin.readline()):
            raise SystemExit(1)  # the one that started it has ended
        return answer.strip()

    def before_call(number: int, calls: Mapping[str, int]) -> bool:
        return wait(number=number, calls=calls) != END

    for workload in chosen(words):
        folder = Path(tempfile.mkdtemp(dir=tempfile.gettempdir()))
        setting = Setting(folder, workload.size(level), level, in_turns=True)
        for contest in workload.contests(setting):
            title = f"{workload.title}: {contest.name}"
            if (answer := wait(title)) == SKIP:
                continue
            try:
                outcome = run(
                    only_kstore(workload.title, contest),
                    rounds=MOST_ROUNDS,
                    calls=json.loads(answer or "{}"),
                    before_call=before_call,
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
    in_turn(sys.argv[2:], sys.argv[1], private)
