"""The text of `--help`: options by purpose, commands, models by family.

Plain text, so that it is instant.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

from xla_sweeps.config.catalog import CatalogEntry

WIDTH = 96

_OPTIONS: tuple[tuple[str, tuple[tuple[str, str], ...]], ...] = (
    (
        "What is measured",
        (
            ("model=NAME", "a model of the catalog below (default: mobilenet_v2)"),
            (
                "source=NAME",
                "where it comes from: applications, keras_cv, keras_hub, hub (default: the first source of "
                "its entry); `xla-sweeps models NAME` shows which have it",
            ),
            ("resolution=PX", "side of the square input (default: the model's native one)"),
            (
                "batch_size=N",
                "images a call (default: 4); never changed for you, not even when memory runs out",
            ),
            (
                "scenario=NAME",
                "call (default: the forward pass), detect (a detector's forward pass, decoding and "
                "non-max suppression)",
            ),
            ("precision=NAME", "float32 (default), mixed_float16, mixed_bfloat16"),
            (
                "weights=NAME",
                "random (default: speed does not depend on values), imagenet, a preset, or a file's path",
            ),
            ("seed=N", "of weights, inputs and order (default: 0)"),
        ),
    ),
    (
        "Your own model",
        (
            ("model=local", "the model at path=…, with its own weights"),
            (
                "path=PATH",
                "a .keras file, a SavedModel folder, module:function or file.py:function",
            ),
            ("trust_code=true", "it may run the code that it brings"),
            (
                "input_spec=[…]",
                "where the model does not say it: [{shape:[224,224,3],dtype:float32,low:0,high:255}]",
            ),
        ),
    ),
    (
        "How it is executed",
        (
            (
                "jit=VALUE",
                "the candidate: true (xla, default), false (graph), null (default), auto (autocluster)",
            ),
            (
                "modes=[A,B]",
                "the modes themselves: eager, default, graph, xla, autocluster; one given twice is an A/A "
                "pair: modes=[graph,graph]",
            ),
            ("tf32=BOOL", "TensorFloat-32 on GPUs that have it (default: false)"),
        ),
    ),
    (
        "How precisely",
        (
            (
                "effort=LEVEL",
                "quick (default, 1 process), standard (3), publish (5); effort.KEY=VALUE sets one figure",
            ),
        ),
    ),
    (
        "Where, and how it is shown",
        (
            ("device=NAME", "auto (default: first GPU, else CPU), cpu, gpu, gpu:N"),
            ("results_dir=DIR", "records, logs, W&B and Hydra files (default: results)"),
            ("tracker=NAME", "wandb_offline (default, no account), wandb (online), none"),
            (
                "ui=MODE",
                "auto (default), live, plain (a line an event), quiet (results and warnings only)",
            ),
            ("timeouts.STAGE=S", "deadline of build, trace, compile, warmup or measure, seconds"),
            (
                "memory_limit_gib=X",
                "stop the measuring process past this (default: 90 % of the machine)",
            ),
        ),
    ),
    (
        "Hydra",
        (
            ("-m", "several values, one trial each: -m model=resnet50,vgg16 batch_size=1,8"),
            ("--cfg job", "print the composed configuration and stop"),
            (
                "--config-dir DIR",
                "further configuration files; --hydra-help has all of Hydra's options",
            ),
        ),
    ),
)

_COMMANDS = (
    ("results [DIR]", "comparison rows of a results folder, as table, csv, json or parquet"),
    (
        "dashboard [DIR …]",
        "one HTML file with everything that was measured; opens offline, in any browser",
    ),
    (
        "import FILE.csv",
        "published figures (keras-xla-benchmarks) into a results folder, marked as imported",
    ),
    (
        "compare A B",
        "what changed between two results folders (versions, drivers, machines); --fail-on for CI",
    ),
    (
        "sweep FILE",
        "run or resume a sweep definition in W&B's format: on this machine, Ray, Slurm or by W&B agents",
    ),
    ("agents SWEEP", "join a W&B sweep: one real `wandb agent` on each device"),
    (
        "models [PATTERN]",
        "the catalog: family, sources, resolution, parameters, multiply-accumulates",
    ),
    (
        "hub-replicas [NAME …]",
        "make the SavedModels that source=hub runs with random weights; once, into a cache",
    ),
    ("doctor", "devices, versions, flags, and whether this machine is quiet enough to measure on"),
    ("push [DIR]", "send records to Weights & Biases that it does not have"),
    (
        "report [DIR]",
        "a Weights & Biases report, workspace and summary run; the same again updates them",
    ),
    ("check [DIR]", "look a results folder over: names, numbers, times, nothing there twice"),
)

_EXAMPLES = (
    ("python -m xla_sweeps model=efficientnetv2s jit=true", "eager, graph and XLA at 384 px"),
    (
        "python -m xla_sweeps model=resnet50 modes=[graph,xla] effort=standard",
        "a figure to decide on",
    ),
    ("python -m xla_sweeps model=local path=my_model.keras trust_code=true", "a model of your own"),
    (
        "python -m xla_sweeps model=resnet50 modes=[graph,graph]",
        "A/A: what this machine adds by itself",
    ),
)


def help_text(catalog: Mapping[str, CatalogEntry]) -> str:
    """The whole text.

    Args:
        catalog: by name, as `catalog.load_catalog` gives it.
    """
    lines = [
        "Should I turn XLA on for my Keras vision model, on my hardware, and what does it buy me?",
        "",
        "usage: python -m xla_sweeps [key=value ...]     measure one trial",
        "       xla-sweeps COMMAND ...                   (the same program; COMMAND --help tells more)",
    ]
    for title, options in _OPTIONS:
        lines += ["", f"{title}:", *_columns(options)]
    lines += ["", "Commands:", *_columns(_COMMANDS), "", "Examples:"]
    for command, meaning in _EXAMPLES:
        lines += [f"  {command}", f"      {meaning}"]
    lines += ["", "Models:", *_families(catalog)]
    lines += [
        "",
        "  NAME_backbone is a model of KerasCV without its head, for most of the families above.",
    ]
    return "\n".join(lines)


def _columns(rows: Sequence[tuple[str, str]]) -> list[str]:
    lines = []
    for name, meaning in rows:
        first, *rest = textwrap.wrap(meaning, WIDTH - 22)
        lines.append(f"  {name:<19} {first}")
        lines += [" " * 22 + line for line in rest]
    return lines


def _families(catalog: Mapping[str, CatalogEntry]) -> list[str]:
    families: dict[str, list[str]] = {}
    for entry in catalog.values():
        if entry.name.endswith("_backbone"):
            continue
        families.setdefault(entry.family, []).append(entry.name)
    return _columns([(family, " ".join(names)) for family, names in sorted(families.items())])
