"""``failOnDataLoss``: an error or a warning for requested records that are lost."""

import logging
from dataclasses import dataclass

from kstore.errors import KStoreError

_LOGGER = logging.getLogger("kstore")


@dataclass(frozen=True, slots=True, order=True)
class LostOffsets:
    """Requested offsets [start, stop) of a partition that are lost."""

    topic: str
    partition: int
    start: int
    stop: int


def report_data_loss(lost: KStoreError | None, fail: bool) -> None:
    """Raise ``lost``, with the advice to set the option, or log it if the query continues.

    The text of ``lost`` does not mention the option, so that the warning does not advise to set
    what is set already. Does nothing for None.
    """
    if lost is None:
        return
    if fail:
        lost.reason += "; set failOnDataLoss to false to continue with the existing records"
        raise lost.at()
    _LOGGER.warning("the query skips lost records, because failOnDataLoss is false: %s", lost)
