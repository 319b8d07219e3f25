"""Arguments that several commands share, and the trials of the folders that they name."""

from __future__ import annotations

import argparse
import difflib
import re
import textwrap
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xla_sweeps.cli import COMMANDS
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.values import folder_of, path_of
from xla_sweeps.errors import REMOVED, ConfigError, did_you_mean, unknown_name
from xla_sweeps.schema.overrides import key_of

if TYPE_CHECKING:
    from xla_sweeps.schema.record import Record
    from xla_sweeps.schema.row import TrialSummary
    from xla_sweeps.store.rows import Rows

RESULTS = "results"
"""The results folder by default."""


def command_parser(name: str, details: str = "", *, examples: str = "") -> argparse.ArgumentParser:
    """A command's parser, whose errors are a `ConfigError`; its help ends with the examples."""

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            _, _, unknown = message.partition("unrecognized arguments: ")
            option = re.split("[ =]", unknown)[0]
            if instead := REMOVED.get((name, option)):
                raise ConfigError(f"{option} was removed: {instead}")
            raise ConfigError(f"{name}: {message}; `xla-sweeps {name} --help` shows the usage")

        def _check_value(self, action: argparse.Action, value: Any) -> None:
            try:
                super()._check_value(action, value)
            except argparse.ArgumentError as error:
                near = difflib.get_close_matches(str(value), map(str, action.choices or ()))
                error.message += did_you_mean(str(value), near).replace(" D", "; d")
                raise

    summary = COMMANDS[name].help
    description = f"{summary[0].upper()}{summary[1:]}. {details}"
    parser = Parser(prog=f"xla-sweeps {name}", description=description)
    if examples:
        parser.formatter_class = argparse.RawDescriptionHelpFormatter
        parser.description = "\n".join(textwrap.wrap(description, width=78))
        parser.epilog = f"examples:\n{examples}"
    return parser


def folder_type(parser: argparse.ArgumentParser) -> Callable[[str], Path]:
    """Type of an argument that is a folder; a word of the form KEY=VALUE is refused with advice."""

    def folder(word: str) -> Path:
        key, _, value = word.partition("=")
        if not value or Path(word).exists():
            return folder_of(word)
        options = [form for action in parser._actions for form in action.option_strings]
        advice = "options begin with --"
        if f"--{key}" in options:
            advice = f"write --{key} {value}"
        elif key in ("results_dir", "dir"):
            advice = f"write {value}"
        raise ConfigError(f"{parser.prog.partition(' ')[2]}: '{word}' is no folder; {advice}")

    return folder


def add_results_dir(
    parser: argparse.ArgumentParser, name: str = "dir", *, usual: str = RESULTS
) -> None:
    """Add the results folder, as a word or as an option."""
    place: dict[str, Any] = {"metavar": "DIR"} if name.startswith("-") else {"nargs": "?"}
    text = f"results folder (default: {usual})"
    parser.add_argument(name, type=folder_type(parser), default=RESULTS, help=text, **place)


def add_output(
    parser: argparse.ArgumentParser, *forms: str, where: str = "default: standard output"
) -> None:
    """Add the answer's form, if it has several (the first by default), and its file."""
    if forms:
        default = forms[0]
        parser.add_argument("--format", choices=forms, default=default, help=f"default: {default}")
    text = f"where to write it ({where})"
    parser.add_argument("-o", "--output", metavar="FILE", type=path_of, help=text)


def add_config_dir(parser: argparse.ArgumentParser) -> None:
    """Add the folder of further configuration, whose files are trusted or not."""
    folder = folder_type(parser)
    text = "a folder of models, efforts and experiments, whose files set values only"
    add = parser.add_mutually_exclusive_group().add_argument
    add("--config-dir", metavar="DIR", type=lambda word: OwnFolder(folder(word)), help=text)
    text = "the same, your own: its files may also name files and run code"
    kind: Any = lambda word: OwnFolder(folder(word), trusted=True)  # noqa: E731
    add("--trust-config", metavar="DIR", dest="config_dir", type=kind, help=text)


def add_project(parser: argparse.ArgumentParser) -> None:
    """Add the place on W&B."""
    parser.add_argument("--project", help="W&B project (default: as recorded)")
    parser.add_argument("--entity", help="W&B user or team (default: as recorded, else yours)")


def add_published(parser: argparse.ArgumentParser) -> None:
    """Add the choice to show published figures too."""
    text = "beside your own figures those of the study keras-xla-benchmarks, on A100, V100, T4 "
    text += "and a GPU without a name: marked as published, without an interval, never pooled "
    text += "with yours"
    parser.add_argument("--with-published", action="store_true", help=text)


def add_model(parser: argparse.ArgumentParser, *forms: str, overrides: str) -> None:
    """Add the model of a question (with help on its overrides), and the answer's form and place."""
    parser.add_argument("overrides", nargs="*", metavar="KEY=VALUE", help=overrides)
    add_output(parser, *(forms or ("text", "json")))
    add_config_dir(parser)


def require_model(command: str, overrides: Sequence[str], chosen: Mapping[str, str] = {}) -> None:
    """Refuse words that are no overrides, and a request without a model.

    Keys that the command sets itself are refused too; the text of each in `chosen` says by what.
    """
    for word in overrides:
        if reason := chosen.get(key_of(word)):
            raise ConfigError(f"{command}: {word}: remove it; {reason}")
    for word in overrides:
        if "=" not in word:
            raise ConfigError(f"{command}: '{word}': expected KEY=VALUE, as in model={word}")
    if not any(word.lstrip("+").startswith("model=") for word in overrides):
        raise ConfigError(f"{command}: name a model: xla-sweeps {command} model=mobilenet_v2")


def read_trials(
    results_dir: Path, rows: Rows, *, only: Collection[str] | None = None
) -> tuple[Mapping[str, Sequence[Record]], Mapping[str, TrialSummary]]:
    """Records and summaries by trial, as `rows.summaries`; warns of unreadable ones."""
    from xla_sweeps.report.terminal.console import progress_bar, warn
    from xla_sweeps.store.rows import summaries

    with progress_bar(f"reading {results_dir}") as advance:
        records, by_trial, problems = summaries(results_dir, rows, only=only, advance=advance)
    warn(*rows.problems, *problems)
    return records, by_trial


def add_fail_on(parser: argparse.ArgumentParser, names: Collection[str], more: str = "") -> None:
    """Add `--fail-on`, whose conditions `conditions_of` checks."""
    text = f"{', '.join(names)}: exit with 1 if there is any (repeatable){more}"
    parser.add_argument("--fail-on", action="append", default=[], metavar="WHAT", help=text)


def conditions_of(given: Sequence[str], names: Collection[str]) -> list[str]:
    """The conditions in values of `--fail-on`."""
    conditions = [word for text in given for word in text.split(",") if word]
    if unknown := [condition for condition in conditions if condition not in names]:
        raise unknown_name("condition of --fail-on", unknown[0], names)
    return conditions
