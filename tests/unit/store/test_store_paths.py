"""The paths that a store accepts."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import kstore
from kstore.errors import InvalidConfigError


@pytest.mark.parametrize("path", ["", [""], ["data", ""]])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_an_empty_path_is_refused(
    path: str | list[str], mode: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For example of an unset variable: it would open the current directory."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InvalidConfigError, match="a path is empty"):
        kstore.open(path, mode)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("door", [kstore.open, kstore.verify])
def test_the_directory_of_a_partition_is_no_store(
    tmp_path: Path, door: Callable[[Path], object]
) -> None:
    with kstore.open(tmp_path / "data") as store:
        store.create_topic("orders").append(b"1")
    folder = tmp_path / "data" / "orders-0"
    before = sorted(os.listdir(folder))
    with pytest.raises(InvalidConfigError, match=r"open .*data, where store\['orders'\]\[0\]"):
        door(folder)
    assert sorted(os.listdir(folder)) == before
    with kstore.open(tmp_path / "orders-1") as store:  # a store's directory may have such a name
        store.create_topic("t")
    kstore.open(tmp_path / "orders-1").close()
