from typing import final

from typing_extensions import Buffer

@final
class OffsetMap:
    """Maps keys to the latest offset put for each, by 128 bits of SipHash-2-4 under a secret.

    Parameters
    ----------
    memory
        Bytes that it may take; it begins small and grows in place. Kafka's
        ``log.cleaner.dedupe.buffer.size``, at most 2147483647.
    load_factor
        Which part of the slots may be used (Kafka's ``log.cleaner.io.buffer.load.factor``).
    key
        16 secret bytes: who does not know them cannot make two keys collide.
    hash_bits
        How many bits of the hash are used: fewer only to see what collisions would do.

    A slot takes 24 bytes. Raises ``ValueError`` where no key would fit. One thread at a time.
    """

    def __init__(
        self, memory: int, load_factor: float, key: Buffer, *, hash_bits: int = 128
    ) -> None: ...
    def __len__(self) -> int: ...
    @property
    def limit(self) -> int:
        """How many keys it may hold."""
    @property
    def slots(self) -> int:
        """How many slots it may have."""
    @property
    def memory(self) -> int:
        """Bytes that it has now."""
    @property
    def most_memory(self) -> int:
        """Bytes that it may have."""
    def clear(self) -> None:
        """Forget all keys; the memory stays."""
    def put(self, key: Buffer, offset: int) -> bool:
        """Set a key's offset; False, and nothing done, where ``limit`` keys are in already."""
    def get(self, key: Buffer) -> int:
        """A key's offset, -1 where it was never put."""
    def hash_of(self, key: Buffer) -> bytes:
        """The 16 bytes that stand for a key."""
