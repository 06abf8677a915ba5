"""The tools over complete Kafka directories show what Kafka's own consumer saw."""

import re

from kstore.cli import main
from strangers.sets import MadeSet


def run(made: MadeSet, capfdbinary, *words):
    status = main([*words, "--log-dir", str(made.log_dir)])
    output, complaints = capfdbinary.readouterr()
    return status, output.decode(errors="replace").splitlines(), complaints.decode().splitlines()


def test_offsets(made: MadeSet, capfdbinary):
    for when, field in (("latest", "end_offset"), ("earliest", "beginning_offset")):
        _, lines, _ = run(made, capfdbinary, "get-offsets", "--time", when)
        expected = {f"{p.topic}:{p.partition}:{getattr(p, field)}" for p in made.partitions}
        assert expected <= set(lines)


def test_every_record_is_consumed(made: MadeSet, capfdbinary):
    topics = "|".join(sorted({re.escape(each.topic) for each in made.partitions}))
    words = ["--include", topics, "--from-beginning", "--timeout-ms", "100"]
    shown = ["--formatter-property", "print.offset=true", "--property", "print.value=false"]
    words += [*shown, "--property", "print.partition=true"]
    status, lines, complaints = run(made, capfdbinary, "console-consumer", *words)
    expected = sorted(
        f"Partition:{partition.partition}\tOffset:{record.offset}"
        for partition in made.partitions
        for record in partition.records
    )
    assert status == 0
    assert sorted(lines) == expected
    assert complaints == [f"Processed a total of {len(expected)} messages"]


def test_all_is_well(made: MadeSet, capfdbinary):
    status, lines, _ = run(made, capfdbinary, "verify", "--threads", "1")
    assert status == 0
    assert f"{len(lines) - 1} partitions: all ok" in lines[-1]
