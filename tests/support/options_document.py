"""The tables of docs/options.md, from the declared options.

PYTHONPATH=tests/support python -m options_document
"""

from __future__ import annotations

from dataclasses import fields

from xla_sweeps.schema.comparisons import headline_of
from xla_sweeps.schema.modes import SCENARIOS, Mode, Scenario
from xla_sweeps.schema.options import PURPOSES
from xla_sweeps.schema.trial import Effort


def markdown() -> str:
    """Every option in tables, for docs/options.md."""
    lines = []
    for purpose, options in PURPOSES.items():
        lines += [f"### {purpose}", "", "| option | what it sets | default |", "|---|---|---|"]
        for option in options:
            listed = [f"{each} ({what})" if what else each for each, what in option.choices.items()]
            values = f": {', '.join(listed)}" if listed else ""
            cells = (f"`{option.usage}`", option.help + values, option.default_text)
            lines.append(f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |")
        lines.append("")
    lines += ["### The modes of each scenario", "", *_modes_table(), ""]
    lines += ["### The values of an effort level", "", "| key | what it sets |", "|---|---|"]
    lines += [
        f"| `effort.{field.name}` | {field.metadata['help']} |"
        for field in fields(Effort)
        if field.name != "name"
    ]
    return "\n".join(lines) + "\n"


def _modes_table() -> list[str]:
    """A line for each scenario; scenarios with the same modes share one."""
    alike: dict[tuple[Mode, ...], list[Scenario]] = {}
    for scenario, facts in SCENARIOS.items():
        alike.setdefault(facts.modes, []).append(scenario)
    lines = ["| scenario | modes | without `modes` and `jit` | headline |", "|---|---|---|---|"]
    for modes, scenarios in alike.items():
        baseline, candidate = headline_of(scenarios[0])
        cells = (
            ", ".join(f"`{scenario}`" for scenario in scenarios),
            ", ".join(modes),
            ", ".join(SCENARIOS[scenarios[0]].default),
            f"{candidate} over {baseline}",
        )
        lines.append(f"| {' | '.join(cells)} |")
    return lines


if __name__ == "__main__":
    print(markdown(), end="")
