"""Publishes the changes of a store's topics: to callbacks, a broker, and open consumers.

Whatever part of the process makes a change, the registry notes it under the store's lock, and the
release of the lock publishes it. So nothing in the process has to look for changes.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Protocol

from kstore._native.append.reentrant_lock import ReentrantLock
from kstore.background.failures import BackgroundFailures
from kstore.store.topic_identity import TopicIdentities
from kstore.store.topic_registry import TopicRegistry

if TYPE_CHECKING:
    from kstore.store.store import Store
    from kstore.store.topic_differences import TopicEvent, TopicState

WORK = "a callback that watches topics"  # as background failures name it

Callback = Callable[["Store", "TopicEvent"], object]


class TopicListener(Protocol):
    """A part of kstore that follows the changes of topics. It is referred to weakly."""

    def topics_noted(self, names: Collection[str] | None) -> None:
        """These topics have changed; None: perhaps any. Called under the store's lock, in the order
        of the changes: it only takes a note, without a lock."""

    def topics_changed(self) -> None:
        """The store's lock is released after a change. The thread may hold any other lock, so this
        must not wait for one that comes before the store's."""


class TopicWatch:
    """A callback that watches the topics of a store, until :meth:`close`. Thread safe."""

    def __init__(self, changes: "TopicChanges", callback: Callback) -> None:
        self._changes = changes
        self._callback = callback
        self.closed = False
        self.has_failed = False  # at its last call

    def close(self) -> None:
        """Do not call the callback any more; a second call does nothing.

        A call that another thread has begun may still run.
        """
        self.closed = True
        self._changes.remove(self)

    def deliver(self, store: "Store", event: "TopicEvent", failures: BackgroundFailures) -> None:
        """Call the callback; what it raises is a background failure of the store."""
        if self.closed:
            return
        try:
            self._callback(store, event)
        except Exception as error:
            self.has_failed = True
            failures.report(WORK, error, is_lasting=True)
        else:
            if self.has_failed:
                self.has_failed = False
                failures.end(WORK)


class TopicChanges:
    """The changes of one store's topics, and who follows them. Thread safe."""

    def __init__(
        self,
        lock: ReentrantLock,
        catalog: TopicRegistry,
        identities: TopicIdentities,
        failures: BackgroundFailures,
        store_ref: "Callable[[], Store | None]",
    ) -> None:
        self._lock = lock
        self._catalog = catalog
        self._identities = identities
        self._failures = failures
        self._store_ref = store_ref
        self._listeners: tuple[weakref.ref[TopicListener], ...] = ()
        self._watches: tuple[TopicWatch, ...] = ()
        self._states: dict[str, TopicState] = {}  # as the callbacks know them, if there are any
        self._events: deque[tuple[TopicEvent, tuple[TopicWatch, ...]]] = deque()
        self._turn = threading.Lock()  # of the thread that calls the callbacks

    # --- who follows them ------------------------------------------------------------------------

    def add_listener(self, listener: TopicListener) -> None:
        """Let a part of kstore follow the changes, until it is removed or gone."""
        with self._lock:
            present = [each for each in self._listeners if each() is not None]
            self._listeners = (*present, weakref.ref(listener))

    def remove_listener(self, listener: TopicListener) -> None:
        """Let it follow them no longer."""
        with self._lock:
            self._listeners = tuple(
                each for each in self._listeners if each() not in (None, listener)
            )

    def watch(self, callback: Callback) -> TopicWatch:
        """Call ``callback(store, event)`` for each change from now on."""
        watch = TopicWatch(self, callback)
        with self._lock:
            if not self._watches:
                self._states = self._present(self._catalog.topics)
            self._watches += (watch,)
        return watch

    def remove(self, watch: TopicWatch) -> None:
        """Forget a callback."""
        with self._lock:
            self._watches = tuple(each for each in self._watches if each is not watch)
            if not self._watches:
                self._states = {}

    def _present(self, topics: Collection[str]) -> "dict[str, TopicState]":
        from kstore.store.topic_differences import state_of  # no use without a callback

        found = ((each, state_of(self._catalog, self._identities, each)) for each in topics)
        return {topic: state for topic, state in found if state is not None}

    def nudge(self) -> None:
        """Let all parts look again, since something else has changed: who coordinates groups."""
        self._call_listeners()

    # --- changes ----------------------------------------------------------------------------

    def note(self, names: Collection[str] | None) -> None:
        """These topics have changed; None: perhaps any. The caller holds the store's lock, whose
        release publishes it."""
        for reference in self._listeners:
            if (listener := reference()) is not None:
                listener.topics_noted(names)
        if self._watches:
            self._note_events(names)
        if self._listeners or self._events:
            self._lock.on_release = self._publish

    def _note_events(self, names: Collection[str] | None) -> None:
        from kstore.store.topic_differences import differences

        if names is None:
            names = sorted(self._states.keys() | self._catalog.topics.keys())
        now = self._present(names)
        for topic in names:
            for event in differences(topic, self._states.get(topic), now.get(topic)):
                self._events.append((event, self._watches))
            self._states.pop(topic, None)
        self._states.update(now)

    def _call_listeners(self) -> None:
        for reference in self._listeners:
            if (listener := reference()) is not None:
                listener.topics_changed()

    def _publish(self) -> None:
        self._call_listeners()
        # One thread at a time, so that events arrive in order. It looks again after its turn: the
        # thread that has noted an event meanwhile did not get one.
        while self._events and self._turn.acquire(blocking=False):
            try:
                self._call_back()
            finally:
                self._turn.release()

    def _call_back(self) -> None:
        store = self._store_ref()
        while self._events:
            event, watches = self._events.popleft()
            for watch in watches:
                if store is not None:
                    watch.deliver(store, event, self._failures)


def watch_topics(store: "Store", callback: Callback) -> TopicWatch:
    """Call ``callback(store, event)`` for each change of a topic: a :class:`kstore.TopicEvent`.

    Of changes by any part of this process: this store, a broker that serves it, and its clients.
    Events come in order, after the change, one call at a time, on the thread that made one of the
    changes, which may hold locks: the callback must not wait for another thread. What it raises is
    in :attr:`Store.background_failures`. In mode "r" events come when the store is used, and finds
    that its writer has changed topics. ``close`` what is returned to end it.
    """
    store._check()
    return store._manager.changes.watch(callback)
