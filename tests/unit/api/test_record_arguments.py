"""Keys, values, headers and names that a log does not take, and what the errors advise."""

import ctypes
from array import array
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kstore
from kstore import Log, Record, Store, StoreConfig


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as opened:
        yield opened


@pytest.fixture
def log(store: Store) -> Log:
    return store.create_topic("t")[0]


_NO_DATA: list[tuple[Any, str]] = [
    (
        np.float64(1),
        r"float64: encode it first, str\({0}\)\..*, or pass .*{0}\.tobytes\(\)",
    ),
    (np.int32(1), "int32: encode it first"),
    (np.bool_(True), "bool: encode it first"),
    (np.datetime64(1, "s"), "datetime64: encode it first"),
    (np.void(b"ab"), r"void.*tobytes\(\)"),
    (np.arange(3), r"ndarray: pass its memory, {0}\.tobytes\(\)"),
    (np.zeros((2, 2), "u1"), r"ndarray: pass its memory, {0}\.tobytes\(\)"),
    (np.zeros(1, "M8[s]"), r"ndarray: pass its memory, {0}\.tobytes\(\)"),
    (np.zeros(1, "?"), r"ndarray: pass its memory, {0}\.tobytes\(\)"),
    (memoryview(array("d", [1.0])), r"memoryview: pass its memory, {0}\.tobytes\(\)"),
    (np.str_("x"), r"str: encode it first, {0}\.encode\(\)"),
    (1, "int: encode it first, b'%d' % {0}"),
    (1.5, r"float: encode it first, str\({0}\)\.encode\(\)"),
    (ctypes.c_int(1), r"c_int: pass bytes\({0}\)"),
]


@pytest.mark.parametrize(("wrong", "message"), _NO_DATA, ids=lambda each: type(each).__name__)
def test_memory_of_numbers_is_never_stored_as_bytes(
    store: Store, log: Log, wrong: Any, message: str
) -> None:
    topic = store["t"]
    with store.producer("t", acks=1) as producer:
        for name, call in [
            ("value", lambda: log.append(wrong)),
            ("value", lambda: log.extend([b"", wrong])),
            ("value", lambda: topic.append(wrong)),
            ("value", lambda: producer.send(wrong)),
            ("value", lambda: Record(value=wrong)),
            ("key", lambda: log.append(b"", key=wrong)),
            ("key", lambda: log.extend([(wrong, b"")])),
            ("key", lambda: topic.append(b"", key=wrong)),
            ("key", lambda: topic.partition_for(wrong)),
            ("key", lambda: producer.send(b"", key=wrong)),
            ("value", lambda: log.append(b"", headers={"name": wrong})),
            ("value", lambda: producer.send(b"", headers={"name": wrong})),
            ("value", lambda: Record(headers={"name": wrong})),
        ]:
            with pytest.raises(TypeError, match=f"{name} is bytes, not {message.format(name)}"):
                call()
    assert log.end_offset == 0


def test_bytes_like_objects_are_stored(log: Log) -> None:
    data: list[Any] = [
        bytearray(b"ab"),
        memoryview(b"ab"),
        np.bytes_(b"ab"),
        np.frombuffer(b"ab", "u1"),
        np.frombuffer(b"ab", "i1"),
        array("B", b"ab"),
        ctypes.create_string_buffer(b"ab", 2),
        (ctypes.c_uint8 * 2)(97, 98),
        memoryview(np.array([[97], [98]], "u1")).cast("B"),
    ]
    log.extend(data)
    for each in data:
        log.append(each, key=each, headers={"name": each})
    assert [record.value for record in log] == [b"ab"] * 2 * len(data)
    for record in log.view(len(data)):
        assert (record.key, record.headers) == (b"ab", (("name", b"ab"),))
    with pytest.raises(BufferError, match=r"pass bytes\(value\)"):
        log.append(memoryview(b"abcd")[::2])


@pytest.mark.parametrize(
    ("headers", "error", "message"),
    [
        (5, TypeError, "headers are a dict, or"),
        ("ab", TypeError, "headers are a dict, or"),
        (b"ab", TypeError, "headers are a dict, or"),
        (["ab"], TypeError, r"a header is a pair \(name, value\), not 'ab'"),
        (("a", b"b"), TypeError, r"a header is a pair \(name, value\), not 'a'"),
        ([("a", b"b", 1)], TypeError, "a header is a pair"),
        ([None], TypeError, "a header is a pair"),
        ([iter(("a", b"b"))], TypeError, "a header is a pair"),
        ({3: b""}, TypeError, "name .*not int"),
        ({"\ud800": b""}, ValueError, "surrogates not allowed, .*UTF-8: pass text without"),
    ],
)
def test_headers_of_other_shapes_are_explained(
    store: Store, log: Log, headers: Any, error: type[Exception], message: str
) -> None:
    with store.producer("t", acks=1) as producer:
        for call in (
            lambda: log.append(b"", headers=headers),
            lambda: producer.send(b"", headers=headers),
            lambda: Record(headers=headers),
        ):
            with pytest.raises(error, match=message):
                call()
    assert log.end_offset == 0


def test_headers_of_a_row_of_arrow_or_spark_are_stored(log: Log) -> None:
    log.append(b"", headers=(("by", b"web"), ("none", None)))
    (rows,) = log.to_arrow()["headers"].to_pylist()
    log.append(b"", headers=rows)
    assert log[1].headers == log[0].headers == (("by", b"web"), ("none", None))
    with pytest.raises(TypeError, match="a header is a pair"):
        log.append(b"", headers=[{"name": "by", "value": b"web"}])


def test_headers_of_a_generator_are_stored(log: Log) -> None:
    for headers in ((("a", b"1") for _ in "x"), [["a", b"1"]], {np.str_("a"): np.bytes_(b"1")}):
        pairs = list(headers.items()) if isinstance(headers, dict) else list(headers)
        log.append(b"", headers=iter(pairs))
        log.extend([Record(value=b"", headers=iter(pairs))])
    assert [record.headers for record in log] == [(("a", b"1"),)] * 6


def test_lone_surrogates_in_names_are_refused(store: Store, log: Log) -> None:
    log.append(b"")
    lone = "\ud800"
    for error, call in [
        (kstore.errors.InvalidTopicError, lambda: store.create_topic(lone)),
        (kstore.errors.UnknownTopicOrPartitionError, lambda: store[lone]),
        (kstore.errors.InvalidGroupError, lambda: store.consumer("t", group=lone)),
        (kstore.errors.InvalidGroupError, lambda: store.alter_group_offsets(lone, {("t", 0): 0})),
        (
            kstore.errors.InvalidConfigError,
            lambda: store.alter_group_offsets("g", {("t", 0): 0}, metadata=lone),
        ),
        (kstore.errors.InvalidConfigError, lambda: store.transactional_producer(lone)),
        (kstore.errors.InvalidConfigError, lambda: store.producer(transactional_id=lone)),
    ]:
        with pytest.raises(error) as caught:
            call()
        assert str(caught.value).encode()  # the message can be written
