"""The two sides of a guard: an interpreter, a folder and a trial each, and what differs."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypedDict

import msgspec

from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.local_model import require_same_files
from xla_sweeps.config.own_files import SEARCHED
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import Settings, settings_of
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.backend import backends_of, default_backend
from xla_sweeps.schema.modes import parse
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.schema.record import ModelFacts
from xla_sweeps.schema.trial import Trial
from xla_sweeps.system.environment import commit_of, cpu_environment
from xla_sweeps.system.files import scratch_folder
from xla_sweeps.system.process import adopting_orphans
from xla_sweeps.system.text import last_line_of
from xla_sweeps.trial.workers import WorkerCommand, commands_of
from xla_sweeps.version import __version__

PROBE_S = 120.0  # seconds that an interpreter has to say what it is

_PROBE = """
import json, sys
from xla_sweeps import __version__
print(__version__)
from xla_sweeps.system.environment import environment
print(json.dumps({"search": sys.path, **environment()}))
"""


_RUN = ("sh", "-c", 'ulimit -f 8192; exec "$@"', "sh")
"""Runs a program whose files, its output too, end at 4 MiB."""


class Facts(TypedDict):
    """Facts of an interpreter: where it looks for modules, and what it has."""

    search: list[str]
    python: str
    packages: dict[str, str]
    git: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side of a guard: `own` overrides, and the `environment()` of its interpreter."""

    name: str
    python: str
    folder: Path
    own: tuple[str, ...]
    settings: Settings
    facts: Facts
    commit: str

    def command(self, asked: Trial, log: Path, place: int = 0) -> WorkerCommand:
        """The command of its worker, at a place, in a trial with these modes and this effort."""
        trial = replace(
            self.settings.trial, modes=asked.modes, copies=asked.copies, effort=asked.effort
        )
        command = commands_of(trial, self.settings.device, log)[place]
        return replace(command, python=self.python, folder=self.folder)

    def require_same_files(self) -> None:
        """Refuse an own model that is no longer the one whose calls were to be compared.

        Raises:
            ConfigError: its files changed meanwhile.
        """
        model = self.settings.trial.model
        if model.source != LOCAL:
            return
        with contextlib.chdir(self.folder), _searching(self.facts["search"]):
            try:
                require_same_files(model)
            except ConfigError as error:
                raise ConfigError(f"--{self.name}: {error}") from error


def side_of(
    name: str,
    text: str,
    words: Sequence[str],
    own: Sequence[str] = (),
    *,
    config_dir: OwnFolder | None = None,
) -> Side:
    """Check one side before anything is measured; `XlaSweepsError` says what a trial lacks."""
    where = f"--{name} {text}"
    try:
        environment, folder = _split_side(text, where)
        python = _python_of(environment, where)
    except OSError as error:
        raise ConfigError(f"{where}: {error.filename}: {error.strerror}") from error
    facts = _probe(python, folder, where)
    all_words, place = [*words, *own], config_dir and config_dir.absolute()
    with contextlib.chdir(folder), _searching(facts["search"]):
        try:
            document = compose_config(all_words, config_dir=place)
            settings = settings_of(document, explicit=keys_of(all_words))
        except (ConfigError, OSError) as error:  # the other side's folders may be no names
            raise ConfigError(f"{where}: {error}") from error
    backend = backends_of(settings.trial)[0]
    library = next(iter(backend.packages))
    if library not in facts["packages"]:
        raise ConfigError(f"{where}: {backend.title} is not installed there ({python})")
    return Side(
        name=name,
        python=python,
        folder=folder,
        own=tuple(own),
        settings=settings,
        facts=facts,
        commit=commit_of(folder),
    )


def _split_side(text: str, where: str) -> tuple[str, Path]:
    """Interpreter or environment, and the folder: by default the current one."""
    environment, at, folder = text.rpartition("@")
    if not at or Path(text).expanduser().exists():
        return text, Path.cwd()
    place = Path(folder).expanduser().absolute()
    if not folder or not place.is_dir():
        raise ConfigError(f"{where}: there is no folder {folder or '(no name)'}")
    return environment, place


def _python_of(environment: str, where: str) -> str:
    """The interpreter, without following links: a virtual environment's is one."""
    place = Path(environment).expanduser().absolute()
    python = place / "bin" / "python" if place.is_dir() else place
    if not environment or not python.is_file() or not os.access(python, os.X_OK):
        raise ConfigError(
            f"{where}: no interpreter there; give the path of a python, or the folder of a "
            "virtual environment"
        )
    return str(python)


def _probe(python: str, folder: Path, where: str) -> Facts:
    """The facts of an interpreter's packages, and where it looks for modules."""
    with scratch_folder() as scratch:
        names = (scratch / "output", scratch / "errors")
        try:
            with (
                names[0].open("wb") as output,
                names[1].open("wb") as errors,
                adopting_orphans() as mark,
            ):
                code = subprocess.run(
                    [*_RUN, python, "-P", "-c", _PROBE],
                    cwd=folder,
                    env=cpu_environment(default_backend()) | mark,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    check=False,
                    timeout=PROBE_S,
                ).returncode
        except OSError as error:
            raise ConfigError(f"{where}: {python} cannot be run: {error}") from error
        except subprocess.TimeoutExpired as error:
            raise ConfigError(f"{where}: {python} gave no answer in {PROBE_S:g} s") from error
        said, complaint = (path.read_text(errors="replace") for path in names)
    if "No module named 'xla_sweeps'" in complaint:
        raise ConfigError(f"{where}: xla_sweeps is not installed there ({python})")
    lines = said.splitlines()
    if lines and lines[0] != __version__:
        raise ConfigError(
            f"{where}: it has xla_sweeps {lines[0]}, this is {__version__}; both sides need the "
            "same version as the command"
        )
    try:
        return msgspec.json.decode(lines[1], type=Facts)
    except (IndexError, ValueError, RecursionError) as error:
        reason = last_line_of(complaint) or (str(error) if lines[1:] else f"exit code {code}")
        raise ConfigError(f"{where}: {python} cannot load xla_sweeps: {reason}") from error


@contextlib.contextmanager
def _searching(folders: Sequence[str]) -> Iterator[None]:
    """Look for a model's module in these folders first."""
    token = SEARCHED.set(tuple(folders))
    try:
        yield
    finally:
        SEARCHED.reset(token)


def require_comparable(before: Trial, after: Trial) -> None:
    """Refuse trials whose calls cannot take turns or do not do the same, by a `ConfigError`."""
    for name in ("device", "scenario", "copies", "effort"):
        if getattr(before, name) != getattr(after, name):
            raise ConfigError(f"{name}: both sides need the same")
    for trial in (before, after):
        shown = f"modes=[{','.join(trial.modes)}]"
        if any(parse(label)[1] > 1 for label in trial.modes):
            raise ConfigError(f"{shown}: name each once; guard measures it on both sides")
        if len(trial.workers) > 1:
            raise ConfigError(f"{shown}: guard measures modes of one framework on each side")


def differences(
    before: Side, after: Side, models: Mapping[str, ModelFacts]
) -> dict[str, tuple[str, str]]:
    """The two sides of everything known that differs, by its name."""
    first, second = (_describe_side(side, models.get(side.name)) for side in (before, after))
    names = dict.fromkeys([*first, *second])
    both = {name: (first.get(name, "—"), second.get(name, "—")) for name in names}
    return {name: pair for name, pair in both.items() if pair[0] != pair[1]}


def _describe_side(side: Side, model: ModelFacts | None) -> dict[str, str]:
    """Everything that may differ, as texts."""
    read = side.facts
    facts = {
        "Python": read["python"],
        **read["packages"],
        "xla_sweeps": read["git"],
        "commit": side.commit,
        "model file": side.settings.trial.model.recipe.get("fingerprint", ""),
        "options": " ".join(side.own),
    }
    if model:
        facts |= {
            "parameters": f"{model.params:,}" if model.params is not None else "",
            "multiply-accumulates": f"{model.macs:,}" if model.macs is not None else "",
            "operations": f"{model.graph_operations or ''}",
        }
    return {name: str(value) for name, value in facts.items() if value}
