"""`kstore bench` with real Kafka among the peers of the engine's workloads.

    python benchmarks/with_kafka.py engine/append engine/read --quick

Kafka's jars are fetched once from Maven Central and need Java 17.
"""

import sys

from kstore.cli import main
from peers import provide_kafka

if __name__ == "__main__":
    assert provide_kafka.kafka_log  # importing the module lets Kafka take part
    raise SystemExit(main(["bench", *sys.argv[1:]]))
