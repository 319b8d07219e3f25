"""A fake device with a fake clock, on which every figure that is measured is exact."""

from __future__ import annotations

import gc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.measurement import INPUTS, Block, Failure, Phase, Round, Status
from xla_sweeps.schema.trial import Effort
from xla_sweeps.trial import pacing, rounds
from xla_sweeps.trial.failures import WorkerLost
from xla_sweeps.worker import timing

EFFORT = Effort(
    name="test",
    replicates=1,
    rounds_min=6,
    rounds_look=6,
    rounds_max=24,
    target_half_width=0.01,
    block_s=0.1,
    mode_cap_s=1e6,
    warmup_calls=5,
    warmup_s=0.5,
    warmup_cap_s=60,
    latency_calls=20,
    latency_cap_s=1e6,
    settle_s=1e6,
    hopeless_ends=False,
)


@dataclass
class Clock:
    """Nanoseconds that pass only on request."""

    now_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns

    def pass_s(self, seconds: float) -> None:
        self.now_ns += round(seconds * 1e9)


@dataclass
class Device:
    """An accelerator: a call returns after `enqueue_s`, its work on the device takes `work_s`.

    Attributes:
        costs: of the three inputs that rotate, by which the work is multiplied.
    """

    clock: Clock
    work_s: float
    enqueue_s: float = 0.001
    waits: bool = True
    noise: Sequence[float] = (1.0,)
    costs: Sequence[float] = (1.0, 1.0, 1.0)
    position: int = 0
    busy_until_ns: int = 0
    calls: int = 0
    log: list[str] = field(default_factory=list)
    gc_states: set[bool] = field(default_factory=set)

    def prepare(self) -> None:
        self.log.append("prepare")

    def step(self) -> None:
        self.clock.pass_s(self.enqueue_s)
        work_s = self.work_s * self.noise[self.calls % len(self.noise)] * self.costs[self.position]
        self.position = (self.position + 1) % len(self.costs)
        self.busy_until_ns = max(self.busy_until_ns, self.clock.now_ns) + round(work_s * 1e9)
        self.calls += 1
        self.log.append("step")
        self.gc_states.add(gc.isenabled())

    def synchronize(self) -> None:
        self.log.append("synchronize")
        if self.waits:
            self.drain()

    def drain(self) -> None:
        self.clock.now_ns = max(self.clock.now_ns, self.busy_until_ns)


@dataclass
class Direct:
    """Times executables of this process; `block` is a `TimeBlock`.

    Attributes:
        dies: the label in whose block, and the number of that block, `lost` are lost.
    """

    executables: Mapping[str, timing.Executable]
    clock: pacing.Clock
    dies: tuple[str, int] = ("", 0)
    lost: tuple[str, ...] = ()

    def block(self, label: str, calls: int, settle: bool, first: int, singles: int = 0) -> Block:
        if label == self.dies[0]:
            if not self.dies[1]:
                failure = Failure(phase=Phase.MEASURE, kind="SIGKILL", message="died")
                raise WorkerLost(self.lost, status=Status.CRASHED, failure=failure)
            self.dies = label, self.dies[1] - 1
        return timing.settled_block(
            self.executables[label],
            label,
            calls,
            settle=settle,
            clock=self.clock,
            first=first,
            singles=singles,
        )


def made(**work_s: float) -> tuple[Clock, dict[str, Device]]:
    """A clock, and modes whose work takes so long by it."""
    clock = Clock()
    return clock, {label: Device(clock, work_s=each) for label, each in work_s.items()}


def round_of(number: int, call_s: Mapping[str, float]) -> Round:
    """A round of single calls on one of the inputs, which take so long."""
    blocks = [
        Block(
            mode=mode,
            calls=1,
            elapsed_ns=round(1e9 * seconds),
            enqueue_ns=0,
            input=number % INPUTS,
        )
        for mode, seconds in call_s.items()
    ]
    return Round(round=number, order=tuple(call_s), blocks=tuple(blocks))


def quiet(rounds: Sequence[Round]) -> Sequence[Round]:
    """A review that finds nothing."""
    return rounds


def measured(
    devices: Mapping[str, Device],
    clock: Clock,
    *,
    calls: int | Mapping[str, int] = 2,
    dies: tuple[str, int] = ("", 0),
    lost: tuple[str, ...] = (),
    **more: Any,
) -> rounds.Interleaving:
    """Measure rounds of these modes, each so many calls a block; `more` is `Interleaving`'s."""
    given: dict[str, Any] = {"effort": EFFORT, "review": quiet, "on_design": lambda progress: None}
    return rounds.Interleaving(
        Direct(devices, clock, dies=dies, lost=lost).block,
        dict.fromkeys(devices, calls) if isinstance(calls, int) else calls,
        {label: device.work_s for label, device in devices.items()},
        seed=1,
        clock=clock,
        **{**given, **more},
    ).measure()


@cache
def level(name: str) -> Effort:
    """An effort of the configuration."""
    return settings_of(compose_config([f"effort={name}", "device=cpu"])).trial.effort
