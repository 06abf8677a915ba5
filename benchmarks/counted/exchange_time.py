"""The time of a request or two to a broker, in the process that also asks: no thread, no network.

    PYTHONPATH=benchmarks:src python -m counted.exchange_time

Two figures: processor time of a complete exchange, which includes the client's ``sendall`` and
``recv``, by batches; and the broker's turn of its loop alone, by the clock, each turn measured.
The request has arrived before the turn begins, so the turn waits for nothing.
"""

import tempfile
from pathlib import Path
from statistics import median
from time import perf_counter_ns, process_time_ns
from unittest.mock import patch

from counted.broker import commit_one, fetch_in_session, fetch_some, produce_one
from counted.operation import Setup, Workspace
from kstore.broker.loop import Loop

BATCHES = 50
EXCHANGES = 500  # in a batch


def measure(make: Setup) -> tuple[list[float], list[float]]:
    """Microseconds of an exchange, one figure for each batch, and of each turn."""
    turns: list[float] = []
    turn = Loop._turn

    def timed_turn(loop: Loop) -> None:
        began = perf_counter_ns()
        turn(loop)
        turns.append((perf_counter_ns() - began) / 1000)

    with tempfile.TemporaryDirectory(dir="/dev/shm") as directory:
        workspace = Workspace(Path(directory))
        with workspace.stack:
            exchange, expected = make(workspace)
            assert exchange() == expected
            exchanges = []
            for _ in range(BATCHES):
                began = process_time_ns()
                answers = [exchange() for _ in range(EXCHANGES)]
                exchanges.append((process_time_ns() - began) / EXCHANGES / 1000)
                assert answers == [expected] * EXCHANGES
            with patch.object(Loop, "_turn", timed_turn):
                answers = [exchange() for _ in range(BATCHES * EXCHANGES)]
            assert answers == [expected] * len(answers)
            assert len(turns) >= len(answers)
    return exchanges, turns


def main() -> None:
    for name, make in (
        ("Produce of one record", produce_one),
        ("Fetch of 4 KiB", fetch_some),
        ("Fetch of 4 KiB in a session", fetch_in_session),
        ("AddPartitionsToTxn and EndTxn", commit_one),
    ):
        exchanges, turns = measure(make)
        print(
            f"{name}: exchange {min(exchanges):.1f} us (median {median(exchanges):.1f}), "
            f"of which the broker's turn {min(turns):.1f} us (median {median(turns):.1f})"
        )


if __name__ == "__main__":
    main()
