"""`kstore bench` with real Kafka among the peers of the engine's workloads.

    python benchmarks/with_kafka.py engine/append engine/read --quick

Kafka's jars come from Maven Central, once; Java 17 runs them.
"""

import sys

from kstore.cli import main
from peers import here

if __name__ == "__main__":
    assert here.kafka_log  # its import let Kafka take part
    raise SystemExit(main(["bench", *sys.argv[1:]]))
