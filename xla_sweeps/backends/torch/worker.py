"""Entry point of a process that measures or explains."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from xla_sweeps.backends.keras.entry import Entry
from xla_sweeps.backends.torch.declaration import BACKEND
from xla_sweeps.worker import server

ENTRY = Entry(backend=BACKEND, framework="backend:Torch", explain="explain:explain")


def main() -> None:
    """Serve the parent; compiled code is kept in its fresh temporary folder, or in its cache."""
    if os.environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") != "0":
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(tempfile.gettempdir(), "inductor"))
    server.main(ENTRY)


if __name__ == "__main__":
    main()
