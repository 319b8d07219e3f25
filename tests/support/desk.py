"""A worker's desk in this process: benches are set up and modes prepared as a worker does."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from typing import Any

from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.scenarios import TensorFlow
from xla_sweeps.schema.measurement import ModeOutcome, Phase
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import error_text
from xla_sweeps.worker.replicate import Replicate


@dataclass
class Ready:
    """A mode that is ready to be measured."""

    executable: Any
    outcome: ModeOutcome


class Heard:
    """A channel that keeps what was sent.

    Attributes:
        outcomes: of the modes that were prepared, by label.
    """

    def __init__(self) -> None:
        self.events: list[protocol.Message] = []
        self.outcomes: dict[str, ModeOutcome] = {}
        self.stage = protocol.Stage(phase=Phase.IMPORT)

    def send(self, event: protocol.Message) -> None:
        self.events.append(event)
        if isinstance(event, protocol.Stage):
            self.stage = event


def set_up(job: ReplicateJob, heard: Heard | None = None) -> Bench:
    """A bench, as `Replicate` sets it up."""
    heard = heard or Heard()
    bench = TensorFlow().build(job)
    bench.run_eagerly(heard.send)
    if job.trial.effort.always_reference and job.replicate == 0:
        bench.add_reference(heard.send)
    return bench


def desk_of(job: ReplicateJob, bench: Bench, heard: Heard) -> Replicate:
    desk = Replicate(TensorFlow, heard.send, title="TensorFlow")
    desk._framework, desk._job, desk._model = TensorFlow(), job, bench
    return desk


def prepare_modes(job: ReplicateJob, bench: Bench, heard: Heard | None = None) -> dict[str, Ready]:
    """Prepare each mode of the job; those that are ready to be measured."""
    heard = heard or Heard()
    desk = desk_of(job, bench, heard)
    for label in job.modes:
        try:
            reply: Any = desk.answer(protocol.Prepare(mode=label))
        except Exception as error:
            traceback.print_exc()
            kind, text = type(error).__name__, error_text(error)
            phase = heard.stage.phase
            heard.send(protocol.Failed(phase=phase, kind=kind, text=text))
        else:
            heard.outcomes[label] = reply.outcome
    return {
        label: Ready(entry.executable, entry.outcome) for label, entry in desk._prepared.items()
    }


def warm_modes(job: ReplicateJob, bench: Bench, heard: Heard) -> dict[str, ModeOutcome]:
    """Prepare and warm each mode of the job; their outcomes."""
    desk = desk_of(job, bench, heard)
    for label in job.modes:
        desk.answer(protocol.Prepare(mode=label))
        desk.answer(protocol.WarmUp(mode=label))
    return {label: entry.outcome for label, entry in desk._prepared.items()}
