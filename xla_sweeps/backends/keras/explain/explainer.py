"""Explain a model on any engine.

What is known is sent at once, so that a crash of a compiler costs what comes after it only.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import keras

from xla_sweeps.backends.keras import building
from xla_sweeps.backends.keras.explain import roofline
from xla_sweeps.backends.keras.explain.events import Event, OpWork
from xla_sweeps.backends.keras.explain.trace import time_of
from xla_sweeps.schema.backend import Backend
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, Place, Trap, Work
from xla_sweeps.schema.measurement import Phase
from xla_sweeps.schema.modes import Mode, Scenario
from xla_sweeps.schema.trial import Precision
from xla_sweeps.trial import protocol
from xla_sweeps.trial.failures import diagnose_exception, error_line, error_text
from xla_sweeps.worker.backend import Framework, Tell
from xla_sweeps.worker.timing import Executable

Scope = Callable[[str], AbstractContextManager[object]]
"""Begins something under a name."""


class Explainer(ABC):
    """The steps of explaining a model, which share what they left.

    Attributes:
        modes: the baseline, and the compiled mode that is explained.
        fastest: those that may be the fastest for one operation.
        lacks: parts that the engine does not have, with the reason.
        ran: executables that ran without an error, by mode.
    """

    backend: ClassVar[Backend]
    version: ClassVar[str]
    modes: ClassVar[tuple[Mode, Mode]]
    fastest: ClassVar[tuple[Mode, ...]]
    lacks: ClassVar[Mapping[str, str]] = {}

    def __init__(self, bench: Any, tell: Tell, **parts: Any) -> None:
        trial, loaded = bench.trial, bench.built.loaded
        self.bench, self.tell, self.batch = bench, tell, loaded.batch
        self.precision, self.tf32 = trial.precision, trial.tf32
        self.on_cpu = "CPU" in bench.device.upper()
        self.layers = building.all_layers(loaded.keras_model)
        self.ran = dict[Mode, Any]()
        self.explanation = Explanation(
            model=trial.model.name,
            framework=f"{self.backend.title} {self.version}",
            inputs=tuple(
                f"{each.name}{[trial.batch_size, *each.shape]} {each.dtype}"
                for each in bench.built.inputs
            ),
            **{"device": bench.device.upper(), "missing": self.lacks, **parts},
        )

    @classmethod
    def explain_job(cls, framework: Framework, request: protocol.Explain, tell: Tell) -> None:
        """Explain the model of a job on an engine, and send what is found."""
        trial = request.job.trial
        scenario = Scenario.DETECT if trial.scenario is Scenario.DETECT else Scenario.CALL
        trial = replace(trial, scenario=scenario, batches=1)
        framework.configure(trial)
        tell(protocol.Loaded(environment=framework.environment()))
        with framework.device(trial):
            tell(protocol.Stage(phase=Phase.BUILD, detail=trial.model.name))
            explaining = cls(framework.build(replace(request.job, trial=trial)), tell)
            explaining.explain(trace=request.trace)
            explaining.bound_calls()
            explaining.end(f"not looked for on {cls.backend.title}")

    @abstractmethod
    def explain(self, *, trace: bool) -> Explanation:
        """Explain all but how fast the model could be."""

    @abstractmethod
    def least_work(self) -> Work:
        """The least work of one call; `XlaSweepsError` if it is not known."""

    @abstractmethod
    def traced_calls(self) -> tuple[Sequence[Event], Mapping[Mode, Mapping[str, OpWork]]]:
        """Events of a few calls of both modes, and the work of each mode's operations by name."""

    def bind(self, call: Callable[[Any], Any], argument: Any) -> Sequence[Executable]:
        """A call on an argument in the fastest modes, called once."""
        executables = self.bench.engine.executables
        bound = [executables.bind(call, mode, [argument]) for mode in self.fastest]
        for executable in bound:
            executable.first_call_s()
        return bound

    def places_of(self, error: Exception) -> tuple[Place, ...]:
        """The places in the model that an error is about."""
        return ()

    def bound_calls(self) -> None:
        """Time what ran against the least time that the device could take."""
        if "roofline" in self.explanation.missing:
            return
        self.begin(Phase.MEASURE)
        with self.or_missing("roofline"):
            peaks = roofline.Peaks(self.bind, on_cpu=self.on_cpu, tf32=self.tf32)
            bound = roofline.measure_roofline(self.least_work(), self.ran, peaks)
            self.note(roofline=bound)

    def break_down(self) -> None:
        """Note where the time of both modes goes, unless that is missing."""
        if "time" in self.explanation.missing:
            return
        with self.or_missing("time"):
            events, work = self.traced_calls()
            plain = self.precision is Precision.FLOAT32 and not self.tf32
            self.note(time=time_of(events, work, plain=plain))

    def refuse(self, error: Exception, phase: Phase) -> None:
        """Note that the compiler does not take the model, and where."""
        traceback.print_exception(error)
        kind = type(error).__name__
        _, failure = diagnose_exception(phase, kind, error_text(error), backend=self.backend)
        self.note(
            compiler=CompilerVerdict(
                compiles=False,
                message=failure.message,
                advice=failure.hint,
                places=self.places_of(error),
            )
        )

    def begin(self, phase: Phase, mode: str = "") -> None:
        """Say that a stage begins."""
        self.tell(protocol.Stage(phase=phase, mode=mode))

    def note(self, *traps: Trap, **parts: Any) -> None:
        """Note and send what is known."""
        every = (*self.explanation.traps, *traps)
        self.explanation = replace(self.explanation, traps=every, **parts)
        self.tell(protocol.Explained(explanation=self.explanation))

    def miss(self, why: str, *parts: str) -> None:
        """Note why parts are not available, unless that is known."""
        self.note(missing={**dict.fromkeys(parts, why), **self.explanation.missing})

    def end(self, why: str) -> None:
        """Give this reason for whatever is not available."""
        self.explanation = self.explanation.complete(why)
        self.note()

    @contextmanager
    def or_missing(self, *parts: str) -> Iterator[None]:
        """Take what is raised for the reason why parts are not available."""
        try:
            yield
        except Exception as error:
            traceback.print_exc()
            self.miss(error_line(error), *parts)


def resize_batch(batch: Any, size: int) -> Any:
    """Resize a batch to `size` samples, by repeating its own."""

    def take_rows(tensor: Any) -> Any:
        return keras.ops.take(tensor, [row % len(tensor) for row in range(size)], axis=0)

    return keras.tree.map_structure(take_rows, batch)


@contextmanager
def calls_within(layers: Sequence[Any], scope: Scope) -> Iterator[None]:
    """Meanwhile, call each layer within a scope that is named `name (Class)`."""
    earlier = [(vars(layer), vars(layer).get("call")) for layer in layers]
    try:
        for layer in layers:
            vars(layer)["call"] = _within(scope, building.title(layer), layer.call)
        yield
    finally:
        for attributes, own in earlier:
            attributes.pop("call", None)
            if own is not None:  # tf_keras gives some layers a call of their own
                attributes["call"] = own


def _within(scope: Scope, name: str, call: Any) -> Any:
    def within(*values: Any, **named: Any) -> Any:
        with scope(name):
            return call(*values, **named)

    return within
