"""Runs a sweep definition on this machine: each trial is the command that a person would type, one after the other."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import yaml

from xla_sweeps.composition import check_file, compose_config
from xla_sweeps.config import to_settings
from xla_sweeps.errors import ConfigError
from xla_sweeps.sweep import Sweep, expand, parse_sweep

_ENDED = {0: "measured", 1: "failed", 2: "refused"}


def load_sweep(path: Path) -> Sweep:
    """Read and check a definition; the file is bounded before it is parsed.

    Raises:
        ConfigError: with file and line.
    """
    check_file(path)
    return parse_sweep(yaml.safe_load(path.read_text(encoding="utf-8")), where=str(path))


def run(path: Path, overrides: Sequence[str], *, dry_run: bool, max_trials: int, seed: int) -> int:
    """Run every trial, or print the commands; the exit code is 1 where a trial failed, 130 where it was stopped.

    Raises:
        ConfigError: the definition is wrong, or stands for more trials than `max_trials`; nothing was started.
    """
    sweep = load_sweep(path)
    if sweep.trials > max_trials:
        raise ConfigError(f"{path}: {sweep.trials:,} trials are more than --max-trials={max_trials:,}")
    given = {text.partition("=")[0] for text in overrides}
    trials = [
        [*(word for word in words if word.partition("=")[0] not in given), *overrides]
        for words in expand(sweep, seed=seed)
    ]
    unique = [list(words) for words in dict.fromkeys(tuple(words) for words in trials)]
    for words in unique:
        to_settings(compose_config(words), explicit={word.partition("=")[0] for word in words})
    if dry_run:
        for words in unique:
            print(shlex.join(["python", "-m", "xla_sweeps", *words]))
        print(f"{len(unique)} trials of {sweep.name}", file=sys.stderr)
        return 0
    return _run_all(sweep, unique)


def _run_all(sweep: Sweep, trials: Sequence[Sequence[str]]) -> int:
    counts: Counter[str] = Counter()
    started = time.monotonic()
    for number, words in enumerate(trials, 1):
        left = (time.monotonic() - started) / max(1, number - 1) * (len(trials) - number + 1)
        eta = f"  eta {left / 60:.0f} min" if number > 1 else ""
        print(f"{sweep.name} {number}/{len(trials)}  {' '.join(words)}{eta}", file=sys.stderr, flush=True)
        group = f"tracker.group={sweep.name}"
        code = subprocess.run([sys.executable, "-m", "xla_sweeps", *words, group], check=False).returncode
        if code in (130, 143):
            print(f"{sweep.name}: stopped at {number}/{len(trials)}", file=sys.stderr)
            return code
        counts[_ENDED.get(code, "died")] += 1
    print(f"{sweep.name}: {', '.join(f'{count} {word}' for word, count in counts.items())}", file=sys.stderr)
    return 0 if set(counts) <= {"measured"} else 1
