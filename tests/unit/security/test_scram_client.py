"""The client's side of SCRAM: RFC 7677's vector, the server's side, hostile servers."""

import pytest

from kstore.security.scram import ScramCredential, ScramError, ScramExchange, credential_of, salted
from kstore.security.scram_client import MOST_ITERATIONS, ScramClient

# RFC 7677, section 3.
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def client() -> ScramClient:
    return ScramClient("SCRAM-SHA-256", "user", "pencil", NONCE)


def test_the_client_completes_the_exchange_of_rfc_7677() -> None:
    exchange = client()
    assert exchange.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    assert exchange.final(SERVER_FIRST) == CLIENT_FINAL
    exchange.finish(SERVER_FINAL)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("user", ["alice", "a=b,c", "äöü"])
def test_client_and_server_complete_an_exchange(mechanism: str, user: str) -> None:
    salt = b"salt" * 5

    def find(name: str) -> ScramCredential:
        assert name == user
        return credential_of(mechanism, salt, salted(mechanism, "sécret,=", salt, 5000), 5000)

    server = ScramExchange(mechanism, find, lambda: "server")
    exchange = ScramClient(mechanism, user, "sécret,=", "client")
    exchange.finish(server.step(exchange.final(server.step(exchange.first()))))
    assert server.is_complete


def test_a_server_without_the_password_is_refused() -> None:
    exchange = client()
    exchange.final(SERVER_FIRST)
    with pytest.raises(ScramError, match="does not prove"):
        exchange.finish(b"v=AAAATRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_proof_before_the_question_is_refused() -> None:
    with pytest.raises(ScramError, match="not valid"):
        client().finish(SERVER_FINAL)


@pytest.mark.parametrize(
    ("message", "text"),
    [
        (b"", "not valid"),
        (b"\xff" * 100, "not valid"),
        (SERVER_FIRST.replace(b"r=rOpr", b"r=other"), "does not continue"),
        (b"r=rOprNGfwEbeRWgbNEkqO,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096", "does not continue"),
        (SERVER_FIRST.replace(b"i=4096", b"i=4095"), "iterations"),
        (SERVER_FIRST.replace(b"i=4096", b"i=%d" % (MOST_ITERATIONS + 1)), "iterations"),
        (SERVER_FIRST.replace(b"s=W", b"s="), "not base64"),
    ],
)
def test_hostile_servers_are_refused(message: bytes, text: str) -> None:
    with pytest.raises(ScramError, match=text):
        client().final(message)


@pytest.mark.parametrize("message", [b"", b"e=invalid-proof", b"v=", b"v=A"])
def test_final_messages_that_are_not_valid(message: bytes) -> None:
    exchange = client()
    exchange.final(SERVER_FIRST)
    with pytest.raises(ScramError):
        exchange.finish(message)
