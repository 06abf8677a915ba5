"""Every name and argument in README's table of the API exists."""

import ast
import inspect
import re
from pathlib import Path

import kstore
from kstore._native.jit.predicate import Row
from kstore.client.producer import MultiTopicProducer
from kstore.hints.missing_names import is_answer
from kstore.record.columns import Columns
from kstore.verify.partition import VerifyReport

README = Path(__file__).resolve().parents[2] / "README.md"
OWNERS: dict[str, object] = {
    "kstore": kstore,
    "store": kstore.Store,
    "topic": kstore.Topic,
    "log": kstore.Log,
    "record": kstore.Record,
    "columns": Columns,
    "row": Row,
    "kstore.jit": kstore.jit,
    "producer": MultiTopicProducer,
    "transaction": kstore.TransactionalProducer,
    "consumer": kstore.Consumer,
    "group": kstore.ConsumerGroup,
    "report": VerifyReport,
    "kstore.errors": kstore.errors,
}
RECORD = {"offset", "timestamp", "key", "value", "headers"}  # a compiled class has no signature
_CODE = re.compile(r"`([^`]+)`")


def rows(text: str) -> dict[str, list[str]]:
    """The names and calls in each row of the table, by the owner in the first column."""
    _, _, rest = text.partition("\nThe API on one screen.")
    table = [
        line for line in rest.partition("\n\nKafka clients")[0].splitlines() if line[:1] == "|"
    ]
    found = {}
    for line in table[2:]:
        owner, *names = _CODE.findall(line)
        found[owner] = [name for name in names if name[0].isalpha()]
    return found


def problems(owner: object, code: str) -> list[str]:
    """What a name or a call says of its owner and is not so."""
    call = ast.parse(code, mode="eval").body
    name = ast.unparse(call.func) if isinstance(call, ast.Call) else code
    member = getattr(owner, name, None)
    if is_answer(member) or not hasattr(owner, name):
        return [f"{owner} has no {name}"]
    if not isinstance(call, ast.Call):
        return [f"{name} is a method"] if inspect.isroutine(member) else []
    if not callable(member):
        return [f"{name} is no method"]
    known = {"isolation_level", "roll"}  # behind **isolation and **options
    known |= RECORD if member is kstore.Record else set(inspect.signature(member).parameters)
    wanted = [keyword.arg for keyword in call.keywords]
    return [f"{name}() has no {each}=" for each in wanted if each not in known]


def test_the_table_names_what_exists(tmp_path: Path) -> None:
    with kstore.open(tmp_path) as store:
        topic = store.create_topic("orders")
        instances = {"topic": topic, "log": topic[0], "report": store.verify()}  # have attributes
        owners = OWNERS | instances
        found = rows(README.read_text())
        assert set(found) == set(OWNERS)
        assert sum(map(len, found.values())) > 80
        assert [
            problem
            for owner, names in found.items()
            for name in names
            for problem in problems(owners[owner], name)
        ] == []


def test_a_wrong_name_is_found() -> None:
    assert problems(kstore.Store, "list_topics()") == [f"{kstore.Store} has no list_topics"]
    assert problems(kstore.Store, "topics()") == ["topics is no method"]
    assert problems(kstore.Store, "flush") == ["flush is a method"]
    assert problems(kstore.Topic, "append(b'v', offset=1)") == ["append() has no offset="]
    assert problems(kstore, "Record(topic='t')") == ["Record() has no topic="]
    assert problems(kstore.Topic, "alter(retention_ms=1)") == ["alter() has no retention_ms="]
