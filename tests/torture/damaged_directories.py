"""What is mutilated, and how: small directories in all formats, and the harm done to them.

A mutilated tree has things in it that no plain tree has: links, pipes, sockets, and files with
holes of any size. Nothing here uses kstore; what must hold is in ``mutations``.
"""

import os
import socket
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from random import Random
from typing import NamedTuple

from kafka_files.data_sets import unpack
from kstore import LogConfig, Store, StoreConfig
from oracle import writer as oracle
from oracle.crc import crc32, crc32c
from oracle.plain import PlainRecord
from oracle.reader import read_log as oracle_read
from support.recording_disk import Tree, read_tree
from torture.checks import MARKER, materialise
from torture.parts import scratch
from torture.world import SETTINGS

SMALL = StoreConfig(background=False, log=LogConfig(**SETTINGS))
CANARY = b"nothing of this may change"
BROKER_SET = "made-zk-2.8.2"  # a directory with all three formats that a broker wrote
EXTREMES = (0, 1, -1, 13, 14, 61, 0x7F, 0x80, 0x7FFF, 2**30, 2**31 - 1, -(2**31), 2**62, 2**63 - 1)
SIZES = (1 << 16, 3 << 20, 60 << 20, 400 << 20)
GARBAGE_TEXTS = (
    b"", b"\n", b"0\n", b"1\n0\n", b"0\n-1\n", b"0\n99999999999999999999\n", b"0\n1\nplain 0 7\n",
    b"0\n1\nplain 0 99999999999\n", b"\xff\xfe\0\0", b"0\n1\n-1 -1\n", b"version: 9\n", b"{" * 3000,
    b"[" * 100_000, b'{"format": 1, "generation": 1, "topics": []}', b"0\n2\nx 0 1\nx 0 2\n",
    b'{"format": 1, "generation": 1e400}', b"0\n1\n\xd9\xa3 \xd9\xa3\n", b"0\n1\n1_0 1_0\n",
)  # fmt: skip


class Odd(NamedTuple):
    """What is no plain file. ``link`` to ``target``; ``sparse``: data, then a hole up to size."""

    kind: str
    target: str = ""
    data: bytes = b""
    size: int = 0


Mutilated = dict[str, bytes | Odd | None]


def lay_out(mutilated: Mutilated, root: str) -> None:
    """Make root exactly this. Links to ``/`` lead to a file beside the root."""
    plain: Tree = {path: was for path, was in mutilated.items() if not isinstance(was, Odd)}
    missing = {
        folder: None for path in mutilated for folder in _folders(path) if folder not in plain
    }
    materialise({**missing, **plain}, root)
    for path, what in mutilated.items():
        if not isinstance(what, Odd):
            continue
        where = f"{root}/{path}"
        if what.kind == "link":
            os.symlink(f"{root}.canary" if what.target == "/" else what.target, where)
        elif what.kind == "pipe":
            os.mkfifo(where)
        elif what.kind == "socket":
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(where)
        else:
            with open(where, "wb") as file:
                file.write(what.data)
                file.truncate(what.size)


def _folders(path: str) -> list[str]:
    parts = path.split("/")[:-1]
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


# --- what is mutilated --------------------------------------------------------------------------


def _plain(root: str) -> None:
    """What kstore writes by itself: several segments, two partitions, a consumer group."""
    with Store(root, config=SMALL) as store:
        plain = store.create_topic("plain", 2, config=LogConfig(**SETTINGS))
        for n in range(24):
            plain[0].append(b"plain %d " % n * 5, key=b"%d" % n)
        plain[1].extend([b"other %d " % n for n in range(12)])
        plain[0].flush()
        store.create_topic("__consumer_offsets", 1)
        with store.consumer("plain", group="g") as consumer:
            consumer.commit({("plain", 0): 3})


def _coded(root: str) -> None:
    with Store(root, config=SMALL) as store:
        for codec in ("zstd", "lz4"):
            config = LogConfig(**{**SETTINGS, "batch_compression": codec})
            store.create_topic(codec, config=config)[0].extend(
                [b"%s %d " % (codec.encode(), n) * 6 for n in range(60)]
            )


def _old(root: str) -> None:
    """Topics of Kafka's older formats, as files only: no index, no checkpoint."""
    for magic in (0, 1):
        directory = f"{root}/v{magic}-0"
        os.mkdir(directory)
        data = b""
        for n in range(0, 8, 2):
            data += oracle.message(n, b"k", b"v%d m%d" % (magic, n), magic=magic,
                                   timestamp=1000 + n if magic else -1)  # fmt: skip
            row = PlainRecord(n + 1, 1000 + n if magic else -1, b"k", b"v%d w%d" % (magic, n))
            data += oracle.wrapper([row], magic=magic, codec=1 + n % 3)
        _write(f"{directory}/{0:020d}.log", data)


def _transactional(root: str) -> None:
    directory = f"{root}/txn-0"
    os.mkdir(directory)
    data = b""
    for n in range(0, 12, 3):
        rows = [PlainRecord(n + k, 1000 + n, None, b"txn %d" % (n + k)) for k in range(2)]
        data += oracle.batch(rows)
        data += oracle.marker(n + 2, n % 2, timestamp=1000 + n, producer_id=9, producer_epoch=0)
    _write(f"{directory}/{0:020d}.log", data)


def _lived_in(root: str) -> None:
    """Compacted and sealed, with transactions of which one is open, bytes cut and kept."""
    with Store(root, config=SMALL) as store:
        config = LogConfig(
            **{**SETTINGS, "cleanup_policy": "compact", "min_cleanable_dirty_ratio": 0.0}
        )
        store.create_topic("__consumer_offsets", 1)
        compacted = store.create_topic("compacted", config=config)[0]
        for n in range(20):
            compacted.append(b"compacted %d " % n * 6, key=b"%d" % (n % 4))
        compacted.compact()
        compacted.seal()
        store.create_topic("__transaction_state", 1)
        paid = store.create_topic("paid", config=LogConfig(**SETTINGS))[0]
        for turn in range(4):
            producer = store.transactional_producer(f"id{turn}")
            producer.begin_transaction()
            for n in range(3):
                producer.send("paid", b"paid %d.%d " % (turn, n) * 5, partition=0)
            producer.flush()
            if turn < 3:
                (producer.abort_transaction if turn == 1 else producer.commit_transaction)()
            paid.roll()
    os.makedirs(f"{root}/new-0", exist_ok=True)
    _write(f"{root}/new-0/kstore.cut.{0:020d}.0.0", b"cut off once")
    _write(f"{root}/kstore.offsets.g", b'{"format": 1, "group": "g", "offsets": {}}')


def _stranger(root: str) -> None:
    """Some partitions of a broker's own directory."""
    with tempfile.TemporaryDirectory(prefix="kstore-torture-") as base:
        tree = read_tree(unpack(BROKER_SET, Path(base)) / "log-dir")
    size: dict[str, int] = {}
    for path, data in tree.items():
        folder, _, _ = path.partition("/")
        size[folder] = size.get(folder, 0) + len(data or b"")
    wanted = [f for f, n in sorted(size.items()) if tree[f] is None and 500 < n < 4000][:5]
    files = [path for path, data in tree.items() if data is not None and "/" not in path]
    for folder in wanted:
        os.mkdir(f"{root}/{folder}")
    for path, data in tree.items():
        if data is not None and (path in files or path.partition("/")[0] in wanted):
            _write(f"{root}/{path}", data)


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


MAKERS = (_plain, _coded, _old, _transactional, _lived_in, _stranger)


@cache
def base_trees() -> tuple[Tree, ...]:
    """Each closed cleanly, and the same without its marker."""
    trees: list[Tree] = []
    with scratch() as base:
        for number, make in enumerate(MAKERS):
            root = f"{base}/{number}"
            os.mkdir(root)
            make(root)
            Store(root, config=SMALL).close()
            tree = read_tree(root)
            trees += [tree, {path: data for path, data in tree.items() if path != MARKER}]
    return tuple(trees)


@cache
def known_values() -> frozenset[bytes | None]:
    found: set[bytes | None] = {b"on"}  # what a first opening appended
    for tree in base_trees():
        for path, data in tree.items():
            if data is not None and path.endswith(".log"):
                found.update(record.value for record in oracle_read(data).records)
    return frozenset(found)


# --- how ------------------------------------------------------------------------------------------


def _files(tree: Mutilated) -> list[str]:
    return sorted(path for path, data in tree.items() if isinstance(data, bytes))


def _pick(tree: Mutilated, random: Random, ending: str = "") -> str:
    files = _files(tree)
    return random.choice([path for path in files if path.endswith(ending)] or files)


def _bytes(tree: Mutilated, path: str) -> bytes:
    data = tree[path]
    assert isinstance(data, bytes)
    return data


def _folder(tree: Mutilated, random: Random) -> str:
    return random.choice(sorted(path for path, data in tree.items() if data is None) or [""])


def _flip(tree: Mutilated, path: str, random: Random) -> None:
    data = bytearray(_bytes(tree, path) or b"\0")
    for _ in range(random.choice((1, 1, 2, 9))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    tree[path] = bytes(data)


def _cut(tree: Mutilated, path: str, random: Random) -> None:
    data = _bytes(tree, path)
    tree[path] = data[: random.randrange(len(data) + 1)]


def _cut_out(tree: Mutilated, path: str, random: Random) -> None:
    """A range of bytes is gone, and what followed it moved up."""
    data = _bytes(tree, path)
    start = random.randrange(len(data) + 1)
    tree[path] = data[:start] + data[start + random.choice((1, 4, 8, 61, 300)) :]


def _zero(tree: Mutilated, path: str, random: Random) -> None:
    data = _bytes(tree, path)
    start = random.randrange(len(data) + 1)
    size = random.choice((1, 8, 61, 512, 4096))
    tree[path] = data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


def _overwrite(tree: Mutilated, path: str, random: Random) -> None:
    data = _bytes(tree, path)
    start = random.randrange(len(data) + 1)
    rubbish = random.randbytes(random.choice((1, 4, 8, 100)))
    tree[path] = data[:start] + rubbish + data[start + len(rubbish) :]


def _number(tree: Mutilated, path: str, random: Random) -> None:
    """A number that no reader likes, where numbers stand; a batch's checksum may be made right."""
    data = bytearray(_bytes(tree, path))
    if not data:
        return
    starts = _batch_starts(data) if path.endswith(".log") else list(range(0, len(data), 4))
    start = random.choice(starts or [0])
    field, size = random.choice(
        ((0, 8), (8, 4), (12, 4), (16, 1), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2),
         (53, 4), (57, 4), (61, 1), (12, 8), (14, 4), (random.randrange(90), 1))
        if path.endswith(".log") else ((0, 4), (0, 8), (4, 4))
    )  # fmt: skip
    at = start + field
    number = random.choice(EXTREMES) & (1 << 8 * size) - 1
    data[at : at + size] = number.to_bytes(size, "big")
    if random.random() < 0.6 and path.endswith(".log"):
        forge(data, start)
    tree[path] = bytes(data)


def _batch_starts(data: bytes | bytearray) -> list[int]:
    found, position = [], 0
    while position + 17 <= len(data):
        found.append(position)
        size = 12 + int.from_bytes(data[position + 8 : position + 12], "big", signed=True)
        if size < 17:
            break
        position += size
    return found


def forge(data: bytearray, start: int) -> None:
    """Make the checksum of the batch at start right again."""
    end = start + 12 + int.from_bytes(data[start + 8 : start + 12], "big", signed=True)
    if not start + 22 <= end <= len(data):
        return
    if data[start + 16] == 2:
        data[start + 17 : start + 21] = crc32c(bytes(data[start + 21 : end])).to_bytes(4, "big")
    else:
        data[start + 12 : start + 16] = crc32(bytes(data[start + 16 : end])).to_bytes(4, "big")


def _extend(tree: Mutilated, path: str, random: Random) -> None:
    data = _bytes(tree, path)
    more = random.choice((bytes(300), random.randbytes(90), data[: random.randrange(1, 400)]))
    tree[path] = data + more


def _swap_blocks(tree: Mutilated, path: str, random: Random) -> None:
    data = _bytes(tree, path)
    size = random.choice((16, 61, 200))
    if len(data) <= 2 * size:
        return
    a, b = sorted(random.sample(range(len(data) - size), 2))
    b = max(b, a + size)
    first, second = data[a : a + size], data[b : b + size]
    tree[path] = data[:a] + second + data[a + size : b] + first + data[b + size :]


def _exchange(tree: Mutilated, path: str, random: Random) -> None:
    other = _pick(tree, random)
    tree[path], tree[other] = tree[other], tree[path]


def _copy_over(tree: Mutilated, path: str, random: Random) -> None:
    """Any file's content in another, often of the same kind: another segment's index."""
    _, dot, ending = path.rpartition(".")
    tree[path] = tree[_pick(tree, random, random.choice((dot + ending, "")))]


def _delete(tree: Mutilated, path: str, random: Random) -> None:
    del tree[path]


def _duplicate(tree: Mutilated, path: str, random: Random) -> None:
    """A second file under another base offset, or beside."""
    folder, _, name = path.rpartition("/")
    base = random.choice((0, 1, 7, 23, 24, 1 << 31, (1 << 63) - 1))
    tree[f"{folder}/{base:020d}{name[20:]}".lstrip("/")] = tree[path]


def _misname(tree: Mutilated, path: str, random: Random) -> None:
    folder, _, name = path.rpartition("/")
    name = random.choice(
        (name + ".old", "x" + name, name[:-1], name.upper(), "kstore.x", f"{name}.tmp",
         name + random.choice((".deleted", ".cleaned", ".swap")), "9" * 20 + ".log",
         name.lstrip("0"), "0" + name, "\udcff" + name, name + "\n", "-" + name[1:])
    )  # fmt: skip
    if name:
        tree[f"{folder}/{name}".lstrip("/")] = tree.pop(path)


def _garble_text(tree: Mutilated, path: str, random: Random) -> None:
    texts = [
        name for name in _files(tree) if "checkpoint" in name or "meta" in name or "kstore." in name
    ]
    tree[random.choice(texts or [path])] = random.choice(GARBAGE_TEXTS)


def _other_digits(tree: Mutilated, path: str, random: Random) -> None:
    """One number in a text is another one."""
    texts = [name for name in _files(tree) if "checkpoint" in name or "kstore." in name]
    name = random.choice(texts or [path])
    words = _bytes(tree, name).split(b" ")
    at = random.randrange(len(words))
    words[at] = b"%d" % random.choice(EXTREMES) + words[at].lstrip(b"0123456789")
    tree[name] = b" ".join(words)


def _directory_instead(tree: Mutilated, path: str, random: Random) -> None:
    tree[path] = None


def _stray_directory(tree: Mutilated, path: str, random: Random) -> None:
    name = random.choice(
        ("stray", "plain-9", "plain-x", "a-1.abc-delete", "new-0", "-1", "t-" * 90,
         "plain-0.5f0e5d5ba0d94d8a8b2a7dcd6e0b2a31-future", "plain-0.x-stray", "plain-2147483648")
    )  # fmt: skip
    tree[name] = None
    if random.random() < 0.5:
        tree[f"{name}/{0:020d}.log"] = random.randbytes(100)


def _link_instead(tree: Mutilated, path: str, random: Random) -> None:
    """To a file outside, to one inside, to nowhere, to itself, to a directory."""
    inside = "../" * path.count("/") + _pick(tree, random)
    target = random.choice(("/", inside, "nowhere", os.path.basename(path), "."))
    tree[path] = Odd("link", target)


def _link_beside(tree: Mutilated, path: str, random: Random) -> None:
    """A name that should not be there leads out of the directory, or nowhere."""
    name = random.choice(
        ("kstore.topics.tmp", f"{_folder(tree, random)}/{1 << 40:020d}.log", "stray-0", ".lock",
         "recovery-point-offset-checkpoint.tmp", f"{_folder(tree, random)}/{0:020d}.index.tmp")
    ).lstrip("/")  # fmt: skip
    tree[name] = Odd("link", random.choice(("/", "nowhere", ".")))


def _pipe_instead(tree: Mutilated, path: str, random: Random) -> None:
    tree[path] = Odd(random.choice(("pipe", "pipe", "socket")))


def _huge(tree: Mutilated, path: str, random: Random) -> None:
    """A hole at the end, beyond what such a file may be."""
    data = _bytes(tree, path)
    tree[path] = Odd("sparse", data=data, size=len(data) + random.choice(SIZES))


Mutation = Callable[[Mutilated, str, Random], None]
MUTATIONS: tuple[Mutation, ...] = (
    _flip, _flip, _cut, _cut_out, _zero, _overwrite, _number, _number, _extend, _swap_blocks,
    _exchange, _copy_over, _delete, _duplicate, _misname, _garble_text, _other_digits,
    _directory_instead, _stray_directory, _link_instead, _link_beside, _pipe_instead,
)  # fmt: skip
SELDOM = 0.01  # of huge files: they take their time


def mutilate(tree: Tree, random: Random) -> tuple[Mutilated, list[str]]:
    """Another tree, and what was done to it.

    What changes nothing (a cut at the end, zeros over zeros) is followed by something that does.
    """
    out: Mutilated = dict(tree)
    done: list[str] = []
    for _ in range(random.choice((1, 1, 2, 3))):
        _mutilate_once(out, random, done)
    while out == tree:
        _mutilate_once(out, random, done)
    return out, done


def _mutilate_once(tree: Mutilated, random: Random, done: list[str]) -> None:
    how = _huge if random.random() < SELDOM else random.choice(MUTATIONS)
    path = _pick(tree, random, random.choice((".log", ".log", "index", "", "")))
    how(tree, path, random)
    done.append(f"{how.__name__[1:]} {path}")
