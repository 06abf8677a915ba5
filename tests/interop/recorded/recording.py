"""The sessions in tests/data: JSON in one compressed file, the frames in base64."""

import base64
import json
import lzma
from functools import cache

from interop.recorded.session import Frame, Session
from kafka_files.data_sets import DATA

_FILE = DATA / "recorded-clients.json.xz"


@cache
def recorded() -> tuple[Session, ...]:
    """All sessions, in the order in which they were recorded at one broker."""
    found = json.loads(lzma.decompress(_FILE.read_bytes()))
    return tuple(
        Session(
            each["name"],
            each["time"],
            tuple(each["topics"]),
            tuple(Frame(at, kind, base64.b64decode(data)) for at, kind, data in each["frames"]),
        )
        for each in found
    )


def write_recorded(sessions: list[Session]) -> None:
    """Keep sessions in tests/data."""
    shown = [
        {
            "name": session.name,
            "time": session.time,
            "topics": session.topics,
            "frames": [
                (each.connection, each.kind, base64.b64encode(each.data).decode())
                for each in session.frames
            ],
        }
        for session in sessions
    ]
    text = json.dumps(shown, indent=0)
    _FILE.write_bytes(lzma.compress(text.encode(), preset=9))
