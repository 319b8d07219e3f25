"""Commands that documents name, and the files that these name."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from keras_files import write_keras_file
from paths import ROOT

COMMAND = re.compile(r"(?:^|`|\$ )((?:python -m xla_sweeps|xla-sweeps) (?:\\\n|[^`\n])+)", re.M)

WORDS = re.compile(r"`((?:[\w.]+=[^`\s]+ )+data=[^`\s]+)`")
"""Arguments that a text names by themselves."""

MORE = re.compile(r"`([\w.]+=[^`\s]+)`")
"""An argument that a row of a table names beside its command."""

PLACEHOLDER = re.compile(r"…|\[[A-Z]+|<TAB>|\b[A-Z]{4,}\b(?!_)|key=value|=$")


def typed(document: str) -> list[list[str]]:
    """The commands of a document with all their arguments, without those that stand for others."""
    text = (ROOT / document).read_text("utf-8")
    lines = [*COMMAND.findall(text), *(f"xla-sweeps {words}" for words in WORDS.findall(text))]
    for row in re.findall(r"(?m)^\| `.*", text):
        lines += [f"{one} {more}" for one in COMMAND.findall(row) for more in MORE.findall(row)]
    commands = [
        shlex.split(line.replace("\\\n", " "), comments=True)
        for line in lines
        if not PLACEHOLDER.search(line.partition("  # ")[0])
    ]
    return [words[3:] if words[0] == "python" else words[1:] for words in commands]


def make_own(folder: Path) -> None:
    """Everything of the reader's own that commands name."""
    for name in ("my_pictures", "pictures"):
        for number in range(64):
            path = folder / name / f"class{number % 2}" / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"\xff\xd8\xff\xda" + b"x" * number + b"\xff\xd9")
    for name in ("my_model.keras", "trained.keras"):
        write_keras_file(folder / name)
    (folder / "pkg").mkdir()
    for name in ("my_model", "my_models", "models", "mine", "pkg/models"):
        names = ("build", "detector", "classifier", "gated", "encoder")
        (folder / f"{name}.py").write_text("".join(f"def {one}(): ...\n" for one in names))
    (folder / "nets").mkdir()
    (folder / "nets" / "mine.py").write_text("def build(): ...\n")
    text = (ROOT / "docs" / "options.md").read_text("utf-8")
    experiments = folder / "conf" / "experiment"
    experiments.mkdir(parents=True, exist_ok=True)
    (mine,) = re.findall(r"```yaml\n(# @package _global_\n.*?)```", text, flags=re.S)
    (experiments / "mine.yaml").write_text(mine)
    (folder / "exported").mkdir()
    (folder / "exported" / "saved_model.pb").touch()


DOCUMENTS = ["README.md", *sorted(f"docs/{path.name}" for path in (ROOT / "docs").glob("*.md"))]
