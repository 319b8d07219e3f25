"""The work of a real model from its HLO, and peaks of this CPU on small arrays."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import keras
import pytest
import tensorflow as tf
from explained_models import explaining
from hlo_modules import shape_of

from xla_sweeps.backends.keras.explain import roofline
from xla_sweeps.backends.keras.hlo import size_bytes

pytestmark = pytest.mark.tf


def test_the_bound_counts_weights_inputs_and_outputs_once_under_the_peaks_of_this_cpu(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(roofline, "SIDES", (64, 128))
    monkeypatch.setattr(roofline, "ARRAY_BYTES", 2**20)
    monkeypatch.setattr(roofline, "MODE_S", 0.01)
    image = keras.Input((16, 16, 3))
    features = keras.layers.BatchNormalization()(keras.layers.Conv2D(8, 3)(image))
    model = keras.Model(image, keras.layers.Dense(5)(keras.layers.GlobalMaxPool2D()(features)))
    batches = [tf.ones((2, 16, 16, 3))] * 2
    explainer = explaining(lambda batch: model(batch, training=False), batches)
    explainer.explain(trace=False)
    explainer.bound_calls()
    bounds: Any = explainer.explanation.roofline
    work = bounds.work
    assert work.weight_bytes == 4 * model.count_params()
    assert (work.input_bytes, work.output_bytes) == (4 * 2 * 16 * 16 * 3, 4 * 2 * 5)
    assert work.macs_by_type == {"f32": 2 * (14 * 14 * 8 * 27 + 8 * 5)}
    assert not work.macs_at_least
    assert [peak.name for peak in bounds.peaks] == ["matmul float32", "copy", "read"]
    for peak in bounds.peaks:
        assert min(peak.per_s, peak.one_core_per_s) > 1e6
    assert bounds.missing == {}
    assert [mode.mode for mode in bounds.modes] == ["graph", "xla"]
    assert bounds.bound_s
    assert bounds.modes[0].share == pytest.approx(bounds.bound_s / bounds.modes[0].call_s)


def test_elements_of_fewer_than_eight_bits_have_whole_bytes() -> None:
    assert size_bytes(shape_of("s4[3]")) == 3
    assert size_bytes(shape_of("(s4[3], f32[2], pred[5], token[])")) == 3 + 8 + 5


class Device:
    """Calls that queue on a device: each takes a millisecond for 2 GiB there, a wait ten."""

    def __init__(self, now: list[int], bytes_: int) -> None:
        self.now, self.bytes, self.queued, self.most, self.position = now, bytes_, 0, 0, 0

    def prepare(self) -> None:
        """Nothing."""

    def step(self) -> None:
        self.queued += 1
        self.most = max(self.most, self.queued)

    def synchronize(self) -> None:
        self.now[0] += 10_000_000 + self.queued * self.bytes // 2**20 * 1_000_000 // 2048
        self.queued = 0


@pytest.mark.parametrize(("tf32", "note"), [(True, "in TF32"), (False, "not in TF32")])
def test_a_queue_of_calls_hides_the_wait_and_the_largest_array_that_fits_counts(
    monkeypatch: pytest.MonkeyPatch, tf32: bool, note: str
) -> None:
    now, tried = [0], list[Device]()
    monkeypatch.setattr(time, "perf_counter_ns", lambda: now[0])
    monkeypatch.setattr(keras.ops, "full", lambda shape, *_, **__: shape[0] * 4)
    monkeypatch.setattr(roofline, "SIDES", (64,))

    def bind(call: Any, size: Any) -> list[Device]:
        size = size if isinstance(size, int) else sum(size)
        if size > 2**30:
            raise MemoryError("out of memory")
        tried.append(Device(now, size))
        return tried[-1:]

    peaks = roofline.Peaks(bind, on_cpu=False, tf32=tf32)
    copy, read = peaks.memory()
    assert (copy.size, read.size) == ("1024 MiB", "1024 MiB")
    assert all(1 < device.most <= roofline.GPU_CALLS for device in tried)
    once_s = 10e-3 + 0.5e-3
    assert read.per_s > 5 * 2**30 / once_s
    assert copy.per_s == pytest.approx(2 * read.per_s)
    product = peaks.matmul("float32")
    assert (product.one_core_per_s, product.size) == (None, f"64 x 64, {note}")


def test_all_threads_move_to_one_core_and_back() -> None:
    allowed, end = os.sched_getaffinity(0), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread.native_id is not None
    try:
        with roofline.on_one_core():
            inside = [os.sched_getaffinity(task) for task in (0, thread.native_id)]
        after = [os.sched_getaffinity(task) for task in (0, thread.native_id)]
    finally:
        end.set()
        thread.join()
    assert inside == [{min(allowed)}] * 2
    assert after == [allowed] * 2
