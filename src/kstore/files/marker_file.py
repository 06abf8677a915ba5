"""Marker files for the state of a partition's folder, with the content ``{"format":1}``.

``kstore.moved`` and ``kstore.handover``. The markers of a newer kstore are not interpreted.
"""

import json

from kstore.errors import CorruptFileError, NewerFormatError
from kstore.files.files import Files

FORMAT = 1
CONTENT = b'{"format":%d}\n' % FORMAT


def exists(files: Files, path: str) -> bool:
    """Whether a marker exists.

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
            f"not a file of kstore: {data[:40]!r}; move it away if it has no other purpose",
            path=path,
        ) from None
    if version > FORMAT:
        raise NewerFormatError(
            f"format {version} was written by a newer kstore; this one knows {FORMAT}. Open the "
            "store with the newer one, which finishes its work",
            path=path,
        )
    return True
