"""Requests and answers of recorded frames, read to their last byte, and written again."""

from typing import Any

from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_response_header,
)
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer


def decode_request(data: bytes) -> tuple[RequestHeader, Any]:
    """A request's header and body, all of whose bytes were read."""
    reader = Reader(data)
    header = RequestHeader.decode(reader)
    request = message_types(header.api_key)[0].decode(reader, header.api_version)
    assert not reader.remaining, f"{reader.remaining} bytes behind {header}"
    return header, request


def encode_request(header: RequestHeader, request: Any) -> bytes:
    writer = Writer()
    header.encode(writer)
    request.encode(writer, header.api_version)
    return writer.to_bytes()


def version_of_answer(header: RequestHeader, data: bytes) -> int:
    """That of the request, but for ApiVersions of an unsupported version."""
    is_refused = header.api_key == ApiKey.API_VERSIONS and data[4:6] == b"\x00\x23"
    return 0 if is_refused else header.api_version


def decode_answer(header: RequestHeader, data: bytes) -> Any:
    """An answer, all of whose bytes were read."""
    version = version_of_answer(header, data)
    reader = Reader(data)
    assert decode_response_header(reader, header.api_key, version) == header.correlation_id
    answer = message_types(header.api_key)[1].decode(reader, version)
    assert not reader.remaining, f"{reader.remaining} bytes behind the answer to {header}"
    return answer


def encode_answer(header: RequestHeader, answer: Any, version: int) -> bytes:
    writer = Writer()
    encode_response_header(writer, header.api_key, version, header.correlation_id)
    answer.encode(writer, version)
    return writer.to_bytes()
