"""The columns of Spark's Kafka connector: names, order and types (its KafkaRecordToRowConverter).

A Python source reads fewer columns only if its schema has fewer. So any selection of these columns,
in any order, is a valid schema; other columns are refused by name.
"""

from typing import TYPE_CHECKING

from kstore.errors import InvalidConfigError
from kstore.hints.close_names import close_names

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
    """The columns of a comma-separated list; without a list, those of the connector.

    Raises InvalidConfigError for an unknown name and for a name that is listed twice.
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
    """The columns of a schema that the user declared; Spark itself does not check it.

    Raises InvalidConfigError for names or types that the source does not have.
    """
    names = select_columns(",".join(schema.fieldNames()), True)
    for field in schema.fields:
        declared, known = field.dataType.simpleString(), TYPES[field.name]
        if declared != known:
            raise InvalidConfigError(
                f"column {field.name!r} is declared as {declared}, but its type is {known}: "
                f"declare it as {known}, and cast it after the load"
            )
        if not field.nullable:
            raise InvalidConfigError(
                f"column {field.name!r} is declared NOT NULL: omit that, as Spark's Kafka source "
                "does"
            )
    return names


def _advice(name: str) -> str:
    close = close_names(name.lower(), [column.lower() for column in TYPES], 1)
    meant = next((column for column in TYPES if close and column.lower() == close[0]), None)
    return f"; is {meant!r} meant?" if meant else f"; there are {', '.join(TYPES)}"
