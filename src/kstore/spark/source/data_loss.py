"""``failOnDataLoss``: what happens where records that a query wants are gone."""

import logging

from kstore.errors import KStoreError

_LOGGER = logging.getLogger("kstore")


def report_data_loss(lost: KStoreError | None, fail: bool) -> None:
    """Raise ``lost`` with the advice how to go on, or log it where the query goes on anyway.

    ``lost`` says what is gone and nothing of the option: a warning advises nobody to set what is
    set. Does nothing for None.
    """
    if lost is None:
        return
    if fail:
        lost.reason += "; set failOnDataLoss to false to go on with what is there"
        raise lost.at()
    _LOGGER.warning("records are lost to this query, as failOnDataLoss is false: %s", lost)
