"""`python -m xla_sweeps`, and the console script `xla-sweeps`."""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run the command line and exit with its code."""
    _forget_current_folder()
    import signal

    from xla_sweeps.system import streams
    from xla_sweeps.system.process import EXIT_CODE, Assignment, die_with_parent, heed_signals

    heed_signals()
    streams.protect()
    assignment = Assignment.of(os.environ)
    if assignment.parent:  # a trial that the launcher can no longer watch is stopped, and saved
        die_with_parent(assignment.parent, signal.SIGTERM)
    from xla_sweeps.cli.main import run

    code = run(sys.argv[1:])
    if assignment.says_code:
        print(f"{EXIT_CODE}{code}", file=sys.stderr, flush=True)
    sys.exit(code)


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
