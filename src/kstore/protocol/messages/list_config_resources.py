"""ListConfigResources, API key 74. Generated from the table of messages."""

from __future__ import annotations

from dataclasses import field
from struct import Struct
from typing import ClassVar, Self

from kstore.protocol.message_class import message_class
from kstore.protocol.wire import Reader, Writer

_I32_I16 = Struct(">ih")


@message_class
class ListConfigResourcesRequest:
    """ListConfigResources request, versions 0 to 1."""

    API_KEY: ClassVar[int] = 74
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    resource_types: list[int] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        if version >= 1:
            message.resource_types = reader.integers("b", True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        if version >= 1:
            writer.integers("b", self.resource_types, True)
        writer.no_tags()


@message_class
class ListConfigResourcesResponse:
    """ListConfigResources response, versions 0 to 1."""

    API_KEY: ClassVar[int] = 74
    MIN_VERSION: ClassVar[int] = 0
    MAX_VERSION: ClassVar[int] = 1
    FLEXIBLE_FROM: ClassVar[int] = 0

    @message_class
    class ConfigResources:
        resource_name: str = ""
        resource_type: int = 16

        @classmethod
        def decode(cls, reader: Reader, version: int) -> Self:
            message = cls()
            message.resource_name = reader.string(True)
            if version >= 1:
                message.resource_type = reader.int8()
            reader.skip_tags()
            return message

        def encode(self, writer: Writer, version: int) -> None:
            writer.string(self.resource_name, True)
            if version >= 1:
                writer.int8(self.resource_type)
            writer.no_tags()

    throttle_time_ms: int = 0
    error_code: int = 0
    config_resources: list[ConfigResources] = field(default_factory=list)

    @classmethod
    def decode(cls, reader: Reader, version: int) -> Self:
        message = cls()
        message.throttle_time_ms, message.error_code = reader.fixed(_I32_I16)
        message.config_resources = reader.structs(cls.ConfigResources.decode, version, True)
        reader.skip_tags()
        return message

    def encode(self, writer: Writer, version: int) -> None:
        writer.fixed(_I32_I16, self.throttle_time_ms, self.error_code)
        writer.structs(self.config_resources, version, True)
        writer.no_tags()
