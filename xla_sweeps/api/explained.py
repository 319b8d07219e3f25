"""The result of `explain`: facts that show themselves as the terminal does."""

from __future__ import annotations

import msgspec

from xla_sweeps.api import supervisor
from xla_sweeps.schema.explanation import Explanation


class Explained(Explanation):
    """How XLA compiles a model, and why it gains or loses."""

    __slots__ = ()

    def __repr__(self) -> str:
        from xla_sweeps.report.terminal.explanation import explanation_text

        return explanation_text(self).rstrip()


def explanation_of(words: tuple[str, ...]) -> Explained:
    """The explanation of a trial with these overrides."""
    document = supervisor.document(["explain", "--format", "json", *words])
    return msgspec.convert(document, Explained)
