"""Entry point of a process that measures or explains."""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from xla_sweeps.backends.keras.entry import serve
from xla_sweeps.backends.torch.declaration import BACKEND

FRAMEWORK, EXPLAINER = "backend:Torch", "explain:TorchExplainer"

if __name__ == "__main__":
    # The compiler's command has the folder's name between its words: one without blanks or quotes.
    if not re.fullmatch(r"[\w./-]+", tempfile.gettempdir()):
        descriptor = os.open(tempfile.gettempdir(), os.O_RDONLY | os.O_DIRECTORY)
        os.environ["TMPDIR"] = tempfile.tempdir = f"/proc/{os.getpid()}/fd/{descriptor}"
    # Compiled code is kept in its fresh temporary folder, or in its cache.
    if os.environ.get("TORCHINDUCTOR_FORCE_DISABLE_CACHES") != "0":
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(Path(tempfile.gettempdir(), "inductor"))
    serve(BACKEND, framework=FRAMEWORK, explainer=EXPLAINER)
