"""The health of a broker as HTTP status and JSON."""

import threading
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from kstore.broker.loop import Loop
    from kstore.store.log_manager import LogManager

ANSWER_SECONDS = 5.0  # time limit for a turn of the event loop
_MOST_NAMED = 100  # partitions in one response

Answer = tuple[HTTPStatus, dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Health:
    """The health of one broker. From any thread except the event loop's."""

    loop: "Loop"
    manager: "LogManager"
    is_stopping: "Callable[[], bool]"
    answer_seconds: float = ANSWER_SECONDS

    def ready(self) -> Answer:
        """200 if all partitions of all directories are served, otherwise 503 with the reasons."""
        manager = self.manager
        recovering = manager.recoveries.waiting_count
        failed_dirs = [
            {"path": each.path, "error": str(each.offline)}
            for each in manager._dirs
            if each.offline is not None
        ]
        failed = sorted(manager.recoveries.failed.items())
        state = "ready"
        if self.is_stopping():
            state = "stopping"
        elif not self._loop_answers():
            state = "stuck"
        elif failed_dirs or failed:
            state = "degraded"
        elif recovering:
            state = "recovering"
        return _answer(
            state == "ready",
            state=state,
            ready=state == "ready",
            recovering_partitions=recovering,
            failed_log_dirs=failed_dirs,
            failed_partitions=[
                {"topic": topic, "partition": partition, "error": str(error)}
                for (topic, partition), error in failed[:_MOST_NAMED]
            ],
        )

    def live(self) -> Answer:
        """200 if the broker's thread responds, so that a restart would not help."""
        is_live = self.is_stopping() or self._loop_answers()
        return _answer(is_live, state="live" if is_live else "stuck")

    def _loop_answers(self) -> bool:
        answered = threading.Event()
        self.loop.call_soon_threadsafe(answered.set)
        return answered.wait(self.answer_seconds)


def _answer(is_good: bool, **body: Any) -> Answer:
    return (HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE), body
