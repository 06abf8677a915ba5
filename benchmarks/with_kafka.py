"""`python -m engine` with real Kafka among the peers.

    python benchmarks/with_kafka.py engine/append engine/read --quick

Kafka's jars are fetched once from Maven Central and need Java 17.
"""

import sys

from engine.__main__ import main
from peers import provide_kafka

if __name__ == "__main__":
    assert provide_kafka.kafka_log  # importing the module lets Kafka take part
    raise SystemExit(main(sys.argv[1:]))
