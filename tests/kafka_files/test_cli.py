"""The tools over complete Kafka directories show what Kafka's own consumer saw."""

import re

from kafka_files.data_sets import BrokerSet
from kstore.cli import main


def run(broker_set: BrokerSet, capfdbinary, *words):
    status = main([*words, "--log-dir", str(broker_set.log_dir)])
    output, complaints = capfdbinary.readouterr()
    return status, output.decode(errors="replace").splitlines(), complaints.decode().splitlines()


def test_get_offsets_prints_the_offsets_of_kafkas_consumer(broker_set: BrokerSet, capfdbinary):
    for when, field in (("latest", "end_offset"), ("earliest", "beginning_offset")):
        _, lines, _ = run(broker_set, capfdbinary, "get-offsets", "--time", when)
        expected = {f"{p.topic}:{p.partition}:{getattr(p, field)}" for p in broker_set.partitions}
        assert expected <= set(lines)


def test_every_record_is_consumed(broker_set: BrokerSet, capfdbinary):
    topics = "|".join(sorted({re.escape(each.topic) for each in broker_set.partitions}))
    words = ["--include", topics, "--from-beginning", "--timeout-ms", "100"]
    shown = ["--formatter-property", "print.offset=true", "--property", "print.value=false"]
    words += [*shown, "--property", "print.partition=true"]
    status, lines, complaints = run(broker_set, capfdbinary, "console-consumer", *words)
    expected = sorted(
        f"Partition:{partition.partition}\tOffset:{record.offset}"
        for partition in broker_set.partitions
        for record in partition.records
    )
    assert status == 0
    assert sorted(lines) == expected
    assert complaints == [f"Processed a total of {len(expected)} messages"]


def test_verify_reports_no_damage(broker_set: BrokerSet, capfdbinary):
    status, lines, _ = run(broker_set, capfdbinary, "verify", "--threads", "1")
    assert status == 0
    assert f"{len(lines) - 1} partitions: all ok" in lines[-1]
