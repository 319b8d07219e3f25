"""The command line: the module of a command parses, calls, prints and returns an exit code."""

from __future__ import annotations

from typing import NamedTuple


class Command(NamedTuple):
    """A command, as `--help` lists it.

    Attributes:
        arguments: what follows its name, in short.
        help: what it does, in one line.
        module: where it is, unless in the module of its name; imported when it is run, so that no
            command waits for the imports of another.
    """

    arguments: str
    help: str
    module: str = ""


COMMANDS = {
    "results": Command("[DIR]", "rows of a results folder: table, csv, json, parquet, latex …"),
    "plot": Command("[DIR]", "the sorted speedups of a results folder as an SVG", module="results"),
    "dashboard": Command("[DIR …]", "one HTML file with everything measured; opens offline"),
    "compare": Command("A B", "changes between two results folders: versions, drivers, machines"),
    "guard": Command("model=…", "did a change make the model slower? Two environments in turn"),
    "advise": Command("model=…", "which setting to use, what it gains, and what to write"),
    "sweep": Command("FILE", "run or resume a sweep: on this machine, Ray, Slurm or by W&B agents"),
    "agents": Command("SWEEP", "join a W&B sweep: one real `wandb agent` on each device"),
    "explain": Command(
        "model=…", "operations that XLA rejects, silent traps, graph breaks, where the time goes"
    ),
    "predict-cost": Command(
        "model=…",
        "costs of model.predict per call and sample, and when to call the model instead",
        module="answers",
    ),
    "batch-sizes": Command(
        "model=…",
        "throughput, latency and memory from batch 1 to the limit, and the knee",
        module="answers",
    ),
    "shapes": Command(
        "model=…",
        "what a new shape costs in each mode, and from how many calls XLA pays",
        module="answers",
    ),
    "compatibility": Command(
        "[PATTERN]", "which models and layers compile under XLA, agree with eager, and are faster"
    ),
    "models": Command(
        "[PATTERN]", "the catalog: family, sources, resolution, parameters, multiply-accumulates"
    ),
    "hub-replicas": Command(
        "[NAME]",
        "build and cache the SavedModels that source=hub runs with random weights",
        module="models",
    ),
    "doctor": Command("", "devices, versions, flags, and whether this machine is quiet enough"),
    "push": Command("[DIR]", "send Weights & Biases the records that it lacks", module="results"),
    "report": Command("[DIR]", "write or update a report on Weights & Biases", module="dashboard"),
    "workspace": Command(
        "[DIR]", "save or update a view of the project on Weights & Biases", module="dashboard"
    ),
    "check": Command("[DIR]", "validate a results folder: digests, records, duplicates, kept rows"),
}
"""Every command, in the order of `--help`."""
