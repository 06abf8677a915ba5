from _typeshed import ReadableBuffer

def parse(frame: ReadableBuffer) -> tuple[str, int, int, int, int, int, int, int] | None:
    """(topic, partition, leader epoch, offset, partition max bytes, max bytes, min bytes, max wait
    in ms) of a request; None for a request of another form.

    The frame is a request without its size.
    """

def answer_head(
    version: int,
    correlation_id: int,
    topic: str,
    partition: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start: int,
    size: int,
) -> bytes:
    """What stands before the records of an answer of one partition, with the answer's size.

    ``size`` is that of the records. Versions 7 to 11; the topic has at most 249 characters, all
    ASCII (ValueError).
    """

def complete_answer(
    version: int,
    correlation_id: int,
    topic: str,
    partition: int,
    high_watermark: int,
    last_stable_offset: int,
    log_start: int,
    records: ReadableBuffer,
) -> bytes:
    """As :func:`answer_head`, followed by a copy of the records.

    For few bytes: one send(2) of a copy is faster than a send and a sendfile(2).
    """
