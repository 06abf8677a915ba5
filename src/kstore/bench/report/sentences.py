"""One sentence for each figure of the verdict: what it means for a log, in records and consumers.

A figure that was not measured has no sentence; the verdict shows the reason instead.
"""

from kstore.bench.machine import figures as names
from kstore.bench.machine.figures import Figure
from kstore.bench.report.units import count, duration, rate
from kstore.integers import count_of

Figures = dict[str, Figure]
RECORD = 1000  # bytes: "1 KB"
CONSUMER = 100e6  # bytes a second of one consumer
BEHIND = 100e9  # bytes that a consumer is behind
FASTEST_COMMIT = 8e-6  # seconds; a faster one reached no device


def value(found: Figures, name: str) -> float | None:
    """A figure's value, or None if it was not measured."""
    figure = found.get(name)
    return None if figure is None else figure.value


def writing(found: Figures, medium: str) -> str:
    """Records a second, in batches; whether the rate was still falling."""
    figure = found[names.SUSTAINED_WRITE]
    records = f"{count((figure.value or 0) / RECORD)} records of 1 KB a second"
    if figure.sustained is False:
        return f"At most {records}: the rate still fell at the end."
    if (disk := value(found, names.DISK_WRITE)) is not None:
        return (
            f"The page cache or processor limits it, not the disk: {rate(disk, 'B')} by its syncs."
        )
    return f"{records}, in batches, acknowledged from {medium}."


def commit(found: Figures, medium: str) -> str:
    """Records a second of one producer that waits for each: commits by their time, with stalls."""
    typical = value(found, names.COMMIT_P50) or 0.0
    if typical < FASTEST_COMMIT and medium == "disk":
        return "Faster than any device: a cache answers, and a power cut may empty it."
    seconds = value(found, names.COMMIT_MEAN) or typical
    each = 1 / seconds if seconds else 0.0
    return (
        f"{count(each)} records of 1 KB a second, {rate(each * RECORD, 'B')}, "
        "if a producer waits for each."
    )


def tail(found: Figures) -> str:
    """Consumers that one core feeds from the page cache, and what they cost the writer.

    The slower of two rates counts: a processor's cache may hold the tail that one reader reads, but
    not what many consumers read.
    """
    tail_read, cached = value(found, names.TAIL_READ) or 0.0, found[names.CACHED_READ]
    text = consumers(min(tail_read, cached.value or tail_read))
    if cached.value is not None:
        size = cached.note.split(";")[0]
        text = f"{text} ({f'{size} ' if size else ''}alone: {rate(cached.value, 'B')})"
    alone, beside = value(found, names.SUSTAINED_WRITE), value(found, names.TAIL_WRITE)
    if not alone or beside is None:
        return f"{text}."
    lost = 1 - beside / alone
    return f"{text}; writing is {f'{lost:.0%} slower' if lost >= 0.05 else 'as fast'}."


def catch_up(found: Figures) -> str:
    """How long a consumer reads that is far behind, and whether it ever catches up."""
    reading = value(found, names.CATCH_UP_READ) or 1.0
    written = value(found, names.SUSTAINED_WRITE)
    text = f"A consumer 100 GB behind reads for {_span(BEHIND / reading)}"
    if written is None:
        return f"{text}."
    if reading <= written:
        return f"{text}; beside full writing it never catches up."
    return f"{text}, at best {_span(BEHIND / (reading - written))} beside full writing."


def send(found: Figures) -> str:
    """Consumers that one core feeds, and the network card that it fills."""
    sent = value(found, names.NETWORK_SEND) or 0.0
    gigabits = sent * 8 / 1e9
    return f"{consumers(sent)} for each sending core: fills a card of {gigabits:.3g} Gbit/s."


def consumers(per_second: float) -> str:
    """``85 consumers of 100 MB/s``."""
    number = int(per_second / CONSUMER)
    if number < 1:
        return f"no consumer of {rate(CONSUMER, 'B')}"
    return f"{count_of(number, 'consumer')} of {rate(CONSUMER, 'B')}"


def _span(seconds: float) -> str:
    """Seconds, minutes or hours."""
    if seconds < 100:
        return duration(seconds)
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 100 else f"{minutes / 60:.0f} h"
