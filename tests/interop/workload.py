"""What Kafka's own producers do to a broker: every kind of batch, over and over.

`prepare` makes the topics, `work` adds a round to them. Everything follows from the seed but the
times of acknowledgements, so a failure can be repeated.
"""

from random import Random

from interop.clients import Clients
from kstore.config import CODECS

SEGMENT = 4000  # bytes: a round makes several segments, and no batch is larger
OLD = 1_600_000_000_000  # a time far in the past
LATER = "900000"  # ms until a coordinator gives a transaction up: never here

PARTITIONS = (
    *(f"codecs-{n}" for n in range(len(CODECS))),
    "append-time-0",
    "rolled-0",
    "trimmed-0",
    "transactions-0",
    "transactions-1",
    "recompressed-0",
    "compacted-0",
)


def prepare(clients: Clients) -> None:
    small = {"segment_bytes": SEGMENT, "index_interval_bytes": 256}
    clients.create_topic("codecs", len(CODECS), **small)
    clients.create_topic("append-time", message_timestamp_type="LogAppendTime", **small)
    clients.create_topic("rolled", segment_ms=3_600_000, index_interval_bytes=100)
    clients.create_topic("trimmed", **small)
    clients.create_topic("transactions", 2, **small)
    clients.create_topic("recompressed", compression_type="gzip", **small)
    clients.create_topic(
        "compacted", cleanup_policy="compact", min_cleanable_dirty_ratio=0.01, **small
    )


def work(clients: Clients, seed: int) -> None:
    """A round: some 1,500 records by a dozen producers, their transactions ended or not."""
    random = Random(seed)
    _codecs(clients, random)
    _times(clients, random)
    _trim(clients, random)
    _compact(clients, random)
    _transactions(clients, random, seed)


def _value(random: Random) -> bytes | None:
    kind = random.randrange(8)
    if kind < 2:
        return (None, b"")[kind]
    if kind < 5:
        return b"v" * random.randrange(60) + b"%d" % random.randrange(1000)
    return random.randbytes(random.randrange(200))


def _key(random: Random) -> bytes | None:
    return (None, b"", b"key-%d" % random.randrange(20), random.randbytes(9))[random.randrange(4)]


def _headers(random: Random) -> tuple[tuple[str, bytes | None], ...]:
    names = ("h", "trace-id", "ключ", "")
    return tuple(
        (random.choice(names), (None, b"", b"header")[random.randrange(3)])
        for _ in range(max(0, random.randrange(-4, 4)))
    )


def _codecs(clients: Clients, random: Random) -> None:
    for partition, codec in enumerate(CODECS):
        idempotent = str(partition % 2 == 0).lower()
        clients.producer(
            "codec", compression_type=codec, enable_idempotence=idempotent, batch_size=SEGMENT // 2
        )
        for _ in range(random.randrange(5, 9)):
            for _ in range(random.choice((1, 2, 30))):
                clients.send(
                    "codec",
                    "codecs",
                    _value(random),
                    key=_key(random),
                    partition=partition,
                    headers=_headers(random),
                )
            clients.flush("codec")
        clients.drop("codec")


def _times(clients: Clients, random: Random) -> None:
    """Old times, times that go back, jumps that roll a segment; the broker's own times."""
    clients.producer("plain", enable_idempotence="false", linger_ms=0, batch_size=SEGMENT // 2)
    when = OLD
    for _ in range(random.randrange(6, 10)):
        when += random.choice((1000, 7_200_000, -5_000_000, 0))
        for n in range(random.randrange(1, 12)):
            late = when + n * random.randrange(-40, 100)
            clients.send("plain", "rolled", _value(random), key=_key(random), timestamp=late)
        clients.send("plain", "append-time", _value(random), timestamp=when)
        clients.send("plain", "append-time", _value(random), key=_key(random))
        clients.send("plain", "recompressed", _value(random), key=b"key", timestamp=when)
        clients.flush("plain")
    clients.drop("plain")


def _trim(clients: Clients, random: Random) -> None:
    clients.producer("trim")
    for _ in range(8):
        for _ in range(20):
            clients.send("trim", "trimmed", random.randbytes(50), key=b"k")
        last = clients.flush("trim")[-1]
    clients.delete_records("trimmed", last - random.randrange(100))
    clients.drop("trim")


def _compact(clients: Clients, random: Random) -> None:
    """Repeated keys, tombstones, and a transaction of each outcome."""
    clients.producer("compact", transactional_id="compact", transaction_timeout_ms=LATER)
    for number in range(6):
        clients.begin("compact")
        for _ in range(25):
            key = b"key-%d" % random.randrange(15)
            value = None if random.random() < 0.15 else random.randbytes(30)
            clients.send("compact", "compacted", value, key=key)
        clients.flush("compact")
        (clients.abort if number % 3 == 1 else clients.commit)("compact")
    clients.drop("compact")


def _transactions(clients: Clients, random: Random, seed: int) -> None:
    """Five transactional producers take turns; the last one of a round leaves its work open."""
    names = [f"tx-{n}" for n in range(4)] + [f"open-{seed}"]
    for name in names:
        clients.producer(name, transactional_id=name, transaction_timeout_ms=LATER, linger_ms=0)
    clients.producer("idempotent")
    begun: set[str] = set()
    for _ in range(random.randrange(35, 50)):
        name = random.choice(names)
        if name not in begun:
            clients.begin(name)
            begun.add(name)
            for partition in random.choice(((0,), (1,), (0, 1))):
                for _ in range(random.randrange(1, 6)):
                    value = b"%s %d" % (name.encode(), random.randrange(1000))
                    clients.send(name, "transactions", value, key=b"k", partition=partition)
            clients.flush(name)
        elif not name.startswith("open"):
            (clients.abort if random.random() < 0.5 else clients.commit)(name)
            begun.discard(name)
        clients.send("idempotent", "transactions", b"free", partition=random.randrange(2))
        clients.flush("idempotent")
    last = names[-1]
    if last not in begun:
        clients.begin(last)
        begun.add(last)
    clients.send(last, "transactions", b"open forever", partition=seed % 2)
    clients.flush(last)
    for name in sorted(begun - {last}):
        (clients.abort if random.random() < 0.5 else clients.commit)(name)
    for name in [*names, "idempotent"]:
        clients.drop(name)
