"""``kstore handover``: partitions to a Kafka broker, or a broker's directory to kstore."""

import argparse
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from kstore.arguments import split_names
from kstore.cli.common import ToolParser, WrongOptionsError
from kstore.cli.explain_lock import naming_lock_holder
from kstore.cli.progress import Progress
from kstore.partition_files import count_of

if TYPE_CHECKING:
    from kstore.handover import HandoverReport

EPILOG = """\
examples:
  kstore handover --log-dir data --to /var/kafka-logs
  kstore handover --log-dir data --to /disk1/kafka,/disk2/kafka --topic orders --execute
  kstore handover --log-dir /var/kafka-logs --to /var/kafka-logs
  kstore handover --from /var/kafka-logs
  kstore handover --from /var/kafka-logs --adopt orders --config retention.ms=604800000 --execute

Without --execute nothing is changed: it prints what it would do, and every reason against it.

--to copies partitions into the directories of a stopped broker. On a KRaft broker create the topic
first, with as many partitions, then stop it: it serves only partitions whose topic id it knows, and
renames every other one to -stray. The directories that it created keep their ids; their empty
segments are replaced. In ZooKeeper mode the broker adopts a directory when the topic is created.
Everything is verified before the copy and compared after it; --log-dir is not changed.
After an interruption, also by a kill, run the same command again to continue.

Settings of topics and groups, access control lists, SCRAM users and quotas are in files that a
broker does not read: lines that begin with "command:" set them there, by Kafka's tools. Set the
topics' before the handover, while the broker runs: a warning names topics of which its retention
would delete records.
Passwords are not stored; NEW_PASSWORD stands for one.

The same directories in --log-dir and --to: kstore and the broker serve them by turns. Nothing is
copied or changed, also with --execute. It prints the same commands and warnings, and whether the
broker would serve every partition. Run it before the broker's next start.

--from checks whether kstore may write in a stopped broker's directories. Its topics keep every
byte there; --adopt gives one an entry in kstore.topics, so that the settings of --config apply.

Exit status: 0 possible (with --execute: done), 1 failed, 2 refused; the reasons are printed.
"""

REFUSED = 2


def describe(parser: ToolParser) -> None:
    parser.epilog = EPILOG
    parser.add_argument(
        "--log-dir",
        "--path",
        metavar="DIR[,DIR...]",
        help="with --to: the directories to hand over from",
    )
    parser.add_argument(
        "--to", metavar="DIR[,DIR...]", help="all log.dirs of a stopped broker, to hand over to"
    )
    parser.add_argument(
        "--from", dest="broker", metavar="DIR[,DIR...]", help="all log.dirs of a stopped broker"
    )
    parser.add_argument(
        "--topic",
        action="append",
        metavar="NAME",
        help="with --to: this topic; may be repeated (default: all but Kafka's internal ones)",
    )
    parser.add_argument(
        "--topic-id",
        action="append",
        default=[],
        metavar="NAME=ID",
        help="with --to: the id by which the broker knows the topic, if its directories are lost",
    )
    parser.add_argument(
        "--adopt", action="append", default=[], metavar="NAME", help="with --from: this topic"
    )
    parser.add_argument(
        "--config",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="with --adopt: a setting of the topic, as Kafka's",
    )
    parser.add_argument(
        "--metadata-log-dir",
        metavar="DIR",
        help="the broker's metadata.log.dir, if it is not one of its log.dirs",
    )
    parser.add_argument(
        "--abort-open-transactions",
        action="store_true",
        help="with --to: abort them in --log-dir first; without it they are refused",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument("--execute", action="store_true", help="do it")
    action.add_argument("--dry-run", action="store_true", help="only check: the default")
    parser.add_argument("--json", action="store_true", help="the report as JSON on stdout")


def run(arguments: argparse.Namespace) -> int:
    if (arguments.to is None) == (arguments.broker is None):
        raise WrongOptionsError("Command must include exactly one action: --to or --from")
    if (arguments.to is None) != (arguments.log_dir is None):
        raise WrongOptionsError("--log-dir and --to go together; --from goes alone")
    with naming_lock_holder():
        report = _back(arguments) if arguments.to is None else _to_broker(arguments)
    if arguments.json:
        print(json.dumps({"ok": report.ok, **asdict(report)}, indent=2))
    else:
        print_report(report)
    return 0 if report.ok else REFUSED


def _to_broker(arguments: argparse.Namespace) -> "HandoverReport":
    from kstore.handover import hand_over, plan_handover

    ids = dict(_pair(text, "--topic-id") for text in arguments.topic_id)
    source, broker = split_names([arguments.log_dir]), split_names([arguments.to])
    about: dict[str, Any] = {
        "topics": arguments.topic,
        "topic_ids": ids,
        "metadata_log_dir": arguments.metadata_log_dir,
        "abort_open_transactions": arguments.abort_open_transactions,
    }
    report = plan_handover(source, broker, **about)
    if not arguments.execute or not report.ok:
        return report
    with Progress() as bar:
        return hand_over(source, broker, progress=bar.show, **about)


def _back(arguments: argparse.Namespace) -> "HandoverReport":
    from kstore.config import LogConfig
    from kstore.handover import check_broker
    from kstore.store.open_store import open as open_store

    if arguments.execute != bool(arguments.adopt):
        raise WrongOptionsError("--execute with --from needs --adopt, and the other way round")
    paths = split_names([arguments.broker])
    report = check_broker(paths, metadata_log_dir=arguments.metadata_log_dir)
    if not report.ok or not arguments.execute:
        return report
    config = dict(_pair(text, "--config") for text in arguments.config)
    LogConfig.from_properties(config)  # refused before the directory is opened
    with open_store(paths) as store:
        for name in arguments.adopt:
            store.alter_topic(name, config=config)
    report.executed = True
    return report


def _pair(text: str, option: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name or not value:
        raise WrongOptionsError(f"{option} takes NAME=VALUE, not {text!r}")
    return name, value


def print_report(report: "HandoverReport") -> None:
    for plan in report.partitions:
        print(
            f"{plan.topic}-{plan.partition}: offsets {plan.start_offset} to {plan.end_offset}, "
            f"{plan.size} bytes, {plan.source} -> {plan.target}"
        )
    for finding in report.findings:
        print(f"{finding.level}: {finding.where}: {finding.sentence}")
    for command in report.commands:
        print(f"command: {command}")
    kind = f" of a {report.kind} broker" if report.kind else ""
    if report.ok and report.is_same_directory:
        needed = (
            "start the broker and run the commands" if report.commands else "no command is needed"
        )
        print(f"nothing is copied; {needed}")
    elif not report.ok:
        print(f"refused; nothing was changed{kind and ' in the directory'}{kind}")
    elif report.executed:
        print(f"done, in the directory{kind}")
    elif report.partitions:
        print(
            f"{count_of(len(report.partitions), 'partition')} would be handed over; --execute "
            "does it"
        )
    else:
        print(f"kstore can write in the directory{kind}")
