"""The command `compatibility`: the models and layers that compile, agree and are faster."""

from __future__ import annotations

import argparse
import fnmatch
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from xla_sweeps.analysis.compatibility import CHECK, COLUMNS, Row, with_own_status
from xla_sweeps.cli.arguments import add_config_dir, add_output, command_parser, read_trials
from xla_sweeps.cli.sweep import Request, measure_aside, not_measured, slots_of
from xla_sweeps.cli.sweep_options import Options
from xla_sweeps.config import catalog
from xla_sweeps.config.compose import override_values, own_entries
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.values import integer_from
from xla_sweeps.errors import LEFT_CODE, ConfigError, unknown_name
from xla_sweeps.report import export
from xla_sweeps.report.compatibility import markdown_text, sentence, text_of
from xla_sweeps.report.terminal.console import warn
from xla_sweeps.schema.comparisons import headline_of
from xla_sweeps.schema.options import LOCAL
from xla_sweeps.schema.row import row_dict
from xla_sweeps.store import rows
from xla_sweeps.sweeps.compose import Composer, Task
from xla_sweeps.sweeps.definition import Sweep
from xla_sweeps.sweeps.launchers import AHEAD
from xla_sweeps.sweeps.plan import Plan, assign_records, costs_of

_NAME = "compatibility"

_EXAMPLES = """\
  xla-sweeps compatibility regnet
  xla-sweeps compatibility 'yolo*' scenario=detect
  xla-sweeps compatibility vgg16 scenario=train_step precision=mixed_bfloat16
  xla-sweeps compatibility layers:LSTM layers:Resizing
  xla-sweeps compatibility model=local path=my_model.keras trust_code=true
"""

Values = Mapping[str, Any]


def compatibility_command(arguments: Sequence[str]) -> int:
    """Check what is missing, and show it all; exit code 3 if something is left to check."""
    options = _parser().parse_intermixed_args(list(arguments))
    export.require_writable(options.output)
    given = [word for word in options.words if "=" in word]
    patterns = [word for word in options.words if "=" not in word]
    asked = Options(
        file=Path(_NAME),
        overrides=given,
        config_dir=options.config_dir,
        launching={"ahead": options.ahead},
        dry_run=options.dry_run,
        accept_contaminated=True,  # other load does not change what compiles
    )
    sweep = Sweep(name=_NAME, method="grid", parameters={}, run_cap=None)
    again = ("xla-sweeps", _NAME, *arguments)
    request = Request(asked, sweep, slots_of(asked), again=again, compares=False)
    request.composer.base()  # a mistake in what all trials share is told at once
    values = override_values(given)
    trials = _trials(patterns, values, options.config_dir, options.largest_px)
    tasks, skipped = _compose(request.composer, trials)
    runs = rows.load_runs(request.store)
    warn(*runs.problems)
    assign_records(tasks, runs, software=request.composer.software, retry=())
    plan = Plan(tasks=tasks, repeated=0, costs=costs_of(runs))
    code = measure_aside(request, plan)
    if code > 128 or options.dry_run:
        return code
    checks = _checks(request.store.results_dir, tasks)
    if not checks:
        raise not_measured(request, f"{_NAME}: no model")
    _write(checks, skipped, options.format, options.output)
    return code or (LEFT_CODE if len(checks) < len(tasks) else 0)


def _parser() -> argparse.ArgumentParser:
    parser = command_parser(
        _NAME,
        "Runs a short trial (effort=check, batch_size=1) of each model that matches, from each of "
        "its sources: does it compile, does it compute what eager computes, is it faster? The "
        "records are kept: run it again to check exactly what is missing.",
        examples=_EXAMPLES,
    )
    text = "part of a model's name or family, a source, or a glob (default: all models); "
    text += "layers:NAME is a layer of Keras; KEY=VALUE an option of every trial"
    parser.add_argument("words", nargs="*", metavar="PATTERN", help=text)
    text = "reduce larger native resolutions to it (default: 384)"
    kind = integer_from(32, to=4096)
    parser.add_argument("--largest-px", type=kind, default=384, metavar="PX", help=text)
    parser.add_argument("--ahead", default=0, **AHEAD["ahead"])
    parser.add_argument("--dry-run", action="store_true", help="print the trials that are missing")
    add_output(parser, "text", "csv", "json", "markdown")
    add_config_dir(parser)
    return parser


def _trials(
    patterns: Sequence[str], given: Values, folder: OwnFolder | None, largest_px: int
) -> Iterator[Values]:
    """The values of the trial of each model; those that are `given` win over them."""
    if "model" in given and patterns:
        raise ConfigError(f"{_NAME}: give {patterns[0]} or model=, not both")
    shared: dict[str, Any] = {"effort": CHECK, "batch_size": 1}
    if not {"modes", "jit", "backend"} & {*given}:
        shared["modes"] = list(headline_of(given.get("scenario", "")))
    if "model" in given:
        yield shared
        return
    for pattern in patterns or [""]:
        kind, colon, name = pattern.partition(":")
        if kind == "layers":
            every = catalog.load_layers()
            matching = fnmatch.filter(every, name if colon else "*")
            if not matching:
                raise unknown_name("layer", name, every)
            for layer in matching:
                own = {"path": f"{catalog.LAYERS}:{layer}", "trust_code": True}
                yield {"model": LOCAL, **own, **shared}
        else:
            for entry, source in _entries(pattern, given.get("source", "auto"), folder):
                size = _resolution(entry, source, largest_px)
                yield {"model": entry.name, "source": source, "resolution": size, **shared}


def _entries(
    pattern: str, asked: str, folder: OwnFolder | None
) -> Iterator[tuple[catalog.CatalogEntry, str]]:
    """The entries of the catalog and a folder that match, with each source that is asked for."""
    own, problems = own_entries(folder)
    warn(*problems)
    entries = {**own, **catalog.load_catalog()}.values()
    named = {entry.name for entry in catalog.find(pattern, entries)}
    pairs = [
        (entry, source)
        for entry in entries
        for source in entry.sources
        if entry.name in named or fnmatch.fnmatchcase(source, pattern)
    ]
    if not pairs:
        words = {*catalog.names(), *own, *catalog.SOURCES, *(entry.family for entry in entries)}
        raise unknown_name("model, family or source", pattern, words)
    yield from (pair for pair in pairs if asked in ("auto", pair[1]))


def _resolution(entry: catalog.CatalogEntry, source: str, largest_px: int) -> int:
    """The native resolution, px, or one below `largest_px` where the model takes it."""
    chosen, is_px = entry.sources[source], entry.task != "example"
    if entry.resolution <= largest_px or chosen.fixed_resolution or not is_px:
        return entry.resolution
    least = max(entry.min_resolution, chosen.min_resolution)
    return max(least, largest_px // entry.divisor * entry.divisor)


def _compose(composer: Composer, trials: Iterator[Values]) -> tuple[list[Task], Counter[str]]:
    """The trials, each once, and how many are refused by which reason; an error if all are."""
    tasks: dict[str, Task] = {}
    skipped, errors = Counter[str](), list[ConfigError]()
    for values in trials:
        try:
            task = composer.task(values)
        except ConfigError as error:
            errors.append(error)
            skipped[str(error).replace(str(values.get("model")), "it")] += 1
        else:
            tasks.setdefault(task.key, task)
    if not tasks:
        raise errors[0] if errors else ConfigError(f"{_NAME}: no model has this source")
    return list(tasks.values()), skipped


def _checks(results_dir: Path, tasks: Sequence[Task]) -> list[Row]:
    """The headline row of each trial that has a record, with `rmse_rel`, in their order."""
    ids = [name for task in tasks for name in task.trial_ids]
    _, summaries = read_trials(results_dir, rows.load(results_dir), only=set(ids))
    checks = list[Row]()
    for task in tasks:
        measured = [summaries[name] for name in task.trial_ids if name in summaries]
        if not measured:
            continue
        summary = measured[0]  # of several devices one is enough
        row = next(row for row in summary.comparisons if row.headline)
        (rmse,) = (one.rmse_rel for one in summary.modes if one.label == row.candidate.mode)
        checks.append({**with_own_status(row_dict(row)), "rmse_rel": rmse})
    return checks


def _write(rows: Sequence[Row], skipped: Values, form: str, output: Path | None) -> None:
    columns = (*COLUMNS, "rmse_rel")
    if form == "json":
        shown = [{name: row[name] for name in columns} for row in rows]
        answer = {"answer": sentence(rows), "skipped": skipped, "checks": shown}
        return export.write_json(answer, output)
    forms = {"csv": export.csv_text(rows, columns), "markdown": markdown_text(rows)}
    export.write_text(forms.get(form) or text_of(rows, skipped), output)
