"""The jitter of rolls by time, drawn once for each log (Kafka's LogConfig.randomSegmentJitter)."""

from random import randrange

from kstore.config import LogConfig


def draw_jitter(config: LogConfig) -> int:
    """How many ms before ``segment.ms`` a segment rolls, so that not all logs roll at once.

    Below ``segment.jitter.ms``, or ``segment.ms``.
    """
    return randrange(min(config.segment_jitter_ms, config.segment_ms) or 1)
