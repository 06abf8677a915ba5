"""What a crash may leave on a disk, from the trace of a run.

Three disks, each less friendly than the one before:

``kill``
    The process dies, the system lives: the changes made so far, the last write torn anywhere.
``ordered``
    The power fails on a file system that keeps the order of names: what was synced, any prefix
    of the changes of names behind that, each file's size from any moment since its sync, with
    its bytes or with zeros for them.
``hostile``
    The power fails on a file system that promises what POSIX does and no more: any subset of the
    unsynced sectors of a file, each from any moment; any of its sizes, extended by zeros, garbage
    or an old block; any subset of the changes of names whose directory was not synced. A file
    that was synced may be there without its name.
"""

from collections.abc import Callable, Iterator
from itertools import combinations, pairwise
from random import Random

from support.recording_disk import ROOT, Op, Trace, Tree, number_nodes

MODELS = ("kill", "ordered", "hostile")
SECTOR = 512  # no disk tears a sector; a page of 4 KiB is eight of them
GARBAGE = bytes(Random(7).randbytes(1 << 16))
_MOST_SECTORS = 12
_MOST_VERSIONS = 48  # of one file at one moment

Names = dict[int, dict[str, int]]  # directory to name to inode


class CrashDisk:
    """A disk under a trace, moved forward one change at a time."""

    def __init__(self, trace: Trace) -> None:
        numbers = number_nodes(trace.base)
        self.synced: dict[int, bytes] = {}
        self.names: Names = {ROOT: {}}  # what is on disk for sure
        for path, content in trace.base.items():
            node = numbers[path]
            parent, _, name = path.rpartition("/")
            self.names.setdefault(numbers[parent], {})[name] = node
            if content is None:
                self.names.setdefault(node, {})
            else:
                self.synced[node] = content
        self.pending: dict[int, list[tuple[int, Op]]] = {}  # data, by inode
        self.naming: list[tuple[int, Op]] = []  # names, in order
        self._lost: set[int] = set()  # what a failed sync had before it: no later one brings it
        self.ordered_from = 0  # index in naming: what is before is on an ordered disk for sure
        self._versions: dict[tuple[int, str], list[bytes]] = {}
        self._now: dict[int, bytes] = dict(self.synced)

    def apply(self, index: int, op: Op) -> None:
        if op.kind in ("write", "resize"):
            self.pending.setdefault(op.node, []).append((index, op))
            self._now[op.node] = change(self._now[op.node], op)
            self._forget(op.node)
        elif op.kind == "sync":
            self._sync(op.node, op.position)
        elif op.kind == "lost":
            # Sizes are metadata, in the journal of the file system: a later sync brings them.
            pending = self.pending.get(op.node, [])
            self._lost.update(index for index, change in pending if change.kind == "write")
        elif op.kind == "sync_names":
            self._sync_names(op.node, op.position)
        else:
            if op.kind == "make" and op.data:
                self.names.setdefault(op.to, {})  # an inode, so far without a name
            elif op.kind == "make":
                self.synced[op.to] = self._now[op.to] = b""
            self.naming.append((index, op))

    def _forget(self, node: int) -> None:
        for model in MODELS:
            self._versions.pop((node, model), None)

    def _sync(self, node: int, before: int) -> None:
        left = self.pending.get(node, [])
        data = self.synced.get(node, b"")
        for index, op in left:
            if index < before and index not in self._lost:
                data = change(data, op)
        self.synced[node] = data
        synced = [op for index, op in left if index < before and index not in self._lost]
        self.pending[node] = [
            (index, op)
            for index, op in left
            if index >= before or (index in self._lost and not any(_hides(op, by) for by in synced))
        ]
        self._forget(node)

    def _sync_names(self, directory: int, before: int) -> None:
        """Changes of this directory come to the disk; an ordered one takes all before along."""
        left: list[tuple[int, Op]] = []
        ordered = self.ordered_from
        for rank, (index, op) in enumerate(self.naming):
            if index < before and directory in (op.node, op.to if op.kind == "rename" else -1):
                rename(self.names, op)
                ordered = max(ordered, rank + 1)
            else:
                left.append((index, op))
        kept = {index for index, _ in left}
        # Ranks change when some leave the list: count those that stay before the border.
        border = sum(1 for index, _ in self.naming[:ordered] if index in kept)
        self.naming, self.ordered_from = left, border

    # --- states -----------------------------------------------------------------------------

    def states(self, model: str, bound: int, random: Random, torn: Op | None) -> Iterator[Tree]:
        """States that a crash right now may leave, at most about bound of them.

        ``torn``: the change that is in progress, of which a part may have happened.
        """
        if model == "kill":
            yield from self._killed(bound, random, torn)
            return
        orders = self._name_orders(model, random)
        files = [
            (node, self.versions(node, model, random))
            for node in sorted(self.pending)
            if self.pending[node]
        ]
        total = len(orders)
        for _, versions in files:
            total *= len(versions)
        for number in _numbers(total, bound, random, [len(v) for _, v in files], len(orders)):
            contents = {}
            for node, versions in files:
                number, choice = divmod(number, len(versions))
                contents[node] = versions[choice]
            yield self.tree(orders[number], contents)

    def _killed(self, bound: int, random: Random, torn: Op | None) -> Iterator[Tree]:
        names = self._with_names([op for _, op in self.naming])
        yield self.tree(names, self._now)
        if torn is None or torn.kind != "write":
            return
        before = self._now[torn.node]
        cuts = range(1, len(torn.data))
        chosen = cuts if len(cuts) <= bound else sorted(random.sample(cuts, bound))
        for size in chosen:
            part = change(before, torn._replace(data=torn.data[:size]))
            yield self.tree(names, {**self._now, torn.node: part})

    def _name_orders(self, model: str, random: Random) -> list[Names]:
        """Which changes of names may be on disk: the first is all, the last is none."""
        ops = [op for _, op in self.naming]
        count = len(ops)
        if model == "ordered":
            picks = [range(n) for n in range(count, self.ordered_from - 1, -1)]
            return _different([self._with_names([ops[n] for n in pick]) for pick in picks])
        if count <= 6:
            sets = [s for size in range(count, -1, -1) for s in combinations(range(count), size)]
        else:
            everything = tuple(range(count))
            sets = [everything]
            sets += [tuple(n for n in everything if n != gone) for gone in everything]
            sets += [(n,) for n in everything]
            sets += [everything[:n] for n in everything]
            sets += [tuple(n for n in everything if random.random() < 0.5) for _ in range(40)]
            sets.append(())
        return _different([self._with_names([ops[n] for n in pick]) for pick in sets])

    def _with_names(self, ops: list[Op]) -> Names:
        names = {directory: dict(entries) for directory, entries in self.names.items()}
        for op in ops:
            rename(names, op)
        return names

    def versions(self, node: int, model: str, random: Random) -> list[bytes]:
        """What a file may hold: the first is all that was asked for, the second what was synced."""
        known = self._versions.get((node, model))
        if known is None:
            ops = [op for _, op in self.pending[node]]
            make = _ordered_versions if model == "ordered" else _hostile_versions
            known = make(self.synced.get(node, b""), ops, random)
            self._versions[node, model] = known
        return known

    def tree(self, names: Names, contents: dict[int, bytes]) -> Tree:
        tree: Tree = {}
        stack = [(ROOT, "")]
        while stack:
            directory, prefix = stack.pop()
            for name, node in names.get(directory, {}).items():
                path = prefix + name
                if node in names:
                    tree[path] = None
                    stack.append((node, path + "/"))
                else:
                    tree[path] = contents[node] if node in contents else self.synced[node]
        return tree


def change(data: bytes, op: Op) -> bytes:
    """A file's bytes after a write, or after its size was set."""
    if op.kind == "resize":
        return data[: op.position].ljust(op.position, b"\0")
    data = data.ljust(op.position, b"\0")
    return data[: op.position] + op.data + data[op.position + len(op.data) :]


def rename(names: Names, op: Op) -> None:
    """Apply a change of names. An inode has one name: a later one takes it from an earlier one."""
    entries = names[op.node]
    if op.kind == "make":
        entries[op.name] = op.to
    elif op.kind == "remove":
        entries.pop(op.name, None)
    else:
        for name in [name for name, node in entries.items() if node == op.position]:
            del entries[name]
        names[op.to][op.to_name] = op.position


def _ordered_versions(synced: bytes, ops: list[Op], random: Random) -> list[bytes]:
    found = [synced]
    data = synced
    for op in ops:
        data = change(data, op)
        found.append(data)
    found.reverse()
    # Sizes come to the disk before the bytes do.
    bare = [data[: len(synced)].ljust(len(data), b"\0") for data in found]
    late = [a[: len(b)].ljust(len(a), b"\0") for a, b in pairwise(found)]
    return _few([found[0], synced, *found, *bare, *late], random)


def _hostile_versions(synced: bytes, ops: list[Op], random: Random) -> list[bytes]:
    moments = [synced]
    for op in ops:
        moments.append(change(moments[-1], op))
    found = [moments[-1], synced, *reversed(moments)]
    for data in _few(moments[::-1], random, 8):
        for filler in FILLERS:
            under = synced[: len(data)] + filler(max(0, len(data) - len(synced)), synced or data)
            found.append(under)
            found += (_mixed(data, under, pick) for pick in _picks(data, synced, random))
    for _ in range(4):  # each sector from a moment of its own
        size = len(random.choice(moments))
        mixed = bytearray()
        for start in range(0, size, SECTOR):
            mixed += random.choice(moments)[start : start + SECTOR].ljust(SECTOR, b"\0")
        found.append(bytes(mixed[:size]))
    return _few(found, random)


def _picks(data: bytes, synced: bytes, random: Random) -> list[list[int]]:
    """Sets of changed sectors: each alone, all but one, and two at random."""
    changed = [
        number
        for number in range(-(-len(data) // SECTOR))
        if _sector(data, number) != _sector(synced, number)
    ]
    if len(changed) > _MOST_SECTORS:
        changed = sorted(random.sample(changed, _MOST_SECTORS))
    picks = [[number] for number in changed]
    picks += [[number for number in changed if number != kept] for kept in changed]
    picks += [[number for number in changed if random.random() < 0.5] for _ in range(2)]
    return picks


def _mixed(data: bytes, under: bytes, sectors: list[int]) -> bytes:
    """The data, with these sectors as they were underneath."""
    mixed = bytearray(data)
    for number in sectors:
        part = slice(number * SECTOR, (number + 1) * SECTOR)
        mixed[part] = under[part]
    return bytes(mixed)


def _sector(data: bytes, number: int) -> bytes:
    return data[number * SECTOR : (number + 1) * SECTOR]


def _stale(size: int, data: bytes) -> bytes:
    """An old block: what the file itself held, from its start, again and again."""
    return ((data or b"\0") * (size // max(len(data), 1) + 1))[:size]


FILLERS: tuple[Callable[[int, bytes], bytes], ...] = (
    lambda size, data: bytes(size),
    lambda size, data: (GARBAGE * (size // len(GARBAGE) + 1))[:size],
    _stale,
)


def _few(found: list[bytes], random: Random, most: int = _MOST_VERSIONS) -> list[bytes]:
    """Without doubles, and of many a sample; the first two always stay."""
    different = list(dict.fromkeys(found))
    if len(different) <= most:
        return different
    return different[:2] + random.sample(different[2:], most - 2)


def _different(found: list[Names]) -> list[Names]:
    out: list[Names] = []
    seen: set[str] = set()
    for names in found:
        key = repr(sorted((node, sorted(entries.items())) for node, entries in names.items()))
        if key not in seen:
            seen.add(key)
            out.append(names)
    return out


def _numbers(
    total: int, bound: int, random: Random, radices: list[int], orders: int
) -> Iterator[int]:
    """Every choice where there are few, else the corners and a sample."""
    if total <= bound:
        yield from range(total)
        return
    yield 0
    unit = 1
    for radix in radices:  # one file as it was synced, all others complete
        if radix > 1:
            yield unit
        unit *= radix
    for order in range(min(orders, bound // 4)):
        yield unit * order
    for _ in range(bound):
        yield random.randrange(total)


def _hides(lost: Op, later: Op) -> bool:
    """Whether what a failed sync lost cannot come to the disk any more: bytes or a size that were
    synced later stand there."""
    end = lost.position + len(lost.data)
    if later.kind == "resize":
        return later.position < end
    return later.position < end and lost.position < later.position + len(later.data)
