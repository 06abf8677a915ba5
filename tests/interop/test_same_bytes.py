"""The same bytes asked of Kafka 3.9.2 and of kstore: every version of every API, good and bad.

Kafka's answers are recorded, so that kstore is compared in every run without Java; that Kafka
still gives them is tested with all versions.
"""

from contextlib import closing
from pathlib import Path

import pytest

from interop.kafka_jars import libs
from interop.kstore_node import kstore_node
from interop.same_bytes.asker import Answers, Asker
from interop.same_bytes.compare import differences, not_allowed, unused
from interop.same_bytes.kafka import RECORDED_VERSION, default_node, recorded
from interop.same_bytes.produce import ask_kafka_4
from interop.same_bytes.questions import SETTINGS, ask_all


def test_kstore_answers_as_kafka_does(tmp_path: Path) -> None:
    with kstore_node(tmp_path, **SETTINGS) as node:
        answers = ask_all(node.address)
    found = differences(recorded(), answers)
    assert not_allowed(found) == [], "\n".join(not_allowed(found))
    assert unused(found) == [], "differences that are gone"


@pytest.mark.all_versions
def test_kafka_answers_as_recorded(tmp_path: Path) -> None:
    libs(RECORDED_VERSION)
    with default_node(RECORDED_VERSION, tmp_path / "node") as node:
        assert differences(recorded(), ask_all(node.address)) == []


def test_produce_of_kafka_4_is_answered_as_kafka_4_does(tmp_path: Path) -> None:
    answers: list[Answers] = []
    with (
        default_node("4.3.0", tmp_path / "kafka") as kafka,
        kstore_node(tmp_path / "kstore", **SETTINGS) as node,
    ):
        for broker in (kafka, node):
            with closing(Asker(broker.address)) as asker:
                ask_kafka_4(asker)
                answers.append(asker.answers)
    assert any("topic_id=zero" in line for line in answers[0]["PRODUCE 13 the zero id"])
    found = not_allowed(differences(*answers))
    assert found == [], "\n".join(found)


def test_a_difference_is_one_line() -> None:
    kafka = {"PRODUCE 7 x": ["responses[t].error_code=2", "responses[t].base_offset=-1"]}
    kstore = {"PRODUCE 7 x": ["responses[t].error_code=87", "responses[t].base_offset=-1"]}
    assert differences(kafka, kafka) == []
    assert differences(kafka, kstore) == [
        "PRODUCE 7 x: responses[t].error_code: Kafka 2, kstore 87"
    ]
    closed = differences(kafka, {"PRODUCE 7 x": ["closed"]})
    assert closed == [
        "PRODUCE 7 x: responses[t]: Kafka has it, kstore has not",
        "PRODUCE 7 x: closed: kstore has it that, Kafka has not",
    ]
