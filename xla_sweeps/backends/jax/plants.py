"""Entry point of a process that shows planted errors to the check of outputs on JAX."""

from __future__ import annotations

from xla_sweeps.backends.jax.modes import JaxExecutable
from xla_sweeps.backends.keras.plants import main
from xla_sweeps.schema.modes import Mode

if __name__ == "__main__":
    main(JaxExecutable, Mode.JAX_EAGER, Mode.JAX_XLA)
