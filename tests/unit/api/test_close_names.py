"""Hints for mistaken names, also where Python cannot load what finds them."""

from pathlib import Path

import pytest

from kstore.hints.close_names import close_names
from support.stores import python

WITHOUT_DESCRIPTORS = """
import os, resource, sys
import kstore

store = kstore.open(sys.argv[1])
store.create_topic("orders")
resource.setrlimit(resource.RLIMIT_NOFILE, (100, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
taken = []
try:
    while True:
        taken.append(os.dup(0))
except OSError:
    pass
try:
    {call}
except Exception as error:
    print(type(error).__name__, str(error).partition(" (file ")[0], sep=": ")
for fd in taken:
    os.close(fd)
try:
    {call}
except Exception as error:
    print(str(error).partition(" (file ")[0])
store.close()
"""


def test_the_closest_come_first() -> None:
    assert close_names("order", ["border", "orders", "x"]) == ["orders", "border"]
    assert close_names("order", iter({"border": 1, "orders": 2}), 1) == ["orders"]
    assert close_names("order", ["border"], cutoff=0.95) == []


@pytest.mark.parametrize(
    ("call", "kind", "sentence", "hint"),
    [
        (
            "store['order']",
            "UnknownTopicOrPartitionError",
            "there is no topic 'order'",
            "; did you mean 'orders'?",
        ),
        (
            "store.alter_topic('orders', {'retention.m': 1})",
            "UnknownSettingError",
            "unknown setting 'retention.m'; ",
            "did you mean retention.ms",
        ),
    ],
    ids=["topic", "setting"],
)
def test_without_a_free_descriptor_the_error_lacks_only_its_hint(
    tmp_path: Path, call: str, kind: str, sentence: str, hint: str
) -> None:
    bare, full = python(WITHOUT_DESCRIPTORS.format(call=call), tmp_path).splitlines()
    assert bare.startswith(f"{kind}: {sentence}")
    assert full.startswith(f"{sentence}{hint}")
    assert "did you mean" not in bare
