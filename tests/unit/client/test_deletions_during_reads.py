"""A consumer reads while another process deletes the records."""

from pathlib import Path

import pytest

import kstore
from kstore import TopicPartition
from kstore.errors import OffsetOutOfRangeError
from kstore.log.read_only_log import ReadOnlyLog
from support.stores import QUIET

T0 = TopicPartition("t", 0)


@pytest.mark.parametrize("reset", ["none", "earliest"])
def test_records_deleted_by_another_process_reset_the_position(
    tmp_path: Path, reset: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader finds the log start higher than it was when the position was checked."""
    with kstore.open(tmp_path, config=QUIET) as store, kstore.open(tmp_path, mode="r") as reader:
        log = store.create_topic("t")[0]
        log.extend([b"early"] * 10)
        log.roll()
        log.extend([b"later"] * 5)
        consumer = reader.consumer(assignment=[T0], timeout=0, auto_offset_reset=reset)
        consumer.seek(T0, 0)
        read = ReadOnlyLog.read

        def delete_and_read(self: ReadOnlyLog, offset: int, *arguments: int) -> object:
            log.delete_records(10)
            log.apply_retention()
            return read(self, offset, *arguments)

        monkeypatch.setattr(ReadOnlyLog, "read", delete_and_read)
        if reset == "none":
            with pytest.raises(OffsetOutOfRangeError, match="holds offsets from 10 to 15"):
                consumer.poll()
        else:
            assert [record.offset for record in consumer.poll()[T0]] == list(range(10, 15))
        consumer.close()
