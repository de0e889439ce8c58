"""``python -m evener``: the same as the command ``evener``."""

import sys

from evener.cli import main

if __name__ == "__main__":
    sys.exit(main())
