"""Cold start: what a process does between its start and its first answer, and no more.

The first worker builds the model as any does, and writes the first input and, for a mode of a
SavedModel, the exported function with the mode's `jit_compile`. The processes that are timed read
these. One that loads a SavedModel never builds the model.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.backends.keras.cold_start import StartBench
from xla_sweeps.backends.keras.sources import LoadedModel
from xla_sweeps.backends.keras.training import raw
from xla_sweeps.backends.tensorflow import devices
from xla_sweeps.backends.tensorflow.bench import Bench
from xla_sweeps.backends.tensorflow.modes import ModeExecutable, parts_of
from xla_sweeps.schema.measurement import Agreement, Failure
from xla_sweeps.schema.modes import Entry, Mode, mode_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Precision, ReplicateJob
from xla_sweeps.worker.backend import Tell

INPUT, PRECISION = "input.npz", "precision"


@dataclass
class FirstAnswer(ModeExecutable):
    """A mode whose call ends when its outputs are in NumPy, as an answer is."""

    restored: Any = None
    """The loaded SavedModel; it owns the variables."""

    def first_call_s(self) -> float:
        """Seconds of the first call; nothing is collected meanwhile."""
        self.prepare()
        return self.timed_s(self.step)

    def synchronize(self) -> None:
        """Read all outputs."""
        for head in parts_of(self.last):
            np.asarray(head)


@dataclass
class ColdStartBench(StartBench[ModeExecutable], Bench):
    """The model of a process that answers once, or the SavedModel that is loaded in its place."""

    folder: Path = field(default_factory=Path)

    def share(self, folder: Path) -> None:
        """Write what the processes need that are timed."""
        self.folder = folder
        np.savez(folder / INPUT, *map(np.asarray, tf.nest.flatten(self.inputs[0])))
        (folder / PRECISION).write_text(self.built.precision)

    def make(self, mode: Mode) -> ModeExecutable:
        """Bind the model to a mode; a SavedModel is exported first, unless it was."""
        if mode.entry is not Entry.SAVED:
            kind = FirstAnswer if self.adopts else ModeExecutable
            return kind.bind(self.built.call, mode, self.inputs)
        place = self.folder / str(mode)
        if not place.exists():
            self._export(mode, place)
        began = time.perf_counter()
        restored = tf.saved_model.load(str(place))
        return FirstAnswer(
            mode=mode,
            run=restored.call,
            inputs=self.inputs,
            function=restored.call,
            concrete=restored.call.concrete_functions[0],
            trace_s=time.perf_counter() - began,
            restored=restored,
        )

    def _export(self, mode: Mode, place: Path) -> None:
        module = tf.Module()
        module.kept = list(map(raw, self.built.loaded.variables))
        module.call = ModeExecutable.bind(self.built.call, mode, self.inputs).function
        tf.saved_model.save(module, str(place))

    def comparison(self, executable: ModeExecutable, position: int = 0) -> Callable[[], Agreement]:
        """Compare the first answer itself."""
        return partial(self.compare, executable.last_outputs(), position)

    def add_reference(self, tell: Tell) -> bool:
        """Compute what tells rounding from an error where the model is there; else only once."""
        if self.built.params:
            return super().add_reference(tell)
        tried, self.references[0] = 0 in self.references, None
        return not tried

    def note_build(self, executable: ModeExecutable, tell: Tell) -> None:
        """Note what the first worker built."""
        if executable.mode.entry is not Entry.SAVED:
            super().note_build(executable, tell)

    def find_flaw(self, executable: ModeExecutable, tell: Tell) -> Failure | None:
        """None of a SavedModel, which has weights of its own."""
        if executable.mode.entry is Entry.SAVED:
            return None
        return super().find_flaw(executable, tell)


def adopt(job: ReplicateJob, device: str) -> ColdStartBench:
    """Prepare a process that is timed for its first call."""
    folder, trial = Path(job.shared), job.trial
    with np.load(folder / INPUT) as arrays:
        tensors = tuple(
            devices.place_tensor(tf.constant(array), device) for array in arrays.values()
        )
    return ColdStartBench(
        trial=trial,
        device=device,
        built=_build_model(job),
        facts=ModelFacts.of(trial.model),
        modes=job.modes,
        inputs=[tensors[0] if len(tensors) == 1 else tensors],
        adopts=True,
        folder=folder,
    )


def _build_model(job: ReplicateJob) -> BuiltModel:
    """The model, whose weights are loaded next; nothing where a SavedModel has it."""
    trial = job.trial
    if mode_of(job.modes[0]).entry is not Entry.SAVED:
        return ColdStartBench.build_model(trial)
    absent = LoadedModel(forward=lambda batch: batch, inputs=trial.model.inputs, variables=())
    return BuiltModel(
        loaded=absent,
        call=absent.forward,
        precision=Precision(Path(job.shared, PRECISION).read_text()),
    )
