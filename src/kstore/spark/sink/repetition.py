"""Whether a commit repeats a write that was published before.

A write that matches the progress file of its identity is a repetition and is not published again. A
write that differs is refused, so that no rows are skipped unnoticed.
"""

from dataclasses import replace

from kstore.errors import InvalidConfigError
from kstore.spark.sink.write_identity import Content, Identity, Progress


def is_repetition(last: Progress, identity: Identity, content: Content) -> bool:
    """Whether the content was published before.

    Raises InvalidConfigError if the name is bound to another query or to other records, unless
    ``identity.rebind``.
    """
    reason = _difference(last, identity, content)
    if reason is None and identity.rebind and last.has_unknown_owner(identity):
        return False
    if reason is None:
        return identity.query is None or identity.batch <= last.batch
    if identity.rebind:
        return False
    raise InvalidConfigError(
        f"{identity} cannot be published: {reason}. Nothing was published. Set a new writeId; or, "
        f"to bind {identity.name!r} to this write from now on, set the option rebindWriteId to true"
    )


def _difference(last: Progress, identity: Identity, content: Content) -> str | None:
    """Why the progress contradicts an identity and its content; None if it does not."""
    if last.has_unknown_owner(identity):
        return _difference_from_unbound(last, identity, content)
    owner = last.query if last.is_bound else identity.name
    if owner != identity.query:
        whose = "a batch job" if owner is None else f"the streaming query {owner}"
        number = "" if owner is None else f" (batch {last.batch})"
        return f"the writeId is that of {whose}{number}, {last}"
    if identity.query is None:
        if identity.run is not None and identity.run == last.run:
            difference = last.content.describe_deletion(content)
        else:
            difference = last.content.describe_difference(content)
        return None if difference is None else f"it was {last}, and {difference}"
    if identity.batch == last.batch and identity.run is not None:
        return _difference_of_run(last, identity, content)
    return None


def _difference_of_run(last: Progress, identity: Identity, content: Content) -> str | None:
    """Why this is not the published write of the ``foreachBatch`` function, but another one.

    A run calls the function once for each micro-batch. Another run may see other rows, but rows
    for a topic that got none before belong to another write. If it is unknown which run writes,
    other rows may be another write's.
    """
    advice = ""
    if not identity.run:
        difference, run = last.content.describe_difference(content), ""
        advice = (
            " (or, if these are the rows of a repetition that differ, write them in a "
            "pyspark.InheritableThread, which lets the tasks know the query's run)"
        )
    elif identity.run == last.run:
        difference, run = last.content.describe_difference(content), " in this run of the query"
    else:
        added = sorted(content.topics.keys() - last.content.topics.keys())
        difference = f"this write has rows for {', '.join(added)}" if added else None
        run = " in an earlier run of the query"
    if difference is None:
        return None
    return (
        f"it was {last}{run}, and {difference}: each write of a micro-batch needs a writeId of "
        f"its own{advice}"
    )


def _difference_from_unbound(last: Progress, identity: Identity, content: Content) -> str | None:
    """As ``_difference``, for a file that names neither its owner nor a checksum of its rows.

    A stream's batch of the same number, with as many rows for the same topics, counts as a
    repetition. For a batch job this cannot be decided.
    """
    if identity.query is not None and identity.batch > last.batch:
        return None
    if identity.query is not None and identity.batch < last.batch:
        return f"batch {last.batch} was {last}, by a kstore that did not save the query's id"
    difference = last.content.describe_difference(replace(content, checksum=None))
    if difference is not None:
        return f"it was {last}, and {difference}"
    if identity.query is None:
        return (
            f"it was {last}, by a kstore that did not save a checksum of the rows, so it is "
            "unknown whether this job has the same rows (if so, they are published already)"
        )
    return None
