"""Recovery and verification of one segment in page cache, beside a plain read of it."""

import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from kstore.bench import recovery
from kstore.bench.contest import Contest, scaled
from kstore.log import filenames


def contests() -> Iterator[Contest]:
    for name, (records, value_size) in recovery.SHAPES.items():
        with tempfile.TemporaryDirectory() as folder:
            directory = Path(folder)
            size = scaled(1 << 30)
            end = recovery.write_partition(directory, records, value_size, size)
            batches = end // records
            yield Contest(
                name=f"recover and verify {size:,} bytes of {name}, page cache",
                calls={
                    "recover": lambda directory=directory: recovery.recover(directory)[0],
                    "verify, 1 thread": partial(recovery.verify, directory, 1),
                    "verify, 2 threads": partial(recovery.verify, directory, 2),
                    "read": partial(recovery.read_whole, directory / filenames.log_name(0)),
                },
                amount=size,
                expected=batches,
                unchecked=frozenset({"read"}),
                bars=(
                    ("recover", "read", None),
                    ("verify, 1 thread", "read", None),
                    ("verify, 2 threads", "read", None),
                ),
            )
