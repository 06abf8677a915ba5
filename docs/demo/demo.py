"""kstore's main job on real data, without a server. Run it by ``make demo``.

Log lines become topics; then we look up, scan, count, verify, measure, and save a picture.
"""

import json
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import datasets
import numpy as np
import picture
import speeds

import kstore

OUT = Path(__file__).resolve().parents[2] / "out"
STORE = OUT / "store"
PICTURE = OUT / "demo.png"
HOUR = 3_600_000
EVERY = 2_000  # records between two updates of the progress line

Item = TypeVar("Item")
Result = TypeVar("Result")


def title(text: str) -> None:
    print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n{text}", flush=True)


def progress(label: str, items: Iterable[Item]) -> Iterator[Item]:
    """Pass the items on; on a terminal, count them on one line."""
    live = sys.stdout.isatty()
    for number, item in enumerate(items):
        if live and number % EVERY == 0:
            print(f"\r  {label:<16} {number:>9,}", end="", flush=True)
        yield item
    if live:
        print("\r" + " " * 40 + "\r", end="", flush=True)


def timed(work: Callable[[], Result]) -> tuple[Result, float]:
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


def moment(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def load(store: kstore.Store, dataset: datasets.Dataset) -> np.ndarray:
    """Produce one file's lines into a separate topic; returns lines, bytes of text and on disk."""
    lines = list(dataset.lines())
    text = sum(len(value) for _, value, _ in lines)
    topic = store.create_topic(dataset.topic, partitions=dataset.partitions)

    def produce() -> None:
        with store.producer(dataset.topic, compression="zstd", linger_ms=5) as producer:
            for key, value, timestamp in progress(dataset.topic, lines):
                producer.send(value, key=key, timestamp=timestamp)

    _, seconds = timed(produce)
    disk = sum(log.size for log in topic)
    print(
        f"  {dataset.topic:<16} {len(lines):>7,} lines {text / 1e6:5.1f} MB"
        f"  ->  {len(topic)} partitions, {disk / 1e6:4.2f} MB on disk  ({seconds:.2f} s)"
    )
    return np.array([len(lines), text, disk])


def look_up(topic: kstore.Topic) -> None:
    """By key to a partition, by offset to a record, by time to an offset."""
    client = b"10.195.94.87"
    partition = topic.partition_for(client)
    log = topic[partition]
    print(f"  client {client.decode()} is always in partition {partition} (murmur2, as in Kafka)")
    middle = (log.start_offset + log.end_offset) // 2
    record = log[middle]
    print(f"  offset {middle}: {moment(record.timestamp)}  {record.value[:72].decode()}...")
    when = datetime(2015, 5, 19, 12, tzinfo=UTC)
    offset = log.offset_at(when)
    print(f"  first request since {when:%d %b %Y %H:%M}: offset {offset}")
    quarter = log.view(offset, offset + 3)
    for record in quarter:
        print(f"    {record.offset}  {moment(record.timestamp)}  {record.key.decode()}")


def scan_access(topic: kstore.Topic) -> dict[str, np.ndarray | list[bytes]]:
    """One columnar pass over every partition; the parsing of a line is a compiled loop."""
    from jitted import status_and_size

    times, statuses, sizes, clients = [], [], [], []
    for log in topic:
        for columns in log.view().scan():
            values = columns.values
            status = np.empty(len(columns.offsets), np.int64)
            size = np.empty(len(columns.offsets), np.int64)
            data = np.frombuffer(values.data, np.uint8)
            status_and_size(data, values.positions, values.lengths, status, size)
            times.append(np.array(columns.timestamps))
            statuses.append(status)
            sizes.append(size)
            clients += columns.keys.to_list()
    return {
        "times": np.concatenate(times),
        "statuses": np.concatenate(statuses),
        "sizes": np.concatenate(sizes),
        "clients": clients,
    }


def scan_metrics(topic: kstore.Topic) -> picture.Load:
    """A user-defined filter, compiled into the scan: the readings of one machine."""
    from kstore import jit

    def wanted(row: jit.Row) -> bool:
        return jit.equals(row.key, b"ec2_cpu_utilization_ac20cd")

    times, percent = [], []
    for log in topic:
        for columns in log.view().scan(where=wanted):
            times += columns.timestamps.tolist()
            percent += [float(value.rpartition(b",")[2]) for value in columns.values.to_list()]
    load = picture.Load("machine ac20cd", np.array(times), np.array(percent))
    total = sum(log.end_offset - log.start_offset for log in topic)
    full = load.times[load.percent > 95]
    print(
        f"  {len(percent):,} of {total:,} readings are of {load.machine}: "
        f"mean {load.percent.mean():.1f}%, above 95% from {moment(full.min())} on"
    )
    return load


def read_quakes(topic: kstore.Topic) -> list[picture.Quake]:
    """Plain iteration over records, the simplest way for a few of them."""
    quakes = []
    for log in topic:
        for record in log:
            properties = json.loads(record.value)["properties"]
            magnitude = properties["mag"] or 0.0
            quakes.append(picture.Quake(magnitude, record.timestamp, properties["place"]))
    quakes.sort(key=lambda quake: quake.time)
    for quake in sorted(quakes, key=lambda quake: -quake.magnitude)[:3]:
        print(f"  magnitude {quake.magnitude:.1f}  {moment(quake.time)}  {quake.region}")
    return quakes


def aggregate(found: dict[str, np.ndarray | list[bytes]]) -> picture.Requests:
    """Requests, errors and bytes an hour; the busiest clients."""
    times, statuses, sizes = found["times"], found["statuses"], found["sizes"]
    start = int(times.min()) // HOUR * HOUR
    hours = (times - start) // HOUR
    requests = np.bincount(hours)
    errors = np.bincount(hours[statuses >= 400], minlength=len(requests))
    served = np.bincount(hours, weights=sizes)
    busiest: dict[bytes, int] = {}
    for client in found["clients"]:
        busiest[client] = busiest.get(client, 0) + 1
    top = sorted(busiest.items(), key=lambda item: -item[1])[:3]
    peak = int(requests.argmax())
    print(
        f"  {len(times):,} requests in {len(requests)} hours, {sizes.sum() / 1e9:.2f} GB served, "
        f"{(statuses >= 400).mean():.1%} answered 4xx or 5xx"
    )
    print(f"  busiest hour {moment(start + peak * HOUR)[:16]}: {requests[peak]} requests")
    print(
        f"  most bytes   {moment(start + int(served.argmax()) * HOUR)[:16]}: "
        f"{served.max() / 1e6:.0f} MB"
    )
    for client, count in top:
        print(f"  {client.decode():<16} {count:>5} requests")
    return picture.Requests(start, requests, errors)


def verify(store: kstore.Store) -> None:
    """Every checksum, offset and index entry of everything that was written."""
    for name, topic in store.items():
        for log in topic:
            log.verify().raise_if_corrupt()
        records = sum(log.end_offset - log.start_offset for log in topic)
        print(f"  {name:<16} {records:>7,} records, every CRC, offset and index entry: good")


def read_by_client() -> None:
    """Serve the store, and read a topic with kafka-python where it is installed."""
    try:
        import zstandard  # noqa: F401 (the topics are compressed by it)
        from kafka import KafkaConsumer, TopicPartition
    except ImportError:
        print("  not installed here: `pip install 'kafka-python[zstd]'`, and run this again")
        return
    with kstore.serve(STORE, port=0) as broker:
        consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap_servers,
            auto_offset_reset="earliest",
            consumer_timeout_ms=1000,
        )
        numbers = broker.store["earthquakes"].partitions
        partitions = [TopicPartition("earthquakes", number) for number in numbers]
        consumer.assign(partitions)
        expected = sum(consumer.end_offsets(partitions).values())
        count, seconds = timed(lambda: sum(1 for _ in zip(range(expected), consumer, strict=False)))
        consumer.close()
        print(f"  kstore serves the store on {broker.bootstrap_servers}")
        print(f"  kafka-python fetched {count:,} of {expected:,} earthquakes in {seconds:.2f} s")


def main() -> None:
    began = time.perf_counter()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    print(f"kstore {kstore.__version__}: Kafka's log as a library. No server is needed.")
    with kstore.open(STORE) as store:
        title("1. Real log lines become topics: keyed, stamped with their own time, compressed")
        lines, text, disk = sum(load(store, dataset) for dataset in datasets.DATASETS)
    with kstore.open(STORE) as store:
        title("2. Opened again: look up by key, offset and time")
        look_up(store["web-access"])
        title("3. Scan as columns, with loops and filters of our own compiled into the scan")
        found, seconds = timed(lambda: scan_access(store["web-access"]))
        print(
            f"  parsed {len(found['times']):,} lines of the access log in {seconds:.2f} s "
            "(the first run compiles)"
        )
        cpu = scan_metrics(store["server-metrics"])
        title("4. What it says")
        requests = aggregate(found)
        quakes = read_quakes(store["earthquakes"])
        title("5. Verify everything")
        verify(store)
        title("6. Speed beside this machine's own ceilings")
        measured = speeds.measure(store, [value for _, value, _ in datasets.ACCESS.lines()], OUT)
        for speed in measured:
            print(
                f"  {speed.what:<24} {speed.reached:6.2f} GB/s   {speed.against:<20}"
                f" {speed.ceiling:6.2f} GB/s   {speed.percent:>7}"
            )
    title("7. A Kafka client reads it over the network")
    read_by_client()
    caption = (
        f"kstore wrote {lines:,} lines of three real logs into Kafka's files "
        f"({text / 1e6:.1f} MB as {disk / 1e6:.1f} MB, zstd), looked up records by key, offset and "
        "time,\nscanned all of them, and verified every checksum, offset and index entry. "
        "No server was needed for any of it."
    )
    picture.save(PICTURE, caption, requests, cpu, quakes, measured)
    print(f"\nPicture: {PICTURE}")
    print(f"The store stays in {STORE}; open it yourself: kstore.open({str(STORE)!r})")
    print(f"Done in {time.perf_counter() - began:.1f} s.")


if __name__ == "__main__":
    main()
