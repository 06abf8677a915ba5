"""Headers of requests and responses.

A request of a flexible version has header version 2, any other request version 1. Likewise a
response has header version 1 or 0, except that ApiVersions responses always have header version 0,
so that clients can read them before they know the broker's versions.
"""

from dataclasses import dataclass

from kstore.protocol.api_keys import ApiKey
from kstore.protocol.messages import message_types
from kstore.protocol.wire import Reader, Writer


def is_flexible(api_key: int, version: int) -> bool:
    """Whether an API version has compact types and tagged fields. Raises KeyError."""
    return version >= message_types(api_key)[0].FLEXIBLE_FROM


def response_header_version(api_key: int, version: int) -> int:
    """The response header version, 0 or 1. Raises KeyError for an unknown API."""
    return 1 if api_key != ApiKey.API_VERSIONS and is_flexible(api_key, version) else 0


@dataclass(slots=True)
class RequestHeader:
    """The header of a request."""

    api_key: int
    api_version: int
    correlation_id: int = 0
    client_id: str | None = ""

    @classmethod
    def decode(cls, reader: Reader) -> "RequestHeader":
        """Read a header, including its tagged fields.

        For an unknown API, or a version above the highest, only the fields of header version 1 are
        read. Raises InvalidMessageError.
        """
        header = cls(reader.int16(), reader.int16(), reader.int32(), reader.lenient_string())
        try:
            known = message_types(header.api_key)[0]
        except KeyError:
            return header
        if known.FLEXIBLE_FROM <= header.api_version <= known.MAX_VERSION:
            reader.skip_tags()
        return header

    def encode(self, writer: Writer) -> None:
        """Raises KeyError for an unknown API."""
        writer.int16(self.api_key)
        writer.int16(self.api_version)
        writer.int32(self.correlation_id)
        writer.nullable_string(self.client_id, False)
        if is_flexible(self.api_key, self.api_version):
            writer.no_tags()


def encode_response_header(writer: Writer, api_key: int, version: int, correlation_id: int) -> None:
    """Write a response header. Raises KeyError for an unknown API."""
    writer.int32(correlation_id)
    if response_header_version(api_key, version):
        writer.no_tags()


def decode_response_header(reader: Reader, api_key: int, version: int) -> int:
    """Read a response header; return the correlation id. Raises InvalidMessageError, KeyError."""
    correlation_id = reader.int32()
    if response_header_version(api_key, version):
        reader.skip_tags()
    return correlation_id
