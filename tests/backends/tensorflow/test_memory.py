"""Memory of steady calls where TensorFlow's allocator does not count."""

from __future__ import annotations

import os
import subprocess
import sys

import msgspec
import pytest

from xla_sweeps.backends.keras.explain.events import Event
from xla_sweeps.backends.tensorflow.memory import most_at_once

pytestmark = pytest.mark.tf

CODE = """
import json
import tensorflow as tf
from xla_sweeps.backends.tensorflow import memory

MIB = tf.random.normal([512, 512])
held, weights = [None], tf.Variable(MIB)

def traced(function, at_most_s=60.0):
    def calls():
        for _ in range(2):
            held[0] = function(MIB)
        held[0] = None
    function(MIB)
    return memory.traced_bytes(calls, at_most_s=at_most_s) / 2**20

def small(x):
    return tf.reduce_sum(tf.exp(x) + tf.sin(x))

def trained(x):
    weights.assign(weights + x)
    return tf.reduce_sum(x)

print(json.dumps({
    "counted": memory.counted_bytes("/device:CPU:0", "peak"),
    "eager": traced(small),
    "graph": traced(tf.function(small, jit_compile=False)),
    "output": traced(tf.exp),
    "trained": traced(trained),
    "unseen": traced(small, at_most_s=0.0),
    "kept": memory.bytes_of([MIB, weights]) / 2**20,
}))
"""


def test_what_calls_allocate_is_traced_where_it_is_not_counted() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE],
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0", "CUDA_VISIBLE_DEVICES": "-1"},
        capture_output=True,
        check=True,
    )
    megabytes = msgspec.json.decode(done.stdout.splitlines()[-1])
    assert megabytes.pop("counted") is None
    assert megabytes.pop("unseen") <= 3.01
    assert megabytes == pytest.approx(
        {
            "eager": 3,  # both operands and their sum
            "graph": 2,  # the sum takes the place of an operand
            "output": 2,  # that of the call before is kept until the next one is done
            "trained": 1,  # the new weights beside the old ones
            "kept": 2,
        },
        abs=0.01,
    )


def test_memory_from_before_does_not_count_when_it_is_freed() -> None:
    assert most_at_once([]) == 0
    step = [("+", 1, 10), ("+", 2, 5), ("-", 1, 0)]  # a temporary, then new weights
    first = [*step, ("-", 7, 0)]  # weights from before
    second = [("+", 1, 10), ("+", 3, 5), ("-", 1, 0), ("-", 2, 0)]
    assert most_at_once(events([*first, *second])) == 15
    other = Event(name="MatMul", start_s=0.0, end_s=1.0, facts={})
    assert most_at_once([other, *reversed(events([*first, *second]))]) == 15


def events(noted: list[tuple[str, int, int]]) -> list[Event]:
    return [
        Event(
            name="MemoryAllocation" if sign == "+" else "MemoryDeallocation",
            start_s=float(number),
            end_s=float(number),
            facts={"addr": address, "requested_bytes": size},
        )
        for number, (sign, address, size) in enumerate(noted)
    ]
