from typing import final

from typing_extensions import Buffer

@final
class OffsetMap:
    """Maps each key to its latest offset, by 128 bits of SipHash-2-4 with a secret.

    Parameters
    ----------
    memory
        Maximum size in bytes; the map starts small and grows in place. Kafka's
        ``log.cleaner.dedupe.buffer.size``, at most 2147483647.
    load_factor
        Maximum fraction of used slots (Kafka's ``log.cleaner.io.buffer.load.factor``).
    key
        16 secret bytes: without them, an attacker cannot construct keys that collide.
    hash_bits
        Number of bits of the hash to use; below 128 only in tests of collisions.

    A slot takes 24 bytes. Raises ``ValueError`` if not even one key fits. One thread at a time.
    """

    def __init__(
        self, memory: int, load_factor: float, key: Buffer, *, hash_bits: int = 128
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def limit(self) -> int:
        """Maximum number of keys."""
    @property
    def slots(self) -> int:
        """Maximum number of slots."""
    @property
    def memory(self) -> int:
        """Current size in bytes."""
    def clear(self) -> None:
        """Remove all keys; keeps the memory."""
    def put(self, key: Buffer, offset: int) -> bool:
        """Set a key's offset; returns False without a change if the map has ``limit`` keys."""
    def get(self, key: Buffer) -> int:
        """A key's offset; -1 if it is not in the map."""
    def hash_of(self, key: Buffer) -> bytes:
        """The 16 bytes of a key's hash."""
