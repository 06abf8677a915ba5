"""kstore's readers beside a real broker that owns the directory: rolls, every codec, a kill."""

import multiprocessing
import time
from multiprocessing.synchronize import Event
from pathlib import Path

from interop.node import node
from kstore.errors import OffsetOutOfRangeError, StorageError
from support.logs import read_log

SECONDS = 9
READERS = 4


def value_at(offset: int) -> str:
    return f"{offset}:" + "v" * (offset % 90)


def watch(directory: str, over: Event, results: "multiprocessing.Queue[tuple[int, str]]") -> None:
    """Read over and over: every value says its own offset; nothing raises but what is gone.

    Until it is over, and something was read.
    """
    records, wrong = 0, ""
    try:
        log = read_log(Path(directory), own=False)
        while not over.is_set() or not records:
            last = -1
            try:
                for record in log:
                    value = value_at(record.offset).encode()
                    assert record.value == value, (record.offset, record.value)
                    assert record.offset > last
                    last = record.offset
                    records += 1
            except OffsetOutOfRangeError:
                continue
            except StorageError as error:
                if error.errno != 2:
                    raise
    except BaseException as error:
        wrong = repr(error)
    results.put((records, wrong))


def test_readers_beside_a_broker(kafka: str, tmp_path: Path) -> None:
    with node(kafka, tmp_path) as broker:
        size = 20_000 if kafka < "4" else 1_048_576  # the least that it takes
        broker.create_topic("t", segment_bytes=size, file_delete_delay_ms=0)
        directory = broker.log_dir / "t-0"
        context = multiprocessing.get_context("spawn")
        results, over = context.Queue(), context.Event()
        readers = [
            context.Process(target=watch, args=(str(directory), over, results))
            for _ in range(READERS)
        ]
        for reader in readers:
            reader.start()
        until = time.monotonic() + SECONDS
        end = 0
        for codec in ("none", "gzip", "lz4", "zstd", "snappy") * 3:
            count = 1500
            broker.produce("t", [("k", value_at(end + n)) for n in range(count)], codec)
            end += count
            if time.monotonic() > until:
                break
        broker.kill()  # a torn tail, perhaps; a reader does not mind
        over.set()
        outcomes = [results.get(timeout=60) for _ in readers]
        for reader in readers:
            reader.join(30)
        assert [wrong for _, wrong in outcomes] == [""] * READERS
        assert all(records > 0 for records, _ in outcomes)
        found = [record.offset for record in read_log(directory, own=False)]
        assert found == list(range(end))
