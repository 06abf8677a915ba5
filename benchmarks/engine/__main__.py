"""The contests of the engine, with the options of ``kstore bench``.

    PYTHONPATH=benchmarks python -m engine --quick              # all of them
    PYTHONPATH=benchmarks python -m engine engine/append engine/read
    PYTHONPATH=benchmarks python -m engine --list
    PYTHONPATH=benchmarks python -m engine compare before.json after.json
    PYTHONPATH=benchmarks python -m engine compare --run ../before ../after engine/append

Peers that are not installed are listed; ``pip install 'kstore[bench]'`` installs most. Real Kafka
takes part with ``python benchmarks/with_kafka.py`` (Java 17; its jars are fetched once).
"""

import sys
from collections.abc import Sequence

from engine.workloads import CATALOG
from kstore.cli import PIPE_CLOSED, bench
from kstore.cli.common import ToolParser
from kstore.cli.standard_streams import forget_output
from kstore.errors import KStoreError
from kstore.signals import raising_terminated, status_of


def main(words: Sequence[str]) -> int:
    """Run the command; returns the exit status of ``kstore bench``."""
    parser = ToolParser(prog="python -m engine", description="Contests of kstore's engine.")
    bench.describe(parser)
    parser.epilog = (__doc__ or "").partition("\n\n")[2]
    arguments = parser.parse_in_any_order(words)
    is_bare = arguments.words == [] or (arguments.run and len(arguments.words) == 3)
    arguments.words += ["engine"] if is_bare else []
    try:
        with raising_terminated():
            status = bench.run(arguments, CATALOG)
            sys.stdout.flush()
            return status
    except BrokenPipeError:  # ``--list | head``
        forget_output(sys.stdout)
        return PIPE_CLOSED
    except KeyboardInterrupt as interrupt:
        return status_of(interrupt)
    except (KStoreError, OSError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
