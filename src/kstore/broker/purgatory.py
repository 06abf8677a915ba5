"""Requests that wait, as Kafka's DelayedOperationPurgatory counts them."""


class Purgatory:
    """How many requests of one kind wait. Loop's thread; ``size`` is read by any thread."""

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0
