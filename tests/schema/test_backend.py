"""Backends: what is declared of them, and that nothing else decides by a framework's name."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_program

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.backend import backends, default_backend
from xla_sweeps.schema.modes import MODES

PACKAGE = ROOT / "xla_sweeps"

FRAMEWORK = re.compile(r"tensorflow|keras|(?<![a-z])tf(?![a-z0-9])", re.I)
"""The names of the only framework of today, and of its variables and functions."""

OPTIONS = frozenset({"keras", "tf_xla_flags"})
"""Names of options, and so of fields and columns: the user's words."""

EXCEPTIONS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "the table of backends, and what people call the modes and how they switch them on": {
        "schema/backend.py": frozenset({"xla_sweeps.backends.tensorflow.declaration:BACKEND"}),
        "schema/modes.py": frozenset({"tensorflow", "tf.function(jit_compile=False)"})
        | {"tf.function(jit_compile=True)", 'tf.config.optimizer.set_jit("autoclustering")'},
    },
    "options, and the keys under which W&B gives two versions back": {
        "schema/options.py": frozenset({"tf_xla_flags", "tf_xla_flags.NAME=VALUE", "keras=N"})
        | {"tensorflow", "keras", "keras_version", "keras_cv", "keras_hub"},
        "config/runtime.py": frozenset({"tf_xla_flags"}),
        "schema/trial.py": OPTIONS,
        **dict.fromkeys(
            (
                *("analysis/speedup.py", "sweeps/race.py", "cli/answers.py"),
                *("trial/tracking.py", "report/terminal/tables.py", "schema/trial_columns.py"),
            ),
            frozenset({"keras"}),
        ),
    },
    "sources of models, by the libraries that build them": {
        "config/catalog.py": frozenset(
            {"keras", "tf_keras", "keras_cv", "keras-cv", "keras_hub", "keras-hub"}
            | {"tensorflow_hub", "tensorflow-hub", "xla_sweeps.backends.keras.single_layers"}
        ),
        "system/installation.py": frozenset(
            {"keras-cv", "keras-hub", "tensorflow-hub", "tensorflow[and-cuda]"}
        ),
        "config/local_model.py": frozenset({"keras"}),
        "config/own_modules.py": frozenset({"is_keras_model", "keras"}),
        "config/own_files.py": frozenset({".keras", "keras", "tf_keras", "tensorflow"}),
        "config/scenario.py": frozenset({"keras", "tf_keras"}),
        "config/settings.py": frozenset({"keras"}),
        "cli/models.py": frozenset({"keras_cv", "keras_hub"}),
        "store/published.py": frozenset({"keras_cv"}),
    },
    "what a user writes": {
        "report/race.py": frozenset({'keras.mixed_precision.set_global_policy("'}),
        "report/terminal/predict_cost.py": frozenset({"tf.function("}),
    },
    "shipping: a Keras model in memory, and the libraries whose code is not shipped": {
        "api/shipping.py": frozenset(
            {"is_keras_model", ".keras", "model.keras", "keras", "tf_keras"}
        )
        | {"KerasSaveable", r"[/:]|\.(keras|h5|hdf5|py)$"},
        "api/compiled.py": frozenset({"tensorflow", "keras", "tf_keras", "keras_cv", "keras_hub"}),
        "api/identity.py": frozenset({"tensorflow", "keras", "tf_keras"}),
    },
    "what the caller's process holds, when it has loaded a framework": {
        "api/kernel.py": frozenset({"tensorflow.python.eager.context"}),
    },
    "documents: what explain writes, and records of earlier versions": {
        "schema/explanation.py": frozenset({"tensorflow"}),
        "report/terminal/explanation.py": frozenset({"tensorflow"}),
    },
}
"""Words that modules may have in code, by the reason."""


def names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Names, and texts that are no sentences, by which code may decide, with their lines."""
    nodes = list(ast.walk(tree))
    sentences = {id(part) for node in nodes for part in _documentation(node)}
    patterns = {id(part) for node in nodes for part in _pattern(node)}
    for node in nodes:
        line = getattr(node, "lineno", 0)
        match node:
            case ast.Constant(value=str(text)):
                if id(node) in patterns or (id(node) not in sentences and " " not in text):
                    yield line, text
            case ast.Name(id=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield line, name
            case ast.Attribute(attr=name) | ast.alias(name=name) | ast.arg(arg=name):
                yield line, name
            case ast.keyword(arg=str(name)) | ast.ImportFrom(module=str(name)):
                yield line, name


def _documentation(node: ast.AST) -> Iterator[ast.AST]:
    """Docstrings, the lines below an attribute, and help texts."""
    match node:
        case ast.Expr(value=ast.Constant() as text):
            yield text
        case ast.keyword(arg="help" | "unset" | "metavar" | "title", value=ast.Constant() as text):
            yield text


def _pattern(node: ast.AST) -> Iterator[ast.AST]:
    """Regular expressions, which may have blanks."""
    match node:
        case ast.Call(func=ast.Attribute(value=ast.Name(id="re")), args=[first, *_]):
            yield from ast.walk(first)


def decisions(source: str) -> list[tuple[int, str]]:
    return [(line, name) for line, name in names(ast.parse(source)) if FRAMEWORK.search(name)]


def test_no_module_outside_its_backend_decides_by_a_frameworks_name() -> None:
    allowed = {path: words for group in EXCEPTIONS.values() for path, words in group.items()}
    needed: dict[str, set[str]] = {}
    mentions = []
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if module.parts[0] == "backends":
            continue
        for line, word in decisions(path.read_text()):
            if word in allowed.get(str(module), ()):
                needed.setdefault(str(module), set()).add(word)
            else:
                mentions.append(f"{module}:{line}: {word}")
    assert not mentions
    unneeded = {path: words - needed.get(path, set()) for path, words in allowed.items()}
    assert not {path: words for path, words in unneeded.items() if words}, "no exception any more"


@pytest.mark.parametrize(
    "planted",
    [
        'if backend == "tensorflow": pass',
        'variables["TF_XLA_FLAGS"] = "x"',
        "from xla_sweeps.backends.tensorflow import worker",
        'command = f"-m xla_sweeps.backends.{name}" if name != "tensorflow" else None',
        'pattern = re.compile("failed in tf.function of the model")',
        "def of_keras(): pass",
        "trial.uses_tensorflow",
    ],
)
def test_a_planted_decision_is_found(planted: str) -> None:
    assert decisions(planted)


@pytest.mark.parametrize(
    "said",
    [
        '"""What TensorFlow does."""',
        'warn("TensorFlow cannot be loaded")',
        'Option(name="x", help="TensorFlow")',
        "tf32 = tfrecord",
    ],
)
def test_a_sentence_for_people_is_no_decision(said: str) -> None:
    assert not decisions(said)


def test_declaring_a_backend_loads_no_framework() -> None:
    code = (
        "import sys; from xla_sweeps.schema.backend import backends; backends(); "
        "print(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    assert run_program(sys.executable, "-c", code).stdout == "[]\n"


def test_every_mode_belongs_to_a_declared_backend_and_its_programs_are_modules() -> None:
    declared = {backend.name: backend for backend in backends()}
    assert {mode.backend for mode in MODES.values()} <= declared.keys()
    for backend in declared.values():
        assert "worker" in backend.programs
        for _, safe, dash, module in backend.programs.values():
            assert (safe, dash) == ("-P", "-m")
            assert (ROOT / Path(*module.split("."))).with_suffix(".py").is_file()


def test_a_program_that_a_backend_lacks_is_refused_in_a_line() -> None:
    with pytest.raises(ConfigError, match=r"^TensorFlow has no program for this: sing$"):
        default_backend().command("sing")
