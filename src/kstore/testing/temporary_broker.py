"""A broker for a block of a test: it serves a temporary directory."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from tempfile import TemporaryDirectory

from kstore.broker.broker import Broker, serve
from kstore.testing.settings import IN_OWN_DIRECTORY, settings_for_tests


@contextmanager
def broker(
    topics: Mapping[str, int] | Iterable[str] = (),
    *,
    settings: Mapping[str, object] | None = None,
) -> Iterator[Broker]:
    """A Kafka broker on a free port, on a thread of this process, in a temporary directory.

    ``with kstore.testing.broker({"orders": 2}) as broker:`` has ``broker.bootstrap_servers`` for
    clients, and ``broker.store``, the :class:`kstore.Store` that it serves. At the end of the
    block the broker is closed and its directory removed.

    Parameters
    ----------
    topics
        Topics to create: names with a number of partitions, or names only.
    settings
        Broker settings by Kafka's names. ``group.initial.rebalance.delay.ms`` is 0 by default, and
        ``kstore.delete.existing.topics`` true.
    """
    if isinstance(topics, str):
        topics = [topics]
    partitions = dict(topics) if isinstance(topics, Mapping) else dict.fromkeys(topics, 1)
    wanted = {**IN_OWN_DIRECTORY, **(settings or {})}
    with (
        TemporaryDirectory(prefix="kstore-broker-") as directory,
        serve(directory, port=0, settings=settings_for_tests(wanted)) as running,
    ):
        for name, count in partitions.items():
            running.store.create_topic(name, count)
        yield running
