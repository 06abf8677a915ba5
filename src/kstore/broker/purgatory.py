"""Counts waiting requests, as Kafka's DelayedOperationPurgatory does."""


class Purgatory:
    """The waiting requests of one kind. Loop's thread only, except ``size``."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0
