"""Formats records of ``__remote_log_metadata`` as DumpLogSegments does: as Java's toString()."""

from base64 import b64decode
from typing import Any

from kstore.errors import CorruptRecordError
from kstore.partition_files import kafka_messages

_SEGMENT_STATES = (
    "COPY_SEGMENT_STARTED",
    "COPY_SEGMENT_FINISHED",
    "DELETE_SEGMENT_STARTED",
    "DELETE_SEGMENT_FINISHED",
)
_PARTITION_STATES = (
    "DELETE_PARTITION_MARKED",
    "DELETE_PARTITION_STARTED",
    "DELETE_PARTITION_FINISHED",
)
_SEGMENT = (
    "segmentLeaderEpochs={epochs}, segmentSizeInBytes={segmentSizeInBytes}, "
    "customMetadata={custom}, state={state}, txnIdxEmpty={txnIndexEmpty}"
)
_SHOWN = {
    "RemoteLogSegmentMetadataRecord": "RemoteLogSegmentMetadata{{remoteLogSegmentId={segment}, "
    "startOffset={startOffset}, endOffset={endOffset}, brokerId={brokerId}, "
    "maxTimestampMs={maxTimestampMs}, eventTimestampMs={eventTimestampMs}, " + _SEGMENT + "}}",
    "RemoteLogSegmentMetadataUpdateRecord": "RemoteLogSegmentMetadataUpdate{{"
    "remoteLogSegmentId={segment}, customMetadata={custom}, state={state}, "
    "eventTimestampMs={eventTimestampMs}, brokerId={brokerId}}}",
    "RemotePartitionDeleteMetadataRecord": "RemotePartitionDeleteMetadata{{"
    "topicPartition={partition}, state={state}, eventTimestampMs={eventTimestampMs}, "
    "brokerId={brokerId}}}",
    "RemoteLogSegmentMetadataSnapshotRecord": "RemoteLogSegmentMetadataSnapshot{{"
    "segmentId={segmentId}, startOffset={startOffset}, endOffset={endOffset}, "
    "maxTimestampMs={maxTimestampMs}, " + _SEGMENT + "}}",
}


def remote_log_metadata(offset: int, key: bytes | None, value: bytes | None) -> str:
    """A record of ``__remote_log_metadata``, which has no keys."""
    try:
        name, version, rest = kafka_messages.metadata_record(value or b"", "REMOTE")
        data = kafka_messages.decode(name, version, rest)
        return f" payload: {_SHOWN[name].format_map(data | _converted(data))}"
    except CorruptRecordError as error:
        return f" payload: Error at offset {offset}, skipping. {error}"


def _converted(data: dict[str, Any]) -> dict[str, str]:
    """The fields that Java shows in another way than as JSON."""
    found = {}
    if "remoteLogSegmentId" in data:
        segment = data["remoteLogSegmentId"]
        found["segment"] = (
            f"RemoteLogSegmentId{{topicIdPartition={_partition(segment)}, id={segment['id']}}}"
        )
    if "topicIdPartition" in data:
        found["partition"] = _partition(data)
    if "segmentLeaderEpochs" in data:
        epochs = {each["leaderEpoch"]: each["offset"] for each in data["segmentLeaderEpochs"]}
        pairs = (f"{epoch}={start}" for epoch, start in sorted(epochs.items()))
        found["epochs"] = f"{{{', '.join(pairs)}}}"
        # A tagged field, which is absent unless it is true.
        found["txnIndexEmpty"] = "true" if data.get("txnIndexEmpty") else "false"
    if "customMetadata" in data:
        custom = data["customMetadata"]
        found["custom"] = (
            "Optional.empty"
            if custom is None
            else f"Optional[CustomMetadata{{{len(b64decode(custom))} bytes}}]"
        )
    if "remoteLogSegmentState" in data:
        found["state"] = _name(_SEGMENT_STATES, data["remoteLogSegmentState"])
    else:
        found["state"] = _name(_PARTITION_STATES, data["remotePartitionDeleteState"])
    return found


def _partition(data: dict[str, Any]) -> str:
    found = data["topicIdPartition"]
    return f"{found['id']}:{found['name']}-{found['partition']}"


def _name(states: tuple[str, ...], number: int) -> str:
    if not 0 <= number < len(states):
        raise CorruptRecordError(f"unknown state {number}")
    return states[number]
