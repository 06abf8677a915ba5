"""What to call instead of a name of Kafka's clients that kstore has not."""

from collections.abc import Mapping

OF_CONSUMERS = {
    "beginning_offsets": "use the start_offset of a log",
    "commit_async": "use commit()",
    "commit_sync": "use commit()",
    "consume": "use poll(), or `for batch in consumer`",
    "end_offsets": "use lag(), or store.end_offsets()",
    "offsets_for_times": "use seek_to_time(), or offset_at() of a log",
    "partitions_for_topic": "use the partitions of a topic",
    "stop": "use close()",
    "subscribe": "use store.consumer('orders', group='billing'), which takes the topics",
    "subscription": "use assignment",
    "unsubscribe": "use close()",
}
OF_PRODUCERS = {
    "begin_transaction": "use `with store.transaction('id') as transaction`",
    "init_transactions": "use `with store.transaction('id') as transaction`",
    "partitions_for": "use the partitions of a topic",
    "poll": "callbacks run in the producer's thread, without it",
    "produce": "use send()",
    "send_and_wait": "use `await producer.send(...)`",
    "stop": "use close()",
}
OF_TRANSACTIONS = {
    "abort": "use abort_transaction()",
    "begin": "use begin_transaction()",
    "commit": "use commit_transaction()",
    "init_transactions": "opening the producer does it",
    "produce": "use send()",
    "stop": "use close()",
}


def no_attribute(owner: object, name: str, instead: Mapping[str, str]) -> AttributeError:
    """The error for an attribute that does not exist; names kstore's call, if there is one."""
    sentence = f"{type(owner).__name__!r} object has no attribute {name!r}"
    if name in instead:
        sentence += f": {instead[name]}"
    return AttributeError(sentence, name=name, obj=owner)
