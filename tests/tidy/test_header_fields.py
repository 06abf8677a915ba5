"""Headers of batches and entries of indexes are read by the module that knows their layout.

``kstore/_native/format/batch_fields`` reads headers, ``kstore/segment/index_entry.py`` index
entries. Nothing else in Python slices them by numbers.
"""

import ast

from tidy.sources import PACKAGE, ROOT, python_files

# The first byte of each field of a header, and the byte behind it.
FIELDS = {
    (0, 8),
    (8, 12),
    (12, 16),
    (17, 21),
    (21, 23),
    (23, 27),
    (27, 35),
    (35, 43),
    (43, 51),
    (51, 53),
    (53, 57),
    (57, 61),
}
MAGIC = 16
READERS = {"from_bytes", "unpack", "unpack_from", "iter_unpack"}

# Modules that read integers of other formats, and which. The bench compares ways to read a header.
OTHER_FORMATS = {
    "broker/client_session.py": "the API key of a request before authentication",
    "broker/connection.py": "headers of requests",
    "kafka_uuid.py": "a topic id",
    "cli/deserializers.py": "numbers in keys and values",
    "cli/dump_decoders.py": "numbers in keys and values",
    "cli/dump_records.py": "keys and values of internal topics",
    "coordinator/group/partition_claims.py": "a digest",
    "files/file_lock.py": "struct flock",
    "log/statistics.py": "columns of native memory",
    "producer_state/snapshot.py": "a producer snapshot",
    "protocol/kafka_messages.py": "fields of Kafka's messages",
    "protocol/wire.py": "fields of Kafka's messages",
    "record/codec.py": "frames of codecs",
    "remote/connection.py": "sizes of frames",
    "segment/header_checksums.py": "kstore's checksum file",
    "segment/index_entry.py": "index entries",
    "segment/transaction_index.py": "a transaction index",
    "store/cluster_metadata.py": "keys of __cluster_metadata",
}
FREE = ("bench", "_native")


def constant(node: ast.expr | None) -> int | None:
    """The number of ``16`` or of ``position + 16``; None of anything else."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        node = node.right
    if isinstance(node, ast.Constant) and type(node.value) is int:
        return node.value
    return None


def is_read(node: ast.AST) -> bool:
    """Whether a call reads an integer of bytes."""
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else None
    return (node.func.id if isinstance(node.func, ast.Name) else name) in READERS


def is_field(node: ast.AST) -> bool:
    """Whether a subscript takes a field of a header, or its magic byte, by numbers."""
    if not isinstance(node, ast.Subscript):
        return False
    if not isinstance(node.slice, ast.Slice):
        return constant(node.slice) == MAGIC
    low, high = node.slice.lower, node.slice.upper
    return (constant(low), constant(high)) in FIELDS


def problems(text: str, *, reads: bool = True) -> list[int]:
    """Lines that read fields of headers by numbers; ``reads``: and any other integer of bytes."""
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.expr) and (is_field(node) or (reads and is_read(node)))
    ]


def test_only_batch_fields_knows_where_a_header_has_its_fields() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: _native/format/batch_fields reads headers"
        for path in python_files()
        if (own := path.relative_to(PACKAGE)).parts[0] not in FREE
        for line in problems(path.read_text(), reads=str(own) not in OTHER_FORMATS)
    ]
    assert found == []


def test_each_exception_is_needed() -> None:
    assert [
        name
        for name in OTHER_FORMATS
        if not any(is_read(node) for node in ast.walk(ast.parse((PACKAGE / name).read_text())))
    ] == []


def test_a_header_sliced_elsewhere_is_found() -> None:
    sliced = (
        'a = int.from_bytes(head[:4], "big")\n'
        'b = unpack_from(">i", batch, 57)\n'
        "c = head[16]\n"
        "d = data[position + 16] == 2\n"
        "e = data[position + 8 : position + 12]\n"
        "f = head[17:21]\n"
        "g = head[4:9]; h = head[n + 1]; i = text.encode()\n"
    )
    assert sorted(problems(sliced)) == [1, 2, 3, 4, 5, 6]
    assert sorted(problems(sliced, reads=False)) == [3, 4, 5, 6]
