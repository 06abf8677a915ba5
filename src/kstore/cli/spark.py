"""``kstore spark JOB``: jobs over complete stores on Apache Spark."""

import argparse
from importlib import import_module

from kstore.cli.common import ToolParser
from kstore.cli.progress import Progress

EPILOG = """\
examples:
  kstore spark verify --log-dir /data/kafka-logs
  kstore spark verify --topic 'orders.*' --master 'local[4]' --json --log-dir data

Needs pip install 'kstore[spark]' and Java 17 or newer. Without --master a job uses all cores of
this machine; the modules kstore.spark.jobs.* are also programs for spark-submit.
'kstore spark JOB --help' lists a job's options.
"""


def describe(parser: argparse.ArgumentParser) -> None:
    from kstore.spark.jobs import JOBS

    parser.epilog = EPILOG
    jobs = parser.add_subparsers(
        dest="job", required=True, metavar="JOB", title="jobs", parser_class=ToolParser
    )
    for name, text in JOBS.items():
        job = jobs.add_parser(name, help=text, description=f"{text.capitalize()}.")
        module = import_module(f"kstore.spark.jobs.{name}")
        module.describe(job)
        job.set_defaults(module=module)


def run(arguments: argparse.Namespace) -> int:
    with Progress() as bar:
        return int(arguments.module.run(arguments, bar.show))
