"""DescribeCluster, API key 60. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class DescribeClusterRequest:
    """DescribeCluster request, versions 0 to 2."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0

    include_cluster_authorized_operations: bool = False
    endpoint_type: int = 1
    include_fenced_brokers: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.include_cluster_authorized_operations = reader.boolean()
        if version >= 1:
            message.endpoint_type = reader.int8()
        if version >= 2:
            message.include_fenced_brokers = reader.boolean()
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.boolean(self.include_cluster_authorized_operations)
        if version >= 1:
            writer.int8(self.endpoint_type)
        if version >= 2:
            writer.boolean(self.include_fenced_brokers)
        writer.no_tags()


@message_class
class DescribeClusterResponse:
    """DescribeCluster response, versions 0 to 2."""

    API_KEY: ClassVar[int] = 60
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 2
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class Brokers:
        broker_id: int = 0
        host: str = ""
        port: int = 0
        rack: str | None = None
        is_fenced: bool = False

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.broker_id = reader.int32()
            message.host = reader.string(True)
            message.port = reader.int32()
            message.rack = reader.nullable_string(True)
            if version >= 2:
                message.is_fenced = reader.boolean()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int32(self.broker_id)
            writer.string(self.host, True)
            writer.int32(self.port)
            writer.nullable_string(self.rack, True)
            if version >= 2:
                writer.boolean(self.is_fenced)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    error_message: str | None = None
    endpoint_type: int = 1
    cluster_id: str = ""
    controller_id: int = -1
    brokers: list[Brokers] = field(default_factory=list)
    cluster_authorized_operations: int = -2147483648

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.error_message = reader.nullable_string(True)
        if version >= 1:
            message.endpoint_type = reader.int8()
        message.cluster_id = reader.string(True)
        message.controller_id = reader.int32()
        message.brokers = reader.structs(cls.Brokers.decode, version, True)
        message.cluster_authorized_operations = reader.int32()
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.nullable_string(self.error_message, True)
        if version >= 1:
            writer.int8(self.endpoint_type)
        writer.string(self.cluster_id, True)
        writer.int32(self.controller_id)
        writer.structs(self.brokers, version, True)
        writer.int32(self.cluster_authorized_operations)
        writer.no_tags()
