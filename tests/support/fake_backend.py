"""Two backends without any framework: a whole trial of them by the real command line.

Started as `python fake_backend.py ARGUMENTS`, it is xla-sweeps with two backends more, each of six
modes: `fake_xla`, `other_xla`. $FAKE_FAULT, or a file `fault` of the current folder, is what goes
wrong in a mode: `fake_xla:wrong`, `fake_xla:absent`, `fake_xla:crash`, or `fake_xla:later` from its
second start in the folder on. A file `repeat` says how often a call computes. `fake:build` is a
fault of a backend, `adopt` of both.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from xla_sweeps.schema import modes
from xla_sweeps.schema.backend import BACKENDS, Backend, KnownFailure
from xla_sweeps.schema.measurement import INPUTS, Agreement, Status
from xla_sweeps.schema.modes import Mode
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Precision, ReplicateJob, Trial
from xla_sweeps.worker import agreement, server
from xla_sweeps.worker.backend import Tell
from xla_sweeps.worker.replicate import Replicate

FAKE = Backend(
    name="fake",
    title="FakeWork",
    programs={"worker": (sys.executable, __file__, "--worker", "FakeWork")},
    packages={"numpy": ("numpy",)},
    identity=("numpy",),
    shown={"fake": "FakeWork"},
    variables={"FAKE_BACKEND": "numpy"},
    prefixes=("FAKE",),
    failures=(
        KnownFailure(
            expression=re.compile(r"no fake kernel for (?P<op>\w+)"),
            status=Status.UNSUPPORTED_OP,
            message="FakeWork has no {op}",
            hint="take another",
        ),
    ),
)

OTHER = replace(
    FAKE,
    name="other",
    title="OtherWork",
    programs={"worker": (sys.executable, __file__, "--worker", "OtherWork")},
    shown={"other": "OtherWork"},
    variables={"FAKE_BACKEND": "other"},
)


def declare() -> None:
    """Declare the backends in `schema.backend` and `schema.modes`."""
    for name in ("fake", "other"):
        BACKENDS[name] = f"{__name__}:{name.upper()}"
        _declare_modes(name)


def _declare_modes(backend: str) -> None:
    twins = (Mode.EAGER, Mode.GRAPH, Mode.XLA, Mode.INPUT, Mode.FIT_GRAPH, Mode.FIT_XLA)
    for twin in twins:
        mode = str.__new__(Mode, f"{backend}_{twin}")
        mode._name_ = mode._value_ = f"{backend}_{twin}"
        mode.entry, mode.execution, mode.steps, mode.backend = *twin.role, backend
        modes.MODES[str(mode)] = mode  # type: ignore[index]
        modes._WORDS[mode] = (f"{backend} {twin}", f"{backend}({twin})")  # type: ignore[index]
        for scenario, facts in modes.SCENARIOS.items():
            if twin in facts.modes:
                more = replace(facts, modes=(*facts.modes, mode))
                modes.SCENARIOS[scenario] = more  # type: ignore[index]


def _own(name: str, default: str) -> str:
    """The content of a file in the current folder, as a model's code may have it."""
    file = Path(name)
    return file.read_text().strip() if file.is_file() else default


def _has_started() -> bool:
    """True from the second call in the current folder on."""
    started = Path("started")
    was_there = started.exists()
    started.touch()
    return was_there


@dataclass
class FakeExecutable:
    """A product of matrices."""

    mode: Mode
    weights: np.ndarray
    inputs: np.ndarray
    trace_s: float | None = 0.01
    position: int = 0
    repeat: int = field(default_factory=lambda: int(_own("repeat", "1")))
    fault: str = field(default_factory=lambda: _own("fault", os.environ.get("FAKE_FAULT", "")))
    result: np.ndarray = field(default_factory=lambda: np.zeros(0))
    calls: int = 0

    def is_to(self, fault: str) -> bool:
        return self.fault == f"{self.mode}:{fault}"

    def prepare(self) -> None: ...

    def step(self) -> None:
        self.calls += 1
        if self.is_to("slow_start") and self.calls <= 60:
            time.sleep(0.02)
        for _ in range(self.repeat):
            self.result = self.inputs @ self.weights
        if self.is_to("wrong_late") and self.calls > 60:
            self.result = self.result * 1.5

    def synchronize(self) -> None: ...

    def renew(self) -> bool:
        return False

    def first_call_s(self) -> float:
        if self.is_to("crash"):
            os.kill(os.getpid(), signal.SIGSEGV)
        if self.is_to("unknown") or (self.is_to("later") and _has_started()):
            raise ValueError("no fake kernel for MatMul")
        begun = time.perf_counter()
        self.step()
        return time.perf_counter() - begun

    def outputs(self, position: int = 0) -> list[np.ndarray]:
        self.step()
        return [self.result * (2 if self.is_to("wrong") else 1)]

    def count_operations(self) -> int | None:
        return None

    def traces(self) -> int:
        return 1

    def extras(self) -> Mapping[str, Any]:
        return {}


class FakeVariable(np.ndarray):
    """An array to which another one can be assigned, unless $FAKE_FAULT is `adopt`."""

    def assign(self, other: np.ndarray) -> None:
        if os.environ.get("FAKE_FAULT") != "adopt":
            self[:] = other


class FakeModel:
    """Random weights, other ones in each backend."""

    deterministic, draws = True, False
    compared_inputs = INPUTS
    starts_up = False

    def __init__(self, job: ReplicateJob, backend: str) -> None:
        self.backend, spec = backend, job.trial.model
        if os.environ.get("FAKE_FAULT") == f"{backend}:build":
            raise ValueError("no fake kernel for Conv2D")
        random = np.random.default_rng([job.trial.seed, *backend.encode()])
        self.weights = random.normal(size=(64, 10)).view(FakeVariable)
        self.inputs = np.random.default_rng(job.trial.seed).normal(size=(8, 64))
        self.built = SimpleNamespace(loaded=SimpleNamespace(variables=[self.weights]))
        self.eager: list[np.ndarray] = []
        self.later: list[list[np.ndarray]] = []
        self.facts = replace(
            ModelFacts.of(spec),
            params=self.weights.size,
            eager_is_graph=job.trial.scenario == "call",
        )
        self.seconds: dict[str, float] = {}

    def synchronization(self) -> Mapping[str, Any]:
        return {}

    def run_eagerly(self, tell: Tell) -> None:
        self.eager = [self.inputs @ self.weights]

    def add_reference(self, tell: Tell) -> bool:
        return False

    def bind(self, mode: str) -> FakeExecutable:
        return FakeExecutable(modes.mode_of(mode), self.weights, self.inputs)

    def prove(self, executable: FakeExecutable) -> Mapping[str, Any]:
        absent = executable.is_to("absent")
        return {"in_force": not absent, "reason": "nothing was compiled" if absent else ""}

    def comparison(self, executable: FakeExecutable, position: int = 0) -> Callable[[], Agreement]:
        outputs, expected = executable.outputs(position), self.eager
        exact = Precision.FLOAT32
        return partial(agreement.compare, outputs, expected, precision=exact, classes=True)

    def comparison_of_last(
        self, executable: FakeExecutable, position: int
    ) -> Callable[[], Agreement]:
        exact = Precision.FLOAT32
        return partial(
            agreement.compare, [executable.result], self.eager, precision=exact, classes=True
        )

    def expect(self, executable: FakeExecutable) -> bool:
        return False

    def note_build(self, executable: FakeExecutable, tell: Tell) -> None: ...

    def count_macs(self, tell: Tell) -> None: ...

    def find_flaw(self, executable: FakeExecutable, tell: Tell) -> None: ...

    def runs_away(self, executable: FakeExecutable, calls: int) -> str:
        return ""

    def reset_steady_memory(self) -> None: ...

    def steady_memory_bytes(self, executable: FakeExecutable, *, call_s: float) -> int | None:
        return None


@dataclass(frozen=True)
class FakeWork:
    """A framework, loaded."""

    name: str = "fake"

    def configure(self, trial: Trial) -> None: ...

    def environment(self) -> Mapping[str, Any]:
        return {self.name: "1.2", "variable": os.environ["FAKE_BACKEND"]}

    def device(self, trial: Trial) -> contextlib.AbstractContextManager[object]:
        return contextlib.nullcontext()

    def build(self, job: ReplicateJob) -> FakeModel:
        return FakeModel(job, self.name)


def use_fakes() -> None:
    """Have this process's trials run on them, whatever the other tests do beside it."""
    from fake_trial import take_no_notice

    declare()
    take_no_notice()


if __name__ == "__main__":
    if sys.argv[1] == "--worker":
        declare()
        title = sys.argv[2]
        del sys.argv[1:3]
        load = partial(FakeWork, title.removesuffix("Work").lower())
        server.main(lambda channel: Replicate(load, channel.send, title=title).answer)
    from xla_sweeps.__main__ import main

    use_fakes()
    main()
