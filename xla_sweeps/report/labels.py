"""Labels that distinguish rows with equal columns."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from xla_sweeps.schema.row import COLUMNS, QUESTION, words_of

TELLING = (
    *QUESTION,
    *("effort", "modes", "software", "driver", "environment_flags", "host", "trial_id"),
)
"""Columns that distinguish trials of one model and size, the plainest first."""

DEVICE_CHARACTERS = 18
CHARACTERS = 80
_CHARACTERS = {"trial_id": 8, "measured_at": 16}


def short_device(name: str) -> str:
    """A device's name without its maker and the words that all of its kind have."""
    name = re.sub(r"\((R|TM)\)", "", name)
    name = re.sub(r"^(NVIDIA|AMD|Intel|Tesla|GeForce)\s+", "", name, flags=re.IGNORECASE)
    name = re.sub(r"(\s+\d+-Core)?\s+(CPU|Processor).*$", "", name, flags=re.IGNORECASE)
    return name if len(name) <= DEVICE_CHARACTERS else f"{name[: DEVICE_CHARACTERS - 1]}…"


def short_devices(names: Iterable[str]) -> dict[str, str]:
    """The short name of each device, or its whole name where two have the same short one."""
    short = {name: short_device(name) for name in names}
    often = Counter(short.values())
    return {name: word if often[word] == 1 else name for name, word in short.items()}


def setting_words(setting: Mapping[str, Any]) -> str:
    """Values of a setting by column, without those that go without saying."""
    return ", ".join(words_of(setting))


def join_words(words: Sequence[str]) -> str:
    """The words with commas and an "and": `a, b and c`."""
    return " and ".join(filter(None, [", ".join(words[:-1]), *words[-1:]]))


def told_apart(
    columns: Mapping[str, Sequence[Any]], alike: Sequence[str], by: Sequence[str]
) -> list[str]:
    """For each row as much of some columns as tells it from others, such as `quick · xla`, or "".

    Rows have equal values of `alike`; columns `by` tell them apart, the plainest first.
    """
    groups: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
    for place, key in enumerate(zip(*(columns[name] for name in alike), strict=True)):
        groups[key].append(place)
    labels = [""] * sum(map(len, groups.values()))
    several = [group for group in groups.values() if len(group) > 1]
    for name in by if several else ():
        for group in several:
            texts = {place: _write(name, columns[name][place]) for place in group}
            met: defaultdict[str, set[str]] = defaultdict(set)
            for place, text in texts.items():
                met[labels[place]].add(text)
            for place, text in texts.items():
                if text and len(met[labels[place]]) > 1:
                    labels[place] = " · ".join(filter(None, (labels[place], text)))
    return labels


def _write(name: str, value: Any) -> str:
    asked = COLUMNS[name].asked if name in COLUMNS else None
    text = asked.write(value) if asked else str(value or "")
    text = text.replace("T", " ") if name == "measured_at" else text
    return text[: _CHARACTERS.get(name, CHARACTERS)]
