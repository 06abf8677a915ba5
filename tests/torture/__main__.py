"""``make torture``: the long form, in named parts."""

import argparse
import sys
from collections.abc import Callable
from typing import NamedTuple

from torture import (
    bit_flips,
    crash_states,
    io_errors,
    kills,
    mutations,
    others,
    planted,
    planted_native,
)
from torture.parts import Budget, Figures


class Part(NamedTuple):
    run: Callable[[Budget], Figures]
    goal: tuple[str, int] | None
    about: str


PARTS: dict[str, Part] = {
    "crash-states": Part(
        crash_states.explore_all,
        crash_states.GOAL,
        "every state that a kill or a power cut may leave, on three kinds of disks",
    ),
    "kills": Part(
        kills.kill_all, kills.GOAL, "SIGKILL before, in and after every change to the disk"
    ),
    "io-errors": Part(
        io_errors.fail_all, io_errors.GOAL, "every call to the disk fails, once and forever"
    ),
    "mutations": Part(
        mutations.mutate_all, mutations.GOAL, "directories mutilated at random, in all formats"
    ),
    "bit-flips": Part(
        bit_flips.flip_all, bit_flips.GOAL, "one damaged batch costs one batch, and verify sees it"
    ),
    "interrupts": Part(
        others.interrupt_all, None, "KeyboardInterrupt and MemoryError at every line of the writer"
    ),
    "fuzz": Part(others.fuzz_all, None, "every decoder on mutated bytes"),
    "model": Part(others.model_all, None, "random histories of a log beside a trivial one"),
    "planted": Part(planted.plant_all, planted.GOAL, "bugs planted on purpose, each to be caught"),
    "planted-native": Part(
        planted_native.plant_all, planted_native.GOAL, "the same in kernels, built again for it"
    ),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make torture", description=__doc__)
    parser.add_argument("parts", nargs="*", help="default: all of " + ", ".join(PARTS))
    parser.add_argument("--seconds", type=float, default=300, help="for each part")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    failed = False
    for name in options.parts or PARTS:
        part = PARTS.get(name)
        if part is None:
            parser.error(f"no part {name!r}; there are {', '.join(PARTS)}")
        budget = Budget(options.seconds, options.seed, options.jobs)
        figures = part.run(budget)
        for violation in figures.violations:
            print("VIOLATION", violation)
        print(figures.line(name, budget, part.goal), flush=True)
        failed |= figures.violation_count > 0
    return failed


if __name__ == "__main__":
    sys.exit(main())
