"""kstore's directories in Apache Spark: a data source with the columns of Spark's Kafka connector.

``kstore.spark.register(spark)`` makes ``format("kstore")`` known to a session; ``read`` is the
short way to a DataFrame, ``write`` from one, ``aggregate`` counts and measures without sending
records to the JVM. Names are resolved on first use, so that a job's
``--help`` does not wait for pyspark.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kstore.spark.aggregates import aggregate as aggregate
    from kstore.spark.planning import Plan as Plan
    from kstore.spark.session import plan as plan
    from kstore.spark.session import read as read
    from kstore.spark.session import register as register
    from kstore.spark.session_write import fill_headers as fill_headers
    from kstore.spark.session_write import write as write

_HOME = {
    "aggregate": "kstore.spark.aggregates",
    "fill_headers": "kstore.spark.session_write",
    "Plan": "kstore.spark.planning",
    "plan": "kstore.spark.session",
    "read": "kstore.spark.session",
    "register": "kstore.spark.session",
    "write": "kstore.spark.session_write",
}

__all__ = list(_HOME)


def __getattr__(name: str) -> object:
    """Import the module that defines a public name, once."""
    from importlib import import_module

    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'kstore.spark' has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
