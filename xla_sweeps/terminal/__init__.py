"""What a person sees: results on standard output, progress and warnings on standard error. The only `import rich`.

Whatever comes from models, errors or files is stripped of control characters here, at the edge.
"""

from __future__ import annotations

from xla_sweeps.terminal.help import help_text
from xla_sweeps.terminal.progress import Progress
from xla_sweeps.terminal.screen import complain, displayable
from xla_sweeps.terminal.tables import show_findings, show_models, show_rows, show_trial

__all__ = [
    "Progress", "complain", "displayable", "help_text", "show_findings", "show_models", "show_rows", "show_trial",
]  # fmt: skip
