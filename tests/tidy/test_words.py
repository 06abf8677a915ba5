"""Words that the project avoids stay out of clean pages and become fewer elsewhere."""

from pathlib import Path

import pytest

from tidy.words import AVOIDED, INSTEAD, ROOT, advice, avoided_words, files, prose

# How often each folder has avoided words; a file counts for the longest name that covers it.
# Lower a number when you clean a folder; never raise one. `python tests/tidy/words.py docs/guide`
# prints where they are and what to write instead.
LIMITS = {
    "README.md": 0,
    "docs": 0,
    "docs/architecture.md": 0,
    "docs/changelog.md": 0,
    "docs/compatibility.md": 0,
    "docs/decisions": 0,
    "docs/format": 0,
    "docs/guide": 0,
    "docs/performance.md": 0,
    "docs/testing.md": 0,
    "docs/demo": 0,
    "docs/pipeline": 0,
    "benchmarks": 0,
    "src": 0,
    "src/kstore/_native": 0,
    "src/kstore/background": 0,
    "src/kstore/checkpoint": 0,
    "src/kstore/cli": 0,
    "src/kstore/client": 0,
    "src/kstore/compaction": 0,
    "src/kstore/config.py": 0,
    "src/kstore/coordinator": 0,
    "src/kstore/errors.py": 0,
    "src/kstore/files": 0,
    "src/kstore/handover": 0,
    "src/kstore/log": 0,
    "src/kstore/maintenance": 0,
    "src/kstore/mirror": 0,
    "src/kstore/producer_state": 0,
    "src/kstore/protocol": 0,
    "src/kstore/record": 0,
    "src/kstore/recovery": 0,
    "src/kstore/segment": 0,
    "src/kstore/spark": 0,
    "src/kstore/spark/jobs": 0,
    "src/kstore/spark/sink": 0,
    "src/kstore/spark/source": 0,
    "src/kstore/store": 0,
    "src/kstore/verify": 0,
    "tests": 0,
    "tests/data": 0,
    "tests/docs": 0,
    "tests/interop": 0,
    "tests/oracle": 0,
    "tests/property": 0,
    "tests/spark": 0,
    "tests/kafka_files": 0,
    "tests/stress": 0,
    "tests/tidy": 0,
    "tests/torture": 0,
    "tests/unit": 0,
    "tests/unit/client": 0,
    "tests/unit/handover": 0,
    "tests/unit/record": 0,
    "tests/unit/recovery": 0,
    "tests/unit/segment": 0,
    "tests/unit/spark": 0,
}


def covered_by(path: Path) -> str:
    """The longest of the names above that covers a file."""
    return max(
        (name for name in LIMITS if path == ROOT / name or ROOT / name in path.parents), key=len
    )


@pytest.mark.parametrize("name", LIMITS)
def test_avoided_words_do_not_become_more(name: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {word!r}: write {advice(word)}"
        for path in files(name)
        if covered_by(path) == name
        for line, word in avoided_words(prose(path))
    ]
    assert len(found) <= LIMITS[name], "\n".join(
        [f"{len(found)} avoided words in {name}, at most {LIMITS[name]}:", *found[:100]]
    )


def test_examples_and_generated_tables_are_not_read(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "It was told.\n```text\na place\n```\n"
        "<!-- goals.py writes from here -->\npieces\n<!-- to here -->\nmade anew\n"
    )
    assert avoided_words(prose(page)) == [(1, "told"), (8, "anew")]


def test_every_avoided_word_is_found_and_has_advice() -> None:
    for text in [
        "nobody's folder", "a place", "what is there", "it hangs on this", "a reader of Kafka's.",
        "the whole log", "strangers", "as ever", "put together", "it goes on", "it waits for ever",
        "the requests in work", "the offset behind it", "bytes that came", "users may everything",
    ]:  # fmt: skip
        (found,) = avoided_words(text)
        assert advice(found[1])
    for text in ["sorted in place", "takes place", "there is a log", "a whole number", "Kafka's"]:
        assert avoided_words(text) == []
    assert len(INSTEAD) == len(set(INSTEAD)) > 20
    assert AVOIDED.search("ANEW")
