"""Collect and send what is known of a model, so that a crash costs what comes after it only."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import keras

from xla_sweeps.backends.keras.building import BuiltModel
from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, Place, Trap
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Scenario
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import diagnose_exception, error_line, error_text
from xla_sweeps.worker.backend import Framework, Tell


@dataclass
class Findings:
    """Findings about one model so far.

    Attributes:
        explanation: what it says.
        tell: sends an event.
    """

    explanation: Explanation
    tell: Tell

    def begin(self, phase: Phase, mode: str = "") -> None:
        """Say that a stage begins."""
        self.tell(protocol.Stage(phase=phase, mode=mode))

    def note(self, *new: Trap, **parts: Any) -> None:
        """Note and send what is known."""
        self.explanation = replace(self.explanation, traps=(*self.explanation.traps, *new), **parts)
        self.tell(protocol.Explained(explanation=self.explanation))

    def miss(self, why: str, *parts: str) -> None:
        """Note why parts are not available, unless that is known."""
        missing = {**dict.fromkeys(parts, why), **self.explanation.missing}
        self.note(missing=missing)

    def end(self, why: str) -> None:
        """Give this reason for whatever is not available."""
        self.explanation = self.explanation.completed(why)
        self.note()

    @contextmanager
    def or_missing(self, *parts: str) -> Iterator[None]:
        """Take what is raised for the reason why parts are not available."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.miss(error_line(error), *parts)


def begun(bench: Any, framework: str, missing: Mapping[str, str], **parts: Any) -> Explanation:
    """An explanation of which nothing but the model is known.

    Args:
        bench: has the model and its trial.
        framework: that runs it, with its version.
        missing: why it cannot tell some parts.
        parts: further ones.
    """
    return Explanation(
        model=bench.trial.model.name,
        device=bench.device.upper(),
        framework=framework,
        inputs=inputs_of(bench.built, bench.trial.batch_size),
        missing=missing,
        **parts,
    )


def inputs_of(built: BuiltModel, size: int) -> tuple[str, ...]:
    """The inputs of a model for batches of this size, with their types."""
    return tuple(f"{given.name}{[size, *given.shape]} {given.dtype}" for given in built.inputs)


def resized(batch: Any, size: int) -> Any:
    """A batch of so many samples of the same batch."""

    def taken(tensor: Any) -> Any:
        return keras.ops.take(tensor, [row % len(tensor) for row in range(size)], axis=0)

    return keras.tree.map_structure(taken, batch)


def refusal_of(
    error: Exception,
    phase: Phase,
    *,
    backend: Backend,
    places: Callable[[str], tuple[Place, ...]] = lambda text: (),
) -> CompilerVerdict:
    """A compiler's refusal of a model.

    Args:
        error: that it raised.
        phase: in which.
        backend: whose known errors it may be one of.
        places: the operations that its text names.
    """
    text = error_text(error)
    _, failure = diagnose_exception(phase, type(error).__name__, text, backend=backend)
    return CompilerVerdict(
        compiles=False, message=failure.message, advice=failure.hint, places=places(text)
    )


def explain_bench(
    request: protocol.Explain, tell: Tell, framework: Framework, explain: Callable[[Any], None]
) -> None:
    """Build the model of a job for its forward pass, and explain it.

    Args:
        request: names the job.
        tell: sends an event.
        framework: loaded.
        explain: is given the model.
    """
    trial = replace(request.job.trial, scenario=Scenario.CALL, batches=1)
    framework.configure(trial)
    tell(protocol.Loaded(environment=framework.environment()))
    with framework.device(trial):
        tell(protocol.Stage(phase=Phase.BUILD, detail=trial.model.name))
        explain(framework.build(replace(request.job, trial=trial)))
