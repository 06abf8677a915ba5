"""Caches the encoded topics of Metadata responses for the current cluster image."""

from collections.abc import Callable, Hashable

from kstore.cluster.image import ClusterImage
from kstore.protocol.messages.metadata import MetadataResponse
from kstore.protocol.wire import Writer

_MOST_BYTES = 1 << 24


class EncodedTopic(MetadataResponse.Topics):
    """A topic of the response that is already encoded. Immutable."""

    __slots__ = ("_data",)

    def __init__(self, data: bytes) -> None:
        self._data = data

    @property
    def size(self) -> int:
        return len(self._data)

    def encode(self, writer: Writer, version: int) -> None:
        writer.encoded(self._data)


def encode_topic(describe: Callable[[], MetadataResponse.Topics], version: int) -> EncodedTopic:
    """Encode the topic that ``describe()`` returns. Thread safe."""
    writer = Writer()
    describe().encode(writer, version)
    return EncodedTopic(writer.to_bytes())


class EncodedTopics:
    """The encoded topics of the current image, by all that their bytes depend on. Loop's thread
    only.

    Describing and encoding a topic of 5,000 partitions takes milliseconds, and clients request it
    repeatedly. Above 16 MiB the cache is cleared.
    """

    def __init__(self) -> None:
        self._image: ClusterImage | None = None
        self._topics: dict[Hashable, EncodedTopic] = {}
        self._size = 0

    def find(
        self,
        image: ClusterImage,
        key: Hashable,
        version: int,
        describe: Callable[[], MetadataResponse.Topics],
    ) -> MetadataResponse.Topics:
        """The topic that ``describe()`` returns for this image, version and key."""
        found = self.get(image, key, version)
        if found is None:
            found = encode_topic(describe, version)
            self.put(image, key, version, found)
        return found

    def get(self, image: ClusterImage, key: Hashable, version: int) -> EncodedTopic | None:
        """The topic for this image, version and key, if it is encoded."""
        return self._topics.get((version, key)) if image is self._image else None

    def put(self, image: ClusterImage, key: Hashable, version: int, topic: EncodedTopic) -> None:
        """Cache a topic, which another thread may have encoded; drops those of other images."""
        if image is not self._image or self._size > _MOST_BYTES:
            self._image, self._topics, self._size = image, {}, 0
        if (version, key) not in self._topics:
            self._size += topic.size
        self._topics[version, key] = topic
