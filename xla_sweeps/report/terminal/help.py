"""Write the text of `--help`: options by purpose, commands, models by family.

Plain text and light imports: `--help` is instant.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping

from xla_sweeps.config.catalog import CatalogEntry
from xla_sweeps.schema.option import description
from xla_sweeps.schema.options import PURPOSES

WIDTH = 80

_HYDRA = (
    ("-m", "several values, one trial each: -m model=resnet50,vgg16 batch_size=1,8"),
    ("--cfg job", "print the composed configuration and stop"),
    ("--dry-run", "check the request, show what it would measure and how long, and stop"),
    ("--config-dir DIR", "further configuration files, which set values only"),
    ("--trust-config DIR", "your own, which may also name files and run code"),
    ("--config-name NAME", "the file of DIR that a trial begins with, in place of config"),
)

_EXAMPLES = (
    ("python -m xla_sweeps model=efficientnetv2s jit=true", "eager, graph and XLA at 384 px"),
    (
        "python -m xla_sweeps model=resnet50 modes=[graph,xla] effort=standard",
        "precise enough for a decision",
    ),
    ("python -m xla_sweeps model=local path=my_model.keras trust_code=true", "your own model"),
    (
        "python -m xla_sweeps model=resnet50 modes=[graph,graph]",
        "A/A: the difference that this machine shows where there is none",
    ),
)


def help_text(catalog: Mapping[str, CatalogEntry], commands: Iterable[tuple[str, str]]) -> str:
    """The whole text, with usage and one line of help of each command."""
    lines = [
        "Should I turn XLA on for my Keras vision model, on my hardware, and what does",
        "it buy me?",
        "",
        "usage: python -m xla_sweeps key=value [...]  measure one trial",
        "       xla-sweeps COMMAND ...                the same program; COMMAND --help",
    ]
    for purpose, options in PURPOSES.items():
        rows = [(option.usage, description(option)) for option in options]
        lines += ["", f"{purpose}:", *_columns(rows)]
    lines += ["", "Hydra:", *_columns(_HYDRA), "", "Commands:", *_columns(commands)]
    lines += ["", "Examples:"]
    for command, meaning in _EXAMPLES:
        lines += [f"  {command}", f"      {meaning}"]
    lines += ["", "Models:", *_families(catalog)]
    lines += ["", "  NAME_backbone is a KerasCV model without its head, for most families above."]
    return "\n".join(lines)


def _columns(rows: Iterable[tuple[str, str]]) -> list[str]:
    lines = []
    for name, meaning in rows:
        first, *rest = textwrap.wrap(meaning, WIDTH - 22)
        lines.append(f"  {name:<19} {first}")
        lines += [" " * 22 + line for line in rest]
    return lines


def _families(catalog: Mapping[str, CatalogEntry]) -> list[str]:
    families: dict[str, list[str]] = {}
    for entry in catalog.values():
        if not entry.name.endswith("_backbone"):
            families.setdefault(entry.family, []).append(entry.name)
    return _columns([(family, " ".join(names)) for family, names in sorted(families.items())])
