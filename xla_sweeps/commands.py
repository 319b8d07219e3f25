"""The commands of the command line: their words and options. Each hands over to the module that does the work."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.errors import ConfigError, StoreError


def _results(arguments: Sequence[str]) -> int:
    """Comparison rows of a results folder."""
    parser = _parser("results", "Comparison rows: one per trial, candidate and baseline.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--format", choices=("table", "csv", "json", "parquet"), default="table",
                        help="how to write them (default: table); parquet needs -o")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, help="file to write to (default: standard output)")
    parser.add_argument("--all", action="store_true", help="every baseline, not the headline comparison alone")
    parser.add_argument("--where", metavar="EXPR", help="only these rows: 'family=ConvNeXt and resolution>=224', "
                        "'verdict=slower or not device~A100'; columns: docs/results.md")  # fmt: skip
    options = parser.parse_args(arguments)
    from xla_sweeps import results

    return results.show(options.dir, form=options.format, output=options.output, every=options.all, where=options.where)


def _dashboard(arguments: Sequence[str]) -> int:
    """The local page."""
    parser = _parser("dashboard", "One HTML file with everything that was measured: opens offline, in any browser.")
    parser.add_argument("dirs", nargs="*", metavar="DIR", type=Path, help="results folders (default: results)")
    parser.add_argument("-o", "--output", type=Path, help="file to write (default: dashboard.html in the first folder)")
    parser.add_argument("--where", metavar="EXPR", help="only these rows: 'family=ConvNeXt and resolution=224'")
    parser.add_argument("--compare", action="store_true",
                        help="of two folders: a section on what changed from the first to the second")  # fmt: skip
    parser.add_argument("--title", help="the page's title (default: the folders' names)")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    options = parser.parse_args(arguments)
    from xla_sweeps import dashboarding, where

    dirs = options.dirs or [Path("results")]
    if options.compare and len(dirs) != 2:
        raise ConfigError(f"dashboard: --compare wants exactly two results folders, A and B; there are {len(dirs)}")
    comparison = None
    if options.compare:
        from xla_sweeps import comparing, difference

        comparison = difference.as_section(comparing.between(*dirs, where=options.where))
    return dashboarding.show(
        dirs, options.output, open_it=options.open, title=options.title, comparison=comparison,
        where=where.compile(options.where) if options.where else None,
    )  # fmt: skip


def _import(arguments: Sequence[str]) -> int:
    """Published figures beside measured ones."""
    parser = _parser(
        "import",
        "Put the published figures of the study keras-xla-benchmarks (its CSV) into a results folder, where `results` "
        "and the dashboards show them beside measured rows, marked as imported.",
    )
    parser.add_argument("file", type=Path, help="the CSV file")
    parser.add_argument("--into", default="results", type=Path, metavar="DIR", help="results folder (default: results)")
    parser.add_argument("--name", metavar="LABEL", help="what to know the import by (default: the file's name); the "
                        "same again replaces it")  # fmt: skip
    options = parser.parse_args(arguments)
    from xla_sweeps import results

    return results.add_published(options.file, options.into, label=options.name)


def _compare(arguments: Sequence[str]) -> int:
    """Two results folders against each other."""
    from xla_sweeps.difference import FAIL_ON

    parser = _parser(
        "compare",
        "What changed from results folder A to B: another TensorFlow, driver, machine or flags. A verdict for each "
        "trial and quantity, with false discoveries held at 5 %; exit code 1 where a condition of --fail-on is met.",
    )
    parser.add_argument("a", metavar="A", type=Path, help="what is compared with")
    parser.add_argument("b", metavar="B", type=Path, help="what is in question")
    parser.add_argument("--fail-on", action="append", default=[], metavar="WHAT",
                        help=f"{', '.join(FAIL_ON)}: exit with 1 where there is any (repeatable)")  # fmt: skip
    parser.add_argument("--format", choices=("table", "csv", "json"), default="table", help="(default: table)")
    parser.add_argument("-o", "--output", type=Path, help="file to write to (default: standard output)")
    parser.add_argument("--where", metavar="EXPR", help="only these trials, as in `results --where`")
    options = parser.parse_args(arguments)
    from xla_sweeps import comparing

    conditions = [word for text in options.fail_on for word in text.split(",") if word]
    return comparing.show(
        options.a, options.b, form=options.format, output=options.output, fail_on=conditions, where=options.where
    )


_OPTIONS_OF_LAUNCHERS = {
    "devices": ("local", "wandb"), "address": ("ray",), "slurm": ("slurm",), "chunk": ("slurm",),
    "slots": ("ray", "slurm"),
}  # fmt: skip
"""Options of `sweep` that only some launchers have a use for."""


def _sweep(arguments: Sequence[str]) -> int:
    """Run or resume a sweep definition."""
    from xla_sweeps.launchers import NAMES

    parser = _parser(
        "sweep", "Run a sweep definition in W&B's format; the same command again measures exactly what is missing."
    )
    parser.add_argument("file", type=Path, help="the definition, as in sweeps/smoke.yaml")
    parser.add_argument("overrides", nargs="*", help="key=value for every trial; they win over the file")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and their number, run nothing")
    parser.add_argument("--max-trials", type=int, default=10_000, help="refuse more than this (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of a random or bayes search (default: 0)")
    parser.add_argument("--launcher", choices=NAMES, default="local", help="where trials run (default: local)")
    parser.add_argument("--devices", metavar="D,D", help="local, wandb: gpu:0,gpu:1, or cpu:0,cpu:1 to split the cores "
                        "(default: every GPU, else the CPU as one)")  # fmt: skip
    parser.add_argument("--retry", action="append", default=[], metavar="STATUS",
                        help="measure trials of this status again (repeatable)")  # fmt: skip
    parser.add_argument("--rerun", metavar="COLUMN=VALUE",
                        help="one more replicate where `results` says so, as in verdict=ambiguous")  # fmt: skip
    parser.add_argument("--address", help="ray: the cluster's address (default: start one on this machine)")
    parser.add_argument("--slurm", action="append", default=[], metavar="KEY=VALUE",
                        help="slurm: an option of sbatch, as in partition=gpu (repeatable)")  # fmt: skip
    parser.add_argument("--chunk", type=int, default=1, help="slurm: trials in one task of the job array (default: 1)")
    parser.add_argument("--slots", type=int, default=1000,
                        help="ray, slurm: the most jobs in the cluster's queue at once (default: 1000)")  # fmt: skip
    options = parser.parse_intermixed_args(arguments)
    for name, launchers in _OPTIONS_OF_LAUNCHERS.items():
        if getattr(options, name) != parser.get_default(name) and options.launcher not in launchers:
            raise ConfigError(f"--{name} is for --launcher {' or '.join(launchers)}, not for {options.launcher}")
    from xla_sweeps import sweeping

    chosen = sweeping.Options(
        path=options.file, overrides=tuple(options.overrides), launcher=options.launcher, devices=options.devices,
        dry_run=options.dry_run, max_trials=options.max_trials, seed=options.seed,
        retry=sweeping.statuses(options.retry), rerun=_pair(options.rerun, "--rerun") if options.rerun else None,
        address=options.address, slurm=dict(_pair(text, "--slurm") for text in options.slurm),
        chunk=max(1, options.chunk), slots=max(1, options.slots),
    )  # fmt: skip
    if options.launcher == "wandb" and not options.dry_run:
        from xla_sweeps import agents

        return agents.launch(chosen)
    return sweeping.run(chosen)


def _pair(text: str, option: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise ConfigError(f"{option} {text}: write KEY=VALUE")
    return key, value


def _agents(arguments: Sequence[str]) -> int:
    """One W&B agent per device."""
    parser = _parser("agents", "Join a W&B sweep: one real `wandb agent` on each device of this machine.")
    parser.add_argument("sweep", metavar="ENTITY/PROJECT/ID", help="as `wandb sweep` prints it")
    parser.add_argument(
        "--devices", metavar="D,D", help="gpu:0,gpu:1 or cpu:0,cpu:1 (default: every GPU, else the CPU)"
    )
    parser.add_argument(
        "--results-dir", type=Path, default=Path("results"), help="for the agents' logs (default: results)"
    )
    parser.add_argument("--max-failed", type=int, default=20,
                        help="trials in a row that may fail before an agent gives up (default: 20)")  # fmt: skip
    options = parser.parse_args(arguments)
    from xla_sweeps import agents

    return agents.run(
        options.sweep, devices=options.devices, results_dir=options.results_dir, max_failed=options.max_failed
    )


def _models(arguments: Sequence[str]) -> int:
    """The catalog."""
    parser = _parser("models", "The model catalog.")
    parser.add_argument("pattern", nargs="?", default="", help="part of a name or family, or a glob: 'regnet*'")
    options = parser.parse_args(arguments)
    from xla_sweeps import catalog
    from xla_sweeps.terminal.tables import show_model, show_models

    exact = catalog.load_catalog().get(options.pattern)
    entries = catalog.find(options.pattern)
    if not entries:
        raise catalog.unknown_model(options.pattern)
    if exact is not None:
        show_model(exact)
    else:
        show_models(entries)
    return 0


def _hub_replicas(arguments: Sequence[str]) -> int:
    """Replicas of TensorFlow Hub's models, made ahead of the trials that need them."""
    parser = _parser(
        "hub-replicas",
        "Make the SavedModels that source=hub runs with weights=random: the published architectures with random "
        "weights, once, into a cache ($XLA_SWEEPS_CACHE, else ~/.cache/xla-sweeps). A trial makes its own if need be.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="models, or globs: 'swin_*' (default: all of them)")
    parser.add_argument("--list", action="store_true", help="show which there are and where, make none")
    options = parser.parse_args(arguments)
    from xla_sweeps import hub_replicas

    return hub_replicas.show(options.names) if options.list else hub_replicas.make(options.names)


def _doctor(arguments: Sequence[str]) -> int:
    """Devices, versions, flags, and whether the machine is quiet enough to measure on."""
    parser = _parser("doctor", "Devices, versions, flags, and whether this machine is quiet enough to measure on.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--seconds", type=float, default=3.0, help="how long to watch the machine (default: 3)")
    options = parser.parse_args(arguments)
    from xla_sweeps import doctor
    from xla_sweeps.terminal.tables import show_findings

    findings = doctor.diagnose(options.dir, seconds=options.seconds)
    show_findings([(item.level, item.subject, item.found, item.mend) for item in findings])
    return 1 if any(item.level == "bad" for item in findings) else 0


def _check_results(arguments: Sequence[str]) -> int:
    """An independent check of a results folder."""
    parser = _parser(
        "check",
        "Look a results folder over, with code that shares nothing with what wrote it: names, numbers, times, samples, "
        "and that nothing is there twice. Exit code 1 where something is wrong.",
    )
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    options = parser.parse_args(arguments)
    if not (options.dir / "records").is_dir():
        raise StoreError(f"{options.dir} holds no records")
    from xla_sweeps.checking import check

    counts, problems = check(options.dir)
    for problem in problems:
        print(problem)
    print(f"{options.dir}: {', '.join(f'{count} {word}' for word, count in counts.items())}; {len(problems)} problems")
    return 1 if problems else 0


def _push(arguments: Sequence[str]) -> int:
    """Send records to W&B that it does not have."""
    parser = _parser("push", "Send the records that Weights & Biases does not have; safe to repeat.")
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--project", help="W&B project (default: as recorded)")
    parser.add_argument("--entity", help="W&B entity (default: as recorded)")
    parser.add_argument("--force", action="store_true", help="send them again even where W&B has them")
    options = parser.parse_args(arguments)
    from xla_sweeps import results

    return results.push(options.dir, project=options.project, entity=options.entity, force=options.force)


def _report(arguments: Sequence[str]) -> int:
    """A W&B report, workspace and summary run."""
    parser = _parser(
        "report",
        "Write a report of the results to Weights & Biases: the page's questions with computed tables and live panels, "
        "a saved workspace, and a summary run with the comparison table and its Parquet file. The same command again "
        "updates them. Needs pip install 'xla-sweeps[report]' and, but for --dry-run, `wandb login` or WANDB_API_KEY; "
        "`xla-sweeps push` sends the runs that the panels show.",
    )
    parser.add_argument("dir", nargs="?", default="results", type=Path, help="results folder (default: results)")
    parser.add_argument("--entity", help="W&B user or team (default: as recorded, else your default)")
    parser.add_argument("--project", help="W&B project (default: as recorded)")
    parser.add_argument("--dry-run", action="store_true",
                        help="write the report's and the workspace's JSON instead; no account, no network")  # fmt: skip
    parser.add_argument("-o", "--output", type=Path, metavar="FILE",
                        help="file for the JSON of --dry-run (default: standard output)")  # fmt: skip
    options = parser.parse_args(arguments)
    from xla_sweeps import reporting

    return reporting.report(
        options.dir, entity=options.entity, project=options.project, dry_run=options.dry_run, output=options.output
    )


def _parser(name: str, description: str) -> argparse.ArgumentParser:
    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> Any:
            raise ConfigError(f"{name}: {message}; `xla-sweeps {name} --help` shows the usage")

    return Parser(prog=f"xla-sweeps {name}", description=description)


COMMANDS: dict[str, Callable[[Sequence[str]], int]] = {
    "sweep": _sweep,
    "agents": _agents,
    "results": _results,
    "dashboard": _dashboard,
    "import": _import,
    "compare": _compare,
    "models": _models,
    "hub-replicas": _hub_replicas,
    "doctor": _doctor,
    "push": _push,
    "report": _report,
    "check": _check_results,
}
