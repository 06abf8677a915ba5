"""Converts records for Fetch 0 to 3, whose consumers read only message formats v0 and v1.

Kafka (up to 3.9) converts lazily while it sends. Here a response contains only the records that are
converted within a byte budget; the consumer fetches the rest next. Runs on a disk worker. The
bytes are converted by :mod:`kstore.record.format_conversion`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kstore._native.read.segment_end import find_end
from kstore._native.read.segment_view import Slice
from kstore.broker.partitions import error_code_of
from kstore.errors import UnsupportedCompressionTypeError
from kstore.protocol.error_codes import ErrorCode
from kstore.protocol.messages.fetch import FetchResponse
from kstore.record.format_conversion import down_convert

if TYPE_CHECKING:
    from kstore.broker.fetch_reader import PartitionRead
    from kstore.log.log import Log

LAST_VERSION = 3  # the last version of Fetch that needs conversion
BUDGET = 1 << 20  # bytes of converted records in one response; its first batch may exceed it
_CHUNK = 128 << 10  # bytes converted at a time
_V0_UP_TO = 1  # the last version of Fetch that gets message format v0; later ones get v1

PartitionAnswer = FetchResponse.Responses.Partitions


def is_allowed(config: Mapping[str, str], broker_config: Mapping[str, str]) -> bool:
    """Whether message.downconversion.enable allows conversion of a topic's records."""
    text = config.get("message.downconversion.enable")
    if text is None:
        text = broker_config.get("log.message.downconversion.enable", "true")
    return text.strip().lower() != "false"


def convert_all(reads: "list[PartitionRead]", version: int, *, cuts_batches: bool) -> None:
    """Replace the slices in the responses by converted records. Blocks.

    Peak memory: the budget, one chunk and one batch, each also in decompressed form. Control
    batches, which v0 and v1 cannot express, are skipped, so that the consumer advances past them.
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
        # Before version 3 a truncated message means to a consumer that its fetch size is too small.
        read.answer.records = records[: max(limit, 0)] if cuts_batches else records
        budget -= len(records)


def convert_one(
    read: "PartitionRead", log: "Log", version: int, budget: int
) -> tuple[bytes, ErrorCode]:
    """Convert records of one partition from its fetch offset: at least one batch, and no more than
    the partition's limit and the budget allow."""
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
        if not converted:  # otherwise the consumer's next fetch gets this error
            return b"", ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    except Exception as error:
        if not converted:
            return b"", error_code_of(error)
    return b"".join(converted), ErrorCode.NONE


def complete_batches(chunk: Slice, offset: int) -> tuple[memoryview, int]:
    """The complete batches at the beginning of a slice, and the offset after them."""
    position, next_offset, _, _ = find_end(chunk, 0, offset, False)
    if position == 0:  # corrupt: the conversion raises the error
        return memoryview(chunk), offset + 1
    return memoryview(chunk)[:position], next_offset
