"""The generated modules of ``kstore/protocol/messages`` and ``records``.

Run as a script it rewrites them; ``tests/unit/protocol/test_generate.py`` compares.
"""

import subprocess
import sys
from pathlib import Path

from kstore.protocol.schema import generate, table

PROTOCOL = Path(__file__).resolve().parents[2] / "src/kstore/protocol"
MODULES = {
    PROTOCOL / "messages": generate.modules(table.load()),
    PROTOCOL / "records": generate.record_modules(table.load("records.txt")),
}


def main() -> None:
    for folder, texts in MODULES.items():
        written = []
        for name, text in texts.items():
            path = folder / f"{name}.py"
            path.write_text(text)
            written.append(path)
        for path in set(folder.glob("*.py")) - {*written, folder / "__init__.py"}:
            path.unlink()
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", *written], check=True)


if __name__ == "__main__":
    main()
