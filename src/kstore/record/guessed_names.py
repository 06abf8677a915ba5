"""Advice for names of Kafka's clients and data frames that headers and columns lack."""

from kstore._native.format.record import RecordHeaders
from kstore.hints.missing_names import answer_names

_EVERY_VALUE = "use [value for name, value in headers if name == 'trace']"
_NEW_HEADERS = "headers are immutable: extend([kstore.Record(value=..., headers={...})])"
OF_HEADERS = {
    **dict.fromkeys(("get_all", "get_list", "getall", "getlist", "get_many"), _EVERY_VALUE),
    **dict.fromkeys(("lastHeader", "last_header", "last"), "use headers['trace'], or get('trace')"),
    **dict.fromkeys(("as_dict", "to_dict"), "use dict(headers)"),
    "names": "use [name for name, _ in headers]",
    "values": "use [value for _, value in headers]",
    **dict.fromkeys(("add", "append", "pop", "remove", "update"), _NEW_HEADERS),
}
OF_COLUMNS = {
    "key": "use keys, which has one entry a record",
    "offset": "use offsets, an array with one entry a record",
    "timestamp": "use timestamps, an array with one entry a record",
    "datetime": "use timestamps, milliseconds since 1970",
    "value": "use values, which has one entry a record",
    **dict.fromkeys(("count", "num_rows", "size"), "use len(columns)"),
    **dict.fromkeys(("records", "rows", "to_list", "tolist"), "use records() of the log or view"),
    **dict.fromkeys(("to_record_batch", "to_table", "to_batches"), "use to_arrow()"),
    **dict.fromkeys(("filter", "select", "where"), "index it: columns[columns.offsets > 5]"),
}
_TEXTS = "use [value.decode() for value in columns.values], or to_pandas()"
IN_A_PREDICATE = (
    "use scan(where=lambda row: kstore.jit.starts_with(row.value, b'...')), equals or contains; or "
    "[value.startswith(b'...') for value in columns.values.tolist()]"
)
_NUMBERS = "values are bytes: numpy.array([float(value) for value in columns.values])"
_ARRAY = "use numpy.isin(columns.keys, [b'alice']), or set(), sorted() of columns.keys.to_list()"
OF_RAGGED = {
    **dict.fromkeys(
        ("contains", "endswith", "ends_with", "equals", "startswith", "starts_with"),
        IN_A_PREDICATE,
    ),
    **dict.fromkeys(("decode", "str", "to_strings"), _TEXTS),
    **dict.fromkeys(("to_numpy", "to_bytes", "to_arrow"), "use to_list(), or data with positions"),
    **dict.fromkeys(("size", "count"), "use len(), or lengths.sum() for bytes"),
    **dict.fromkeys(("astype", "argmax", "argmin", "max", "mean", "min", "sum"), _NUMBERS),
    **dict.fromkeys(("apply", "map"), "use [f(value) for value in columns.values]"),
    **dict.fromkeys(("isin", "nunique", "sort", "unique"), _ARRAY),
}

answer_names(RecordHeaders, OF_HEADERS)
