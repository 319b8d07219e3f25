"""`python -m xla_sweeps`, and the console script `xla-sweeps`."""

from __future__ import annotations

import os
import signal
import sys

from xla_sweeps.system import streams
from xla_sweeps.system.process import Assignment, die_with_parent


def main() -> None:
    """Run the command line and exit with its code."""
    streams.protect()
    parent = Assignment.of(os.environ).parent
    if parent:  # the launcher's: a trial that it can no longer watch is stopped, and saved
        die_with_parent(parent, signal.SIGTERM)
    from xla_sweeps.cli.main import run

    sys.exit(run(sys.argv[1:]))


if __name__ == "__main__":
    main()
