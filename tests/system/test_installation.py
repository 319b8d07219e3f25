"""Installing into an environment: the command that is right for whatever made it."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest
from hatchling.metadata.core import ProjectMetadata
from hatchling.plugin.manager import PluginManager
from paths import ROOT

from xla_sweeps.schema.backend import default_backend
from xla_sweeps.system import environment, installation
from xla_sweeps.system.installation import cure, how_to_install, install

RECEIPT = """[tool]
requirements = [
    { name = "xla-sweeps", extras = ["jax"], directory = "/src/core" },
    { name = "ray", specifier = ">=2" },
]
"""


@pytest.mark.parametrize(
    ("file", "text", "command", "again"),
    [
        ("bin/pip", "", "pip install keras-cv", "pip install --force-reinstall h5py"),
        (
            "pipx_metadata.json",
            "{}",
            "pipx inject .venv keras-cv",
            "pipx inject --force .venv h5py",
        ),
        (
            "uv-receipt.toml",
            RECEIPT,
            "uv tool install '--with=ray>=2' --with=keras-cv '/src/core[jax]'",
            "uv tool install --reinstall '--with=ray>=2' --with=h5py '/src/core[jax]'",
        ),
        (
            ".installed-base",
            "",
            "{root}/scripts/setup keras-cv",
            "{root}/.venv/bin/python -m pip install --force-reinstall h5py",
        ),
        (
            "nothing",
            "",
            "{root}/.venv/bin/python -m pip install keras-cv",
            "{root}/.venv/bin/python -m pip install --force-reinstall h5py",
        ),
    ],
)
def test_the_command_is_that_of_what_made_the_environment(
    file: str, text: str, command: str, again: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / ".venv" / file
    made.parent.mkdir(parents=True)
    made.write_text(text)
    made.chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(tmp_path / ".venv"))
    monkeypatch.setattr(sys, "executable", str(tmp_path / ".venv/bin/python"))
    monkeypatch.setenv("PATH", str(tmp_path / ".venv/bin"))
    assert how_to_install("keras-cv") == command.format(root=tmp_path)
    assert install("h5py", again=True) == again.format(root=tmp_path)


def test_an_environment_without_pip_is_uvs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "prefix", "/env")
    assert install("h5py") == f"uv pip install --python {sys.executable} h5py"


def add_package(folder: Path, name: str, version: str, *needs: str) -> None:
    """Put an installed package without code into a folder of modules."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir(parents=True)
    lines = ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}"]
    (info / "METADATA").write_text("\n".join([*lines, *(f"Requires-Dist: {one}" for one in needs)]))


def test_what_became_unfit_after_the_installation_is_named_with_its_cure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(installation, "_OWN", "ours")
    add_package(tmp_path, "ours", "1", "never-chosen", "engine<2")
    add_package(
        tmp_path, "engine", "1.5", "part>=2; python_version>'3'", "other; extra=='x'", "4 2"
    )
    add_package(tmp_path, "part", "1.0", "gone", "numpy-cpu")
    (tmp_path / "numpy_cpu.py").touch()
    assert cure().startswith("engine 1.5 needs part>=2; part 1.0 needs gone: ")
    assert cure().endswith("install 'part>=2' gone")
    (tmp_path / "part-1.0.dist-info").rename(tmp_path / "part-2.0.dist-info")
    metadata = tmp_path / "part-2.0.dist-info/METADATA"
    metadata.write_text("Metadata-Version: 2.1\nName: part\nVersion: 2.0\n")
    assert cure() == ""
    add_package(tmp_path, "tf_extra", "1", "part<2")
    assert cure("tf_extra", "part").endswith("install tf-extra part==2.0")


def test_the_empty_folder_of_an_uninstalled_package_is_no_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "left_over").mkdir()
    monkeypatch.syspath_prepend(tmp_path)
    assert not environment.is_installed("left_over")
    assert not environment.absent(default_backend())


def test_the_program_without_tensorflow_needs_all_else_that_the_whole_one_does() -> None:
    whole, core = (
        ProjectMetadata(str(ROOT / place), PluginManager()).core for place in ("", "scripts/core")
    )
    left_out = set(whole.dependencies) - set(core.dependencies)
    assert [word.split("<")[0] for word in sorted(left_out)] == ["tensorflow", "tf-keras"]
    assert set(core.dependencies) < set(whole.dependencies)
    for extra, needs in core.optional_dependencies.items():
        assert needs == whole.optional_dependencies[extra]
