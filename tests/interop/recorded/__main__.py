"""Record again: PYTHONPATH=tests:src python -m interop.recorded [PART OF A CLIENT'S NAME ...].

With names only those sessions are replaced. What was recorded is summed up.
"""

import sys
import tempfile
from collections import Counter
from pathlib import Path

from interop.recorded.brokers import followers, kraft, zookeeper
from interop.recorded.recording import recorded, write_recorded
from interop.recorded.session import Session, exchanges


def main(*wanted: str) -> int:
    sessions = {each.name: each for each in recorded()} if wanted else {}
    for record in (kraft, zookeeper, followers):
        with tempfile.TemporaryDirectory() as directory:
            for session in record(Path(directory), wanted):
                sessions[session.name] = session
                print(_summary(session), flush=True)
        write_recorded([*sessions.values()])
    return 0


def _summary(session: Session) -> str:
    pairs = Counter(f"{each.api.name} {each.pair[1]}" for each in exchanges(session))
    size = sum(len(each.data) for each in session.frames)
    return f"{session.name}: {size} bytes, {dict(sorted(pairs.items()))}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
