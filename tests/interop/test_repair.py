"""A broker starts on what `kstore repair` wrote, and serves every record that was not damaged."""

import kstore
from interop.test_brokers import assert_serves
from interop.test_recovery import FIRST, NOW, committed, offset_at
from support.damage import write_damaged
from support.producers import sent

LATER = NOW + 3_600_000  # than what the broker is sent


def flip(path, position, bit=0):
    data = bytearray(path.read_bytes())
    data[position] ^= 1 << bit
    write_damaged(path, data)


def test_a_complete_directory(node, tmp_path):
    """Damaged in the middle of segments, flipped where no checksum reaches, robbed of side files;
    the directory is the broker's own, its cluster metadata among the partitions."""
    node.start()
    for topic in ("plain", "aborted"):
        node.create_topic(topic)
    node.produce("plain", [(f"k{n}", f"kafka {n}") for n in range(10)])
    node.stop()
    with kstore.open(node.log_dir) as store:
        store.alter_topic("plain", config={"index_interval_bytes": 100})
        log = store["plain"][0]
        first = log.end_offset
        for number in range(60):
            if number in (20, 40):
                log.roll()
            log.append(b"value %d " % number * 9, key=b"k", timestamp=LATER + 1000 * number)
        before = list(log)
        log = store["aborted"][0]
        for number, commit in enumerate((False, True)):
            log.append_as_leader(sent(5, 0, 3 * number, 3, transactional=True, timestamp=NOW))
            log.append_end_marker(5, 0, commit=commit)
        log.roll()
        log.append(b"later", timestamp=NOW)
    plain, aborted = node.log_dir / "plain-0", node.log_dir / "aborted-0"
    second, third = sorted(plain.glob("*.log"))[1:]
    flip(second, second.stat().st_size // 2)  # one batch; the others of the segment are to stay
    flip(third, 13)  # its first batch's leader epoch
    (plain / f"{FIRST}.index").unlink()
    (aborted / f"{FIRST}.txnindex").unlink()
    (node.log_dir / "recovery-point-offset-checkpoint").write_text("0\n99\n")

    damaged = tmp_path / "damaged"
    node.log_dir.rename(damaged)
    report = kstore.repair(damaged, node.log_dir)
    of = {partition.name: partition for partition in report.partitions}
    (damage,) = of["plain-0"].damages
    assert damage.first_offset == damage.last_offset
    assert all(partition.findings == [] for partition in report.partitions)
    kept = [record for record in before if record.offset != damage.first_offset]
    assert len(kept) == first + 59

    node.start()
    assert_serves(node, "plain", [kept])
    assert offset_at(node, "plain", LATER + 5500) == first + 6
    assert committed(node, "aborted") == [4, 5, 6, 8]
    node.produce("plain", [("k", "after")])
    node.stop()
    assert "stray" not in " ".join(path.name for path in node.log_dir.iterdir())
    with kstore.open(node.log_dir) as store:
        log = store["plain"][0]
        assert list(log)[:-1] == kept
        log.verify().raise_if_corrupt()
    entries = (node.log_dir / "plain-0" / "leader-epoch-checkpoint").read_text().split("\n")[2:-1]
    assert all(int(entry.split()[0]) < 100 for entry in entries)
