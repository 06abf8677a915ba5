"""Parts whose work stands in tests of their own: interrupts, fuzzing, the model."""

import os
import shutil
from pathlib import Path

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kstore.errors import KStoreError
from property.test_log_machine import LogMachine
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.test_fuzz import TARGETS, log_seeds, mutate, with_right_crc
from torture.test_interrupts import ERRORS, OPERATIONS, expected, strike


def interrupt_all(budget: Budget) -> Figures:
    """KeyboardInterrupt and MemoryError at every line of the writing half, in a random order."""

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            known = {}
            for at, name in enumerate(OPERATIONS):
                known[name] = expected(_made(f"{base}/{at}"), name)
            points = [
                (name, at, error)
                for name, (count, *_) in known.items()
                for at in range(count)
                for error in ERRORS
            ]
            budget.random("interrupts").shuffle(points)
            for name, at, error in points[number :: budget.jobs]:
                if budget.ended(figures):
                    break
                _, before, after, ends = known[name]
                directory = Path(f"{base}/struck")
                try:
                    struck = strike(directory, name, at, error, before, after, ends)
                    figures.counts["interrupts"] += bool(struck)
                except Exception as found:  # whatever it is, it is a finding
                    figures.violated(name, at, error.__name__, type(found).__name__, found)
                for left in (directory, Path(f"{directory}-left")):
                    shutil.rmtree(left, ignore_errors=True)
            figures.counts["of"] = len(points) if number == 0 else 0
        return figures

    with quietly():
        return share(budget.jobs, work)


def _made(path: str) -> Path:
    os.mkdir(path)
    return Path(path)


def fuzz_all(budget: Budget) -> Figures:
    """Every decoder in turn, a thousand mutated inputs at a time."""

    def work(number: int) -> Figures:
        figures = Figures()
        random = budget.random("fuzz", number)
        inputs = {name: seeds() for name, (_, seeds) in TARGETS.items()}
        while not budget.ended(figures):
            for name, (target, seeds) in TARGETS.items():
                for _ in range(1000):
                    data = mutate(random, random.choice(inputs[name]))
                    if seeds is log_seeds and random.random() < 0.7:
                        data = with_right_crc(data)
                    try:
                        target(data)
                    except KStoreError:
                        figures.counts["refused"] += 1
                    except BaseException as error:
                        figures.violated(name, type(error).__name__, error, data.hex())
                figures.counts["inputs"] += 1000
        return figures

    return share(budget.jobs, work)


class _TimeOverError(BaseException):
    """Not an Exception, which would be taken for a finding."""


def model_all(budget: Budget) -> Figures:
    """Random histories of a log beside a trivial one in memory, a few at a time.

    Each process has seeds of its own. A history that fails is not made shorter, which may take
    minutes: the violation names its seed.
    """

    def work(number: int) -> Figures:
        figures = Figures()

        class Timely(LogMachine):
            def check_invariants(self, *arguments: object, **named: object) -> None:
                if budget.over:
                    raise _TimeOverError
                super().check_invariants(*arguments, **named)

        turn = number
        while not budget.ended(figures):
            Timely._hypothesis_internal_use_seed = budget.seed * 1_000_003 + turn
            turn += budget.jobs
            try:
                run_state_machine_as_test(
                    Timely,
                    settings=settings(
                        max_examples=5, stateful_step_count=60, database=None, deadline=None,
                        phases=[Phase.generate], suppress_health_check=list(HealthCheck),
                    ),
                )  # fmt: skip
            except _TimeOverError:
                break
            except Exception as error:  # whatever it is, it is a finding
                seed = Timely._hypothesis_internal_use_seed
                figures.violated(f"seed {seed}", type(error).__name__, error)
            figures.counts["histories"] += 5
        return figures

    with quietly():
        return share(budget.jobs, work)
