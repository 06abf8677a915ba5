"""What Spark and an older kstore kept between runs: a stream's checkpoint, files to resume from."""

import io
import lzma
import tarfile
from pathlib import Path

_ARCHIVE = Path(__file__).parents[1] / "data" / "spark-state.tar.xz"
_ROOT = "/tmp/spark_fix/root"


def unpack_spark_state(target: Path) -> Path:
    """Unpack the state; files to resume from name the new directory."""
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress(_ARCHIVE.read_bytes()))) as archive:
        archive.extractall(target, filter="data")
    for path in target.glob("*.json"):
        text = path.read_text()
        assert _ROOT in text
        path.write_text(text.replace(_ROOT, str(target)))
    return target
