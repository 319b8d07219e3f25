"""The work of a real model from its HLO, and peaks of this CPU on small arrays."""

from __future__ import annotations

import os
import threading

import keras
import pytest
import tensorflow as tf

from xla_sweeps.backends.tensorflow import modes
from xla_sweeps.backends.tensorflow.explain import peaks, roofline
from xla_sweeps.backends.tensorflow.hlo import Module
from xla_sweeps.backends.tensorflow.macs import count_macs
from xla_sweeps.schema.modes import Mode

pytestmark = pytest.mark.tf

BATCH = tf.ones((2, 16, 16, 3))


@pytest.fixture(scope="module")
def model() -> keras.Model:
    image = keras.Input((16, 16, 3))
    features = keras.layers.Conv2D(8, 3)(image)
    features = keras.layers.BatchNormalization()(features)
    return keras.Model(image, keras.layers.Dense(5)(keras.layers.GlobalMaxPool2D()(features)))


@pytest.fixture(scope="module")
def compiled(model: keras.Model) -> modes.ModeExecutable:
    executable = modes.ModeExecutable.bind(
        lambda batch: model(batch, training=False), Mode.XLA, [BATCH]
    )
    executable.step()
    return executable


def hlo_of(executable: modes.ModeExecutable, batch: tf.Tensor) -> str:
    return str(executable.function.experimental_get_compiler_ir(batch)(stage="hlo"))


def test_weights_inputs_and_outputs_count_once(
    model: keras.Model, compiled: modes.ModeExecutable
) -> None:
    work, missing = roofline.work_of(hlo_of(compiled, BATCH), BATCH)
    assert work.weight_bytes == 4 * model.count_params()
    assert work.input_bytes == 4 * 2 * 16 * 16 * 3
    assert work.output_bytes == 4 * 2 * 5
    assert work.macs_by_type == {"f32": 2 * (14 * 14 * 8 * 27 + 8 * 5)}
    assert (work.macs_at_least, missing) == (False, {})


def test_multiply_accumulates_do_not_depend_on_the_metadata(
    compiled: modes.ModeExecutable,
) -> None:
    assert count_macs(hlo_of(compiled, BATCH)) == count_macs(modes.hlo_text(compiled))


def test_a_convolution_that_cannot_be_read_leaves_the_bytes() -> None:
    work, missing = roofline.work_of(
        "ENTRY main {\n  a = f32[2,3]{1,0} parameter(0)\n  b = bf16[3,4]{1,0} parameter(1)\n"
        "  c = pred[7]{0} parameter(2)\n  ROOT d = f32[2,4]{1,0} dot(a, b)\n}\n",
        tf.ones((2, 3)),
    )
    assert (work.input_bytes, work.weight_bytes, work.output_bytes) == (24, 24, 32)
    assert work.macs is None
    assert "cannot read" in missing["macs"]


def test_elements_of_fewer_than_eight_bits_have_whole_bytes() -> None:
    module = Module(
        "ENTRY main {\n  a = s4[3]{0} parameter(0)\n"
        "  ROOT b = (s4[3]{0}, f32[2]{0}, pred[5]{0}, token[]) custom-call(a)\n}\n"
    )
    sizes = {
        instruction.name: instruction.size_bytes
        for instruction in module.computations["main"].live()
    }
    assert sizes == {"a": 3, "b": 3 + 8 + 5}


def test_the_peaks_of_this_cpu_are_measured_with_all_cores_and_with_one(
    monkeypatch: pytest.MonkeyPatch, compiled: modes.ModeExecutable
) -> None:
    monkeypatch.setattr(peaks, "SIDES", (64, 128))
    monkeypatch.setattr(peaks, "ARRAY_BYTES", 2**20)
    monkeypatch.setattr(roofline, "MODE_S", 0.01)
    bounds = roofline.measured(
        hlo_of(compiled, BATCH), {"xla": compiled}, inputs=BATCH, device="/device:CPU:0"
    )
    names = [peak.name for peak in bounds.peaks]
    assert names == ["matmul float32", "copy", "read"]
    for peak in bounds.peaks:
        assert peak.per_s > 1e6
        assert peak.one_core_per_s is not None
        assert peak.one_core_per_s > 1e6
    assert bounds.missing == {}
    (mode,) = bounds.modes
    assert bounds.bound_s
    assert mode.share == pytest.approx(bounds.bound_s / mode.call_s)


def test_a_gpu_has_no_core_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peaks, "SIDES", (64,))
    assert peaks.matmul_peak("float32", device="/device:GPU:0").one_core_per_s is None


def test_all_threads_move_to_one_core_and_back() -> None:
    allowed, end = os.sched_getaffinity(0), threading.Event()
    thread = threading.Thread(target=end.wait)
    thread.start()
    assert thread.native_id is not None
    try:
        with peaks.on_one_core():
            inside = [os.sched_getaffinity(task) for task in (0, thread.native_id)]
        after = [os.sched_getaffinity(task) for task in (0, thread.native_id)]
    finally:
        end.set()
        thread.join()
    assert inside == [{min(allowed)}] * 2
    assert after == [allowed] * 2
