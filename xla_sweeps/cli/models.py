"""The commands `models` and `hub-replicas`."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from pathlib import Path

from xla_sweeps.cli.arguments import add_config_dir, add_output, command_parser
from xla_sweeps.config import catalog
from xla_sweeps.config.catalog import SOURCES, load_catalog
from xla_sweeps.config.compose import own_entries
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.report.export import csv_text, write_json, write_text
from xla_sweeps.report.terminal.console import progress_bar, progress_console, say, warn
from xla_sweeps.report.terminal.models import model_facts, show_model, show_models, show_replicas
from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import environment, programs
from xla_sweeps.system.installation import how_to_install


def models_command(arguments: Sequence[str]) -> int:
    """List the catalog, or show one model."""
    parser = command_parser("models")
    text = "part of a name or family, or a glob: 'regnet*'"
    parser.add_argument("pattern", nargs="?", default="", help=text)
    add_config_dir(parser)
    add_output(parser, "table", "csv", "json")
    options = parser.parse_args(arguments)
    own, problems = own_entries(options.config_dir)
    catalog_entries = dict(sorted({**own, **load_catalog()}.items()))
    exact = catalog_entries.get(options.pattern)
    entries = catalog.find(options.pattern, catalog_entries.values())
    for problem in problems:
        if problem.startswith(f"model={options.pattern} "):
            raise ConfigError(problem)
    warn(*problems)
    if not entries:
        raise catalog.unknown_model(options.pattern)
    facts = [model_facts(entry) for entry in ([exact] if exact else entries)]
    if options.format == "json":
        write_json(facts, options.output)
    elif options.format == "csv":
        write_text(csv_text(facts, list(facts[0])), options.output)
    elif exact is not None:
        show_model(exact)
    else:
        show_models(entries)
    return 0


def hub_replicas_command(arguments: Sequence[str]) -> int:
    """Build replicas of TensorFlow Hub's models before the trials that need them."""
    parser = command_parser(
        "hub-replicas",
        "They have the published architectures; the cache is $XLA_SWEEPS_CACHE, else "
        "~/.cache/xla-sweeps. A trial builds the one that it needs if it is not there.",
    )
    text = "models, or globs: 'swin_*' (default: all of them)"
    parser.add_argument("names", nargs="*", metavar="NAME", help=text)
    parser.add_argument("--list", action="store_true", help="list them and their places only")
    options = parser.parse_args(arguments)
    return show(options.names) if options.list else make(options.names)


SOURCE = "hub"

_NEEDED = (SOURCES[SOURCE].module, "keras_hub", "keras_cv")


def show(names: Sequence[str]) -> int:
    """List the replicas."""
    show_replicas([(name, folder, _size(folder)) for name, folder in _folders_of(names).items()])
    return 0


def make(names: Sequence[str]) -> int:
    """Build the missing replicas, each in a process of its own; one that fails stops no other.

    Raises:
        ConfigError: no such model, or a library that builds replicas is not installed.
    """
    chosen = _folders_of(names)
    if missing := [module for module in _NEEDED if not environment.is_installed(module)]:
        lacking = f"hub-replicas: {', '.join(missing)} is not installed"
        raise ConfigError(f"{lacking}; install it: {how_to_install('hub')}")
    todo = [name for name, folder in chosen.items() if _size(folder) is None]
    failed = []
    with progress_bar("building replicas") as advance:
        for number, name in enumerate(todo):
            advance(number, len(todo))
            say(f"building {name}", console=progress_console())
            done = programs.run(default_backend(), "replicas", name, limit_s=None)
            if done.code:
                failed.append(name)
                warn(f"{name}: cannot build: {done.reason}")
    show(list(chosen))
    return 1 if failed else 0


def _folders_of(names: Sequence[str]) -> dict[str, Path]:
    """Folders of the replicas that match the names and globs; of all replicas without any."""
    models = [entry.name for entry in load_catalog().values() if SOURCE in entry.sources]
    chosen: list[str] = []
    for pattern in names or ["*"]:
        matching = fnmatch.filter(models, pattern)
        if not matching:
            raise unknown_name("model of source=hub", pattern, models)
        chosen += [name for name in matching if name not in chosen]
    return {name: environment.replica_folder(name) for name in chosen}


def _size(folder: Path) -> int | None:
    """Bytes of a replica; None if it is not there."""
    if not (folder / "saved_model.pb").is_file():
        return None
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
