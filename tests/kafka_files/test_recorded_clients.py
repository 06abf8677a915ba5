"""Old clients recorded at Kafka, repeated at kstore: the same answers, field by field."""

from pathlib import Path

import pytest

import kstore
from interop.recorded.allowed import ALLOWED
from interop.recorded.recording import recorded
from interop.recorded.replay import Both, Replay
from interop.same_bytes.compare import differences, not_allowed, unused
from kstore.broker import transaction_service
from kstore.protocol.api_keys import ApiKey
from support.wire_client import Connection

SETTINGS = {
    "auto.create.topics.enable": False,
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "group.initial.rebalance.delay.ms": 0,
    "log.message.timestamp.after.max.ms": 2**63 - 1,
    "offsets.topic.num.partitions": 1,
    "super.users": "User:ANONYMOUS",
    "transaction.state.log.num.partitions": 1,
}


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Both:
    """The answers to all recorded requests, of Kafka and of a kstore broker in this process.

    The recorded clients had waited for the end of a transaction before they began the next one.
    Here a request may come before it, and is answered behind it, however busy the machine is.
    """
    root: Path = tmp_path_factory.mktemp("replayed")
    found = Both({}, {})
    with (
        pytest.MonkeyPatch.context() as patch,
        kstore.open(root / "data") as store,
        kstore.Broker(store, port=0, node_id=1, settings=SETTINGS) as broker,
    ):
        patch.setattr(transaction_service, "_COMPLETION_SECONDS", 60.0)
        store.create_topic("warm", 1)  # as at the recorded broker, whose internal topics exist, too
        connection = Connection(broker.bootstrap_servers)
        for key_type in (0, 1):
            connection.ask(ApiKey.FIND_COORDINATOR, 1, key="warm", key_type=key_type)
        connection.close()
        for session in recorded():
            for topic in session.topics:
                store.create_topic(topic, 1, config={"retention.ms": "-1"})
            Replay(broker.bootstrap_servers, found).run(session)
    return found


def test_kstore_answers_old_clients_as_kafka_did(both: Both) -> None:
    found = differences(*both)
    wrong = not_allowed(found, ALLOWED)
    assert wrong == [], "\n".join(wrong)
    assert unused(found, ALLOWED) == [], "differences that are gone"
