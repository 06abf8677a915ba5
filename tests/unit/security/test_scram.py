"""The server's side of SCRAM: vectors of the RFCs, exchanges that fail, hostile messages."""

import hashlib
import hmac
from base64 import b64decode, b64encode

import pytest

from kstore.security.scram import (
    ScramCredential,
    ScramError,
    ScramExchange,
    credential_of,
    salted,
)

# RFC 7677, section 3.
USER, PASSWORD = "user", "pencil"
SALT = b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
CLIENT_NONCE, SERVER_NONCE = "rOprNGfwEbeRWgbNEkqO", "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
CLIENT_FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
SERVER_FIRST = (
    b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
)
CLIENT_FINAL = (
    b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,"
    b"p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
)
SERVER_FINAL = b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="


def credential(mechanism: str = "SCRAM-SHA-256") -> ScramCredential:
    return credential_of(mechanism, SALT, salted(mechanism, PASSWORD, SALT, 4096), 4096)


def exchange(mechanism: str = "SCRAM-SHA-256") -> ScramExchange:
    return ScramExchange(mechanism, lambda user: credential(mechanism), lambda: SERVER_NONCE)


def test_the_server_completes_the_exchange_of_rfc_7677_once() -> None:
    server = exchange()
    assert server.step(CLIENT_FIRST) == SERVER_FIRST
    assert not server.is_complete
    assert server.step(CLIENT_FINAL) == SERVER_FINAL
    assert (server.is_complete, server.user) == (True, USER)
    with pytest.raises(ScramError):
        server.step(CLIENT_FINAL)


def client_final(mechanism: str, first: bytes, server_first: bytes, password: str) -> bytes:
    """A client's proof, straight from RFC 5802, section 3."""
    name = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}[mechanism]
    bare = first.split(b",", 2)[2]
    gs2 = first[: -len(bare)]
    fields = dict(part.split(b"=", 1) for part in server_first.split(b","))
    key = hashlib.pbkdf2_hmac(name, password.encode(), b64decode(fields[b"s"]), int(fields[b"i"]))
    client_key = hmac.new(key, b"Client Key", name).digest()
    stored = hashlib.new(name, client_key).digest()
    start = b"c=" + b64encode(gs2) + b",r=" + fields[b"r"]
    message = bare + b"," + server_first + b"," + start
    signature = hmac.new(stored, message, name).digest()
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    return start + b",p=" + b64encode(proof)


def test_the_clients_side_of_these_tests_agrees_with_the_rfc() -> None:
    found = client_final("SCRAM-SHA-256", CLIENT_FIRST, SERVER_FIRST, PASSWORD)
    assert found == CLIENT_FINAL


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("first", [CLIENT_FIRST, b"y,,n=user,r=x", b"n,a=user,n=user,r=x"])
def test_the_right_password_is_accepted_and_another_is_not(mechanism: str, first: bytes) -> None:
    server = exchange(mechanism)
    answer = server.step(first)
    assert server.step(client_final(mechanism, first, answer, PASSWORD)).startswith(b"v=")
    server = exchange(mechanism)
    answer = server.step(first)
    with pytest.raises(ScramError, match="the proof is not valid"):
        server.step(client_final(mechanism, first, answer, "pencils"))
    assert not server.is_complete


def test_names_are_decoded() -> None:
    server = exchange()
    server.step(b"n,,n=a=2Cb=3Dc,r=x")
    assert server.user == "a,b=c"


@pytest.mark.parametrize(
    "message",
    [
        b"",
        b"n,,",
        b"n,,n=user",
        b"n,,n=,r=x",
        b"n,,n=us=er,r=x",
        b"n,,n=\xff,r=x",
        b"n,,n=user,r=",
        b"n,,n=user,r=\x00",
        b"n,a=other,n=user,r=x",
        b"n,,m=ext,n=user,r=x",
        b"n,,n=user,r=x,tokenauth=true",
        b"p=tls-unique,,n=user,r=x",
        b"n,,n=" + b"u" * 2000 + b",r=x",
        b"n,,n=user,r=" + b"x" * 2000,
        CLIENT_FINAL,
    ],
)
def test_first_messages_that_are_refused(message: bytes) -> None:
    with pytest.raises(ScramError):
        exchange().step(message)


@pytest.mark.parametrize(
    "message",
    [
        b"",
        CLIENT_FIRST,
        CLIENT_FINAL[:-1],
        CLIENT_FINAL.replace(b"c=biws", b"c=eSws"),
        CLIENT_FINAL.replace(b"r=rOpr", b"r=rOpX"),
        CLIENT_FINAL.replace(b"p=dHzb", b"p=dHzc"),
        CLIENT_FINAL.partition(b",p=")[0],
        CLIENT_FINAL.partition(b",p=")[0] + b",p=AAAA",
        CLIENT_FINAL.partition(b",p=")[0] + b",p=A",
    ],
)
def test_final_messages_that_are_refused(message: bytes) -> None:
    server = exchange()
    server.step(CLIENT_FIRST)
    with pytest.raises(ScramError):
        server.step(message)
    assert not server.is_complete


def test_no_secret_is_in_a_repr() -> None:
    assert repr(credential()) == "ScramCredential(iterations=4096)"
