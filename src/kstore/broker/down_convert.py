"""Records for consumers of Fetch 0 to 3, which know messages v0 or v1 only (until Kafka 3.9).

Kafka converts lazily while it sends. Here an answer has only as many records as were converted
within a budget, which is as lazy: the consumer asks for the others next. Runs on a disk worker.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstore._native.read.segment_end import find_end
from kstore._native.read.segment_view import Slice
from kstore.broker.partitions import error_code_of
from kstore.errors import UnsupportedCompressionTypeError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchResponse
from kstore.record.convert import down_convert

if TYPE_CHECKING:
    from kstore.broker.fetch_read import PartitionRead
    from kstore.log.log import Log

LAST_VERSION = 3  # of Fetch, whose records are converted
BUDGET = 1 << 20  # bytes of converted records in one answer, beyond its first batch
_CHUNK = 128 << 10  # bytes that are converted at a time
_V0_UP_TO = 1  # versions of Fetch for messages v0; later ones get v1

PartitionAnswer = FetchResponse.Responses.Partitions


def is_allowed(config: Mapping[str, str], broker_config: Mapping[str, str]) -> bool:
    """Whether a topic's records may be converted: message.downconversion.enable."""
    text = config.get("message.downconversion.enable")
    if text is None:
        text = broker_config.get("log.message.downconversion.enable", "true")
    return text.strip().lower() != "false"


def convert_all(reads: "list[PartitionRead]", version: int, *, cuts_batches: bool) -> None:
    """Replace the slices of the answers by converted records. Blocks.

    Memory: the budget, one chunk and one batch, each also decompressed. Batches that no message
    stands for (control batches) are skipped, so that a consumer gets behind them.
    """
    budget = BUDGET
    for read in reads:
        if not read.size:
            continue
        hosted = read.hosted
        log = None if hosted is None else hosted.log
        records = b""
        error = ErrorCode.NONE
        if log is not None and budget > 0:
            records, error = convert_one(read, log, version, budget)
        if error != ErrorCode.NONE:
            read.fail(error)
        limit = read.wanted.max_bytes
        # Below version 3 a consumer takes the beginning of a message as a sign of a larger one.
        read.answer.records = records[: max(limit, 0)] if cuts_batches else records
        budget -= len(records)


def convert_one(
    read: "PartitionRead", log: "Log", version: int, budget: int
) -> tuple[bytes, ErrorCode]:
    """Converted records of one partition from its fetch offset on: at least one batch, else at
    most the partition's limit and the budget."""
    magic = 0 if version <= _V0_UP_TO else 1
    first = offset = read.wanted.fetch_offset
    limit = min(read.wanted.max_bytes, budget)
    converted: list[bytes] = []
    size = 0
    try:
        while size < limit or not converted:
            chunk = log.read(offset, max(0, min(_CHUNK, limit - size)), up_to=read.limit)
            if chunk is None:
                break
            complete, offset = complete_batches(chunk, offset)
            out = down_convert(complete, magic, first_offset=first)
            if converted and size + len(out) > limit:
                break
            if out:
                converted.append(out)
                size += len(out)
    except UnsupportedCompressionTypeError:
        if not converted:  # else the consumer gets this error at its next fetch
            return b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    except Exception as error:
        if not converted:
            return b"", error_code_of(error)
    return b"".join(converted), ErrorCode.NONE


def complete_batches(chunk: Slice, offset: int) -> tuple[memoryview, int]:
    """The complete batches at the beginning of a slice, and the offset behind them."""
    position, next_offset, _, _ = find_end(chunk, 0, offset, False)
    if position == 0:  # corrupt: the conversion raises the error
        return memoryview(chunk), offset + 1
    return memoryview(chunk)[:position], next_offset
