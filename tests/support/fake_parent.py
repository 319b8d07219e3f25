"""A parent of measuring processes without TensorFlow: it forks what `fake_worker.py` is.

The script's steps are in $XLA_SWEEPS_FAKE_WORKER. It refuses the orders that the real one refuses;
`any` as its first argument: none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import fake_worker

from xla_sweeps.backends.tensorflow.parent import checked
from xla_sweeps.system import forking


def work(order: forking.Order, descriptors: Sequence[int]) -> int:
    os.environ.clear()
    os.environ.update(order.environment)
    script = order.environment.get("XLA_SWEEPS_FAKE_WORKER", "").split()
    sys.argv = ["fake_worker.py", *script, "0", str(descriptors[0])]
    fake_worker.main()
    return 0


if __name__ == "__main__":
    orders = forking.inherited()
    unfit = (lambda order: "") if sys.argv[1] == "any" else checked(forking.threads())
    forking.serve(orders, work, unfit=unfit)
