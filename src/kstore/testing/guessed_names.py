"""What a broker's process and this package answer to names that they lack."""

_BROKER = "use `with kstore.testing.broker({'orders': 2}) as broker:`, "
_FIXTURE = "a pytest fixture, by pytest_plugins = ['kstore.testing.fixtures']; or "
OF_BROKER_PROCESSES = dict.fromkeys(
    ("consumer", "groups", "producer", "store", "topics"),
    "it is another process: use clients, or the fixture in_process_kafka_broker, which has `store`",
)
OF_TESTING = {
    **dict.fromkeys(("in_process_kafka_broker", "kafka_broker"), _FIXTURE + _BROKER[4:-2]),
    **dict.fromkeys(
        ("Broker", "KafkaBroker", "TestBroker", "embedded_broker", "start_broker"),
        _BROKER + "which has broker.store",
    ),
    "kafka": _BROKER + "which has broker.bootstrap_servers",
}
