"""The short way to write a DataFrame, and the way round what null headers cost."""

import json
import os
from typing import TYPE_CHECKING

from kstore.partition_files import Paths, absolute_paths
from kstore.spark.session import register
from kstore.spark.sink.options import SINK_OPTIONS
from kstore.spark.source.options import check_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write(frame: "DataFrame", path: Paths, *, topic: str | None = None, **options: object) -> None:
    """Write a frame's rows as records: all of them show at once, or none.

    Parameters
    ----------
    frame
        Columns ``value`` and, if wanted, ``key``, ``headers``, ``topic``, ``partition`` and
        ``timestamp``; others are left out. Null headers are filled (:func:`fill_headers`).
    path
        A log directory, or several that make one store.
    topic
        Where all rows go; None: where the column ``topic`` says.
    options
        Any option of the sink, as in ``compression="zstd"``, ``writeId="import of May"``.

    Raises what Spark raises, with kstore's error in its text. Returns when all is on disk.
    """
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    given = {name: str(value) for name, value in options.items()}
    if topic is not None:
        given["topic"] = topic
    check_names(given, SINK_OPTIONS)
    register(frame.sparkSession)
    writer = fill_headers(frame).write.format("kstore").mode("append").options(**given)
    places = absolute_paths(paths)
    if len(places) == 1:
        writer.save(places[0])
    else:
        writer.option("paths", json.dumps(list(places))).save()


def fill_headers(frame: "DataFrame") -> "DataFrame":
    """The frame with empty arrays in place of null headers, which mean the same in a record.

    By default Spark adds up the size of an Arrow batch for every row, and goes over all null
    arrays in it each time: a write with null headers is about ten times slower than one with empty
    ones (unless ``spark.sql.execution.arrow.maxBytesPerBatch`` is 2147483647; see the guide). For
    a stream before ``writeStream``, too.
    """
    from pyspark.sql import functions

    if "headers" not in frame.columns:
        return frame
    kind = frame.schema["headers"].dataType
    empty = functions.array().cast(kind)
    return frame.withColumn("headers", functions.coalesce(functions.col("headers"), empty))
