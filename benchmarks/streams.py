"""Time streams of 10, 40 and 200 calls between two synchronizations; compare trials with them.

python -m benchmarks.streams --out FILE.csv WORD...       words of a trial; modes of one backend
python -m benchmarks.streams --compare FILE.csv RESULTS   ratio to the trial's figure

The first runs in a process of its own, without rounds, blocks or turns: what a trial publishes of a
stream has to be the same. Run the trial itself with the same words.
"""

from __future__ import annotations

import csv
import io
import os
import pkgutil
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.backend import backends_of
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.trial import ReplicateJob, Trial
from xla_sweeps.store import rows
from xla_sweeps.trial.workers import worker_environment
from xla_sweeps.worker.backend import Executable, Framework

CALLS = (10, 40, 200)

REPETITIONS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What a stream and a trial have to agree in to be compared."""

    model: str
    resolution_px: int | None
    batch_size: int
    scenario: str
    precision: str
    tf32: bool
    mode: str


def main() -> None:
    """Time streams and keep them as CSV, or compare a file of them with a results folder."""
    what, file, *words = sys.argv[1:]
    if what == "--compare":
        compare(Path(file), Path(words[0]))
    else:
        measure(Path(file), words)


def question(trial: Trial, label: str) -> Question:
    """The question that a mode of a trial answers."""
    return Question(
        model=trial.model.name,
        resolution_px=trial.model.resolution_px,
        batch_size=trial.batch_size,
        scenario=str(trial.scenario),
        precision=str(trial.precision),
        tf32=trial.tf32,
        mode=str(label),
    )


def measure(file: Path, words: list[str]) -> None:
    """Time streams of each mode, in turns, and write a line for each; print them as well."""
    settings = settings_of(compose_config(words))
    trial = settings.trial
    (backend,) = backends_of(trial)
    os.environ.update(worker_environment(trial, settings.device, backend))
    package = f"xla_sweeps.backends.{backend.name}"
    name = pkgutil.resolve_name(f"{package}.worker:FRAMEWORK")
    framework = pkgutil.resolve_name(f"{package}.{name}")()
    lines = [[*Question.__dataclass_fields__, "calls", "repetition", "call_s"]]
    for label, calls, repetition, call_s in _streams(framework, trial):
        values = map(_shown, asdict(question(trial, label)).values())
        lines.append([*values, str(calls), str(repetition), f"{call_s:.9f}"])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    file.write_text(text.getvalue())
    print(text.getvalue(), end="")


def _streams(framework: Framework, trial: Trial) -> Iterator[tuple[str, int, int, float]]:
    job = ReplicateJob(trial=trial, replicate=0, modes=trial.modes, order_seed=0)
    framework.configure(trial)
    with framework.device(trial):
        model = framework.build(job)
        model.run_eagerly(lambda event: None)
        executables = {label: model.bind(str(mode_of(label))) for label in trial.modes}
        for executable in executables.values():
            executable.first_call_s()
            for _ in range(2):  # untimed
                _stream_s(executable, CALLS[0])
        for repetition in range(REPETITIONS):
            for calls in CALLS:
                for label, executable in executables.items():
                    yield label, calls, repetition, _stream_s(executable, calls) / calls


def _stream_s(executable: Executable, calls: int) -> float:
    """Seconds of so many calls, from one synchronization to the next."""
    executable.prepare()
    executable.synchronize()
    began = time.perf_counter()
    for _ in range(calls):
        executable.step()
    executable.synchronize()
    return time.perf_counter() - began


def compare(file: Path, results: Path) -> None:
    """Print the medians of streams beside each trial's figure, and the ratio of both."""
    streams: dict[tuple[str, ...], list[float]] = defaultdict(list)
    with file.open(newline="") as handle:
        for line in csv.DictReader(handle):
            key = tuple(line[name] for name in Question.__dataclass_fields__)
            streams[(*key, line["calls"])].append(float(line["call_s"]))
    records, trials, _ = rows.summaries(results, rows.load(results))
    print("| model | batch | mode | calls | stream, ms | trial, ms | trial / stream |")
    print("|---|---|---|---|---|---|---|")
    for name, summary in trials.items():
        trial = records[name][-1].trial
        for mode in summary.modes:
            per_s = mode.columns.throughput_samples_per_s
            key = tuple(map(_shown, asdict(question(trial, mode.label)).values()))
            for calls in map(str, CALLS):
                times = streams.get((*key, calls))
                if per_s and times:
                    stream, own = statistics.median(times), trial.samples / per_s
                    print(
                        f"| {trial.model.name} | {trial.batch_size} | {mode.label} | {calls} "
                        f"| {stream * 1e3:.3f} | {own * 1e3:.3f} | {own / stream:.4f} |"
                    )


def _shown(value: object) -> str:
    """A value as `csv` writes it."""
    return "" if value is None else str(value)


if __name__ == "__main__":
    main()
