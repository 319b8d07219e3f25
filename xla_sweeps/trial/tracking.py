"""Trackers: copy a trial's results to another place; the records on disk remain authoritative.

A tracker never raises into a trial nor delays it: its problems are warnings in its report.
"""

from __future__ import annotations

import os
import pkgutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from xla_sweeps.schema.backend import Backend, backends_of
from xla_sweeps.schema.comparisons import headline_candidates, headline_of, is_told_by
from xla_sweeps.schema.environment_options import TRACKERS, WANDB_DIR
from xla_sweeps.schema.measurement import Round
from xla_sweeps.schema.modes import mode_of
from xla_sweeps.schema.overrides import asked_of, data_name, inputs_text, runtime_text
from xla_sweeps.schema.record import GpuSpan, Record
from xla_sweeps.schema.row import TrialSummary, precision_words
from xla_sweeps.schema.trial import TrackerSettings, Trial, size_text


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHeader:
    """A run as known before it is measured.

    Attributes:
        name: readable name: "efficientnetv2s 384 xla cpu".
        scalars: the flat values by which runs are filtered and grouped (`model`, `host`, ...).
        results_dir: the results folder; the tracker keeps its files below it, unless `WANDB_DIR`
            is set.
    """

    trial_id: str
    name: str
    modes: Sequence[str]
    scalars: Mapping[str, Any]
    tags: Sequence[str]
    results_dir: Path
    tracker: TrackerSettings
    connect_timeout_s: float = 20.0
    finish_timeout_s: float = 60.0

    @property
    def wandb_dir(self) -> Path:
        """The folder in which W&B's client makes its folder `wandb`."""
        return Path(os.environ.get(WANDB_DIR) or self.results_dir).absolute()


def run_header(
    trial: Trial,
    tracker: TrackerSettings,
    *,
    trial_id: str,
    device_kind: str,
    device_name: str,
    environment: Mapping[str, Any],
    results_dir: Path,
) -> RunHeader:
    """The header of a trial's run, with an environment as a record has it."""
    model, modes, scenario = trial.model, trial.modes, trial.scenario
    candidate = mode_of(headline_candidates(modes)[0]) if len(modes) > 1 else mode_of(modes[0])
    size = size_text(model.task, model.resolution_px)
    words = [*([size] if size else []), f"b{trial.batch_size}"]
    words += [] if is_told_by(scenario, candidate) else [str(scenario)]
    words += trial.shapes
    words += precision_words(trial.precision, trial.tf32)
    return RunHeader(
        trial_id=trial_id,
        name=tracker.run_name or " ".join([model.name, *words, candidate, device_name]),
        modes=modes,
        scalars={
            **_trial_scalars(trial),
            "xla": candidate == headline_of(scenario)[1],
            "accelerator": device_name,
            "device_kind": device_kind,
            **_environment_scalars(environment, *backends_of(trial)),
        },
        tags=(model.family, model.source, device_kind, *tracker.tags),
        results_dir=results_dir,
        tracker=tracker,
    )


_SCALARS = ("model", "source", "resolution", "batch_size", "batches", "keras", "precision", "tf32")


def _trial_scalars(trial: Trial) -> dict[str, Any]:
    """Options of the trial; W&B passes keys that are options back when it resumes a run."""
    asked, model, training = asked_of(trial), trial.model, trial.training
    data, steps, inputs = data_name(trial), trial.steps_per_execution, inputs_text(trial)
    cache = trial.compile_cache
    return {
        **{name: asked[name] for name in _SCALARS},
        "variant": model.variant,
        "family": model.family,
        "task": model.task,
        **({"optimizer": training.optimizer} if training else {}),
        **({"data": data} if data else {}),
        **({"steps_per_execution": steps} if steps > 1 else {}),
        **({"compile_cache": cache} if cache != "off" else {}),
        **({"shapes": " ".join(trial.shapes)} if trial.shapes else {}),
        **({"path": asked["path"]} if asked["path"] else {"weights": asked["weights"]}),
        **({"inputs": inputs} if inputs else {}),
        "scenario": asked["scenario"],
        "effort": asked["effort"],
        "execution_modes": asked["modes"],
        "pretrained": asked["weights"] != "random",
        "runtime": runtime_text(trial),
    }


def _environment_scalars(environment: Mapping[str, Any], *measured: Backend) -> dict[str, Any]:
    """Environment of the trial; "" for what is missing or unknown."""
    packages, driver, flags = (
        environment.get(key) or {} for key in ("packages", "driver", "flags")
    )
    return {
        **{
            key: packages.get(name, "")
            for backend in measured
            for key, name in backend.tracked.items()
        },
        **{name: driver.get(name, "") for name in ("driver", "cuda")},
        **{name: environment.get(name, "") for name in ("host", "python", "xla_sweeps", "git")},
        "flags": " ".join(f"{name}={value}" for name, value in sorted(flags.items())),
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class TrackerReport:
    """End of tracking.

    Attributes:
        place: the URL or folder of the run; "" without tracking.
    """

    place: str
    complete: bool
    warnings: tuple[str, ...] = ()


class Tracker:
    """One run of one trial; this one does nothing. Every call returns quickly, whatever the server.

    Attributes:
        title: what the place of a run is called; "" for the tracker's name.
    """

    title: ClassVar[str] = ""

    def require(self) -> None:
        """Refuse a trial that could not be tracked, before anything is measured.

        Raises:
            ConfigError: the message says what to do.
        """

    def open(self, header: RunHeader) -> None:
        """Start opening the run; returns before a connection exists."""

    def begin(self) -> None:
        """Open the run's place, unless it is: a model is built, so there is something to keep."""

    def log_rounds(
        self,
        replicate: int,
        rounds: Sequence[Round],
        *,
        batch_size: int,
        gpu: Sequence[GpuSpan] = (),
    ) -> None:
        """Send finished rounds; called between timed rounds only.

        `gpu` is what the GPU has reported since the replicate began.
        """

    def preempt(self) -> None:
        """Mark the run as interrupted, to be resumed later."""

    def finish(
        self, records: Sequence[Record], summary: TrialSummary | None, *, exit_code: int
    ) -> TrackerReport:
        """Write the summary and close the run, within `finish_timeout_s`."""
        return TrackerReport(place="", complete=True)


def tracker_named(name: str) -> Tracker:
    """The tracker with that name; its module is imported here."""
    tracker: Tracker = pkgutil.resolve_name(TRACKERS[name][0])()
    return tracker
