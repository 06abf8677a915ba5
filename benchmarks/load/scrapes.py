"""What a scrape of the metrics costs the broker's loop, with 10,000 partitions.

    PYTHONPATH=benchmarks:src python -m load.scrapes [PARTITIONS] [SCRAPES]

The broker serves in this process, whose loop runs the timer of `load.turns`; another process
scrapes. Half of the partitions are open, as those in use are, and half are only in the directory.
Every page must have the end offset of each partition. Idle time and scrapes are measured one after
the other, with a process that runs only the timer beside both: what that one is late is the
machine's share. Files are in memory (/dev/shm) if that exists.
"""

import os
import sys
import tempfile
import time
from pathlib import Path

import peers.kafka  # finds tests/interop

# isort: split

import kstore
from load.starts import make_clean
from load.turns import SWITCH_SECONDS, Turns, measured, program

assert peers.kafka.VERSION
SHM = "/dev/shm"
PARTITIONS, SCRAPES = 10_000, 10
RECORDS = 10  # in each partition
WANTED = 0.005  # seconds of the loop
_TOPIC = "many"  # of make_clean
_SCRAPER = """
import sys, time, urllib.request
url, count = sys.argv[1], int(sys.argv[2])
print(flush=True)
for number in range(count):
    began = time.monotonic()
    with urllib.request.urlopen(url, timeout=60) as page:
        text = page.read().decode()
    name = 'kafka_log_log_logendoffset{topic="many",'
    ends = [line.split()[1] for line in text.splitlines() if line.startswith(name)]
    print(len(ends), sum(map(int, ends)), time.monotonic() - began, flush=True)
    time.sleep(0.1)
"""


def main() -> int:
    partitions = int(sys.argv[1]) if len(sys.argv) > 1 else PARTITIONS
    count = int(sys.argv[2]) if len(sys.argv) > 2 else SCRAPES
    sys.setswitchinterval(SWITCH_SECONDS)
    where = SHM if os.path.isdir(SHM) else None  # the disk has no part in it
    with tempfile.TemporaryDirectory(dir=where, prefix="kstore-scrapes-") as directory:
        root = Path(directory) / "data"
        make_clean(root, partitions)
        settings = {"kstore.metrics.port": 0}
        with kstore.serve(root, port=0, settings=settings) as broker:
            for log in list(broker.store[_TOPIC])[: partitions // 2]:
                assert log.end_offset == RECORDS  # opens it
            url = f"http://{broker.metrics_address}/metrics"
            turns = Turns(broker._loop)
            time.sleep(1.0)
            with measured("idle", turns):
                time.sleep(3.0)
            _scrape(turns, "the first scrape", url, 1, partitions)
            _scrape(turns, f"{count} scrapes", url, count, partitions)
    print(f"wanted: the loop is at most {WANTED * 1e6:,.0f} us late because of a scrape")
    return 0


def _scrape(turns: Turns, name: str, url: str, count: int, partitions: int) -> None:
    with measured(name, turns), program(_SCRAPER, url, count) as scraper:
        assert scraper.stdout is not None
        pages = [scraper.stdout.readline().split() for _ in range(count)]
    for page in pages:
        assert [int(word) for word in page[:2]] == [partitions, partitions * RECORDS], page
    seconds = sorted(float(page[2]) for page in pages)
    print(f"  a scrape took {seconds[len(seconds) // 2] * 1e3:,.0f} ms, at most "
          f"{seconds[-1] * 1e3:,.0f}", flush=True)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
