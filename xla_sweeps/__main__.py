"""`python -m xla_sweeps`, and the console script `xla-sweeps`."""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line and exit with its code."""
    from xla_sweeps.cli import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
