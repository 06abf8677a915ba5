"""A server that stops answering one kind of request."""

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def falling_silent(server: str, key: int) -> Iterator[str]:
    """The address of a server that passes requests on, but not those of one kind."""
    host, _, port = server.rpartition(":")

    def serve_one(client: socket.socket) -> None:
        with client, socket.create_connection((host, int(port))) as behind:
            while head := client.recv(4, socket.MSG_WAITALL):
                request = client.recv(struct.unpack(">i", head)[0], socket.MSG_WAITALL)
                if struct.unpack_from(">h", request)[0] != key:
                    behind.sendall(head + request)
                    size = behind.recv(4, socket.MSG_WAITALL)
                    answer = behind.recv(struct.unpack(">i", size)[0], socket.MSG_WAITALL)
                    client.sendall(size + answer.replace(behind_port, front_port))

    with socket.create_server(("127.0.0.1", 0)) as front:
        # Metadata and FindCoordinator name the broker's port: requests shall come here instead.
        behind_port = struct.pack(">i", int(port))
        front_port = struct.pack(">i", front.getsockname()[1])

        def accept() -> None:
            while True:
                try:
                    client, _ = front.accept()
                except OSError:
                    return
                threading.Thread(target=serve_one, args=(client,), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        try:
            yield f"127.0.0.1:{front.getsockname()[1]}"
        finally:
            front.shutdown(socket.SHUT_RDWR)
