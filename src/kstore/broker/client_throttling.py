"""Measures what clients use against their quotas, and says how long each has to wait.

Kafka's ClientQuotaManager, ClientRequestQuotaManager and ControllerMutationQuotaManager. An answer
carries ``throttle_time_ms``, and the connection takes no request for that long (KIP-219). The
formula is in :mod:`kstore.broker.quota_rates`.
"""

from typing import TYPE_CHECKING

from kstore.broker.quota_rates import TokenBucket, WindowedRate
from kstore.broker.request import Pending
from kstore.cluster.client_quotas import (
    CONNECTION_RATE,
    CONSUMER_BYTE_RATE,
    MUTATION_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    ClientQuotas,
    Scope,
)
from kstore.integers import INT32_MAX
from kstore.protocol.api_keys import ApiKey

if TYPE_CHECKING:
    from kstore.broker.loop import Loop
    from kstore.broker.request import Request

WINDOWS = 11  # of a second each: Kafka's quota.window.num and quota.window.size.seconds
_MOST_OF_TIME = 1.0  # seconds that a quota of request time or of connections throttles, at most
_MOST_RATES = 10_000  # after which those without recent samples are dropped
_PRODUCE, _FETCH = int(ApiKey.PRODUCE), int(ApiKey.FETCH)

NO_QUOTAS = ClientQuotas()
_Key = tuple[str, Scope]


def complete_later(loop: "Loop", seconds: float) -> Pending:
    """An answer of nothing after a time, or when the broker stops."""
    pending = Pending()
    timer = loop.call_later(seconds, pending.complete, None)

    def stop() -> None:
        timer.cancel()
        pending.complete(None)

    pending.on_cancel, pending.on_stop = timer.cancel, stop
    return pending


class Usage:
    """What one request uses, until its answer."""

    __slots__ = ("_throttling", "client_id", "key", "mutation_ms", "seconds", "size", "user")

    def __init__(self, throttling: "ClientThrottling", request: "Request", size: int) -> None:
        self._throttling = throttling
        self.key = request.api_key
        self.user = request.connection.principal.name
        self.client_id = request.client_id
        self.size = size  # of the request
        self.seconds = 0.0  # of the loop's thread
        self.mutation_ms = 0  # for which mutations throttle

    def throttle_ms(self, answer_size: int) -> int:
        """Charge the request, and its answer of this size; how long the client has to wait."""
        return self._throttling.charge(self, answer_size)


class ClientThrottling:
    """The rates of all clients. Loop's thread only, except ``latest_ms``; the time is a parameter
    of the loop.

    ``is_active``: any quota is set. Until then nothing is measured.
    """

    def __init__(self, quotas: ClientQuotas = NO_QUOTAS, now: float = 0.0) -> None:
        self.is_active = False
        self.limits_connections = False
        self.now = now  # when the present event came
        self._rates: dict[_Key, WindowedRate] = {}
        self._buckets: dict[_Key, TokenBucket] = {}
        self._most_rates = self._most_buckets = _MOST_RATES
        self._latest: dict[str, tuple[int, float]] = {}  # waits in ms, and when they began
        self.set(quotas)

    def set(self, quotas: ClientQuotas) -> None:
        """Other quotas count from now on; what was measured stays."""
        self._quotas = quotas
        keys = quotas.keys
        self.limits_connections = CONNECTION_RATE in keys
        self.is_active = bool(keys - {CONNECTION_RATE})
        if not self.is_active:
            self._buckets.clear()
        if not keys:
            self._rates.clear()

    def usage(self, request: "Request", size: int) -> Usage:
        """Begin to measure a request."""
        return Usage(self, request, size)

    # --- bytes and time -----------------------------------------------------------------------

    def charge(self, usage: Usage, answer_size: int) -> int:
        """Milliseconds that the client has to wait."""
        seconds = 0.0
        if usage.key == _PRODUCE:
            seconds = self._record(PRODUCER_BYTE_RATE, usage, usage.size)
            self._note("produce", seconds)
        elif usage.key == _FETCH:
            seconds = self._record(CONSUMER_BYTE_RATE, usage, answer_size)
            self._note("fetch", seconds)
        of_time = min(_MOST_OF_TIME, self._record(REQUEST_PERCENTAGE, usage, usage.seconds * 100))
        self._note("request", of_time)
        seconds = max(seconds, of_time)
        return min(INT32_MAX, max(usage.mutation_ms, round(seconds * 1000)))

    def _note(self, kind: str, seconds: float) -> None:
        if seconds > 0:
            self._latest[kind] = round(seconds * 1000), self.now

    def latest_ms(self, kind: str, now: float) -> int:
        """How long the latest client had to wait that was throttled in the last windows; 0: none.

        ``kind`` is "produce", "fetch" or "request". From any thread.
        """
        wait_ms, when = self._latest.get(kind, (0, 0.0))
        return wait_ms if now - when < WINDOWS else 0

    def _record(self, key: str, usage: Usage, amount: float) -> float:
        found = self._quotas.limit(key, usage.user, usage.client_id)
        if found is None:
            return 0.0
        limit, scope = found
        rate = self._rate((key, scope))
        rate.record(amount, self.now)
        return rate.throttle_seconds(limit, self.now)

    def _rate(self, key: _Key) -> WindowedRate:
        rate = self._rates.get(key)
        if rate is None:
            if len(self._rates) >= self._most_rates:
                self._drop_idle()
            rate = self._rates[key] = WindowedRate(WINDOWS)
        return rate

    def _drop_idle(self) -> None:
        for key in [key for key, rate in self._rates.items() if rate.is_idle(self.now)]:
            del self._rates[key]
        self._most_rates = max(_MOST_RATES, 2 * len(self._rates))

    # --- connections --------------------------------------------------------------------------

    def connection_delay(self, address: str, now: float) -> float:
        """Count a new connection; seconds after which it is closed instead of served, 0: never.

        One that is refused is not counted.
        """
        limit = self._quotas.connection_rate(address)
        if limit is None:
            return 0.0
        self.now = now
        rate = self._rate((CONNECTION_RATE, (address, None)))
        rate.record(1, now)
        seconds = rate.throttle_seconds(limit, now)
        if seconds > 0:
            rate.record(-1, now)
        return min(seconds, _MOST_OF_TIME)

    # --- mutations ----------------------------------------------------------------------------

    def take_mutations(self, usage: Usage, count: int, *, is_strict: bool) -> bool:
        """Count changes of partitions; whether they may be made.

        Strictly none is made while there are no tokens (KIP-599); clients that do not know the
        error THROTTLING_QUOTA_EXCEEDED only wait.
        """
        found = self._quotas.limit(MUTATION_RATE, usage.user, usage.client_id)
        if found is None:
            return True
        limit, scope = found
        key = (MUTATION_RATE, scope)
        bucket = self._buckets.get(key)
        if bucket is None:
            if len(self._buckets) >= self._most_buckets:
                self._drop_full()
            bucket = self._buckets[key] = TokenBucket(limit, WINDOWS, self.now)
        is_exceeded = bucket.throttle_seconds(limit, self.now) > 0
        if not (is_strict and is_exceeded):
            bucket.take(count, limit, self.now)
        if is_strict and not is_exceeded:
            return True
        wait = round(bucket.throttle_seconds(limit, self.now) * 1000)
        usage.mutation_ms = max(usage.mutation_ms, wait)
        return not is_strict

    def _drop_full(self) -> None:
        for key in [key for key, each in self._buckets.items() if each.is_full(self.now)]:
            del self._buckets[key]
        self._most_buckets = max(_MOST_RATES, 2 * len(self._buckets))
