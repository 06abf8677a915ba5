"""Directories that were mutilated at random: opening, reading, verifying and recovering them.

Nothing but kstore's own errors comes out, whatever is there; no record is shown that never was;
and every whole batch that was in a segment before is still in some file afterwards.
"""

import os
import shutil
from collections.abc import Callable
from functools import cache
from random import Random

from kstore import LogConfig, Store, StoreConfig
from kstore.errors import KStoreError
from oracle import writer as oracle
from oracle.plain import PlainRecord
from oracle.reader import CorruptError
from oracle.reader import read_log as oracle_read
from support.recording import Tree, read_tree
from torture.checks import MARKER, TMPFS, expect, materialise
from torture.parts import Budget, Figures, quietly, scratch, share
from torture.world import QUIET, SETTINGS

GOAL = ("directories", 100_000)
SMALL = StoreConfig(background=False, log=LogConfig(**SETTINGS))
KAFKA = StoreConfig(background=False, recovery="kafka")
GARBAGE_TEXTS = (
    b"", b"\n", b"0\n", b"1\n0\n", b"0\n-1\n", b"0\n99999999999999999999\n", b"0\n1\nplain 0 7\n",
    b"0\n1\nplain 0 99999999999\n", b"\xff\xfe\0\0", b"0\n1\n-1 -1\n", b"version: 9\n", b"{" * 3000,
)  # fmt: skip
LEFTOVERS = (".deleted", ".cleaned", ".swap")


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
        with store.consumer("g", topics=["plain"]) as consumer:
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


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)


@cache
def base_trees() -> tuple[Tree, ...]:
    """Each closed cleanly, and the same without its marker."""
    trees: list[Tree] = []
    with scratch() as base:
        for number, make in enumerate((_plain, _coded, _old, _transactional)):
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


def _pick(tree: Tree, random: Random, ending: str = "") -> str:
    files = sorted(path for path, data in tree.items() if data is not None)
    return random.choice([path for path in files if path.endswith(ending)] or files)


def _flip(tree: Tree, path: str, random: Random) -> None:
    data = bytearray(tree[path] or b"\0")
    for _ in range(random.choice((1, 1, 2, 9))):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    tree[path] = bytes(data)


def _cut(tree: Tree, path: str, random: Random) -> None:
    data = tree[path] or b""
    tree[path] = data[: random.randrange(len(data) + 1)]


def _zero(tree: Tree, path: str, random: Random) -> None:
    data = tree[path] or b""
    start = random.randrange(len(data) + 1)
    size = random.choice((1, 8, 61, 512, 4096))
    tree[path] = data[:start] + bytes(len(data[start : start + size])) + data[start + size :]


def _overwrite(tree: Tree, path: str, random: Random) -> None:
    data = tree[path] or b""
    start = random.randrange(len(data) + 1)
    rubbish = random.randbytes(random.choice((1, 4, 8, 100)))
    tree[path] = data[:start] + rubbish + data[start + len(rubbish) :]


def _extend(tree: Tree, path: str, random: Random) -> None:
    data = tree[path] or b""
    more = random.choice((bytes(300), random.randbytes(90), data[: random.randrange(1, 400)]))
    tree[path] = data + more


def _swap_blocks(tree: Tree, path: str, random: Random) -> None:
    data = tree[path] or b""
    size = random.choice((16, 61, 200))
    if len(data) <= 2 * size:
        return
    a, b = sorted(random.sample(range(len(data) - size), 2))
    b = max(b, a + size)
    first, second = data[a : a + size], data[b : b + size]
    tree[path] = data[:a] + second + data[a + size : b] + first + data[b + size :]


def _exchange(tree: Tree, path: str, random: Random) -> None:
    other = _pick(tree, random)
    tree[path], tree[other] = tree[other], tree[path]


def _copy_over(tree: Tree, path: str, random: Random) -> None:
    tree[path] = tree[_pick(tree, random)]


def _delete(tree: Tree, path: str, random: Random) -> None:
    del tree[path]


def _duplicate(tree: Tree, path: str, random: Random) -> None:
    """A second file under another base offset, or beside."""
    folder, _, name = path.rpartition("/")
    base = random.choice((0, 1, 7, 23, 24, 1 << 31, (1 << 63) - 1))
    tree[f"{folder}/{base:020d}{name[20:]}".lstrip("/")] = tree[path]


def _misname(tree: Tree, path: str, random: Random) -> None:
    folder, _, name = path.rpartition("/")
    name = random.choice(
        (name + ".old", "x" + name, name[:-1], name.upper(), "kstore.x", f"{name}.tmp",
         name + random.choice(LEFTOVERS), "9" * 20 + ".log")
    )  # fmt: skip
    tree[f"{folder}/{name}".lstrip("/")] = tree.pop(path)


def _garble_text(tree: Tree, path: str, random: Random) -> None:
    texts = [
        name
        for name, data in tree.items()
        if data is not None and ("checkpoint" in name or "meta" in name or "kstore." in name)
    ]
    tree[random.choice(sorted(texts) or [path])] = random.choice(GARBAGE_TEXTS)


def _directory_instead(tree: Tree, path: str, random: Random) -> None:
    tree[path] = None


def _stray_directory(tree: Tree, path: str, random: Random) -> None:
    name = random.choice(
        ("stray", "plain-9", "plain-x", "a-1.abc-delete", "new-0", "-1", "t-" * 90)
    )
    tree[name] = None
    if random.random() < 0.5:
        tree[f"{name}/{0:020d}.log"] = random.randbytes(100)


MUTATIONS: tuple[Callable[[Tree, str, Random], None], ...] = (
    _flip, _cut, _zero, _overwrite, _extend, _swap_blocks, _exchange, _copy_over, _delete,
    _duplicate, _misname, _garble_text, _directory_instead, _stray_directory,
)  # fmt: skip


def mutate(tree: Tree, random: Random) -> tuple[Tree, list[str]]:
    """Another tree, and what was done to it."""
    out, done = dict(tree), []
    for _ in range(random.choice((1, 1, 2, 3))):
        how = random.choice(MUTATIONS)
        path = _pick(out, random, random.choice((".log", ".log", "index", "")))
        how(out, path, random)
        done.append(f"{how.__name__[1:]} {path}")
    return out, done


# --- what must hold --------------------------------------------------------------------------


def whole_batches(tree: Tree) -> list[bytes]:
    """Every batch that the oracle can still read in a segment, as bytes."""
    found = []
    for path, data in tree.items():
        if data is None or not path.endswith(".log"):
            continue
        try:
            plain = oracle_read(data)
        except (CorruptError, ValueError, EOFError, OverflowError, MemoryError):
            continue  # nothing is asked of what even the slow reader cannot read
        except Exception:  # a decompressor's own
            continue
        for batch in plain.batches:
            if batch.crc_ok:
                found.append(data[batch.position : batch.position + batch.size])
    return found


def try_directory(root: str, tree: Tree) -> int:
    """Read, verify and write what is there; returns how many kstore errors came."""
    values = known_values()
    refused = _use(root, "r", QUIET, values)
    before = whole_batches(tree)
    refused += _use(root, "a", QUIET, values)
    if not any(path.endswith(LEFTOVERS) for path in tree):
        _all_kept(root, before)
    return refused + _use(root, "a", KAFKA, values)


def _all_kept(root: str, before: list[bytes]) -> None:
    kept = b"|".join(data for data in read_tree(root).values() if data)
    for batch in before:
        # A writer stamps neither offset nor epoch of what is there: the whole bytes stay.
        expect(batch in kept, "a whole batch is gone:", batch[:40].hex())


def _use(root: str, mode: str, config: StoreConfig, values: frozenset[bytes | None]) -> int:
    refused = 0
    try:
        store = Store(root, mode, config=config, files=TMPFS)
    except KStoreError:
        return 1
    try:
        for name in list(store):
            for partition in store[name].partitions:
                refused += _use_log(store, name, partition, mode, values)
    finally:
        try:
            store.close()
        except KStoreError:
            refused += 1
    return refused


def _use_log(
    store: Store, name: str, partition: int, mode: str, values: frozenset[bytes | None]
) -> int:
    refused = 0
    try:
        log = store[name][partition]
        for record in log:
            if not name.startswith("__"):
                expect(record.value in values, name, "shows", record.value)
    except KStoreError:
        refused += 1
    for use in ("columns", "verify", "append"):
        try:
            log = store[name][partition]
            if use == "columns":
                for columns in log.view().scan():
                    len(columns.offsets)
            elif use == "verify" and mode == "r":
                log.verify()
            elif use == "append" and mode == "a":
                log.append(b"on")
        except KStoreError:
            refused += 1
    return refused


def mutate_all(budget: Budget, *, most: int = 1 << 60) -> Figures:
    trees = base_trees()

    def work(number: int) -> Figures:
        figures = Figures()
        with scratch() as base:
            root = f"{base}/data"
            for turn in range(number, most, budget.jobs):
                if budget.ended(figures):
                    break
                random = budget.random("mutation", turn)
                tree, done = mutate(random.choice(trees), random)
                try:
                    materialise(tree, root)
                    figures.counts["refusals"] += try_directory(root, tree)
                except Exception as error:  # whatever it is, it is a finding
                    figures.violated(f"number {turn}", *done, type(error).__name__, error)
                figures.counts["directories"] += 1
            shutil.rmtree(root, ignore_errors=True)
        return figures

    with quietly():
        return share(budget.jobs, work)
