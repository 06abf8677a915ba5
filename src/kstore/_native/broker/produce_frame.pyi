from _typeshed import ReadableBuffer

def parse(frame: ReadableBuffer) -> tuple[str, int, int, int, int] | None:
    """(topic, partition, acks, start, end) of a request's batch in its frame; None for a request
    of another form.

    The frame is a request without its size. The batch is complete, uncompressed, v2, neither
    transactional nor control; its records and its checksum are not verified.
    """

def answer(
    version: int,
    correlation_id: int,
    topic: str,
    partition: int,
    base_offset: int,
    append_time: int,
    log_start: int,
) -> bytes:
    """The answer to a request of one partition, with its size: no error.

    Versions 3 to 11; the topic has at most 249 characters, all ASCII (ValueError).
    """
