"""meta.properties of KRaft and of ZooKeeper brokers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kstore.checkpoint.java_properties import parse_properties
from kstore.checkpoint.meta_properties import (
    MetaProperties,
    parse_meta_properties,
    read_meta_properties,
)
from kstore.errors import CorruptFileError
from kstore.files.files import DISK

TOPIC_ID = "bq1rZ0XmS0eXTKJ9yCk8Dw"


KRAFT = f"""#
#Sat Nov 21 10:00:00 UTC 2026
cluster.id=MkU3OEVBNTcwNTJENDM2Qg
directory.id={TOPIC_ID}
node.id=1
version=1
""".encode()


def test_meta_properties_of_kraft_are_read(tmp_path):
    path = tmp_path / "meta.properties"
    assert read_meta_properties(DISK, tmp_path) is None
    path.write_bytes(KRAFT)
    meta = read_meta_properties(DISK, tmp_path)
    assert meta == MetaProperties(
        cluster_id="MkU3OEVBNTcwNTJENDM2Qg", node_id=1, directory_id=TOPIC_ID
    )


def test_meta_properties_of_zookeeper_days():
    data = (
        b"broker.id: 0\n! a comment\n  version = 0\ncluster.id=a\\\n   b\\=c\nextra \\u00e9\\\\\n"
    )
    meta = parse_meta_properties(data, "p")
    assert meta == MetaProperties(
        version=0, cluster_id="ab=c", node_id=0, other={"extra": "\u00e9\\"}
    )
    assert parse_meta_properties(b"", "p") == MetaProperties(version=0)


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
        parse_meta_properties(data, "p")
    assert caught.value.path == "p"


@given(st.binary(max_size=80))
def test_any_bytes_parse_or_are_refused(data):
    try:
        properties = parse_properties(data, "p")
    except CorruptFileError:
        return
    assert all(isinstance(text, str) for pair in properties.items() for text in pair)
