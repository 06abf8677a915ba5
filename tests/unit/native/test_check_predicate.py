"""Predicates that compare a row's bytes as Python does: one sentence says what to write."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kstore
from kstore import StoreConfig

NAME = b"alice"


def by_local_variable(row: Any) -> bool:
    key = row.key
    return key == NAME


def by_branch(row: Any) -> bool:
    if row.value is None:
        return True
    return row.offset > 3


@pytest.mark.parametrize(
    ("where", "advice"),
    [
        (lambda row: row.key == b"alice", r"write kstore\.jit\.equals\(row\.key, b'\.\.\.'\)"),
        (lambda row: row.key == NAME and row.offset > 1, r"write kstore\.jit\.equals\(row\.key"),
        (lambda row: row.offset > 1 and row.value == b"v", r"equals\(row\.value"),
        (lambda row: NAME == row.key, r"equals\(row\.key"),  # noqa: SIM300
        (lambda row: row.key == "alice", r"equals\(row\.key"),  # compiles, and is never true
        (lambda row: row.key != b"alice", r"write not kstore\.jit\.equals"),
        (by_local_variable, r"equals\(row\.key"),
        (lambda row: row.key in (b"a", b"b"), r"equals\(row\.key.* to compare it"),
        (lambda row: b"li" in row.key, r"kstore\.jit\.contains\(row\.key"),
        (lambda row: row.key is None, r"row\.key_length < 0"),
        (lambda row: row.value is not None, r"row\.value_length < 0"),
        (lambda row: row.key == None, r"row\.key_length < 0"),  # noqa: E711
        (lambda row: row.key is None or row.offset > 3, r"row\.key_length < 0"),
        (by_branch, r"row\.value_length < 0"),
        (lambda row: row.key.startswith(b"a"), r"without startswith.*starts_with"),
        (lambda row: row.key[:2] == b"al", r"compare them by kstore\.jit\.equals"),
        (lambda row: len(row.headers) > 0, "a row has no headers: it has offset, timestamp"),
    ],
)
def test_the_error_is_one_sentence_with_the_right_call(
    tmp_path: Path, where: Callable[[Any], Any], advice: str
) -> None:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        log = store.create_topic("t")[0]
        log.extend([(b"alice", b"v"), (None, None)])
        with pytest.raises(TypeError, match=advice) as caught:
            list(log.scan(where=where))
    assert "\n" not in str(caught.value)


def number_or_none(row: Any) -> Any:
    if row.offset > 0:
        return row.offset - 1
    return None


def true_or_none(row: Any) -> Any:
    return True if row.offset > 1 else None


def nothing(row: Any) -> None:
    pass


@pytest.mark.parametrize(
    ("where", "kind"),
    [
        (lambda row: row.key, "bytes"),
        (lambda row: row.value[:1] if row.offset > 1 else row.value, "bytes"),
        (lambda row: row.value[1:], "bytes"),
        (lambda row: b"constant", "bytes"),
        (lambda row: "text", "text"),
        (lambda row: row, "the row"),
        (lambda row: (row.offset, True), "UniTuple|Tuple"),
        (lambda row: [row.offset], "list"),
    ],
)
def test_a_result_without_truth_value_is_refused(
    tmp_path: Path, where: Callable[[Any], Any], kind: str
) -> None:
    """Bytes used to raise numpy's ValueError on an array of several elements, in the loop."""
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        log = store.create_topic("t")[0]
        log.extend([(b"alice", b"v"), (None, None)])
        with pytest.raises(
            TypeError, match=rf"it returns ({kind}), but may return a bool, a number or None"
        ) as caught:
            list(log.scan(where=where))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("where", "found"),
    [
        (lambda row: row.offset, [1, 2]),
        (lambda row: row.offset * 0.5, [1, 2]),
        (lambda row: True, [0, 1, 2]),
        (number_or_none, [2]),
        (true_or_none, [2]),
        (nothing, []),
    ],
)
def test_a_result_is_a_bool_a_number_or_none(
    tmp_path: Path, where: Callable[[Any], Any], found: list[int]
) -> None:
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        log = store.create_topic("t")[0]
        log.extend([b"x"] * 3)
        rows = [offset for columns in log.scan(where=where) for offset in columns.offsets]
    assert rows == found


def test_other_comparisons_compile(tmp_path: Path) -> None:
    from kstore import jit

    limit, name = 3, b"alice"
    with kstore.open(tmp_path, config=StoreConfig(background=False)) as store:
        log = store.create_topic("t")[0]
        log.extend([(b"alice", b"v"), (None, b"w"), (b"bob", None)])
        for where, found in [
            (lambda row: jit.equals(row.key, name) and row.offset < limit, [0]),
            (lambda row: row.key_length < 0, [1]),
            (lambda row: row.offset in (1, 2) and row.value_length < 0, [2]),
            (lambda row: row.value.size == 1 and row.value[0] == 118, [0]),
        ]:
            rows = [offset for columns in log.scan(where=where) for offset in columns.offsets]
            assert rows == found
