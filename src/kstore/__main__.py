"""``python -m kstore``: the command line."""

import sys

from kstore.cli import main

sys.exit(main())
