"""How many requests wait in a purgatory: the size that Kafka's metrics show.

The waiting itself is in :mod:`kstore.broker.delayed_fetch`,
:mod:`kstore.broker.delayed_fetch_frame` and :mod:`kstore.broker.delayed_produce`.
"""


class PurgatorySize:
    """The number of waiting requests of one kind. Changed by the loop's thread only."""

    __slots__ = ("requests",)

    def __init__(self) -> None:
        self.requests = 0
