"""Time a depthwise convolution under XLA with one flag after the other, in processor time.

    .venv/bin/python -m benchmarks.depthwise

Each flag gets a process of its own. Beside the convolution it times a dense one, and the same
depthwise convolution written as nine shifted products.
"""

from __future__ import annotations

import os
import subprocess
import sys

FLAGS = (
    "",
    "--xla_cpu_multi_thread_eigen=true",
    "--xla_cpu_multi_thread_eigen=false",
    "--xla_cpu_enable_fast_math=true",
    "--xla_cpu_prefer_vector_width=512",
    "--xla_cpu_use_onednn=true",
    "--xla_cpu_experimental_onednn_custom_call=true",
    "--xla_cpu_experimental_ynn_fusion_type=individual_convolution",
    "--xla_cpu_use_xnnpack=false",
    "--xla_cpu_use_thunk_runtime=false",
    "--xla_disable_all_hlo_passes=true",
)
"""The second is XLA's default: an A/A twin of the first."""

CHILD = """
import time, tensorflow as tf
x, k = tf.random.normal((4, 56, 56, 144)), tf.random.normal((3, 3, 144, 1))
dense = tf.random.normal((3, 3, 144, 16))
def products(x):
    p = tf.pad(x, [[0, 0], [1, 1], [1, 1], [0, 0]])
    parts = [p[:, i:i + 56, j:j + 56] * k[i, j, :, 0] for i in range(3) for j in range(3)]
    return tf.add_n(parts)
calls = (lambda x: tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], "SAME"), products,
         lambda x: tf.nn.conv2d(x, dense, 1, "SAME"))
times_ms = []
for call in calls:
    for jit in (False, True):
        run = tf.function(call, jit_compile=jit)
        run(x), run(x)
        began, count = time.process_time(), 0
        while time.process_time() - began < 1:
            run(x).numpy()
            count += 1
        times_ms.append(f"{1e3 * (time.process_time() - began) / count:.1f}")
print(*times_ms, sep=" | ")
"""


def main() -> int:
    """Print the table."""
    names, modes = ("depthwise", "products", "dense"), ("graph", "XLA")
    heads = [f"{name}, {mode}" for name in names for mode in modes]
    print("|", " | ".join(["XLA_FLAGS (ms of processor time a call)", *heads]), "|")
    print("|---" * (len(heads) + 1) + "|")
    for flags in FLAGS:
        environment = {**os.environ, "XLA_FLAGS": flags, "CUDA_VISIBLE_DEVICES": "-1"}
        done = subprocess.run(
            [sys.executable, "-c", CHILD],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        row = done.stdout.strip() or f"failed ({done.returncode})"
        print(f"| `{flags or 'none'}` | {row} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
