"""The paths that a store accepts."""

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
