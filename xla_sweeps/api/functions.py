"""`measure`, `sweep` and `explain`, by the command line; `results`, `rounds` and `compare`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import yaml

from xla_sweeps.api import shipping, supervisor
from xla_sweeps.api.border import file_word, folder_given, refusing
from xla_sweeps.api.folders import require_unchanged
from xla_sweeps.api.kernel import require_free_gpus
from xla_sweeps.api.progress import follower
from xla_sweeps.api.table import SHORT, Table
from xla_sweeps.api.trial import Explained, Trial, explanation_of
from xla_sweeps.config.scenario import AUTO
from xla_sweeps.config.values import path_of
from xla_sweeps.errors import ConfigError, XlaSweepsError, unknown_name
from xla_sweeps.schema.options import LOCAL, NAMES, unknown_option
from xla_sweeps.schema.overrides import flatten, overrides

_TRACKED_BY = {"tracker", "tracker.name", "tracker.project", "tracker.entity"}

_OWN = {"ui": "use progress=", "model": "it is the first argument", "path": "give it as the model"}


def measure(
    model: Any,
    inputs: Any = None,
    *,
    modes: Sequence[str] | None = None,
    scenario: str = "call",
    batch_size: int | None = None,
    effort: str = "quick",
    results_dir: str | Path = "results",
    progress: str | bool = "auto",
    **options: Any,
) -> Trial:
    """Measure a model in several modes, in a process of its own.

    Args:
        model: a name of the catalog; a `.keras` file, a SavedModel or `module:function` (with
            `trust_code=True`); a Keras model or a PyTorch module in memory; a function without
            arguments that builds one; or a function or `tf.Module` that is called on the inputs.
        inputs: an array, a tensor, or a list or dict of them, of one batch: shapes, dtypes, ranges
            and the batch size are read from it. Default: as the model declares them.
        modes: such as `["eager", "graph", "xla"]`; default: as the scenario has them.
        scenario: what is measured: docs/options.md.
        batch_size: default: that of `inputs`, else 4.
        effort: `quick`, `standard` or `publish`.
        results_dir: the folder of all records.
        progress: `auto` or `none`; or True or False.
        options: the command line's, by name; `**{"effort.replicates": 3}` where a name has a dot.

    Raises:
        ConfigError: the request cannot be carried out. What fails in a mode is a result.
        DeviceError: this process holds the GPU; the message says what to do.
        KeyboardInterrupt: after what was measured is saved.
    """
    show = follower(progress)
    folder = folder_given("results_dir", results_dir)
    given = _options_of(options, scenario=scenario, effort=effort, results_dir=str(folder))
    require_free_gpus(given.get("device"))
    if modes is not None:
        with refusing("modes: expected a list of names"):
            given["modes"] = [modes] if isinstance(modes, str) else list(modes)
    _add_model(given, model, inputs, batch_size, folder)
    words, kept = _words(given), _words(_from_anywhere(given, folder))
    end, warnings = _follow_command((*words, "ui=json"), show)
    if given["model"] == LOCAL:
        require_unchanged(Path(given["path"]).parent)
    if end["summary"] is None:
        raise _no_record_error(end["exit_code"])
    return Trial(
        trial_id=end["trial_id"],
        text=end["text"],
        words=kept,
        exit_code=end["exit_code"],
        records=tuple(map(Path, end["records"])),
        logs=tuple(map(Path, end["logs"])),
        document=end["summary"],
        warnings=warnings,
    )


def _follow_command(
    words: Sequence[str], show: Callable[[dict[str, Any]], None]
) -> tuple[dict[str, Any], tuple[str, ...]]:
    """Run a command that writes events; its last one, and its warnings."""
    warnings: list[str] = []
    ends: list[dict[str, Any]] = []

    def follow(event: dict[str, Any]) -> None:
        if event["event"] == "end":
            ends.append(event)
        elif event["event"] == "warning":
            warnings.append(event["message"])
        show(event)

    code, _ = supervisor.run(words, follow=follow)
    if not ends:
        raise _no_record_error(code)
    return ends[-1], tuple(warnings)


def _no_record_error(code: int) -> XlaSweepsError:
    return XlaSweepsError(f"nothing was recorded; the command ended with code {code}")


def results(
    results_dir: str | Path = "results", where: str | None = None, *, baselines: str = "headline"
) -> Table:
    """Comparison rows of a results folder, without the A/A pairs and anchors of its sweeps.

    Args:
        results_dir: the folder.
        where: only these rows, as in `results --where`: `verdict=faster and resolution>=224`;
            `purpose=aa` has the A/A pairs.
        baselines: `headline` for the main comparison of each trial, or `all`.

    Raises:
        ConfigError: the filter is wrong.
        StoreError: there is nothing in the folder.
    """
    from xla_sweeps.store.filter import matching, no_match, parse_filter, results_alone
    from xla_sweeps.store.rows import load, require

    with refusing("baselines: cannot be read"):
        if not isinstance(baselines, str) or baselines not in ("headline", "all"):
            raise unknown_name("baselines", str(baselines), ("headline", "all"))
    chosen = parse_filter(_filter(where)) if where is not None else None
    folder = folder_given("results_dir", results_dir)
    rows = load(folder)
    require(folder, rows)
    table = rows.table if baselines == "all" else rows.table.filter(rows.table["headline"])
    every = results_alone(table, where)
    table = matching(every, chosen)
    none = (no_match(where, len(every)),) if where is not None and not len(table) else ()
    return Table(table, SHORT, (*none, *rows.problems))


def rounds(results_dir: str | Path = "results", where: str | None = None) -> Table:
    """Raw blocks of calls, a row each, of which all intervals are derived.

    Columns: `trial` (a row's `trial_id`), `model`, `replicate`, `round`, `mode`, `calls`, `seconds`
    (of all its calls), `fill_seconds` (of these, for the device's queue), `contaminated`.

    Args:
        results_dir: the folder.
        where: only trials with a row that matches, as of `results`.

    Raises:
        ConfigError: the filter is wrong.
        StoreError: there is nothing in the folder.
    """
    from xla_sweeps.store.store import Store
    from xla_sweeps.store.table import blocks_of

    rows = results(results_dir, where, baselines="all")
    store = Store(folder_given("results_dir", results_dir))
    table, problems = blocks_of(store, rows.arrow["trial_id"])
    return Table(table, notes=(*rows.notes, *problems))


def compare(a: str | Path, b: str | Path, *, where: str | None = None) -> Table:
    """Changes from one results folder to another: a row for each trial and quantity.

    Args:
        a: the baseline's folder.
        b: the candidate's folder.
        where: only these trials.

    Raises:
        XlaSweepsError: a folder has no records, or none match.
    """
    from pyarrow import Table as Arrow

    from xla_sweeps.analysis.changes import as_section
    from xla_sweeps.cli.compare import between
    from xla_sweeps.report import changes

    chosen = _filter(where) if where is not None else None
    difference = between(folder_given("a", a), folder_given("b", b), where=chosen)
    notes = (changes.RATIOS, *difference.notes)
    lines = [changes.COLUMNS, *changes.cells(difference.changes)]
    return Table(Arrow.from_pylist(as_section(difference)["rows"]), notes=notes, lines=lines)


def sweep(
    definition: Mapping[str, Any] | str | Path,
    *,
    results_dir: str | Path = "results",
    progress: str | bool = "auto",
    **options: Any,
) -> Table:
    """Run or resume a sweep on this machine; returns the main comparison of each of its trials.

    A trial that failed is a row too; the table's notes say why others have none.

    Args:
        definition: a file, a shipped sweep's name, or what such a file holds; a mapping of options
            to lists of values is a grid over them.
        results_dir: the folder of all records.
        progress: `auto` or `none`; or True or False.
        options: further options of every trial.

    Raises:
        ConfigError: the request cannot be carried out.
        KeyboardInterrupt: after what was measured is saved; the same call resumes it.
    """
    from xla_sweeps.store.derive import only
    from xla_sweeps.store.filter import results_alone
    from xla_sweeps.store.rows import load
    from xla_sweeps.system.files import scratch_folder

    show = follower(progress)
    own = folder_given("results_dir", results_dir)
    given = _options_of(options, results_dir=str(own))
    require_free_gpus(given.get("device"))
    with scratch_folder() as folder:
        with refusing("definition: cannot be written"):
            if isinstance(definition, Mapping):
                plain = json.loads(json.dumps(_grid(definition)))  # a list twice is no alias
                text = yaml.safe_dump(plain, sort_keys=False, default_flow_style=True, width=10**9)
                definition = folder / "sweep.yaml"
                definition.write_text(text, encoding="utf-8")
        words = ["sweep", file_word("definition", definition), *_words(given), "ui=json"]
        ours = re.compile(rf"{re.escape(str(folder))}/sweep\.yaml(:1)?")
        try:
            end, warnings = _follow_command(words, show)
        except XlaSweepsError as error:
            raise type(error)(ours.sub("definition", str(error))) from None
        warnings = tuple(ours.sub("definition", warning) for warning in warnings)
    rows = load(own)
    headlines = results_alone(rows.table.filter(rows.table["headline"]), None)
    table = only(headlines, end["trials"])
    counts = "trials: " + ", ".join(f"{count} {word}" for word, count in end["counts"].items())
    left = ["call it again to measure what is left"] if end["exit_code"] else []
    return Table(table, SHORT, (counts, *end["reasons"], *warnings, *left))


def explain(model: Any, inputs: Any = None, **options: Any) -> Explained:
    """How XLA compiles a model, and why it gains or loses; nothing is recorded.

    Args:
        model: as of `measure`.
        inputs: as of `measure`.
        options: the command line's, by name.

    Raises:
        ConfigError: the request cannot be carried out.
    """
    given = _options_of(options)
    require_free_gpus(given.get("device"))
    folder = folder_given("results_dir", given.get("results_dir", "results"))
    _add_model(given, model, inputs, given.pop("batch_size", None), folder)
    return explanation_of(_words(given))


def _add_model(
    given: dict[str, Any], model: Any, inputs: Any, batch_size: int | None, folder: Path
) -> None:
    """Add the options that ask for a model; an error where its backend is not the one given."""
    side = given.get("resolution")
    named = shipping.options_for(model, inputs, batch_size, results_dir=folder, resolution=side)
    only, asked = named.get("backend"), given.get("backend", AUTO)
    if only and asked not in (only, AUTO):
        raise ConfigError(f"backend={asked}: a PyTorch module runs on PyTorch only: backend={only}")
    given.update(named)


@refusing("options: cannot be read")
def _options_of(options: Mapping[str, Any], **named: Any) -> dict[str, Any]:
    """Options by name, flat; an error where one is unknown, or is not an option here.

    Nothing is tracked unless the tracker, or a project for its runs, is given.
    """
    for name in options:
        if name in _OWN:
            raise ConfigError(f"{name}: {_OWN[name]}")
        if name.partition(".")[0] not in NAMES and not name.startswith("model."):
            raise unknown_option(name)
    flat = flatten({**named, **options})
    if not flat.keys() & _TRACKED_BY:
        flat["tracker"] = "none"
    return {name: list(one) if isinstance(one, tuple) else one for name, one in flat.items()}


def _from_anywhere(given: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """The options as a result keeps them, which may be read in another folder."""
    kept = {**given, "results_dir": str(folder.absolute())}
    for name in {"path", "inputs"} & {*given}:
        text = str(given[name])  # a file, a folder, a file and its function, or a module and its
        if path_of(text.rpartition(":")[0] or text).is_file() or path_of(text).is_dir():
            kept[name] = str(path_of(text).absolute())
    return kept


def _words(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Words of the command line that ask for these options."""
    with refusing("options: cannot be written as words"):
        return tuple(overrides(given))


@refusing("where: cannot be read")
def _filter(where: object) -> str:
    if not issubclass(type(where), str):  # one may say that it is of another class
        raise ConfigError(f"where: expected a filter as text, not {type(where).__name__}")
    return "".join(cast(str, where))


def _grid(definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """A definition; of options alone, the grid over their values."""
    if wrong := [name for name in definition if not isinstance(name, str)]:
        raise ConfigError(f"definition: expected names of options, not {repr(wrong[0])[:60]}")
    if "parameters" in definition:
        return dict(definition)
    models = _values(definition.get("model", ""))
    if LOCAL in models or not all(isinstance(model, str) for model in models):
        raise ConfigError("model: a sweep names models of the catalog; call measure() for your own")
    _options_of({name: values for name, values in definition.items() if name != "model"})
    parameters = {name: {"values": _values(values)} for name, values in definition.items()}
    return {"method": "grid", "parameters": parameters}


def _values(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple, range)) else [values]
