"""Entry point of a process that measures or explains."""

from __future__ import annotations

import os
import sys
import tempfile

from xla_sweeps.backends.keras.entry import Entry
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.system.process import die_with_parent
from xla_sweeps.worker import server

ENTRY = Entry(backend=BACKEND, framework="backend:Torch", explain="explain:explain")


def main() -> None:
    """Serve the parent with a fresh folder for compiled code: none is left from another process."""
    parent, descriptor = int(sys.argv[1]), int(sys.argv[2])
    die_with_parent(parent)
    with tempfile.TemporaryDirectory(prefix="xla-sweeps-inductor-") as folder:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
        code = server.serve(descriptor, ENTRY)
    server.end(code)


if __name__ == "__main__":
    main()
