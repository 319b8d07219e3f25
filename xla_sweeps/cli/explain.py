"""The command `explain`: how a model is compiled, and why that gains or loses."""

from __future__ import annotations

import fnmatch
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from xla_sweeps.cli.arguments import add_model, command_parser, require_model
from xla_sweeps.config.compose import compose_config
from xla_sweeps.config.settings import settings_of
from xla_sweeps.errors import ConfigError, unknown_name
from xla_sweeps.report import export
from xla_sweeps.schema.modes import SCENARIOS
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.system.text import displayable


def explain_command(arguments: Sequence[str]) -> int:
    """Explain one model, or list what TensorFlow compiles; exit code 1 if something is missing."""
    parser = command_parser(
        "explain",
        "It traces and compiles the model, and times a few calls; it writes no record. Exit code 1 "
        "if its process did not finish, so that parts are missing.",
    )
    add_model(parser, overrides="as in a trial: model=resnet50 resolution=224 batch_size=8")
    text = "list the operations that this TensorFlow compiles, or those of a glob: 'Resize*'"
    parser.add_argument("--ops", nargs="?", const="*", metavar="PATTERN", help=text)
    no_trace = "without the section on where the time goes"
    parser.add_argument("--no-trace", action="store_true", help=no_trace)
    options = parser.parse_intermixed_args(list(arguments))
    form, output = options.format, options.output
    export.require_writable(output)
    if options.ops is not None:
        place = options.config_dir.words[:1] if options.config_dir else ()
        flags = ("--no-trace",) if options.no_trace else ()
        if others := [*options.overrides, *flags, *place]:
            raise ConfigError(f"explain --ops: remove {' '.join(others)}")
        return show_ops(options.ops, form=form, output=output)
    require_model("explain", options.overrides)
    config = compose_config(options.overrides, config_dir=options.config_dir)
    settings = settings_of(config, explicit=keys_of(options.overrides))
    if SCENARIOS[scenario := settings.trial.scenario].trains:
        raise ConfigError(
            f"explain: scenario={scenario} is not explained; remove it to explain the forward pass"
        )
    from xla_sweeps.report.figures import duration
    from xla_sweeps.report.terminal.console import Heartbeat, progress_console
    from xla_sweeps.report.terminal.explanation import explanation_text, stage_line, verdict
    from xla_sweeps.trial import explaining

    console, began = progress_console(), time.monotonic()

    def tell(line: str) -> None:
        if settings.ui != "quiet":
            console.print(line, style="dim")
        heart.note_line()

    heart = Heartbeat(lambda: tell(f"{duration(time.monotonic() - began)} so far"))
    with heart:
        explanation, finished = explaining.explain(
            settings,
            trace=not options.no_trace,
            on_stage=lambda stage: tell(stage_line(str(stage.phase), stage.mode or stage.detail)),
            on_wait=lambda holder: console.print(f"waiting for {displayable(holder)}", style="dim"),
        )
    if form == "json":
        document: dict[str, Any] = msgspec.to_builtins(explanation)
        if explanation.roofline is not None:
            document["roofline"]["verdict"] = verdict(explanation.roofline)
        export.write_json(document, output)
    else:
        export.write_text(explanation_text(explanation), output)
    return 0 if finished else 1


def show_ops(pattern: str, *, form: str, output: Path | None) -> int:
    """List the operations that TensorFlow compiles.

    Raises:
        ConfigError: no operation matches.
    """
    from xla_sweeps.report.terminal.explanation import ops_text
    from xla_sweeps.trial import explaining

    ops = explaining.compiled_ops()
    chosen = [each for each in ops.ops if fnmatch.fnmatch(each.op.lower(), pattern.lower())]
    if not chosen:
        raise unknown_name("operation", pattern, [each.op for each in ops.ops])
    if form == "json":
        export.write_json({**msgspec.to_builtins(ops), "ops": msgspec.to_builtins(chosen)}, output)
    else:
        export.write_text(ops_text(ops, chosen), output)
    return 0
