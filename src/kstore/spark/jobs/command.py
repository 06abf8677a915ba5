"""Runs a job from the command line: ``spark-submit .../verify.py --log-dir /data/kafka-logs``."""

import argparse
import sys
import time
from collections.abc import Sequence
from importlib import import_module

from kstore.arguments import split_names
from kstore.errors import InvalidConfigError, KStoreError
from kstore.partition_files import DISK, Files, filenames
from kstore.spark.java_pattern import TopicPattern, compile_topic_pattern
from kstore.spark.jobs import JOBS
from kstore.spark.source.range_reader import check_visible
from kstore.store.store import Store

_INTERVAL = 5.0  # seconds between two lines of progress


def add_common(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--log-dir",
        "--path",
        action="append",
        required=True,
        metavar="DIR[,DIR...]",
        help="REQUIRED: the directory that holds the partitions (Kafka's log.dirs), as the driver "
        "and every executor see it; several are separated by commas, or the option is repeated",
    )
    parser.add_argument(
        "--topic", metavar="REGEX", type=topic_pattern, help="topics (default: all)"
    )
    parser.add_argument(
        "--master",
        metavar="URL",
        help="Spark's master (default: spark-submit's, else local[*], all cores of this machine)",
    )


def paths_of(arguments: argparse.Namespace, files: Files = DISK) -> tuple[str, ...]:
    """The directories of --log-dir, absolute, each once; StorageError for one that is missing."""
    paths = absolute_of(arguments.log_dir)
    check_visible(files, paths)
    return paths


def absolute_of(given: Sequence[str]) -> tuple[str, ...]:
    """Directories separated by commas, absolute, each once."""
    from kstore.partition_files import absolute_paths

    return absolute_paths(split_names(given))


def topic_pattern(text: str) -> str:
    """An argument's regular expression for topics, checked before Spark starts."""
    try:
        compile_topic_pattern(_alternatives(text))
    except InvalidConfigError as error:
        raise argparse.ArgumentTypeError(error.reason) from None
    return text


def _alternatives(text: str) -> str:
    """One pattern for a list with commas, as in Kafka's tools (TopicFilter)."""
    return text.strip().replace(",", "|")


def matching(store: Store, pattern: str | None, *, internal: bool = True) -> list[str]:
    """The store's topics whose entire name matches a regular expression, sorted."""
    names = [name for name in store if internal or name not in filenames.INTERNAL_TOPICS]
    return topics_matching(names, pattern)


def wanted_topics(pattern: str | None) -> TopicPattern:
    """The compiled pattern of a topic option; without one it matches every name."""
    return compile_topic_pattern(_alternatives(pattern or ".*"))


def topics_matching(names: Sequence[str], pattern: str | None) -> list[str]:
    """The names that a regular expression matches entirely, sorted; InvalidConfigError if none."""
    wanted = wanted_topics(pattern)
    found = sorted(name for name in names if wanted.fullmatch(name))
    if not found:
        known = ", ".join(sorted(names)[:10]) or "none"
        raise InvalidConfigError(f"no topic matches {pattern or '.*'}; topics: {known}")
    return found


def main(name: str, argv: Sequence[str] | None = None) -> int:
    """Run a job from its own command line, and return the exit status."""
    job = import_module(f"kstore.spark.jobs.{name}")  # tasks find its functions by this name
    parser = argparse.ArgumentParser(
        prog=f"{name}.py",
        description=f"{JOBS[name].capitalize()}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    job.describe(parser)
    try:
        return int(job.run(parser.parse_args(argv), ProgressLines()))
    except (KStoreError, OSError) as error:
        print(f"{name}: {error}", file=sys.stderr)
        return 1


class ProgressLines:
    """Prints progress as lines on standard error, at most one in 5 seconds: for log files."""

    def __init__(self) -> None:
        self._started = time.monotonic()
        self._next = self._started + _INTERVAL

    def __call__(self, done: int, total: int, name: str) -> None:
        now = time.monotonic()
        if now < self._next:
            return
        self._next = now + _INTERVAL
        rate = done / (now - self._started) / 1e6
        print(
            f"{done / max(total, 1):4.0%} {done:,} of {total:,} bytes, {rate:,.0f} MB/s: {name}",
            file=sys.stderr,
        )


def parse_pairs(words: Sequence[str], usage: str) -> dict[str, str]:
    """The NAME=VALUE arguments of an option; InvalidConfigError with the usage for any other."""
    pairs = [word.partition("=") for word in words]
    if not all(name and value for name, _, value in pairs):
        raise InvalidConfigError(usage)
    return {name: value for name, _, value in pairs}
