"""The parent of measuring processes: when it forks, and that its forks compute the same."""

from __future__ import annotations

import contextlib
import mmap
import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conducting import Notes
from ended import join
from factories import TRIAL

from xla_sweeps.backends.tensorflow.parent import checked
from xla_sweeps.measure import conductor
from xla_sweeps.measure.monitor import Sampler
from xla_sweeps.measure.replicate import ReplicateResult, Setting
from xla_sweeps.measure.workers import Stop
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.schema.measurement import Status
from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.system import devices, environment
from xla_sweeps.system.forking import Order, Parent, threads
from xla_sweeps.system.leases import Leases


def began_with() -> dict[str, str]:
    pairs = Path("/proc/self/environ").read_bytes().split(b"\0")
    return dict(os.fsdecode(pair).split("=", 1) for pair in pairs if pair)


def order(*, cores: tuple[int, ...] | None = None, **changes: str) -> Order:
    own = tuple(os.sched_getaffinity(0))
    return Order(environment=began_with() | changes, cores=own if cores is None else cores)


def test_an_order_with_other_variables_or_cores_is_refused() -> None:
    unfit = checked(threads())
    assert unfit(order()) == ""
    assert unfit(order(TF_XLA_FLAGS="--another")) == "the parent has other variables"
    missing = order()
    missing.environment.popitem()
    assert unfit(missing) == "the parent has other variables"
    assert unfit(order(cores=(4095,))) == "the parent has other cores"


def test_a_process_with_a_thread_is_not_forked() -> None:
    unfit, ended = checked(threads()), threading.Event()
    thread = threading.Thread(target=ended.wait)
    thread.start()
    try:
        with pytest.raises(SystemExit, match="1 thread besides BLAS's"):
            unfit(order())
    finally:
        ended.set()
        join(thread)
    assert unfit(order()) == ""


def test_a_process_that_has_loaded_cuda_is_not_forked(tmp_path: Path) -> None:
    library = tmp_path / "libcuda.so.1"
    library.write_bytes(b"\0" * mmap.PAGESIZE)
    unfit = checked(threads())
    with (
        library.open("rb") as handle,
        mmap.mmap(handle.fileno(), 0, access=mmap.ACCESS_READ),
        pytest.raises(SystemExit, match="has loaded CUDA's library"),
    ):
        unfit(order())
    assert unfit(order()) == ""


MODEL = replace(
    TRIAL.model,
    name="mobilenet_v1",
    recipe={"constructor": "MobileNet", "arguments": {"alpha": 0.25}},
    inputs=(replace(TRIAL.model.inputs[0], shape=(32, 32, 3)),),
    resolution_px=32,
)


class Watching(Sampler):
    """A sampler, to which the measuring process is no neighbour."""

    def add(self, pid: int, exceeded: Callable[[], None]) -> None:
        super().add(pid, exceeded)
        assert pid not in {neighbour for neighbour, _ in self._others}


def attempt(parent: Parent | None, variables: Mapping[str, str], log: Path) -> ReplicateResult:
    """Build, compile and verify a small model, forked or afresh."""
    trial = replace(TRIAL, model=MODEL, batch_size=2, modes=("xla",))
    job = ReplicateJob(trial=trial, replicate=0, modes=("xla",), order_seed=1, measure=False)
    device = devices.devices()[-1]
    with (
        Stop() as stop,
        Leases((), holder="test") as leases,
        (parent and parent.connection()) or contextlib.nullcontext() as connection,
    ):
        setting = Setting(
            backend=default_backend(),
            environment=variables,
            log=log,
            watch=partial(Watching.watching, device=device, memory_limit_bytes=2**40),
            stop=stop,
            leases=leases,
            parent=connection,
        )
        return conductor.measure(job, setting, Notes(), timed=False)


@pytest.mark.tf
@pytest.mark.slow
def test_a_fork_computes_the_same_as_a_fresh_process_bit_for_bit(tmp_path: Path) -> None:
    device = devices.devices()[-1]
    variables = environment.child_environment(os.environ, device=device, backend=default_backend())
    parent = Parent(
        default_backend().command("parent"),
        environment=variables,
        cores=(),
        log=tmp_path / "parent.log",
    )
    try:
        forked = attempt(parent, variables, tmp_path / "forked")
    finally:
        parent.close()
    fresh = attempt(None, variables, tmp_path / "fresh")
    assert (forked.process, fresh.process) == ("forked", "fresh"), (
        tmp_path / "parent.log"
    ).read_text()
    assert fresh.modes["xla"].status is Status.OK
    assert fresh.modes["xla"].agreement is not None
    assert forked.modes["xla"].agreement == fresh.modes["xla"].agreement
    assert forked.model == fresh.model
    assert forked.environment == fresh.environment
