"""The synchronization self-test: every mode, on fakes that queue and on the CPU itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, cast

import pytest
from factories import TRIAL

from xla_sweeps.backends.tensorflow.bench import Bench, prove
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.worker.stand_in import VARIABLE

pytestmark = pytest.mark.tf

CALL_NS, READ_NS = 5_000_000, 20_000


@dataclass
class Gpu:
    """A device that works 5 ms on each call, whose waits can be broken."""

    now_ns: int = 0
    busy_until_ns: int = 0

    def __call__(self) -> int:
        return self.now_ns


@dataclass
class Fake:
    """Satisfies what the self-test asks of a `ModeExecutable`."""

    gpu: Gpu
    sync_waits: bool = True
    read_waits: bool = True
    sync_by_reading: bool = False

    def prepare(self) -> None:
        pass

    def step(self) -> None:
        self.gpu.now_ns += 10_000
        self.gpu.busy_until_ns = max(self.gpu.busy_until_ns, self.gpu.now_ns) + CALL_NS

    def synchronize(self) -> None:
        if self.sync_by_reading:
            self.gpu.now_ns += READ_NS
            self._wait(self.read_waits)
        else:
            self._wait(self.sync_waits)

    def drain(self) -> None:
        self.gpu.now_ns += READ_NS
        self._wait(True)

    def _wait(self, waits: bool) -> None:
        if waits:
            self.gpu.now_ns = max(self.gpu.now_ns, self.gpu.busy_until_ns)


def proved(gpu: Gpu, **executables: Fake) -> dict[str, Any]:
    return prove(cast(Any, executables), clock=gpu)


def test_a_synchronization_that_waits_in_every_mode_is_used() -> None:
    gpu = Gpu()
    sync = proved(gpu, graph=Fake(gpu), xla=Fake(gpu))
    assert (sync["works"], sync["queued"], sync["by_reading"]) == (True, True, False)
    for figures in sync["modes"].values():
        assert 0.1 < figures["synced_s"] < 0.25
        assert figures["after_s"] < 0.001


def test_where_one_mode_does_not_wait_all_modes_read_a_scalar() -> None:
    gpu = Gpu()
    modes = {"graph": Fake(gpu), "xla": Fake(gpu, sync_waits=False)}
    sync = proved(gpu, **modes)
    assert (sync["works"], sync["by_reading"]) == (True, True)
    assert all(mode.sync_by_reading for mode in modes.values())


def test_where_nothing_waits_nothing_is_measured() -> None:
    gpu = Gpu()
    with pytest.raises(XlaSweepsError, match="cannot be timed"):
        proved(gpu, graph=Fake(gpu), xla=Fake(gpu, sync_waits=False, read_waits=False))


def test_a_worker_tests_its_own_modes_only(monkeypatch: pytest.MonkeyPatch) -> None:
    modes = ("graph", "xla", "torch_export", "jax_xla")
    trial = replace(TRIAL, device="gpu:0", modes=modes)
    bench = Bench(
        trial=trial,
        device="/device:GPU:0",
        built=cast(Any, None),
        facts=ModelFacts.of(trial.model),
        modes=("graph", "xla"),
    )
    monkeypatch.setenv(VARIABLE, "1")
    assert list(bench.synchronization()["modes"]) == ["graph", "xla"]
