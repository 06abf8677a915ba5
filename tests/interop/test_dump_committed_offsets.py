"""Kafka's own decoder reads the offsets that a consumer of kstore committed."""

import json
import re

import kstore
from interop.kafka_jars import run

_MAIN = {"3": "kafka.tools.DumpLogSegments", "4": "org.apache.kafka.tools.DumpLogSegments"}
_RECORD = re.compile(r"^\| offset: .* headerKeys: \[\] key: (\{.*\}) payload: (\{.*\})$", re.M)


def test_committed_offsets_are_kafkas(kafka, tmp_path):
    with kstore.open(tmp_path) as store:
        store.create_topic("t", 2)
        with store.consumer("t", group="my-group") as consumer:
            consumer.commit({("t", 0): 258, ("t", 1): 7}, metadata="a note")
            consumer.commit({("t", 0): 259})
    path = tmp_path / "__consumer_offsets-12" / f"{0:020}.log"
    flags = ("--offsets-decoder", "--deep-iteration", "--files", str(path))
    text = run(kafka, _MAIN[kafka[0]], *flags).stdout.decode()
    assert text.count("isvalid: true") == 2  # a commit of several partitions is one batch
    found = [(json.loads(key), json.loads(value)) for key, value in _RECORD.findall(text)]
    assert [key["type"] for key, _ in found] == ["1"] * 3
    assert [value["version"] for _, value in found] == ["3"] * 3
    assert [
        (key["data"]["group"], key["data"]["topic"], key["data"]["partition"]) for key, _ in found
    ] == [("my-group", "t", 0), ("my-group", "t", 1), ("my-group", "t", 0)]
    assert [(value["data"]["offset"], value["data"]["metadata"]) for _, value in found] == [
        (258, "a note"),
        (7, "a note"),
        (259, ""),
    ]
