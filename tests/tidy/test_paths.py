"""The traces in docs/architecture.md, "Four paths", name modules and functions that exist."""

import importlib
import re

import pytest

from tidy.sources import PACKAGE, ROOT

PAGE = ROOT / "docs" / "architecture.md"
NAME = re.compile(r"`(kstore(?:\.\w+)+)`")


def names() -> list[str]:
    section = PAGE.read_text().partition("\n## Four paths\n")[2].partition("\n## ")[0]
    return sorted(set(NAME.findall(section)))


def missing(name: str) -> str | None:
    """The part of a name that is not found; None where all of it is."""
    module, path, parts = "kstore", PACKAGE, name.split(".")[1:]
    while parts and ((path / parts[0]).is_dir() or list(path.glob(f"{parts[0]}.p[yx]*"))):
        path, module = path / parts[0], f"{module}.{parts.pop(0)}"
    if "._native." in f"{module}.":  # methods that C code alone can call have no attribute
        text = "".join(each.read_text() for each in path.parent.glob(f"{path.name}.p[yx]*"))
        return next((part for part in parts if not re.search(rf"\b{part}\b", text)), None)
    found: object = importlib.import_module(module)
    for part in parts:
        if part not in getattr(found, "__annotations__", {}) and not hasattr(found, part):
            return part
        found = getattr(found, part, None)
    return None


@pytest.mark.parametrize("name", names())
def test_a_door_that_a_path_names_exists(name: str) -> None:
    assert missing(name) is None


def test_the_paths_are_found_and_a_wrong_name_is_seen() -> None:
    assert len(names()) > 40
    assert missing("kstore.log.log.Log.append") is None
    assert missing("kstore.log.log.Log.appendix") == "appendix"
    assert (
        missing("kstore._native.append.record_appender.RecordAppender._append_nothing")
        == "_append_nothing"
    )
