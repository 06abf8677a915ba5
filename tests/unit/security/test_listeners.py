"""Listeners in Kafka's syntax."""

import pytest

from kstore.errors import InvalidConfigError
from kstore.security.listeners import Address, parse_listeners

MAP = "listener.security.protocol.map"


def test_nine_listeners_with_addresses_of_their_own() -> None:
    names = [f"{kind}{number}" for number in range(3) for kind in ("PLAIN", "TLS", "SASL")]
    settings = {
        "listeners": ",".join(f"{name}://127.0.0.1:{9092 + n}" for n, name in enumerate(names)),
        "advertised.listeners": ",".join(
            f"{name}://localhost:{9092 + n}" for n, name in enumerate(names)
        ),
        MAP: ",".join(
            f"{name}:{protocol}"
            for name, protocol in zip(names, ("PLAINTEXT", "SSL", "SASL_SSL") * 3, strict=True)
        ),
    }
    found = parse_listeners(settings)
    assert [each.name for each in found] == names
    assert [each.protocol for each in found] == ["PLAINTEXT", "SSL", "SASL_SSL"] * 3
    assert found[8].address == Address("127.0.0.1", 9100)
    assert found[8].advertised == Address("localhost", 9100)
    assert (found[8].uses_tls, found[8].uses_sasl) == (True, True)


def test_listeners_are_parsed_with_names_and_addresses() -> None:
    found = parse_listeners(
        {"listeners": "plaintext://:9092, SSL://[::1]:9093", "advertised.listeners": "SSL://a:1"}
    )
    assert [str(each.address) for each in found] == [":9092", "[::1]:9093"]
    assert [each.name for each in found] == ["PLAINTEXT", "SSL"]
    assert [each.advertised for each in found] == [None, Address("a", 1)]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"listeners": ""}, "names no listener"),
        ({"listeners": "127.0.0.1:9092"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:70000"}, "NAME://host:port"),
        ({"listeners": "PLAINTEXT://a:1,PLAINTEXT://a:2"}, "given twice"),
        ({"listeners": "PLAINTEXT://a:1,SSL://a:1"}, "must have its own address"),
        ({"listeners": "OTHER://a:1"}, "no security protocol"),
        ({"listeners": "A://a:1", MAP: "A:TLS"}, "one of PLAINTEXT"),
        ({"listeners": "A://a:1", MAP: "A:SSL,A:PLAINTEXT"}, "two protocols"),
        ({"listeners": "PLAINTEXT://a:1", "advertised.listeners": "SSL://a:1"}, "names SSL"),
        ({"listeners": "PLAINTEXT://a:1", "advertised.listeners": "PLAINTEXT://0.0.0.0:1"},
         "cannot connect"),
    ],
)  # fmt: skip
def test_invalid_listeners_are_errors(settings: dict[str, str], words: str) -> None:
    with pytest.raises(InvalidConfigError, match=words):
        parse_listeners(settings)
