"""Backends: what is declared of them, and that nothing else decides by a framework's name."""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from pathlib import Path

import pytest
from paths import ROOT

from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.backend import backends, default_backend
from xla_sweeps.schema.modes import MODES

PACKAGE = ROOT / "xla_sweeps"

FRAMEWORK = re.compile(r"tensorflow|keras|(?<![a-z])tf(?![a-z0-9])", re.I)
"""The names of the only framework of today, and of its variables and functions."""

EXCEPTIONS = frozenset(
    [
        *("analysis/speedup.py", "api/kernel.py", "api/shipping.py", "cli/models.py"),
        *("cli/predict_cost.py", "config/catalog.py", "config/local_model.py"),
        *("config/own_files.py", "config/runtime.py", "config/scenario.py", "config/settings.py"),
        *("errors.py", "report/terminal/tables.py"),
        *("schema/backend.py", "schema/columns.py", "schema/explanation.py", "schema/modes.py"),
        *("schema/options.py", "schema/trial.py", "store/imported.py", "trial/tracking.py"),
    ]
)
"""Modules that may: tables of backends, modes, options and sources, records, shipping."""


def decisions(source: str) -> list[tuple[int, str]]:
    """Names, and texts that are no sentences, by which code may decide, with their lines."""
    return [
        (token.start[0], token.string)
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.NAME
        or (token.type == tokenize.STRING and " " not in token.string)
        if FRAMEWORK.search(token.string)
    ]


def test_no_module_outside_its_backend_decides_by_a_frameworks_name() -> None:
    mentions: dict[str, list[tuple[int, str]]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        module = path.relative_to(PACKAGE)
        if module.parts[0] != "backends" and (found := decisions(path.read_text())):
            mentions[str(module)] = found
    assert not {module: mentions[module] for module in mentions.keys() - EXCEPTIONS}
    assert mentions.keys() == EXCEPTIONS, "no exception any more"


@pytest.mark.parametrize(
    ("code", "decides"),
    [
        ('if backend == "tensorflow": pass', True),
        ('variables["TF_XLA_FLAGS"] = "x"', True),
        ("from xla_sweeps.backends.tensorflow import worker", True),
        ("def of_keras(): pass", True),
        ('warn("TensorFlow cannot be loaded")', False),
        ("tf32 = tfrecord", False),
    ],
)
def test_a_decision_is_told_from_a_sentence(code: str, decides: bool) -> None:
    assert bool(decisions(code)) is decides


def test_declaring_a_backend_loads_no_framework() -> None:
    code = (
        "import sys; from xla_sweeps.schema.backend import backends; backends(); "
        "print(sorted({'tensorflow', 'keras', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


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
