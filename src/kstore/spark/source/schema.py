"""The columns of Spark's Kafka connector: names, order and types (its KafkaRecordToRowConverter).

Spark knows one way to read fewer columns from a Python source: a schema that has fewer. So a
selection of these columns, in any order, is a schema too; anything else is refused by name.
"""

from difflib import get_close_matches
from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HEADERS = "headers"
TYPES = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    HEADERS: "array<struct<key:string,value:binary>>",
}


def select_columns(wanted: str | None, include_headers: bool) -> tuple[str, ...]:
    """The columns that a comma-separated list names; without a list, as the connector.

    Raises InvalidConfigError for a name that is unknown or there twice.
    """
    if wanted is None:
        return tuple(name for name in TYPES if include_headers or name != HEADERS)
    names = tuple(name.strip() for name in wanted.split(","))
    for name in names:
        if name not in TYPES:
            raise InvalidConfigError(f"there is no column {name!r}{_advice(name)}")
    if len(set(names)) != len(names):
        raise InvalidConfigError(f"a column is named twice in {wanted!r}")
    return names


def to_ddl(columns: tuple[str, ...]) -> str:
    """The columns as Spark's DDL."""
    return ", ".join(f"{name} {TYPES[name]}" for name in columns)


def check_declared(schema: "StructType") -> tuple[str, ...]:
    """The columns of a schema that a user declared, which Spark itself does not compare.

    Raises InvalidConfigError for names or types that a kstore frame does not have.
    """
    names = select_columns(",".join(schema.fieldNames()), True)
    for field in schema.fields:
        declared, known = field.dataType.simpleString(), TYPES[field.name]
        if declared != known:
            raise InvalidConfigError(
                f"column {field.name!r} is declared as {declared}, but it is {known}: declare it "
                "so, and cast it behind the load"
            )
        if not field.nullable:
            raise InvalidConfigError(
                f"column {field.name!r} is declared NOT NULL: leave that out, as Spark's Kafka "
                "source does"
            )
    return names


def _advice(name: str) -> str:
    close = get_close_matches(name.lower(), [each.lower() for each in TYPES], 1, 0.6)
    meant = next((each for each in TYPES if close and each.lower() == close[0]), None)
    return f"; is {meant!r} meant?" if meant else f"; there are {', '.join(TYPES)}"
