"""ConsumerGroupMemberMetadata records. Generated from the table of records."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer


@message_class
class ConsumerGroupMemberMetadataKey:
    """ConsumerGroupMemberMetadataKey, version 0."""

    RECORD_TYPE: ClassVar[int] = 5
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 32767

    group_id: str = ""
    member_id: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.group_id = reader.string(False)
        message.member_id = reader.string(False)
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.string(self.group_id, False)
        writer.string(self.member_id, False)


@message_class
class ConsumerGroupMemberMetadataValue:
    """ConsumerGroupMemberMetadataValue, version 0."""

    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 0
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class ClassicMemberMetadata:
        @message_class
        class SupportedProtocols:
            name: str = ""
            metadata: bytes = b""

            @classmethod
            def decode(cls, reader: Reader, version: int) -> Self:
                message = cls()
                message.name = reader.string(True)
                message.metadata = reader.bytes_(True)
                reader.skip_tags()
                return message

            def encode(self, writer: Writer, version: int) -> None:
                writer.string(self.name, True)
                writer.bytes_(self.metadata, True)
                writer.no_tags()

        session_timeout_ms: int = 0
        supported_protocols: list[SupportedProtocols] = field(default_factory=list)

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.session_timeout_ms = reader.int32()
            message.supported_protocols = reader.structs(
                cls.SupportedProtocols.decode, version, True
            )
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.int32(self.session_timeout_ms)
            writer.structs(self.supported_protocols, version, True)
            writer.no_tags()

    instance_id: str | None = ""
    rack_id: str | None = ""
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: list[str] = field(default_factory=list)
    subscribed_topic_regex: str | None = ""
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = ""
    classic_member_metadata: ClassicMemberMetadata | None = None

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.instance_id = reader.nullable_string(True)
        message.rack_id = reader.nullable_string(True)
        message.client_id = reader.string(True)
        message.client_host = reader.string(True)
        message.subscribed_topic_names = reader.strings(True)
        message.subscribed_topic_regex = reader.nullable_string(True)
        message.rebalance_timeout_ms = reader.int32()
        message.server_assignor = reader.nullable_string(True)
        for tag in reader.tags():
            if tag == 0:
                message.classic_member_metadata = reader.tagged_struct(
                    cls.ClassicMemberMetadata.decode, version
                )
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.nullable_string(self.instance_id, True)
        writer.nullable_string(self.rack_id, True)
        writer.string(self.client_id, True)
        writer.string(self.client_host, True)
        writer.strings(self.subscribed_topic_names, True)
        writer.nullable_string(self.subscribed_topic_regex, True)
        writer.int32(self.rebalance_timeout_ms)
        writer.nullable_string(self.server_assignor, True)
        tags: list[tuple[int, Writer]] = []
        if self.classic_member_metadata is not None:
            tag = Writer()
            tag.nullable_struct(self.classic_member_metadata, version)
            tags.append((0, tag))
        writer.tags(tags)
