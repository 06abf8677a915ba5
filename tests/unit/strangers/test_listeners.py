"""The listeners of a broker that a suite runs against: the same at kstore and at Kafka."""

from strangers.brokers import listener_settings
from strangers.suite import Suite

SUITE = Suite("suite", listeners={"TLS0": "SSL", "SASL0": "SASL_SSL"}, host="localhost")
PORTS = {"TLS0": 2, "SASL0": 3}


def test_a_suites_own_listeners_are_advertised_as_its_host() -> None:
    assert listener_settings(SUITE, "127.0.0.1:1", PORTS) == {
        "listeners": "PLAINTEXT://127.0.0.1:1,TLS0://127.0.0.1:2,SASL0://127.0.0.1:3",
        "advertised.listeners": "PLAINTEXT://localhost:1,TLS0://localhost:2,SASL0://localhost:3",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,TLS0:SSL,SASL0:SASL_SSL",
    }


def test_kafkas_controller_is_no_listener_for_clients() -> None:
    kstore = listener_settings(SUITE, "127.0.0.1:1", PORTS)
    kafka = listener_settings(SUITE, "127.0.0.1:1", PORTS, controller="127.0.0.1:4")
    assert kafka == {
        "listeners": kstore["listeners"] + ",CONTROLLER://127.0.0.1:4",
        "advertised.listeners": kstore["advertised.listeners"],
        "listener.security.protocol.map": kstore["listener.security.protocol.map"]
        + ",CONTROLLER:PLAINTEXT",
    }
