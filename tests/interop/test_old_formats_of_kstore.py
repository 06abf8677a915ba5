"""Logs of messages v0 and v1 that kstore wrote, served by the brokers of their days.

Only `make interop-all` runs these, as those of test_old_formats.
"""

import time
from pathlib import Path

import pytest

import kstore
from interop.ancient_clients import AncientClients
from interop.clients import clients
from interop.old_node import OldNode, old_node
from interop.test_old_formats import OLD_CODECS, agree, assert_reads, fields
from kstore.config import CODECS
from support.client_batches import rows, sent

pytestmark = pytest.mark.all_versions

T0 = 1_600_000_000_000
ROUNDS = 6
FORMATS = {
    "0.8.2.2": ("0.8.2",),
    "0.10.2.2": ("0.10.2", "0.9.0"),
    "2.8.2": ("0.10.2", "0.9.0", "2.8"),
}


def write(node: OldNode, formats: tuple[str, ...]) -> int:
    """Into every topic, by every way in; how many records each has."""
    with kstore.open(node.log_dir) as store:
        for codec in OLD_CODECS:
            for turn in range(ROUNDS):
                store.alter_topic(
                    codec,
                    config={
                        # the newest format last: only there does a broker answer offsets by time
                        "message.format.version": formats[(turn + 1) % len(formats)],
                        "batch.compression": codec,
                        "segment.bytes": 4000,
                        "index.interval.bytes": 300,
                    },
                )
                log = store[codec][0]
                log.extend(
                    kstore.Record(0, T0 + turn * 1000 + n, key, value, ())
                    for n, (key, value) in enumerate(fields(turn, 25))
                )
                for magic in (0, 1, 2):
                    log.append_as_leader(sent(magic, CODECS.index(codec), rows(4)))
    return ROUNDS * (25 + 12)


@pytest.mark.parametrize("version", FORMATS)
def test_brokers_serve_what_kstore_wrote_in_their_format(version: str, tmp_path: Path) -> None:
    with old_node(version, tmp_path) as node:
        for codec in OLD_CODECS:
            node.create_topic(codec, segment_bytes=4000, index_interval_bytes=300)
        deadline = time.monotonic() + 30
        while not all((node.log_dir / f"{codec}-0").is_dir() for codec in OLD_CODECS):
            assert time.monotonic() < deadline, node.said()
            time.sleep(0.1)
        node.stop()
        count = write(node, FORMATS[version])
        node.start()
        if version == "0.8.2.2":
            ancient = AncientClients(node, tmp_path)
            try:
                said = ancient.look(list(OLD_CODECS))
            finally:
                ancient.close()
            node.stop()
            assert_reads(node.log_dir, said, ("r",))
            assert [len(each.records) for each in said.values()] == [count] * 4
            return
        with clients("3.9.2", tmp_path) as java:
            java.use(node)
            judged = java.look([f"{codec}-0" for codec in OLD_CODECS])
        node.stop()
        found = agree(node, judged, tmp_path / "stopped", modes=("r",))
        assert [len(each.records) for each in judged.values()] == [count] * 4
        magics = {0, 1} if version == "0.10.2.2" else {0, 1, 2}
        assert list(found.values()) == [magics] * 4
