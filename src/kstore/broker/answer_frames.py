"""Answers as frames: the size, the header, and the message in the request's version."""

from struct import Struct
from typing import TYPE_CHECKING

from kstore.protocol.headers import encode_response_header
from kstore.protocol.wire import Writer

if TYPE_CHECKING:
    from kstore.broker.api_table import ApiTable
    from kstore.protocol.messages import Message
    from kstore.protocol.wire import Chunk

GATHERED_BYTES = 65_536  # answers of one turn up to here leave in one send
_SIZE = Struct(">i")


def encode_answer(
    apis: "ApiTable", response: "Message", key: int, version: int, correlation_id: int
) -> "tuple[list[Chunk], int]":
    """The chunks of a frame, and their bytes."""
    writer = Writer()
    version = apis.version_of_answer(key, version)
    encode_response_header(writer, key, version, correlation_id)
    response.encode(writer, version)
    size = writer.size
    chunks = writer.chunks()
    prefix = _SIZE.pack(size)
    first = chunks[0]
    if isinstance(first, bytes) and len(first) < GATHERED_BYTES:
        chunks[0] = prefix + first
    else:
        chunks.insert(0, prefix)
    return chunks, size + _SIZE.size
