"""Finds the state of a source that a broker would lose: open transactions, committed offsets."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError
from kstore.partition_files import (
    OFFSETS_TOPIC,
    Commits,
    FiledOffsets,
    IsSameTopic,
    OffsetKey,
    ProducerEntry,
    decode_offset_key,
    decode_offset_value,
    group_files,
    newest_commits,
    read_group_file,
)
from kstore.record import Record

if TYPE_CHECKING:
    from kstore.handover.report import HandoverReport
    from kstore.log.log import Log
    from kstore.partition_files import LogDir
    from kstore.store.store import Store

_NAMED = 20  # offsets of one group that a message lists


def open_transactions(log: "Log") -> list[ProducerEntry]:
    """The producers that have a transaction open in a log."""
    if log.last_stable_offset == log.end_offset:
        return []
    return [each for each in log.producers() if each.current_transaction_first_offset >= 0]


def check_transactions(log: "Log", report: "HandoverReport", *, abort: bool) -> None:
    """Report the transactions that no coordinator of the broker would end."""
    for entry in open_transactions(log):
        what = (
            f"the transaction of producer {entry.producer_id} is open from offset "
            f"{entry.current_transaction_first_offset} on"
        )
        if abort:
            report.note(log.path, f"{what}: it is aborted in the source before the copy")
            continue
        report.refuse(
            log.path,
            f"{what}, and the broker's coordinator does not know it: read_committed would stop "
            "there forever. End it in the source, or have it aborted there "
            "(--abort-open-transactions)",
        )


def end_open_transactions(log: "Log") -> None:
    """Append an abort marker for each open transaction, and flush."""
    opened = open_transactions(log)
    for entry in opened:
        log.append_end_marker(
            entry.producer_id,
            entry.producer_epoch,
            commit=False,
            coordinator_epoch=max(entry.coordinator_epoch, 0),
        )
    if opened:
        log.flush()


def warn_of_offsets(
    store: "Store",
    log_dirs: Iterable[tuple["LogDir", IsSameTopic]],
    topics: set[str],
    report: "HandoverReport",
) -> None:
    """Warn of committed offsets, which are not copied, with the command that sets them.

    ``log_dirs``: directories with files of readers, each with a check of topic identities.
    """
    if OFFSETS_TOPIC in topics:
        return
    known = _committed(store, topics, report)
    for log_dir, is_same in log_dirs:
        for filed in _committed_beside(log_dir, report):
            found = filed.split(is_same)
            before = known.get(filed.group, {})
            known[filed.group] = newest_commits(before, found.valid, found.undecided)
    for group, commits in sorted(known.items()):
        offsets = [
            f"{topic}:{partition}={commit.offset}"
            for (topic, partition), commit in sorted(commits.items())
            if topic in topics
        ]
        if not offsets:
            continue
        more = f" and {len(offsets) - _NAMED} more" if len(offsets) > _NAMED else ""
        report.warn(
            f"group {group}",
            f"its committed offsets are not copied: {', '.join(offsets[:_NAMED])}{more}. A broker "
            "keeps its own. Set them there: kafka-consumer-groups --bootstrap-server ... "
            f"--group {group} --reset-offsets --topic TOPIC:PARTITION --to-offset N --execute",
        )


def _committed(store: "Store", topics: set[str], report: "HandoverReport") -> dict[str, Commits]:
    """Committed offsets of some topics, by group; warns of records that do not decode.

    Only the latest value of each key is decoded.
    """
    if OFFSETS_TOPIC not in store:
        return {}
    latest: dict[OffsetKey, tuple[str, Record]] = {}
    for log in store[OFFSETS_TOPIC]:
        for record in log.view(isolation="read_committed"):
            try:
                key = None if record.key is None else decode_offset_key(record.key)
            except CorruptRecordError as error:
                report.warn(
                    log.path,
                    f"the record at offset {record.offset} is skipped, its key does not decode: "
                    f"{error.reason}",
                )
                continue
            if key is not None and key.topic in topics:
                latest[key] = log.path, record
    found: dict[str, Commits] = {}
    for key, (path, record) in latest.items():
        if record.value is None:
            continue
        commits = found.setdefault(key.group, {})
        try:
            commits[key.topic, key.partition] = decode_offset_value(record.value)
        except CorruptRecordError as error:
            report.warn(
                f"group {key.group}",
                f"its committed offset of {key.topic}-{key.partition} cannot be read and is not "
                f"copied ({path}, offset {record.offset}): {error.reason}",
            )
    return found


def _committed_beside(log_dir: "LogDir", report: "HandoverReport") -> Iterator[FiledOffsets]:
    """Committed offsets in the files of readers; warns of unreadable files."""
    for path in group_files(log_dir.files, [log_dir.path]):
        try:
            filed = read_group_file(log_dir.files, path)
            if filed is not None:
                yield filed
        except (CorruptFileError, NewerFormatError) as error:
            report.warn(path, f"committed offsets that cannot be read: {error.reason}")
