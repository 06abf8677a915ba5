"""State that Spark and an older kstore kept between runs: a checkpoint, and resume files."""

from pathlib import Path

from kafka_files.data_sets import unpack

_ROOT = "/tmp/spark_fix/root"


def unpack_spark_state(target: Path) -> Path:
    """Unpack the state; the resume files get the new directory."""
    for path in unpack("spark-state", target).glob("*.json"):
        text = path.read_text()
        assert _ROOT in text
        path.write_text(text.replace(_ROOT, str(target)))
    return target
