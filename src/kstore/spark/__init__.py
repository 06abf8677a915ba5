"""kstore's directories in Apache Spark: a data source with the columns of Spark's Kafka connector.

``kstore.spark.register(spark)`` registers ``format("kstore")`` in a session. ``read`` returns a
DataFrame of records, ``write`` writes one, and ``aggregate`` counts and measures records without
sending them to the JVM. Names are resolved on first use, so that a job's ``--help`` does not import
pyspark.

- ``source/``: the data source; ``sink/``: the sink; ``jobs/``: jobs over all partitions of a store
- ``data_source``: the class behind ``format("kstore")``
- ``session``: ``register``, ``read``, ``plan``
- ``task_dataframe``: a DataFrame of the Arrow batches that tasks compute
- ``exclusive_lock``: waits for the store's one-writer lock
- ``java_pattern``: Java's regular expressions for topic names
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.spark.session import plan as plan
    from kstore.spark.session import read as read
    from kstore.spark.session import register as register
    from kstore.spark.sink.write_dataframe import fill_headers as fill_headers
    from kstore.spark.sink.write_dataframe import write as write
    from kstore.spark.source.aggregates import aggregate as aggregate
    from kstore.spark.source.metrics import offsets_behind_latest as offsets_behind_latest
    from kstore.spark.source.offset_ranges import Plan as Plan

_HOME = {
    "aggregate": "kstore.spark.source.aggregates",
    "fill_headers": "kstore.spark.sink.write_dataframe",
    "offsets_behind_latest": "kstore.spark.source.metrics",
    "Plan": "kstore.spark.source.offset_ranges",
    "plan": "kstore.spark.session",
    "read": "kstore.spark.session",
    "register": "kstore.spark.session",
    "write": "kstore.spark.sink.write_dataframe",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    """Import the module that defines a public name, once."""
    from importlib import import_module

    home = _HOME.get(name)
    if home is None:
        raise AttributeError(
            f"module 'kstore.spark' has no attribute {name!r}: kstore.spark.register(spark) makes "
            f"format('kstore') known to a session; it also has {', '.join(sorted(__all__))}"
        )
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
