"""The end of a trial in a folder of many records: analyse it, judge it against the A/A floor.

The records are made first (that is not timed). Each end is a process of its own, as in a sweep; the
imports are not timed. The first one in a folder where nothing is kept reads everything.

    python benchmarks/trial_end.py [--records 10000] [--repeat 5]
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.page_building import make_records

END = """
import sys, time
from pathlib import Path
import scipy.special
from xla_sweeps.store.rows import end_trial
from xla_sweeps.store.store import Store
started = time.perf_counter()
assert end_trial(Store(Path(sys.argv[1])), sys.argv[2])[0] is not None
print(time.perf_counter() - started)
"""


def main() -> None:
    """Make the records, then end trials."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        make_records(folder, options.records)
        trials = sorted(path.name for path in (folder / "records").iterdir())
        took = []
        for trial in trials[: options.repeat + 1]:
            done = subprocess.run(
                [sys.executable, "-c", END, str(folder), trial],
                check=True,
                capture_output=True,
                text=True,
            )
            took.append(float(done.stdout))
    shown = ", ".join(f"{1e3 * value:.0f}" for value in took[1:])
    print(f"{options.records:,} records")
    print(f"first end, nothing kept: {took[0]:.2f} s")
    print(f"later ends: {1e3 * statistics.median(took[1:]):.0f} ms (median of {shown})")


if __name__ == "__main__":
    main()
