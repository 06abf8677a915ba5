"""``failOnDataLoss``: what happens where records that a query wants are gone."""

import logging
from dataclasses import dataclass

from kstore.errors import KStoreError

_LOGGER = logging.getLogger("kstore")


@dataclass(frozen=True, slots=True, order=True)
class LostOffsets:
    """Offsets [start, stop) of a partition that are wanted and gone."""

    topic: str
    partition: int
    start: int
    stop: int


def report_data_loss(lost: KStoreError | None, fail: bool) -> None:
    """Raise ``lost`` with the advice how to continue, or log it if the query continues anyway.

    ``lost`` names what is gone, not the option: a warning does not advise to set what is set.
    Does nothing for None.
    """
    if lost is None:
        return
    if fail:
        lost.reason += "; set failOnDataLoss to false to go on with what is there"
        raise lost.at()
    _LOGGER.warning("records are lost to this query, as failOnDataLoss is false: %s", lost)
