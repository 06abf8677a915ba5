"""What a broker would not know of a source: open transactions, and offsets of groups."""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kstore.coordinator.group.messages import OffsetKey, decode_offset_key, decode_offset_value
from kstore.coordinator.group.offsets import (
    MAX_FILE_SIZE,
    OFFSETS_TOPIC,
    Commits,
    FiledOffsets,
    IsSameTopic,
    newest,
    parse,
)
from kstore.errors import CorruptFileError, CorruptRecordError, NewerFormatError
from kstore.files.filenames import OFFSETS_PREFIX
from kstore.producer_state.snapshot import ProducerEntry
from kstore.record import Record

if TYPE_CHECKING:
    from kstore.checkpoint.log_dir import LogDir
    from kstore.handover.report import HandoverReport
    from kstore.log.log import Log
    from kstore.store.store import Store

_NAMED = 20  # places of one group that a sentence lists


def open_transactions(log: "Log") -> list[ProducerEntry]:
    """The producers that have a transaction open in a log."""
    if log.last_stable_offset == log.end_offset:
        return []
    return [each for each in log.producers() if each.current_transaction_first_offset >= 0]


def check_transactions(log: "Log", report: "HandoverReport", *, abort: bool) -> None:
    """Name the transactions that no coordinator of the broker would ever end."""
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
            "there for good. End it in the source, or have it aborted there "
            "(--abort-open-transactions)",
        )


def end_open_transactions(log: "Log") -> None:
    """Append an abort marker for each open transaction, and put them on disk."""
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
    places: Iterable[tuple["LogDir", IsSameTopic]],
    topics: set[str],
    report: "HandoverReport",
) -> None:
    """Name the committed offsets that do not go over, with the command that sets them there.

    ``places``: where files of readers may be, and whether a topic is the one that they are of.
    """
    if OFFSETS_TOPIC in topics:
        return
    known = _committed(store, topics, report)
    for place, is_same in places:
        for filed in _committed_beside(place, report):
            known[filed.group] = newest(known.get(filed.group, {}), filed.split(is_same)[0])
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
            f"its committed offsets do not go over: {', '.join(offsets[:_NAMED])}{more}. A broker "
            "keeps its own. Set them there: kafka-consumer-groups --bootstrap-server ... "
            f"--group {group} --reset-offsets --topic TOPIC:PARTITION --to-offset N --execute",
        )


def _committed(store: "Store", topics: set[str], report: "HandoverReport") -> dict[str, Commits]:
    """What the offsets topic has of some topics, by group; what does not decode is named.

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
                f"its committed offset of {key.topic}-{key.partition} cannot be read and does not "
                f"go over ({path}, offset {record.offset}): {error.reason}",
            )
    return found


def _committed_beside(place: "LogDir", report: "HandoverReport") -> Iterator[FiledOffsets]:
    """The same of the files of readers; one that cannot be read is named."""
    for name in place.scan().files:
        if not name.startswith(OFFSETS_PREFIX):
            continue
        path = place.join(name)
        try:
            yield parse(place.files.read(path, MAX_FILE_SIZE), path)
        except (CorruptFileError, NewerFormatError) as error:
            report.warn(path, f"committed offsets that cannot be read: {error.reason}")
