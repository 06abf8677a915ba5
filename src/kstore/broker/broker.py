"""``kstore.Broker`` and ``kstore.serve``: serve a store as a Kafka broker, on its own thread."""

import logging
import os
import threading
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING

from kstore.broker.disk_workers import DiskWorkers
from kstore.broker.full_disk import FullDisk
from kstore.broker.handlers import handler_classes
from kstore.broker.listener_set import ListenerSet, advertised_addresses
from kstore.broker.loop import Loop, Timer
from kstore.broker.partitions import Partitions
from kstore.broker.request_memory import RequestMemory
from kstore.broker.services import Services
from kstore.broker.settings import METRICS_OFF, BrokerSettings
from kstore.cluster.config_changes import check_broker_config
from kstore.cluster.image import ClusterImage
from kstore.cluster.local_metadata import LocalMetadata
from kstore.cluster.settings.broker_settings import BROKER_SETTINGS
from kstore.cluster.store_settings import check_store_settings, with_store_settings
from kstore.config import StoreConfig
from kstore.errors import (
    AddressError,
    ClosedError,
    ForkedError,
    InvalidConfigError,
    KStoreError,
    PolicyViolationError,
    ReadOnlyError,
    StoreLockedError,
    UnknownSettingError,
)
from kstore.files import process_lifetime
from kstore.hints.kafka_names import OF_BROKERS
from kstore.hints.keyword_names import explain_keywords
from kstore.hints.missing_names import answer_names
from kstore.integers import INT32_MAX, check_integer
from kstore.security.credentials import Credentials
from kstore.security.listeners import LISTENERS, Address, ListenerAddress, single_listener
from kstore.security.security_settings import (
    is_described,
    is_security_setting,
    security_settings,
)
from kstore.store.open_store import open_to_serve
from kstore.store.space_reserve import SpaceReserve
from kstore.store.store import Paths, Store

if TYPE_CHECKING:
    from types import TracebackType

    from kstore.broker.authorization import Guard
    from kstore.broker.metrics.broker_metrics import BrokerMetrics
    from kstore.checkpoint.broker_addresses import BrokerAddressFiles

_LOGGER = logging.getLogger("kstore.broker")
_DEFAULT_ADDRESS = ("127.0.0.1", 9092, None)
_SWEEP_SECONDS = 5.0  # the longest interval between checks for idle connections


_SETTINGS = "settings have Kafka's names: settings={'num.partitions': 3}"


class Broker:
    """Serves a store to Kafka clients of any version: a one-node cluster, on its own thread.

    Use it as a context manager, ``with kstore.Broker(store) as broker: broker.bootstrap_servers``
    (or ``async with``), or call ``start`` and ``close``. This process can use the store while the
    broker serves it. All methods are thread safe; a forked child cannot use the broker
    (ForkedError).
    """

    @explain_keywords(_SETTINGS)
    def __init__(
        self,
        store: Store,
        *,
        host: str = "127.0.0.1",
        port: int = 9092,
        advertised: str | None = None,
        node_id: int | None = None,
        settings: BrokerSettings | Mapping[str, object] | None = None,
        adopt: str | os.PathLike[str] | None = None,
    ) -> None:
        """Prepare a broker; ``start`` opens the port.

        Raises InvalidConfigError for wrong settings, ReadOnlyError for a store in mode "r",
        AddressError for an invalid advertised address, CorruptFileError, CorruptRecordError
        or StorageError for a source of ``adopt`` that cannot be read.

        Parameters
        ----------
        store
            An open store, in mode "a". It stays open when the broker is closed; its ``close``
            closes the broker first.
        host
            The address to listen on. An address other than a loopback address is open to the
            network without authentication. The setting ``listeners``, which replaces host, port and
            advertised, configures listeners with TLS or SASL.
        port
            The port to listen on; 0 chooses a free port, which the attribute ``port`` returns.
        advertised
            ``host`` or ``host:port`` at which clients reach the broker, if it differs from the
            listening address.
        node_id
            Kafka's ``node.id``; that of ``meta.properties`` by default, else 0.
        settings
            By Kafka's names: ``{"auto.create.topics.enable": False}``.
        adopt
            A directory with a KRaft metadata log, or a JSON file of settings by topic. ``start``
            puts these topics under the broker's settings, including retention and cleaning.
        """
        if not isinstance(store, Store):
            raise TypeError(
                f"a broker serves an open store, not {type(store).__name__}: kstore.serve('data') "
                "opens directories, or with kstore.open('data') as store: kstore.Broker(store)"
            )
        if not store.writable:
            raise ReadOnlyError("a broker needs a store that is open for writing, mode 'a'")
        self._store = store
        port = check_integer("port", port, 0, 65_535)
        if node_id is not None:
            node_id = check_integer("node_id", node_id, 0, INT32_MAX)
        self._node_id = node_id
        given = settings.to_properties() if isinstance(settings, BrokerSettings) else settings or {}
        check_store_settings(store.config, given)
        self._security = security_settings(given, _single(given, host, port, advertised))
        given = {
            name: value
            for name, value in given.items()
            if not is_security_setting(name) or is_described(name)
        }
        self._settings = BrokerSettings.from_properties(given, others=BROKER_SETTINGS)
        self._config = check_broker_config(
            {name: value for name, value in given.items() if name in BROKER_SETTINGS}
        )
        self._source = None
        if adopt is not None:
            from kstore.cluster.adoption import read_source

            self._source = read_source(adopt)
        self._owns_store = False
        self._lock = threading.Lock()  # of start and close
        self._thread: threading.Thread | None = None
        self._is_prepared = threading.Event()  # the loop may run
        self._is_closed = False
        self._stop_timer: Timer | None = None
        self._pid = os.getpid()
        self._listeners: ListenerSet | None = None
        self._metrics: BrokerMetrics | None = None
        self._address_files: BrokerAddressFiles | None = None

    # --- start and stop -------------------------------------------------------------------

    def start(self) -> "Broker":
        """Open the port and start serving.

        Raises AddressError if the port is in use or this machine does not have the address,
        ClosedError if the broker is closed, InvalidConfigError for topics or settings that cannot
        be adopted, and StoreLockedError if another broker serves the store.
        """
        with self._lock:
            self._check_process()
            if self._is_closed:
                raise ClosedError("the broker is closed")
            if self._thread is None:
                self._claim_store()
                try:
                    self._start()
                except BaseException:
                    if self._thread is None:
                        self._store._server = None
                    raise
        return self

    def _claim_store(self) -> None:
        """Have the store's ``close`` close this broker; ClosedError where that has begun."""
        store = self._store
        with store._lock:
            store._check_not_closing()
            if store._catalog.effective_config is not None or store._server is not None:
                raise StoreLockedError(  # two would disagree on groups and ids
                    "another broker of this process serves the store", path=store.paths[0]
                )
            store._server = self

    def _start(self) -> None:
        self._loop = Loop()
        self._memory = RequestMemory(self._settings.queued_max_request_bytes)
        self._workers = DiskWorkers(self._loop, self._settings.num_io_threads)
        self._metadata: LocalMetadata | None = None
        listeners: ListenerSet | None = None
        try:
            # reads certificates and the keys of tokens
            listeners = ListenerSet(self._security, self._loop, self._settings, self._memory)
            listeners.open()
            self._metrics = self._open_metrics()
            self._prepare_services(listeners)
            thread = threading.Thread(target=self._run, name="kstore-broker", daemon=True)
            thread.start()  # RuntimeError if the system has no thread left
        except BaseException:
            if listeners is not None:
                listeners.close()
            if self._metrics is not None:
                self._metrics.close()
            self._workers.close()
            self._loop.close()
            if self._metadata is not None:
                self._metadata.close()
            self._store._has_group_members = None
            raise
        self._listeners = listeners
        if self._services.groups is not None:  # not earlier: members wait for a loop that runs
            self._store._group_owner = self._services.groups.embedded
            self._store._manager.changes.nudge()
        if self._services.transactions is not None:
            self._services.transactions.take_over()
        assert self._services.full_disk is not None
        self._loop.call_soon(self._services.full_disk.start)
        self._loop.call_soon(self._partitions.begin_epochs_after_losses)
        self._loop.call_soon(listeners.start, self._services)
        self._loop.call_soon(self._sweep)
        self._thread = thread
        self._is_prepared.set()
        process_lifetime.opened(self)
        if self._metrics is not None:
            self._metrics.start(
                self._services, listeners,
                loop_thread=self._thread.ident, is_stopping=lambda: self._is_closed,
            )  # fmt: skip
        self._show_addresses(listeners)
        listeners.warn_if_open()
        _LOGGER.info("serving %s on %s", ", ".join(self._store.paths), self.bootstrap_servers)

    def _show_addresses(self, listeners: ListenerSet) -> None:
        """Name the listeners in the log directories, to tools that find them locked."""
        from kstore.checkpoint.broker_addresses import BrokerAddress, BrokerAddressFiles

        self._address_files = BrokerAddressFiles()
        self._address_files.write(
            [(each.files, each.path) for each in self._store._manager._dirs if not each.offline],
            [
                BrokerAddress(name, at.security_protocol, str(Address(at.host, at.port)))
                for name, at in listeners.endpoints().items()
            ],
        )

    def _open_metrics(self) -> "BrokerMetrics | None":
        settings = self._settings
        if settings.kstore_metrics_port == METRICS_OFF:
            return None
        from kstore.broker.metrics.broker_metrics import BrokerMetrics  # imports an HTTP server

        return BrokerMetrics(settings.kstore_metrics_host, settings.kstore_metrics_port)

    def _prepare_services(self, listeners: ListenerSet) -> None:
        """Create the cluster metadata, which needs the bound ports, and the handlers."""
        self._metadata = LocalMetadata(
            self._store,
            node_id=self._node_id,
            endpoints=listeners.endpoints(),
            rack=self._config.get("broker.rack") or None,
            broker_config=self._config,
            can_delete_existing=self._settings.kstore_delete_existing_topics,
        )
        if self._source is not None:
            from kstore.cluster.adoption import adopt_topics

            adopt_topics(self._store, self._metadata, self._source)
        self._metadata.on_change(partial(self._follow_settings, listeners))
        self._follow_settings(listeners, None, self._metadata.image)
        self._partitions = Partitions(self._store, self._metadata, self._loop, self._workers)
        self._services = Services(
            store=self._store,
            metadata=self._metadata,
            partitions=self._partitions,
            loop=self._loop,
            workers=self._workers,
            settings=self._settings,
            security=self._security,
            credentials=Credentials(self._store._manager._dirs),
            counters=None if self._metrics is None else self._metrics.counters,
            full_disk=FullDisk(SpaceReserve(self._store._manager._dirs), self._loop, self._workers),
        )
        guard = self._guard()
        for handlers in handler_classes():
            apis = handlers(self._services).apis()
            self._services.apis.add(apis if guard is None else map(guard.guarded, apis))
        self._metadata.on_change(self._on_metadata_change)
        self._apply_quotas()

    def _on_metadata_change(self, old: ClusterImage, new: ClusterImage) -> None:
        """On the thread that made the change."""
        if old.client_quotas is not new.client_quotas:
            self._loop.call_soon_threadsafe(self._apply_quotas)

    def _apply_quotas(self) -> None:
        """Measure what is limited; requests by their bytes alone are not measured."""
        services = self._services
        services.throttling.set(services.metadata.image.client_quotas)
        services.apis.allow_frame_handlers(allowed=not services.throttling.is_active)

    def _follow_settings(
        self, listeners: ListenerSet, old: ClusterImage | None, new: ClusterImage
    ) -> None:
        """Obey the limits of connections as they are now; called on any thread."""
        if old is not None and old.broker_config == new.broker_config:
            return
        config, settings = new.broker_config, self._settings
        self._loop.call_soon_threadsafe(
            listeners.limits.change,
            int(config.get("max.connections", settings.max_connections)),
            int(config.get("max.connections.per.ip", settings.max_connections_per_ip)),
        )

    def _guard(self) -> "Guard | None":
        """The authorization of requests, if the settings configure an authorizer."""
        asked = self._security.authorizer
        if asked is None:
            return None
        from kstore.broker.access_table import RULES
        from kstore.broker.authorization import Guard
        from kstore.security.acl_store import AclStore
        from kstore.security.authorizer import Authorizer

        authorizer = Authorizer(asked.super_users, allows_everyone=asked.allows_everyone)
        self._services.acls = AclStore(self._store._manager._dirs, authorizer)
        return Guard(authorizer, RULES, self._settings.kstore_max_request_partitions)

    def _run(self) -> None:
        self._is_prepared.wait()
        try:
            self._loop.run()
        except BaseException:
            _LOGGER.exception("the broker's thread ended")
            if self._listeners is not None:
                self._listeners.close()

    def close(self) -> None:
        """Complete the requests in progress, for up to ``kstore.stop.wait.ms``, then stop.

        Waiting fetches complete immediately. Idempotent. It also closes the store, cleanly, if
        ``kstore.serve`` opened it; closing a store closes its broker first. Raises
        PolicyViolationError on a thread of the broker itself, such as in a callback of a log.
        """
        if self._pid != os.getpid():
            return
        self._check_can_close()
        with self._lock:
            if self._is_closed:
                return
            self._is_closed = True
            process_lifetime.closed(self)
            if self._thread is not None:
                self._loop.call_soon_threadsafe(self._begin_stop)
                self._thread.join()
                if self._address_files is not None:
                    self._address_files.remove()
                transactions = self._services.transactions
                if transactions is not None:
                    transactions.stop()
                self._workers.close()
                if self._services.full_disk is not None:
                    self._services.full_disk.close()
                if self._metrics is not None:
                    self._metrics.close(self._services)
                if transactions is not None:
                    transactions.close()
                self._loop.close()
                if self._services.groups is not None:
                    self._services.groups.embedded.close()
                self._store._has_group_members = None
                if self._metadata is not None:
                    self._metadata.close()
                _LOGGER.info("stopped serving on %s", self.bootstrap_servers)
            if self._store._server is self:
                self._store._server = None
            if self._owns_store:
                self._store.close()

    def _check_can_close(self) -> None:
        current = threading.current_thread()
        if self._thread is not None and (current is self._thread or current in self._workers):
            raise PolicyViolationError(
                "a broker cannot be closed by a callback on its own thread, which it waits for: "
                "have another thread close it"
            )

    def _begin_stop(self) -> None:
        assert self._listeners is not None
        if self._services.groups is not None:
            self._services.groups.embedded.leave_all()
        seconds = self._settings.kstore_stop_wait_ms / 1000
        self._stop_timer = self._loop.call_later(seconds, self._end_stop)
        self._listeners.stop(self._end_stop)

    def _end_stop(self) -> None:
        from kstore.broker.durable_commits import durable_commits

        timer, self._stop_timer = self._stop_timer, None
        if timer is not None and self._listeners is not None:
            timer.cancel()
            self._listeners.end()
            finish = durable_commits(self._services).finish
            self._workers.when_idle(lambda: finish(timer.when, self._end_loop))

    def _end_loop(self) -> None:
        try:
            self._partitions.close()
        finally:
            self._loop.stop()

    def _sweep(self) -> None:
        """Close idle connections, and a stalled connection that occupies the request memory."""
        now = self._loop.time()
        if self._listeners is not None:
            self._listeners.close_idle(now)
        self._memory.close_stalled(now)
        idle = self._settings.connections_max_idle_ms
        seconds = _SWEEP_SECONDS if idle < 0 else min(_SWEEP_SECONDS, max(0.02, idle / 10_000))
        self._loop.call_later(seconds, self._sweep)

    # --- properties -----------------------------------------------------------------------

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of the first listener, for a client's ``bootstrap.servers``.

        Raises KStoreError if the port is 0 and the broker was not started.
        """
        return next(iter(self.listeners.values()), "")

    @property
    def listeners(self) -> dict[str, str]:
        """The advertised ``host:port`` of each listener, by listener name."""
        addresses = advertised_addresses(self._security.listeners, self._bound())
        for address in addresses.values():
            self._check_port(address.port)
        return {name: str(address) for name, address in addresses.items()}

    @property
    def port(self) -> int:
        """The port of the first listener; once started, the port that the system chose for 0."""
        port = self._bound()[self._security.listeners[0].where.name].port
        self._check_port(port)
        return port

    def _check_port(self, port: int) -> None:
        """Port 0 is where no client can connect: the user has forgotten to start the broker."""
        if port == 0:
            raise KStoreError(
                "the broker has no port before it is started: call start(), or use "
                "`with kstore.Broker(store, port=0) as broker:`"
            )

    def _bound(self) -> dict[str, Address]:
        """The addresses of the sockets; before the start, the configured addresses."""
        if self._listeners is not None:
            return self._listeners.bound
        return {each.where.name: each.where.address for each in self._security.listeners}

    @property
    def metrics_address(self) -> str | None:
        """``host:port`` of ``/metrics`` and ``/health``; None without ``kstore.metrics.port``, and
        before the start."""
        return None if self._metrics is None else self._metrics.address

    @property
    def store(self) -> Store:
        """The store that is served."""
        return self._store

    @property
    def closed(self) -> bool:
        return self._is_closed

    # --- context managers, and the process ------------------------------------------------

    def __enter__(self) -> "Broker":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: "TracebackType | None",
    ) -> None:
        self.close()

    async def __aenter__(self) -> "Broker":
        import asyncio

        return await asyncio.to_thread(self.start)

    async def __aexit__(self, *_: object) -> None:
        import asyncio

        await asyncio.to_thread(self.close)

    def _check_process(self) -> None:
        if self._pid != os.getpid():
            raise ForkedError("a broker cannot be used in a forked child")

    def _after_fork(self) -> None:
        """In a forked child: close its copies of the sockets; the parent's stay open."""
        if self._thread is not None:
            if self._listeners is not None:
                self._listeners.abandon()
            if self._metrics is not None:
                self._metrics.abandon()
            self._loop.abandon()
            if self._address_files is not None:
                self._address_files.abandon()

    def __repr__(self) -> str:
        if not hasattr(self, "_is_closed"):  # its arguments were refused
            return "<Broker, not made>"
        state = "closed" if self._is_closed else "not started" if self._thread is None else "open"
        addresses = advertised_addresses(self._security.listeners, self._bound())
        shown = next(iter(addresses.values()), "")
        return f"<Broker {shown} of {', '.join(self._store.paths)}, {state}>"


answer_names(Broker, OF_BROKERS)


@explain_keywords(_SETTINGS)
def serve(
    path: Paths,
    *,
    host: str = "127.0.0.1",
    port: int = 9092,
    advertised: str | None = None,
    node_id: int | None = None,
    settings: BrokerSettings | Mapping[str, object] | None = None,
    config: StoreConfig | Mapping[str, object] | None = None,
    adopt: str | os.PathLike[str] | None = None,
) -> Broker:
    """Open log directories and serve them. The returned broker is started, and owns the store.

    ``with kstore.serve("data", port=0) as broker: ...``; its ``close`` also closes the store. The
    parameters and errors are those of :class:`Broker` and :func:`kstore.open`; ``settings`` may
    also contain settings of the cleaner, retention and recovery. After an unclean shutdown the
    broker recovers the log directories while it serves: until a partition is recovered, its clients
    get LEADER_NOT_AVAILABLE and retry.
    """
    given = {} if settings is None or isinstance(settings, BrokerSettings) else settings
    try:
        store = open_to_serve(path, config=with_store_settings(config, given))
    except UnknownSettingError as error:
        advice = "config is of the store and its topics; a broker's settings: settings={...}"
        raise UnknownSettingError(f"{error.reason} ({advice})") from None
    try:
        broker = Broker(
            store, host=host, port=port, advertised=advertised, node_id=node_id,
            settings=settings, adopt=adopt,
        )  # fmt: skip
        broker._owns_store = True
        return broker.start()
    except BaseException:
        store.close()
        raise


def split_address(text: str) -> tuple[str, int | None]:
    """Split ``host``, ``host:port``, ``[::1]`` or ``[::1]:port`` into host and port.

    Raises AddressError for any other text.
    """
    host, bracket, rest = text[1:].partition("]") if text.startswith("[") else ("", "", text)
    if bracket:
        port = rest.removeprefix(":") if rest.startswith(":") else None
    else:
        host, colon, after = text.partition(":")
        port = after if colon else None
    if not host or (bracket and rest and port is None):
        raise AddressError(f"an address is host or host:port, not {text!r}")
    if port is None:
        return host, None
    if not (port.isdecimal() and port.isascii() and int(port) <= 65_535):
        raise AddressError(f"a port is a number from 0 to 65535, not {port!r} (in {text!r})")
    return host, int(port)


def _single(
    given: Mapping[str, object], host: str, port: int, advertised: str | None
) -> ListenerAddress | None:
    """The only listener of a broker without the setting ``listeners``."""
    if LISTENERS not in given:
        return single_listener(
            host, port, None if advertised is None else split_address(advertised)
        )
    if (host, port, advertised) != _DEFAULT_ADDRESS:
        raise InvalidConfigError(
            "the setting listeners defines the addresses: omit host, port and advertised"
        )
    return None
