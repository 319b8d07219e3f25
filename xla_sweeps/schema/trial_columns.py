"""Columns of the trial that was measured: the question that a row answers, and the model."""

from __future__ import annotations

from dataclasses import MISSING, dataclass
from typing import Any

from xla_sweeps.schema.column import Asked, Part, as_column, as_number
from xla_sweeps.schema.modes import STARTING, TAKING_BATCHES, Scenario


def _question(meaning: str, *, unit: str = "", default: Any = MISSING, **part: Any) -> Any:
    """A column of the question, with what `Asked` says of it; its default goes without saying."""
    usual: dict[str, Any] = {} if default is MISSING else {"usual": str(default)}
    asked = Asked(**usual, **part)
    return as_column(meaning, unit=unit, on_page=True, asked=asked, default=default)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialColumns:
    """The trial that was measured."""

    trial_id: str = as_column(
        "sixteen hex digits, shared by the rows of one trial; replicates with the same one "
        "are pooled",
        on_page=True,
    )
    family: str = as_column("the model's family", on_page=True)
    variant: str = as_column("the model's variant", on_page=True)
    model: str = _question("the model's name in the catalog", part=Part.MODEL)
    source: str = _question(
        "applications, keras_cv, keras_hub, hub, examples, local", part=Part.MODEL, title="Source"
    )
    task: str = as_column("classification, detection, segmentation, …", on_page=True)
    resolution_px: int = _question(
        "side of the square input; 0 where the model takes something else",
        unit="px",
        title="Resolution",
        words="{} px",
        usual="0",
    )
    batch_size: int = _question(
        "samples of one batch", unit="samples", title="Batch", words="batch {}", many="batch sizes"
    )
    precision: str = _question(
        "float32, mixed_float16, mixed_bfloat16", title="Precision", usual="float32"
    )
    tf32: bool = _question(
        "a GPU multiplies float32 in TensorFloat-32 (`tf32=true`)",
        title="TF32",
        words="TF32",
        default=False,
    )
    scenario: str = _question(", ".join(Scenario), usual=str(Scenario.CALL))
    batches: int = _question(
        "batches of one call; more than one in scenarios "
        f"{' and '.join(f'`{scenario}`' for scenario in TAKING_BATCHES)} only",
        unit="1",
        title="Batches a call",
        words="{} batches a call",
        default=1,
    )
    steps_per_execution: int = _question(
        "batches that `fit` trains on before it returns to Python",
        unit="1",
        title="Steps an execution",
        words="steps_per_execution {}",
        default=1,
    )
    copies: str = _question(
        "whether copies of a mode share a process (together), or each has its own (apart)",
        title="Copies",
        words="copies {}",
        default="together",
    )
    compile_cache: str = _question(
        f"the compiler's cache on disk in scenario `{STARTING}`: off, cold, warm",
        title="Compile cache",
        words="{} cache",
        default="off",
    )
    shapes: str = _question(
        "what a new function meets one after the other in scenario `new_shapes`: sizes, as `224`, "
        "and batch sizes, as `b7`",
        title="Shapes",
        words="shapes {}",
        default="",
    )
    samples: int = as_column(
        "samples of one call: batch_size × batches, fewer where the last batch of an epoch is "
        "smaller",
        unit="samples",
        on_page=True,
    )
    keras: str = _question(
        "the version of Keras that the trial asks for; empty for the model's own",
        title="Keras",
        words="Keras {}",
        blank="its own",
        default="",
    )
    optimizer: str = _question(
        "Keras's optimizer; empty where the trial does not train", title="Optimizer", default=""
    )
    data: str = _question(
        "the name of the pictures that the trial trains on, and whether an epoch leaves out the "
        "last, smaller batch; empty for values that are drawn",
        title="Data",
        blank="synthetic",
        default="",
    )
    weights: str = _question(
        "the weights of a model of the catalog: random, imagenet, the name of a preset, a path; "
        "empty for a model of your own",
        title="Weights",
        words="weights {}",
        blank="its own",
        default="random",
    )
    path: str = _question(
        "the file, folder or function of a model of your own; empty for the catalog's",
        title="Path",
        blank="the catalog's",
        default="",
    )
    inputs: str = _question(
        "shapes and types of the inputs of a model of your own, where `input_spec` gives them",
        title="Inputs",
        words="inputs {}",
        blank="the model's",
        default="",
    )
    effort: str = as_column("quick, standard, publish, starts, check", on_page=True)
    modes: str = as_column("all modes of the trial: eager,graph,xla", on_page=True, default="")
    runtime: str = _question(
        "flags, threads and libraries of TensorFlow that the trial sets, as options: "
        "`onednn=false threads.intra=1`; empty for its defaults",
        title="Options",
        blank="defaults",
        many="sets of options",
        default="",
    )
    device: str = _question("the device's name, as its driver reports it", title="Device")
    params: int | None = as_number("parameters, moving statistics included", unit="1", on_page=True)
    macs: int | None = as_number("multiply-accumulates of one sample", unit="1", on_page=True)
    macs_at_least: bool = as_column(
        "how often a loop runs is not known: `macs` counts its body once",
        on_page=True,
        default=False,
    )
    effective_precision: str = as_column(
        "types of the operands that it multiplies, by their share of `macs`, as XLA writes them: "
        "`f32`, `bf16 98 %, f32 2 %`; `tf32` where a GPU multiplies float32 so",
        default="",
    )
    graph_operations: int | None = as_number(
        "operations that compute something in the graph that graph mode runs, after TensorFlow's "
        "optimizer",
        unit="1",
    )
    eager_is_graph: bool = as_column(
        "eager calls run a saved graph, so they do not compare with a Keras model's eager",
        on_page=True,
        default=False,
    )
    replica_of: str = as_column(
        "the published model whose architecture this is, with random weights", default=""
    )
    request_id: str = as_column(
        "sixteen hex digits of the request, whatever device and versions measured it", default=""
    )
