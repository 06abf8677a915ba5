"""Headers by API and version, and bytes that Kafka's protocol guide and clients agree on."""

import struct

import pytest

from kstore.errors import InvalidMessageError
from kstore.protocol.api_keys import ApiKey
from kstore.protocol.headers import (
    RequestHeader,
    decode_response_header,
    encode_response_header,
    is_flexible,
    response_header_version,
)
from kstore.protocol.messages.api_versions import ApiVersionsResponse
from kstore.protocol.wire import Reader, Writer

# An API, a version, and the versions of its headers.
VERSIONS = [
    (ApiKey.PRODUCE, 8, 1, 0),
    (ApiKey.PRODUCE, 9, 2, 1),
    (ApiKey.METADATA, 8, 1, 0),
    (ApiKey.METADATA, 9, 2, 1),
    (ApiKey.SASL_HANDSHAKE, 1, 1, 0),
    (ApiKey.DESCRIBE_CLUSTER, 0, 2, 1),
    (ApiKey.API_VERSIONS, 2, 1, 0),
    (ApiKey.API_VERSIONS, 4, 2, 0),  # so that a client can read any broker's answer
]


@pytest.mark.parametrize(("api_key", "version", "request_version", "response_version"), VERSIONS)
def test_each_api_version_has_its_header_versions(
    api_key: ApiKey, version: int, request_version: int, response_version: int
) -> None:
    assert is_flexible(api_key, version) == (request_version == 2)
    assert response_header_version(api_key, version) == response_version
    writer = Writer()
    encode_response_header(writer, api_key, version, 7)
    assert writer.to_bytes() == b"\0\0\0\x07" + b"\0" * response_version
    assert decode_response_header(Reader(writer.to_bytes()), api_key, version) == 7


@pytest.mark.parametrize("client_id", ["kcat", "", None])
@pytest.mark.parametrize(("api_key", "version", "request_version", "_"), VERSIONS)
def test_a_request_header_comes_back(
    api_key: ApiKey, version: int, request_version: int, _: int, client_id: str | None
) -> None:
    header = RequestHeader(api_key, version, 42, client_id)
    writer = Writer()
    header.encode(writer)
    size = 8 + 2 + len(client_id or "") + request_version - 1  # the client id is never compact
    assert writer.size == size
    reader = Reader(writer.to_bytes())
    assert RequestHeader.decode(reader) == header
    assert reader.remaining == 0


@pytest.mark.parametrize(("api_key", "version"), [(9999, 0), (18, 5), (-1, 3), (1, -1)])
def test_of_an_unknown_request_the_common_fields_are_read(api_key: int, version: int) -> None:
    data = b"".join(
        (
            api_key.to_bytes(2, "big", signed=True),
            version.to_bytes(2, "big", signed=True),
            b"\0\0\0\x05\0\x01x\xff\xff\xff\xff\xff",
        )
    )
    assert RequestHeader.decode(Reader(data)) == RequestHeader(api_key, version, 5, "x")


def test_a_truncated_header_is_refused() -> None:
    writer = Writer()
    RequestHeader(ApiKey.PRODUCE, 9, 42, "kcat").encode(writer)
    data = writer.to_bytes()
    for size in range(len(data)):
        with pytest.raises(InvalidMessageError):
            RequestHeader.decode(Reader(data[:size]))


def test_kafkas_answer_to_a_version_of_api_versions_that_it_does_not_have() -> None:
    writer = Writer()
    encode_response_header(writer, ApiKey.API_VERSIONS, 0, 1)
    known = ApiVersionsResponse.ApiKeys(api_key=ApiKey.API_VERSIONS, max_version=4)
    ApiVersionsResponse(error_code=35, api_keys=[known]).encode(writer, 0)
    assert writer.to_bytes().hex() == "00000001" + "0023" + "00000001" + "0012" + "0000" + "0004"


def test_bytes_of_a_client_id_that_are_not_utf_8_are_replaced_as_in_kafka() -> None:
    """Kafka 3.9.2's RequestHeader.parse has the same characters."""
    client_id = b"a\xff\xe2\x82b\xc0\x80"
    data = struct.pack(">hhih", ApiKey.METADATA, 4, 7, len(client_id)) + client_id
    header = RequestHeader.decode(Reader(data))
    assert header.client_id == "a\ufffd\ufffdb\ufffd\ufffd"
