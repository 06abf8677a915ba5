"""Ask a broker, or compare answers, by hand.

PYTHONPATH=tests:src python -m interop.same_bytes ask 127.0.0.1:9092 kstore.json [FAMILY ...]
PYTHONPATH=tests:src python -m interop.same_bytes kafka 3.9.2 kafka.json [FAMILY ...]
PYTHONPATH=tests:src python -m interop.same_bytes compare kafka.json kstore.json
"""

import json
import sys
import tempfile
from pathlib import Path

from interop.kstore_node import kstore_node
from interop.same_bytes.asker import Answers
from interop.same_bytes.compare import differences, not_allowed
from interop.same_bytes.kafka import RECORDED_VERSION, default_node, recorded, write_recorded
from interop.same_bytes.questions import FAMILIES, SETTINGS, ask_all


def main(command: str, first: str = "", second: str = "", *families: str) -> int:
    chosen = families or tuple(FAMILIES)
    if command == "compare":
        return _compare(first, json.loads(Path(second).read_text()))
    with tempfile.TemporaryDirectory() as directory:
        root = Path(directory) / "node"
        if command == "ask":
            answers = ask_all(first, chosen)
        elif command == "kstore":
            with kstore_node(root, **SETTINGS) as serving:
                answers = ask_all(serving.address, chosen)
        else:
            with default_node(first or RECORDED_VERSION, root) as node:
                answers = ask_all(node.address, chosen)
    if command == "record":
        write_recorded(answers)
    else:
        Path(second).write_text(json.dumps(answers, indent=1))
    print(f"{len(answers)} questions")
    return 0


def _compare(first: str, kstore: Answers) -> int:
    kafka = recorded() if first == "recorded" else json.loads(Path(first).read_text())
    asked = {title: kafka[title] for title in kafka if title in kstore}
    found = differences(asked, kstore)
    remaining = not_allowed(found)
    print("\n".join(remaining))
    print(f"{len(remaining)} differences and {len(found) - len(remaining)} allowed ones")
    print(f"{len(asked)} of {len(kafka)} questions")
    return bool(remaining)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
