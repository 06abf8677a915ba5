"""All questions, family by family, to one broker."""

from collections.abc import Callable, Sequence

from interop.same_bytes import (
    administration,
    fetch,
    group_members,
    group_offsets,
    malformed,
    metadata,
    offsets,
    produce,
    settings,
)
from interop.same_bytes.asker import Answers, Asker

FAMILIES: dict[str, Callable[[Asker], None]] = {
    "produce": produce.ask,
    "fetch": fetch.ask,
    "offsets": offsets.ask,
    "metadata": metadata.ask,
    "administration": administration.ask,
    "settings": settings.ask,
    "malformed": malformed.ask,
    "group offsets": group_offsets.ask,
    "group members": group_members.ask,
}
SETTINGS: dict[str, object] = {
    "group_initial_rebalance_delay_ms": 0
}  # of kstore, as of Kafka's node


def ask_all(address: str, families: Sequence[str] = tuple(FAMILIES)) -> Answers:
    """The answers of a broker that has no topics yet, whose node id is 1."""
    asker = Asker(address)
    try:
        for family in families:
            FAMILIES[family](asker)
    finally:
        asker.close()
    return asker.answers
