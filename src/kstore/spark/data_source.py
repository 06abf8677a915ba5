"""The class behind ``format("kstore")``: one object for each ``load()`` or ``save()``.

Spark creates it in a planner process and pickles it there, so it contains only plain values.
"""

from collections.abc import MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from kstore.errors import InvalidConfigError
from kstore.spark.local_disk import local_disk
from kstore.spark.sink.options import prepare_sink
from kstore.spark.source.options import SELECTIONS, SOURCE_OPTIONS, check_names, parse_source
from kstore.spark.source.range_reader import (
    check_visible,
    freeze_imports,
    open_store,
)
from kstore.spark.source.schema import check_declared, to_ddl
from kstore.spark.source.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KStoreDataSource(DataSource):
    """Kafka log directories as a source for batch and streaming queries.

    The constructor takes the load's snapshot: it is the only method that Spark calls exactly once
    for each ``load()``, whether or not the user declares a schema.
    """

    parallelism = 0  # cores of the cluster, if register() could determine them

    @classmethod
    def name(cls) -> str:
        return "kstore"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        _refuse_table(options)
        self._snapshot: Snapshot | None = None
        if any(name.lower() in options for name in SELECTIONS):
            check_names(options, SOURCE_OPTIONS)
            parsed = parse_source(_without_bounds(options), streaming=True)
            check_visible(local_disk(), parsed.paths)
            self._snapshot = take_snapshot(open_store(parsed.paths), parsed)

    def schema(self) -> str:
        return to_ddl(parse_source(_without_bounds(self.options), streaming=True).columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        from kstore.spark.source.batch_reader import KStoreReader

        parsed = parse_source(self.options)
        assert self._snapshot is not None
        self._snapshot.raise_if_missing(parsed.paths)
        return KStoreReader(parsed, self._snapshot, check_declared(schema), self.parallelism)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        from kstore.spark.source.stream_reader import KStoreStreamReader

        parsed = parse_source(self.options, streaming=True)
        return KStoreStreamReader(parsed, check_declared(schema), self.parallelism)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from kstore.spark.sink.spark_writers import KStoreWriter

        if overwrite:
            raise InvalidConfigError(
                'a log can only be appended to, not overwritten: write .mode("append")'
            )
        return KStoreWriter(prepare_sink(self.options, schema))

    def streamWriter(  # noqa: N802 (Spark's)
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamWriter:
        from kstore.spark.sink.spark_writers import KStoreStreamWriter

        freeze_imports()
        return KStoreStreamWriter(prepare_sink(self.options, schema, streaming=True))


def _refuse_table(options: MutableMapping[str, str]) -> None:
    """Raise InvalidConfigError for a query of a table, and for CREATE TABLE ... USING kstore.

    Spark creates a table that is given a list of columns without loading its source: then only
    queries and inserts are refused. When Spark asks for the columns it adds a location to the
    options; when it queries the table it passes no options, so the directory and the topics would
    be unknown.
    """
    if not options or any(name.lower() == "location" for name in options):
        raise InvalidConfigError(
            "format('kstore') needs options, and a table has none: Spark passes a table's options "
            "when it is created, not when it is queried. Create a view instead, as in CREATE "
            "TEMPORARY VIEW orders USING kstore OPTIONS (path '/data/kafka-logs', subscribe "
            "'orders'); a DataFrame takes .option('subscribe', 'orders').load('/data/kafka-logs')"
        )


def _without_bounds(options: MutableMapping[str, str]) -> dict[str, str]:
    """The options without starting and ending offsets, which batch and stream check differently.

    The constructor does not know yet which of the two the query is.
    """
    return {
        name: value
        for name, value in options.items()
        if not name.lower().startswith(("starting", "ending"))
    }
