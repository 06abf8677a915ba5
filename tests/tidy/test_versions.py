"""The versions of Python that kstore declares are those that its pages name and `make` accepts."""

import re
import tomllib

from tidy.sources import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_MINOR = re.compile(r"Programming Language :: Python :: 3\.(\d+)")


def declared() -> list[int]:
    """The minor versions of the classifiers, in order."""
    return [int(found[1]) for found in map(_MINOR.fullmatch, PROJECT["classifiers"]) if found]


def test_the_oldest_version_is_the_one_required() -> None:
    oldest = min(declared())
    assert PROJECT["requires-python"] == f">=3.{oldest}"
    assert f"sys.version_info < (3, {oldest})" in (ROOT / "Makefile").read_text()


def test_the_pages_name_the_declared_versions() -> None:
    *others, newest = (f"3.{minor}" for minor in declared())
    page = (ROOT / "docs" / "guide" / "install.md").read_text()
    assert f"CPython {', '.join(others)} or {newest} " in page
    assert f"CPython {others[0]} to {newest} " in (ROOT / "README.md").read_text()
