"""How far rounding moves what eager execution computes."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from xla_sweeps.backends.keras.sources.inputs import nudge_batch
from xla_sweeps.schema.trial import Trial
from xla_sweeps.worker import agreement
from xla_sweeps.worker.agreement import NUDGES, Move


def moves_on(
    batches: Sequence[Any], eagerly: Callable[[Any], list[np.ndarray]], trial: Trial
) -> Sequence[Move]:
    """How far rounding of batches moves what is computed eagerly of them; none if that fails."""
    rng = np.random.default_rng(trial.seed)
    nudged = partial(nudge_batch, precision=trial.precision, rng=rng)
    try:
        return agreement.worst_moves(
            agreement.moves_of(eagerly(batch), [eagerly(nudged(batch)) for _ in range(NUDGES)])
            for batch in batches
        )
    except Exception:  # a model that refuses other numbers, or memory is short
        traceback.print_exc()
        return ()
