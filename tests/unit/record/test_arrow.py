"""Arrow tables of records: every field, and long values not copied."""

import subprocess
import sys
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from kstore.record.arrow import SCHEMA, to_record_batch, to_table
from kstore.record.columns import ColumnScan
from oracle import writer
from oracle.plain import PlainRecord

T = 1_700_000_000_000
field = st.one_of(st.none(), st.binary(max_size=40))
records = st.lists(
    st.builds(
        PlainRecord,
        st.just(0),
        st.integers(0, 2**41),
        field,
        field,
        st.lists(st.tuples(st.text(max_size=15), field), max_size=3).map(tuple),
    ),
    max_size=12,
)


def as_row(record):
    return {
        "offset": record.offset,
        "timestamp": datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=record.timestamp),
        "key": record.key,
        "value": record.value,
        "headers": [{"key": name, "value": value} for name, value in record.headers],
    }


@given(records=records, codec=st.sampled_from([0, 4]))
def test_tables_contain_the_written_records(records, codec):
    records = [record._replace(offset=n) for n, record in enumerate(records)]
    data = writer.batch(records, codec=codec, base_offset=0, last_offset=max(len(records) - 1, 0))
    table = to_table(ColumnScan(data))
    table.validate(full=True)
    assert table.schema == SCHEMA
    rows = table.to_pylist()
    assert rows == [as_row(record) for record in records]


def test_long_values_are_not_copied():
    data = np.frombuffer(
        writer.batch([PlainRecord(0, T, b"k", b"a long value, kept in place")]), "u1"
    )
    (columns,) = ColumnScan(data)
    batch = to_record_batch(columns)
    addresses = {buffer.address for buffer in batch.column("value").buffers() if buffer}
    assert data.ctypes.data in addresses


def test_a_record_without_a_time_is_null():
    (columns,) = ColumnScan(writer.message(3, None, b"v", magic=0))
    batch = to_record_batch(columns)
    assert batch.column("timestamp").to_pylist() == [None]
    assert batch.column("offset").to_pylist() == [3]


def test_selected_rows_become_a_record_batch():
    (columns,) = ColumnScan(writer.batch([PlainRecord(n, T, None, b"%d" % n) for n in range(9)]))
    batch = to_record_batch(columns[::-3])
    batch.validate(full=True)
    assert batch.column("value").to_pylist() == [b"8", b"5", b"2"]
    assert to_table([]).num_rows == 0


def test_header_names_that_are_not_text():
    good = writer.batch([PlainRecord(0, T, None, b"v", (("name", b"x"),))])
    (columns,) = ColumnScan(good.replace(b"name", b"\xff\xfe\xfdx"), check_crc=False)
    batch = to_record_batch(columns)
    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [[{"key": "\ufffd\ufffd\ufffdx", "value": b"x"}]]


def test_columns_cast_to_plain_binary():
    (columns,) = ColumnScan(writer.batch([PlainRecord(0, T, b"k", b"v" * 30)]))
    batch = to_record_batch(columns)
    assert batch.column("value").cast(pa.binary()).to_pylist() == [b"v" * 30]


def test_its_absence_explains_itself():
    code = (
        "import sys; sys.modules['pyarrow'] = None\n"
        "try:\n    import kstore.record.arrow\n"
        "except ImportError as error:\n    print('pip install kstore[arrow]' in str(error))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
