"""`python -m xla_sweeps`, and the console script `xla-sweeps`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    _forget_current_folder()
    import signal

    from xla_sweeps.system import streams
    from xla_sweeps.system.process import Assignment, die_with_parent

    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # ignored, it hides how a child has ended
    streams.protect()
    parent = Assignment.of(os.environ).parent
    if parent:  # the launcher's: a trial that it can no longer watch is stopped, and saved
        die_with_parent(parent, signal.SIGTERM)
    from xla_sweeps.cli.main import run

    sys.exit(run(sys.argv[1:]))


def _forget_current_folder() -> None:
    """Undo that `python -m` looks for modules in the current folder, before any further import.

    It may be somebody else's. It stays where this very package is in it.
    """
    try:
        here = os.getcwd()  # noqa: PTH109  (pathlib would be imported)
    except OSError:  # it was removed
        return
    if sys.path[0] == here and __file__ != f"{here}/xla_sweeps/__main__.py":
        del sys.path[0]


if __name__ == "__main__":
    main()
