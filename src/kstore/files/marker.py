"""Plain files that say what state a partition's folder is in: ``{"format":1}``, no more.

``kstore.moved`` and ``kstore.handover``. What a newer kstore means by one is not guessed at.
"""

import json

from kstore.errors import CorruptFileError, NewerFormatError
from kstore.files.files import Files

FORMAT = 1
CONTENT = b'{"format":%d}\n' % FORMAT


def is_there(files: Files, path: str) -> bool:
    """Whether a sign is there.

    Raises NewerFormatError for one of a newer kstore, CorruptFileError for anything else.
    """
    if files.kind(path) is None:
        return False
    data = files.read(path, limit=1 << 16)
    try:
        document = json.loads(data)
        version = document["format"]
        if not isinstance(version, int) or version < 1:
            raise ValueError(version)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CorruptFileError(
            f"not a file of kstore's: {data[:40]!r}; move it away if nothing else is meant by it",
            path=path,
        ) from None
    if version > FORMAT:
        raise NewerFormatError(
            f"format {version} was written by a newer kstore; this one knows {FORMAT}. Open the "
            "store with the newer one, which finishes what it began",
            path=path,
        )
    return True
