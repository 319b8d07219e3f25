"""Options that do not define the trial: where it is measured, and how it is shown."""

from __future__ import annotations

from dataclasses import fields

from xla_sweeps.schema.option import Option
from xla_sweeps.schema.trial import Timeouts

TRACKERS = {
    "wandb_offline": ("xla_sweeps.report.wandb.tracker:offline_tracker", "no account"),
    "wandb": ("xla_sweeps.report.wandb.tracker:online_tracker", "online"),
    "none": ("xla_sweeps.trial.tracking:Tracker", ""),
}
"""Maker of each tracker, imported when it is chosen; and its meaning, unless its name says it."""

WANDB_TRACKERS = ("wandb_offline", "wandb")

WANDB_VARIABLES = {
    **{"entity": "WANDB_ENTITY", "group": "WANDB_RUN_GROUP", "run_name": "WANDB_NAME"},
    **{"notes": "WANDB_NOTES", "job_type": "WANDB_JOB_TYPE"},
}
"""W&B's variables for keys of `tracker`."""

WANDB_DIR = "WANDB_DIR"
"""W&B's variable for the folder of its files, in place of the results folder."""

ENVIRONMENT = (
    Option(
        usage="device=NAME",
        help="what to measure on",
        default="auto",
        choices={"auto": "the first GPU, else the CPU", "cpu": "", "gpu": "", "gpu:N": ""},
    ),
    Option(
        usage="accelerator=NAME",
        help="part of the device's name, such as A100: launchers send the trial to such a device, "
        "and any other refuses it",
        unset="any",
    ),
    Option(
        usage="results_dir=DIR",
        help="folder for records, logs, W&B and Hydra files; only on the command line",
        default="results",
        foreign="nothing",
    ),
    Option(
        usage="tracker=NAME",
        help="where runs are shown; tracker.KEY=VALUE sets project, entity, group, run_name, "
        "notes, job_type, tags or telemetry (true: power, clock and foreign cores of each round)",
        default="auto",
        choices={
            "auto": "none, unless you use W&B: then what its variables say, else wandb_offline",
            **{name: meaning for name, (_, meaning) in TRACKERS.items()},
        },
        keys={
            "project": "xla-sweeps",
            **dict.fromkeys(("entity", "group", "run_name", "notes", "job_type")),
            "tags": [],
            "telemetry": False,
        },
    ),
    Option(
        usage="ui=MODE",
        help="progress on the terminal",
        default="auto",
        choices={
            "auto": "",
            "live": "",
            "plain": "a line per event",
            "quiet": "results and warnings only",
            "json": "an object per line on standard output, for programs",
        },
    ),
    Option(
        usage="timeouts.STAGE=S",
        help="deadline of a stage, seconds",
        unset=", ".join(
            f"{setting.name.removesuffix('_s')} {setting.default}" for setting in fields(Timeouts)
        ),
        keys={setting.name.removesuffix("_s"): setting.default for setting in fields(Timeouts)},
    ),
    Option(
        usage="memory_limit_gib=X",
        help="stop the measuring process above it, GiB",
        unset="90 % of the memory",
    ),
)
"""Options that do not define the trial."""
