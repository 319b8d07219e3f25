"""The command line: one module per command parses, calls, prints and returns an exit code."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

from xla_sweeps.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A command, as `--help` lists it.

    Attributes:
        usage: how it is called, in short.
        help: what it does, in one line.
        function: where it is; imported when it is run, so that no command waits for the imports of
            another.
    """

    usage: str
    help: str
    function: str


COMMANDS = {
    "results": Command(
        usage="results [DIR]",
        help="comparison rows of a results folder, as table, csv, json or parquet",
        function="xla_sweeps.cli.results:results_command",
    ),
    "dashboard": Command(
        usage="dashboard [DIR …]",
        help="one HTML file with everything measured; opens offline, in any browser",
        function="xla_sweeps.cli.dashboard:dashboard_command",
    ),
    "import": Command(
        usage="import FILE.csv",
        help="add published figures (keras-xla-benchmarks) to a results folder, marked as such",
        function="xla_sweeps.cli.results:import_command",
    ),
    "compare": Command(
        usage="compare A B",
        help="changes between two results folders: versions, drivers, machines",
        function="xla_sweeps.cli.compare:compare_command",
    ),
    "sweep": Command(
        usage="sweep FILE",
        help="run or resume a sweep: on this machine, Ray, Slurm or by W&B agents",
        function="xla_sweeps.cli.sweep:sweep_command",
    ),
    "agents": Command(
        usage="agents SWEEP",
        help="join a W&B sweep: one real `wandb agent` on each device",
        function="xla_sweeps.cli.agents:agents_command",
    ),
    "explain": Command(
        usage="explain model=…",
        help="operations that XLA rejects, silent traps, and where the time goes",
        function="xla_sweeps.cli.explain:explain_command",
    ),
    "predict-cost": Command(
        usage="predict-cost model=…",
        help="costs of model.predict per call and sample, and when to call the model instead",
        function="xla_sweeps.cli.predict_cost:predict_cost_command",
    ),
    "models": Command(
        usage="models [PATTERN]",
        help="the catalog: family, sources, resolution, parameters, multiply-accumulates",
        function="xla_sweeps.cli.models:models_command",
    ),
    "hub-replicas": Command(
        usage="hub-replicas [NAME]",
        help="build and cache the SavedModels that source=hub runs with random weights",
        function="xla_sweeps.cli.models:hub_replicas_command",
    ),
    "make-data": Command(
        usage="make-data FOLDER",
        help="draw a small set of JPEGs to train on: TFRecord files or a folder of classes",
        function="xla_sweeps.cli.make_data:make_data_command",
    ),
    "doctor": Command(
        usage="doctor",
        help="devices, versions, flags, and whether this machine is quiet enough",
        function="xla_sweeps.cli.doctor:doctor_command",
    ),
    "push": Command(
        usage="push [DIR]",
        help="send Weights & Biases the records that it does not have",
        function="xla_sweeps.cli.results:push_command",
    ),
    "report": Command(
        usage="report [DIR]",
        help="write or update a Weights & Biases report and summary run",
        function="xla_sweeps.cli.dashboard:report_command",
    ),
    "check": Command(
        usage="check [DIR]",
        help="validate a results folder: digests, records, duplicates, kept rows",
        function="xla_sweeps.cli.check:check_command",
    ),
}
"""Every command, in the order of `--help`."""


def command_parser(name: str, details: str = "") -> argparse.ArgumentParser:
    """A parser that raises its errors as a `ConfigError` of one line.

    Args:
        name: of the command.
        details: sentences that follow the command's one line of help.
    """

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ConfigError(f"{name}: {message}; `xla-sweeps {name} --help` shows the usage")

    summary = COMMANDS[name].help
    description = f"{summary[0].upper()}{summary[1:]}. {details}"
    return Parser(prog=f"xla-sweeps {name}", description=description)
