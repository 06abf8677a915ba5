"""partition.metadata: read in every version, written once."""

import os

import pytest

from kstore.checkpoint.partition_metadata import parse_topic_id, read_topic_id, write_topic_id
from kstore.errors import CorruptFileError, TopicExistsError
from kstore.files.files import DISK
from kstore.kafka_uuid import random_uuid

TOPIC_ID = "bq1rZ0XmS0eXTKJ9yCk8Dw"


def test_partition_metadata_is_written_once(tmp_path):
    assert read_topic_id(DISK, tmp_path) is None
    assert write_topic_id(DISK, tmp_path, TOPIC_ID)
    path = tmp_path / "partition.metadata"
    assert path.read_bytes() == f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    assert read_topic_id(DISK, tmp_path) == TOPIC_ID
    before = path.stat()
    assert not write_topic_id(DISK, tmp_path, TOPIC_ID)
    with pytest.raises(TopicExistsError) as caught:
        write_topic_id(DISK, tmp_path, random_uuid())
    assert caught.value.path == str(path)
    assert path.stat() == before
    assert os.listdir(tmp_path) == ["partition.metadata"]


def test_reserved_ids_are_not_written(tmp_path):
    with pytest.raises(ValueError):
        write_topic_id(DISK, tmp_path, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert os.listdir(tmp_path) == []


def test_partition_metadata_of_a_later_version():
    data = f"version: 7\r\ntopic_id:   {TOPIC_ID}\r\nmore: x\r\n".encode()
    assert parse_topic_id(data, "p") == TOPIC_ID


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (b"", 1),
        (b"version: 0", 2),
        (b"version: 0\n", 2),
        (b"version: x\ntopic_id: a", 1),
        (b"version: -1\ntopic_id: a", 1),
        (b"version:0\ntopic_id: a", 1),
        (b"topic_id: a\nversion: 0", 1),
        (b"version: 0\ntopic_id: short", 2),
        (b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", 2),
        (b"version: 0\n\xff\xff", 2),
        (bytes(64), 2),
    ],
)
def test_bad_partition_metadata_is_an_error_with_its_line(data, line):
    with pytest.raises(CorruptFileError) as caught:
        parse_topic_id(data, "p")
    assert caught.value.path == "p"
    assert caught.value.reason.startswith(f"line {line}: ")
