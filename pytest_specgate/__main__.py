"""`python -m pytest_specgate` is the `specgate` command."""

from __future__ import annotations

import sys

from pytest_specgate.cli import main

if __name__ == "__main__":
    sys.exit(main())
