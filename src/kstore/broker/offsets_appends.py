"""Appends to ``__consumer_offsets`` that are acknowledged within ``offsets.commit.timeout.ms``.

The records of an append that exceeds it stay in the log, or follow once the disk takes them, with
an outcome unknown to the client: as in Kafka.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kstore.broker.durable_commits import durable_commits
from kstore.coordinator.group.offsets_store import Appended
from kstore.coordinator.group.offsets_table import OFFSETS_TOPIC
from kstore.errors import KStoreError
from kstore.protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from kstore.broker.services import Services

OnAppended = Callable[[BaseException | None, Appended | None], object]


class _TimedOutError(KStoreError):
    """The acknowledgement has not come in time."""

    code = ErrorCode.REQUEST_TIMED_OUT


class OffsetsAppends:
    """Appends on disk workers, in order for each partition. Loop's thread only."""

    def __init__(self, services: "Services") -> None:
        self._services = services
        self._commits = durable_commits(services)

    def append(
        self,
        partition: int,
        work: Callable[[], Appended],
        done: OnAppended,
        failed_later: Callable[[], object] | None = None,
    ) -> None:
        """Append with ``work``; call ``done`` once acknowledged, which means on disk if
        acknowledgements are durable.

        ``done`` gets REQUEST_TIMED_OUT if that takes too long; ``failed_later`` is called if it
        fails after that.
        """
        services = self._services
        is_waiting = True

        def end(error: BaseException | None, appended: Appended | None) -> None:
            nonlocal is_waiting
            if is_waiting:
                is_waiting = False
                timer.cancel()
                done(error, appended)
            elif error is not None and failed_later is not None:
                failed_later()

        def ended(appended: Appended | None, error: BaseException | None) -> None:
            if appended is None or not self._is_durable():
                end(error, appended)
            else:
                self._commits.wait(
                    appended.log, appended.end_offset, lambda failed: end(failed, appended)
                )

        def expire() -> None:
            end(_TimedOutError("the records are not acknowledged"), None)

        seconds = services.settings.offsets_commit_timeout_ms / 1000
        timer = services.loop.call_later(seconds, expire)
        services.workers.submit((OFFSETS_TOPIC, partition), work, ended)

    def _is_durable(self) -> bool:
        topic = self._services.metadata.image.topics.get(OFFSETS_TOPIC)
        of_topic = None if topic is None else topic.config.get("kstore.acks.durable")
        if of_topic is not None:
            return of_topic == "true"
        return self._services.settings.kstore_acks_durable
