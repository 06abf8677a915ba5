"""Verify beside a real broker that appends, aborts and rolls, after its kill, and on a copy."""

import shutil
from pathlib import Path

from interop.clients import clients
from interop.node import node
from kstore.files.files import DISK
from kstore.verify.partition import VerifyReport, verify_partition

ROUNDS = 40


def sentences_of(report: VerifyReport) -> list[str]:
    found = (*report.findings, *report.warnings, *report.in_flight, *report.recovery_due)
    return [f"{each.kind}: {each.path}: {each.sentence}" for each in found]


def test_no_false_alarm_beside_a_broker_that_aborts_and_rolls(kafka: str, tmp_path: Path) -> None:
    """An audit before and after each step, and many during a burst."""
    with node(kafka, tmp_path) as broker, clients(kafka, tmp_path) as java:
        java.use(broker)
        size = 4000 if kafka < "4" else 1_048_576  # the least that it takes
        java.create_topic("t", segment_bytes=size, index_interval_bytes=256)
        directory = broker.log_dir / "t-0"
        java.producer("tx", transactional_id="tx", transaction_timeout_ms="900000", linger_ms=0)
        java.producer("plain", linger_ms=0, batch_size=2000)
        alarms, audits = [], 0
        for number in range(ROUNDS):
            java.begin("tx")
            for n in range(4):
                java.send("tx", "t", b"%d-%d" % (number, n) + b"v" * 300)
            java.flush("tx")
            for n in range(100):
                java.send("plain", "t", b"%d-%d" % (number, n) + b"p" * 50)
            (java.commit if number % 3 == 0 else java.abort)("tx")
            for _ in range(3):  # while the others arrive
                alarms += sentences_of(verify_partition(DISK, directory, map_sealed=False))
                audits += 1
            java.flush("plain")
            alarms += sentences_of(verify_partition(DISK, directory, map_sealed=False))
            audits += 1
        assert alarms == []
        assert audits == 4 * ROUNDS
        copy = tmp_path / "copy"
        shutil.copytree(broker.log_dir, copy)
        broker.kill()
        for parent in (broker.log_dir, copy):
            report = verify_partition(DISK, parent / "t-0")
            assert report.findings == []
            assert report.warnings == []
        broker.start()
        broker.stop()
        assert sentences_of(verify_partition(DISK, directory)) == []
