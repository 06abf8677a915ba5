"""What Spark makes of ``format("kstore")``: one object for each ``load()`` or ``save()``.

It lives in a planner process of Spark's and is pickled from there, so it holds values only.
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
from kstore.partition_files import DISK
from kstore.spark.sink.options import prepare_sink
from kstore.spark.source.options import SELECTIONS, SOURCE_OPTIONS, check_names, parse_source
from kstore.spark.source.range_reader import (
    check_visible,
    keep_imports_out_of_collections,
    open_store,
)
from kstore.spark.source.schema import check_declared, to_ddl
from kstore.spark.source.snapshot import Snapshot, take_snapshot

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class KStoreDataSource(DataSource):
    """Kafka log directories as a source for batch and streaming queries.

    A load's snapshot is taken here, in the constructor: the only place that Spark comes by once
    for each ``load()``, whether or not the user declares a schema.
    """

    parallelism = 0  # cores of the cluster, where register() could ask for it

    @classmethod
    def name(cls) -> str:
        return "kstore"

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        _refuse_table(options)
        self._snapshot: Snapshot | None = None
        if any(name.lower() in options for name in SELECTIONS):
            check_names(options, SOURCE_OPTIONS)
            wanted = parse_source(_without_ends(options), streaming=True)
            check_visible(DISK, wanted.paths)
            self._snapshot = take_snapshot(open_store(wanted.paths), wanted)

    def schema(self) -> str:
        return to_ddl(parse_source(_without_ends(self.options), streaming=True).columns)

    def reader(self, schema: "StructType") -> DataSourceReader:
        from kstore.spark.source.batch_reader import KStoreReader

        wanted = parse_source(self.options)
        assert self._snapshot is not None
        self._snapshot.raise_if_missing(wanted.paths)
        return KStoreReader(wanted, self._snapshot, check_declared(schema), self.parallelism)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802 (Spark's)
        from kstore.spark.source.stream_reader import KStoreStreamReader

        wanted = parse_source(self.options, streaming=True)
        return KStoreStreamReader(wanted, check_declared(schema), self.parallelism)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        from kstore.spark.sink.spark_writers import KStoreWriter

        if overwrite:
            raise InvalidConfigError(
                'a log is appended to, never overwritten: write .mode("append")'
            )
        return KStoreWriter(prepare_sink(self.options, schema))

    def streamWriter(  # noqa: N802 (Spark's)
        self, schema: "StructType", overwrite: bool
    ) -> DataSourceStreamWriter:
        from kstore.spark.sink.spark_writers import KStoreStreamWriter

        keep_imports_out_of_collections()
        return KStoreStreamWriter(prepare_sink(self.options, schema, streaming=True))


def _refuse_table(options: MutableMapping[str, str]) -> None:
    """InvalidConfigError for CREATE TABLE ... USING kstore, and for a query of such a table.

    Spark adds a location to the options when it creates a table, and hands no options at all to
    the queries over it: none of them could know which directory and which topics to read.
    """
    if not options or any(name.lower() == "location" for name in options):
        raise InvalidConfigError(
            "format('kstore') needs options, and a table keeps none: Spark hands a table's options "
            "over when it is created, never when it is queried. Make a view instead, as in CREATE "
            "TEMPORARY VIEW orders USING kstore OPTIONS (path '/data/kafka-logs', subscribe "
            "'orders'); a DataFrame takes .option('subscribe', 'orders').load('/data/kafka-logs')"
        )


def _without_ends(options: MutableMapping[str, str]) -> dict[str, str]:
    """Options that batch and streaming queries share: which of the two it is shows later."""
    return {
        name: value
        for name, value in options.items()
        if not name.lower().startswith(("starting", "ending"))
    }
