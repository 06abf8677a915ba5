"""ApiVersions, API key 18. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I16_I16 = Struct(">hh")
_I16_I16_I16 = Struct(">hhh")


@message_class
class ApiVersionsRequest:
    """ApiVersions request, versions 0 to 4."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3

    client_software_name: str = ""
    client_software_version: str = ""

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        if version >= 3:
            message.client_software_name = reader.string(flexible)
            message.client_software_version = reader.string(flexible)
        if flexible:
            reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        if version >= 3:
            writer.string(self.client_software_name, flexible)
            writer.string(self.client_software_version, flexible)
        if flexible:
            writer.no_tags()


@message_class
class ApiVersionsResponse:
    """ApiVersions response, versions 0 to 4."""

    API_KEY: ClassVar[int] = 18
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 4
    FLEXIBLE_FROM: ClassVar[int] = 3

    @message_class
    class ApiKeys:
        api_key: int = 0
        min_version: int = 0
        max_version: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            flexible = version >= 3
            message = cls()
            message.api_key, message.min_version, message.max_version = reader.fixed(_I16_I16_I16)
            if flexible:
                reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            flexible = version >= 3
            writer.fixed(_I16_I16_I16, self.api_key, self.min_version, self.max_version)
            if flexible:
                writer.no_tags()

    @message_class
    class SupportedFeatures:
        name: str = ""
        min_version: int = 0
        max_version: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.min_version, message.max_version = reader.fixed(_I16_I16)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.fixed(_I16_I16, self.min_version, self.max_version)
            writer.no_tags()

    @message_class
    class FinalizedFeatures:
        name: str = ""
        max_version_level: int = 0
        min_version_level: int = 0

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.name = reader.string(True)
            message.max_version_level, message.min_version_level = reader.fixed(_I16_I16)
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.name, True)
            writer.fixed(_I16_I16, self.max_version_level, self.min_version_level)
            writer.no_tags()

    error_code: int = 0
    api_keys: list[ApiKeys] = field(default_factory=list)
    throttle_time_ms: int = 0
    supported_features: list[SupportedFeatures] = field(default_factory=list)
    finalized_features_epoch: int = -1
    finalized_features: list[FinalizedFeatures] = field(default_factory=list)
    zk_migration_ready: bool = False

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        flexible = version >= 3
        message = cls()
        message.error_code = reader.int16()
        message.api_keys = reader.structs(cls.ApiKeys.decode, version, flexible)
        if version >= 1:
            message.throttle_time_ms = reader.int32()
        if flexible:
            for tag in reader.tags():
                if tag == 0:
                    message.supported_features = reader.structs(
                        cls.SupportedFeatures.decode, version, flexible
                    )
                elif tag == 1:
                    message.finalized_features_epoch = reader.int64()
                elif tag == 2:
                    message.finalized_features = reader.structs(
                        cls.FinalizedFeatures.decode, version, flexible
                    )
                elif tag == 3:
                    message.zk_migration_ready = reader.boolean()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        flexible = version >= 3
        writer.int16(self.error_code)
        writer.structs(self.api_keys, version, flexible)
        if version >= 1:
            writer.int32(self.throttle_time_ms)
        if flexible:
            tags: list[tuple[int, Writer]] = []
            if self.supported_features:
                tag = Writer()
                tag.structs(self.supported_features, version, flexible)
                tags.append((0, tag))
            if self.finalized_features_epoch != -1:
                tag = Writer()
                tag.int64(self.finalized_features_epoch)
                tags.append((1, tag))
            if self.finalized_features:
                tag = Writer()
                tag.structs(self.finalized_features, version, flexible)
                tags.append((2, tag))
            if self.zk_migration_ready:
                tag = Writer()
                tag.boolean(self.zk_migration_ready)
                tags.append((3, tag))
            writer.tags(tags)
