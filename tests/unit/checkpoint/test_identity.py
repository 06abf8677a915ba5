"""partition.metadata, meta.properties and Kafka's spelling of UUIDs."""

import os
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.checkpoint import identity
from kstore.checkpoint.identity import MetaProperties
from kstore.checkpoint.java_properties import parse_properties
from kstore.errors import CorruptFileError, TopicExistsError
from kstore.files.files import DISK

TOPIC_ID = "bq1rZ0XmS0eXTKJ9yCk8Dw"


@given(st.binary(min_size=16, max_size=16))
def test_uuids_round_trip(value):
    text = identity.uuid_to_text(value)
    assert len(text) == 22
    assert identity.uuid_from_text(text) == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a" * 21,
        "a" * 23,
        "AAAAAAAAAAAAAAAAAAAAA=",
        "AAAAAAAAAAAAAAAAAAAAAB",
        "A" * 20 + "+/",
        "\u00e9" * 22,
    ],
)
def test_other_texts_are_no_uuids(text):
    with pytest.raises(ValueError):
        identity.uuid_from_text(text)


def test_random_uuids():
    sources = iter([bytes([0xF8] + [0xFF] * 15), bytes(range(16))])
    text = identity.random_uuid(lambda size: next(sources))  # the first would start with "-"
    value = uuid.UUID(bytes=identity.uuid_from_text(text))
    assert (value.version, value.variant) == (4, uuid.RFC_4122)
    assert value.bytes[:6] == bytes(range(6))
    assert identity.random_uuid() != identity.random_uuid()
    with pytest.raises(ValueError):
        identity.uuid_to_text(b"short")
    assert identity.is_reserved_uuid(identity.uuid_to_text(bytes(15) + b"\x63"))
    assert not identity.is_reserved_uuid(identity.uuid_to_text(bytes(15) + b"\x64"))


def test_partition_metadata_is_written_once(tmp_path):
    assert identity.read_topic_id(DISK, tmp_path) is None
    assert identity.write_topic_id(DISK, tmp_path, TOPIC_ID)
    path = tmp_path / "partition.metadata"
    assert path.read_bytes() == f"version: 0\ntopic_id: {TOPIC_ID}".encode()
    assert identity.read_topic_id(DISK, tmp_path) == TOPIC_ID
    before = path.stat()
    assert not identity.write_topic_id(DISK, tmp_path, TOPIC_ID)
    with pytest.raises(TopicExistsError) as caught:
        identity.write_topic_id(DISK, tmp_path, identity.random_uuid())
    assert caught.value.path == str(path)
    assert path.stat() == before
    assert os.listdir(tmp_path) == ["partition.metadata"]


def test_reserved_ids_are_not_written(tmp_path):
    with pytest.raises(ValueError):
        identity.write_topic_id(DISK, tmp_path, "AAAAAAAAAAAAAAAAAAAAAQ")
    assert os.listdir(tmp_path) == []


def test_partition_metadata_of_a_later_version():
    data = f"version: 7\r\ntopic_id:   {TOPIC_ID}\r\nmore: x\r\n".encode()
    assert identity.parse_topic_id(data, "p") == TOPIC_ID


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
def test_bad_partition_metadata(data, line):
    with pytest.raises(CorruptFileError) as caught:
        identity.parse_topic_id(data, "p")
    assert caught.value.path == "p"
    assert caught.value.reason.startswith(f"line {line}: ")


KRAFT = f"""#
#Sat Nov 21 10:00:00 UTC 2026
cluster.id=MkU3OEVBNTcwNTJENDM2Qg
directory.id={TOPIC_ID}
node.id=1
version=1
""".encode()


def test_meta_properties_of_kraft(tmp_path):
    path = tmp_path / "meta.properties"
    assert identity.read_meta_properties(DISK, tmp_path) is None
    path.write_bytes(KRAFT)
    meta = identity.read_meta_properties(DISK, tmp_path)
    assert meta == MetaProperties(
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=1, directory_id=TOPIC_ID
    )


def test_meta_properties_of_zookeeper_days():
    data = (
        b"broker.id: 0\n! a comment\n  version = 0\ncluster.id=a\\\n   b\\=c\nextra \\u00e9\\\\\n"
    )
    meta = identity.parse_meta_properties(data, "p")
    assert meta == MetaProperties(
        version=0, cluster_id="ab=c", node_id=0, other={"extra": "\u00e9\\"}
    )
    assert identity.parse_meta_properties(b"", "p") == MetaProperties(version=0)


@pytest.mark.parametrize(
    "data",
    [
        b"version=2\n",
        b"version=x\n",
        b"version=1\nnode.id=1\n",
        b"version=1\ncluster.id=1\n",
        b"version=1\ncluster.id=1\nnode.id=-1\n",
        b"version=1\ncluster.id=1\nnode.id=1\ndirectory.id=x\n",
        b"broker.id=99999999999\n",
        b"cluster.id=\\u12\n",
    ],
)
def test_bad_meta_properties(data):
    with pytest.raises(CorruptFileError) as caught:
        identity.parse_meta_properties(data, "p")
    assert caught.value.path == "p"


@given(st.binary(max_size=80))
def test_any_bytes_parse_or_are_refused(data):
    try:
        properties = parse_properties(data, "p")
    except CorruptFileError:
        return
    assert all(isinstance(text, str) for pair in properties.items() for text in pair)
