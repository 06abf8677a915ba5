"""Transactional producers beside a trivial model: what is committed shows, nothing else does.

Any order of beginnings, records, commits, aborts, takeovers by a second producer, closings and
kills, over two topics. The model keeps, for each transactional id, what is not decided yet.
"""

import shutil
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

import kstore
from kstore.errors import ProducerFencedError
from support.stores import MARKER, QUIET

IDS = ("x", "y")
TOPIC_PARTITIONS = (("a", 0), ("a", 1), ("b", 0))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("send"), st.sampled_from(IDS), st.sampled_from(TOPIC_PARTITIONS)),
        st.tuples(st.just("send"), st.sampled_from(IDS), st.sampled_from(TOPIC_PARTITIONS)),
        st.tuples(st.just("flush"), st.sampled_from(IDS)),
        st.tuples(st.just("commit"), st.sampled_from(IDS)),
        st.tuples(st.just("abort"), st.sampled_from(IDS)),
        st.tuples(st.just("plain"), st.sampled_from(TOPIC_PARTITIONS)),
        st.tuples(st.just("take over"), st.sampled_from(IDS)),
        st.tuples(st.sampled_from(["close", "kill"])),
    ),
    min_size=5,
    max_size=30,
)


class Model:
    """Batches of one record: what is sent is in the log at once, committed or not."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.directory = root / "0"
        self.kills = 0
        self.counter = 0
        self.committed: set[bytes] = set()
        self.pending: dict[str, set[bytes]] = {name: set() for name in IDS}
        self.producers: dict[str, kstore.TransactionalProducer] = {}
        self.open()
        for name, partitions in (("a", 2), ("b", 1), ("__transaction_state", 1)):
            self.store.create_topic(name, partitions)

    def open(self) -> None:
        self.store = kstore.open(self.directory, config=QUIET)
        self.producers.clear()

    def producer(self, name: str) -> kstore.TransactionalProducer:
        """The producer of a name, with a transaction open."""
        if name not in self.producers:
            self.pending[name].clear()  # what a dead one had open is aborted
            self.producers[name] = self.store.transactional_producer(name, acks=1, batch_size=1)
        if not self.producers[name].in_transaction:
            self.producers[name].begin_transaction()
        return self.producers[name]

    def value(self) -> bytes:
        self.counter += 1
        return b"%d" % self.counter

    def step(self, what: str, *arguments) -> None:
        if what == "send":
            name, (topic, partition) = arguments
            value = self.value()
            self.producer(name).send(topic, value, partition=partition)
            self.pending[name].add(value)
        elif what == "flush":
            self.producer(*arguments).flush()
        elif what == "commit":
            self.producer(*arguments).commit_transaction()
            self.committed |= self.pending[arguments[0]]
            self.pending[arguments[0]].clear()
        elif what == "abort":
            self.producer(*arguments).abort_transaction()
            self.pending[arguments[0]].clear()
        elif what == "plain":
            ((topic, partition),) = arguments
            value = self.value()
            self.store[topic][partition].append(value)
            self.committed.add(value)
        elif what == "take over":
            self.take_over(*arguments)
        elif what == "close":
            self.store.close()
            for pending in self.pending.values():
                pending.clear()
            self.open()
        else:
            self.kill()

    def take_over(self, name: str) -> None:
        fenced = self.producers.pop(name, None)
        self.producer(name)
        if fenced is not None and fenced.in_transaction:
            try:
                fenced.commit_transaction()
            except ProducerFencedError:
                return
            assert not fenced.in_transaction, "it had sent nothing"

    def kill(self) -> None:
        self.kills += 1
        copy = self.root / str(self.kills)
        shutil.copytree(self.directory, copy, ignore=shutil.ignore_patterns(".lock", MARKER))
        self.store.close()
        self.directory = copy
        self.open()

    def check(self) -> None:
        for name in IDS:  # ends what is open, so that everything committed shows
            if name in self.producers and self.producers[name].in_transaction:
                self.step("abort", name)
            elif name not in self.producers:
                self.producers[name] = self.store.transactional_producer(name, acks=1, batch_size=1)
        self.compare(self.store)
        with kstore.open(self.directory, mode="r") as reader:
            self.compare(reader)

    def compare(self, store: kstore.Store) -> None:
        logs = [store[topic][partition] for topic, partition in TOPIC_PARTITIONS]
        shown = [r.value for log in logs for r in log.view(isolation="read_committed")]
        assert len(shown) == len(set(shown))
        assert set(shown) == self.committed
        assert {record.value for log in logs for record in log} >= self.committed
        assert all(log.last_stable_offset == log.end_offset for log in logs)


@settings(max_examples=20)
@given(steps=steps)
def test_committed_records_show_and_no_others(steps) -> None:
    with tempfile.TemporaryDirectory(prefix="kstore-transactions-") as root:
        model = Model(Path(root))
        try:
            for step in steps:
                model.step(*step)
            model.check()
        finally:
            model.store.close()
