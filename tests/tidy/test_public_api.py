"""A change of the public face is seen, and made on purpose."""

import difflib

from tidy.public_api import LIST, describe


def test_public_names_and_signatures_are_as_listed() -> None:
    listed = LIST.read_text()
    found = describe()
    difference = "".join(
        difflib.unified_diff(
            listed.splitlines(keepends=True), found.splitlines(keepends=True), "listed", "found"
        )
    )
    assert difference == "", (
        "The public face of kstore changed. If that is meant, say so in docs/changelog.md, run "
        f"`make public-api` (python tests/tidy/public_api.py) and commit the list:\n{difference}"
    )
