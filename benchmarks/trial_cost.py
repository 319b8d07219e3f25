"""CPU seconds of the measuring process of a trial, by stage, of several checkouts in turn.

Effort quick, eager, graph and XLA, batch 4, without a monitor: what else runs on the machine then
changes the wall time, but hardly this.

    python benchmarks/trial_cost.py [--checkout DIR ...] [--repetitions 3] [MODEL:PX ...]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]

MODELS = ("mobilenet_v2:96", "mobilenet_v3_small:96", "efficientnetb0:96")


class Nobody:
    """A watcher that sees nothing."""

    gpu = None

    def review(self, rounds: Any) -> dict[int, str]:
        """No round is contaminated."""
        return {}

    def loads(self, rounds: Any) -> dict[int, Any]:
        """Nothing is known."""
        return {}

    def disturbance(self) -> str:
        """Nothing disturbs."""
        return ""

    def summary(self) -> dict[str, Any]:
        """Nothing was seen."""
        return {}


def measure(model: str, px: str) -> dict[str, float]:
    """Measure one replicate with the package on the path; CPU seconds by stage and in all."""
    from xla_sweeps.config.compose import compose_config
    from xla_sweeps.config.settings import to_settings
    from xla_sweeps.measure import process, protocol
    from xla_sweeps.measure.runner import child_environment
    from xla_sweeps.schema.trial import ReplicateJob
    from xla_sweeps.system.leases import Leases

    words = [f"model={model}", f"resolution={px}", "effort=quick", "device=cpu"]
    settings = to_settings(compose_config(words))
    trial = settings.trial
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=1)
    spent: dict[str, float] = defaultdict(float)
    stage, since = "start", 0.0
    pid = [0]

    def noted(event: Any) -> None:
        nonlocal stage, since
        if isinstance(event, protocol.Stage):
            now = cpu_s(pid[0])
            spent[stage] += now - since
            stage, since = " ".join(filter(None, (event.phase, event.mode, event.detail))), now

    @contextmanager
    def watched(child: int, exceeded: Callable[[], None]) -> Iterator[Nobody]:
        pid[0] = child
        yield Nobody()

    with tempfile.TemporaryDirectory() as folder, process.Stop() as stop:
        attempt = process.run_attempt(
            job,
            environment=child_environment(trial, settings),
            log=Path(folder, "log"),
            watch=watched,
            stop=stop,
            leases=Leases((), holder=""),
            on_event=noted,
        )
    assert attempt.finished, attempt.failure
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent["all"] = used.ru_utime + used.ru_stime
    spent[stage] += spent["all"] - since
    spent["rounds"] = len(attempt.rounds)
    return dict(spent)


def cpu_s(pid: int) -> float:
    """CPU seconds that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def in_checkout(folder: Path, model: str) -> dict[str, float]:
    """The same by the package of a checkout, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--one", model],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure the checkouts in turn, and print the medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", default=MODELS, metavar="MODEL:PX")
    parser.add_argument("--checkout", action="append", type=Path, help="default: this one")
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(*options.models[0].split(":"))))
        return
    checkouts = [folder.resolve() for folder in options.checkout or [HERE]]
    for model in options.models:
        found: dict[Path, list[dict[str, float]]] = defaultdict(list)
        for number in range(options.repetitions):
            for folder in checkouts if number % 2 == 0 else checkouts[::-1]:
                found[folder].append(in_checkout(folder, model))
        print(f"\n| {model} | {' | '.join(map(str, checkouts))} |\n|---|{'---|' * len(checkouts)}")
        for stage in dict.fromkeys(name for runs in found.values() for run in runs for name in run):
            cells = [
                f"{statistics.median(run.get(stage, 0.0) for run in found[folder]):.2f}"
                for folder in checkouts
            ]
            print(f"| {stage} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
