"""Entry point of the parent of measuring processes: loads TensorFlow and Keras, then only forks.

A process with more threads than its own cannot be forked safely, nor one that has called CUDA. So
it does nothing with TensorFlow, and looks before every fork: it ends, and a fresh process is
started, where there is a thread that is not BLAS's (whose own handlers stop it before a fork), or
where CUDA's library is mapped.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Sequence
from pathlib import Path

from xla_sweeps.backends.tensorflow.worker import open_desk
from xla_sweeps.system import forking
from xla_sweeps.system.forking import Order
from xla_sweeps.worker import server


def main() -> None:
    """Load, and fork a measuring process for each order."""
    orders = forking.inherited()
    import scipy.linalg  # noqa: F401  (and NumPy: what has BLAS's threads)

    check = checked(forking.threads())
    from xla_sweeps.backends.tensorflow import backend  # noqa: F401  (and TensorFlow, Keras)

    gc.collect()
    gc.freeze()  # a collection in a forked process copies nothing of this
    forking.serve(orders, _measure, unfit=check)


def _measure(order: Order, descriptors: Sequence[int]) -> int:
    return server.serve(descriptors[0], open_desk)


def checked(known: frozenset[str]) -> Callable[[Order], str]:
    """What tells why an order cannot be taken here, or ""; it exits where none can.

    Args:
        known: threads that do not prevent a fork.
    """
    began_with = Path("/proc/self/environ").read_bytes()  # this process may have changed its own

    def unfit(order: Order) -> str:
        forking.check_threads(known)
        if "libcuda.so" in Path("/proc/self/maps").read_text("utf-8", "replace"):
            raise SystemExit("the parent has loaded CUDA's library")
        wanted = {os.fsencode(f"{name}={value}") for name, value in order.environment.items()}
        if wanted != set(filter(None, began_with.split(b"\0"))):
            return "the parent has other variables"
        return "" if set(order.cores) == os.sched_getaffinity(0) else "the parent has other cores"

    return unfit


if __name__ == "__main__":
    main()
