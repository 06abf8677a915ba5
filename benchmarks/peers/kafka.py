"""Kafka's log layer as a peer: its UnifiedLog, called in a warm JVM.

    python benchmarks/peers/kafka.py                  # every figure, as JSON lines
    python benchmarks/peers/kafka.py --scale 0.01

Kafka's jars come from Maven Central, by the pom of tests/interop. The figures are those of Kafka's
log without a broker: no network, no replication, one thread, ready batches.
"""

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent.parent / "tests"))  # only its module fetches the jars

from interop.kafka_jars import INSTALL  # noqa: E402
from interop.kafka_jars import prepare as prepare  # noqa: E402
from interop.kafka_jars import required as required  # noqa: E402

VERSION = "3.9.2"
# records in a batch: about 110 KB, 16.5 KB, 1.15 KB and 170 bytes of 100-byte values
SHAPES = (1000, 150, 10, 1)
Result = dict[str, float | int | str]


class KafkaMissingError(RuntimeError):
    """Java or Kafka's jars are missing; the text says what to install."""


class KafkaLog:
    """Kafka's log layer in its own JVM, over logs below a directory.

    Each method returns what `UnifiedLogBench.java` measured: `seconds`, `mb_per_s` (10^6 bytes),
    and where calls were timed one by one `p50_ns`, `p99_ns`, `p999_ns`. It checks every result
    and fails if one is wrong. The first call of each kind warms the JVM up and should be dropped.
    """

    def __init__(self, directory: str | Path, *, heap: str = "1g") -> None:
        libs, reason = prepare(VERSION)
        if reason is None and shutil.which("javac") is None:
            reason = f"the Java compiler is missing: {INSTALL}"
        if reason is not None:
            raise KafkaMissingError(reason)
        Path(directory).mkdir(parents=True, exist_ok=True)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in close)
        self._process = subprocess.Popen(
            [
                "java",
                f"-Xms{heap}",
                f"-Xmx{heap}",
                "-XX:+UseSerialGC",  # there is one thread; G1 was not faster
                "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
                "-cp",
                f"{libs}/*",
                str(HERE / "kafka" / "UnifiedLogBench.java"),
                str(directory),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def ask(self, work: str, **arguments: object) -> Result:
        """Run one command of `UnifiedLogBench.java`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        words = [work, *(f"{name}={value}" for name, value in arguments.items())]
        with contextlib.suppress(BrokenPipeError):  # reported below, with its output
            self._process.stdin.write(" ".join(words) + "\n")
            self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(30)
            self._errors.seek(0)
            said = self._errors.read()[-4000:].decode(errors="replace")
            raise RuntimeError(f"Kafka's log layer failed at {' '.join(words)}:\n{said}")
        result: Result = json.loads(line)
        return result

    def append(self, records: int, size: int) -> Result:
        """Append `size` bytes of ready batches of `records` x 100 bytes, as leader."""
        return self.ask("append", records=records, bytes=size)

    def fill(self, name: str, records: int, size: int) -> Result:
        """Fill a log that is kept; `directory` is the partition's, `end_offset` its end."""
        return self.ask("fill", name=name, records=records, bytes=size)

    def read(self, name: str, count: int, seed: int = 1) -> Result:
        """`read(offset, 1 byte)` at random offsets of a filled log."""
        return self.ask("read", name=name, count=count, seed=seed)

    def iterate(self, name: str) -> Result:
        """Every record as an object, every checksum, walked in the segment files."""
        return self.ask("iterate", name=name)

    def fetch(self, name: str) -> Result:
        """The same through reads of 1 MiB into memory, as a consumer sees them."""
        return self.ask("fetch", name=name)

    def recover(self, name: str) -> Result:
        """Close a filled log and load it as after a kill: checksums, both indexes."""
        return self.ask("recover", name=name)

    def partitions(
        self, count: int, *, name: str = "partitions", records: int = 1, size: int = 0
    ) -> Result:
        """Make cleanly closed partitions `many-N` in `directory`, each with one batch of
        `records`, or `size` bytes of them. Many are slow."""
        return self.ask("partitions", name=name, count=count, records=records, bytes=size)

    def load(self, name: str = "partitions") -> Result:
        """Start a log manager (two threads) on those until every end offset is known; it recovers
        them first where the directory has no clean-shutdown marker. `end_offsets` is their sum;
        `memory` the MiB that the JVM then has, `live` those of its heap that are in use."""
        return self.ask("load", name=name)

    def clean(self, *partitions: Path, threads: int = 1) -> Result:
        """Compact cleanly closed partitions, with so many cleaners at a time."""
        return self.ask("clean", name=",".join(map(str, partitions)), threads=threads)

    def lookup(self, index: Path, base_offset: int, offsets: Sequence[int], count: int) -> Result:
        """So many lookups of offsets, again and again, by Kafka's `OffsetIndex` over an index
        file; `sum` is of the positions that each was found at, once."""
        asked = b"".join(offset.to_bytes(8, "big") for offset in offsets)
        index.with_name(f"{index.name}.asked").write_bytes(asked)
        return self.ask("lookup", name=index, base=base_offset, count=count)

    def crc(self, path: Path, count: int) -> Result:
        """The CRC-32C of a file's bytes, `value`, so often by `java.util.zip.CRC32C`."""
        return self.ask("crc", name=path, count=count)

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._errors.close()

    def __enter__(self) -> "KafkaLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def everything(peer: KafkaLog, scale: float = 1.0) -> Iterator[Result]:
    """The second run of each kind of work for each shape of batch."""

    def sized(amount: int) -> int:
        return max(1, int(amount * scale))

    for records in SHAPES:
        size = sized(500_000_000 if records > 1 else 200_000_000)
        name = f"filled{records}"
        peer.append(records, size)
        yield peer.append(records, size)
        peer.fill(name, records, size)
        for work in (peer.iterate, peer.fetch, peer.recover):
            work(name)
            yield work(name) | {"records": records}
        peer.read(name, sized(200_000), 1)
        yield peer.read(name, sized(200_000), 2) | {"records": records}
    peer.partitions(sized(10_000))
    peer.load()
    yield peer.load()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scale", type=float, default=1.0, help="sizes are multiplied by it")
    parser.add_argument("--directory", help="where the logs go (default: a temporary one)")
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory(dir=given.directory) as directory,
        KafkaLog(directory) as peer,
    ):
        for result in everything(peer, given.scale):
            print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
