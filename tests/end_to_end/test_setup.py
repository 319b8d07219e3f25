"""Setting up a checkout: by uv where it can be told what pip is told, else by pip."""

from __future__ import annotations

import json
import os
import shutil
import sys
import zipfile
from pathlib import Path

import pytest
from other_environments import measured, python_of, run_trial
from paths import ROOT
from programs import run_program

from scripts.install import IRRELEVANT, find_uv, pip_settings, uv_variables

AS_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_PYTHON_DOWNLOADS": "never"}

PROJECT = """
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]

[project]
name = "tiny"
version = "1.0"
dependencies = ["part"]
"""

BACKEND = """
import zipfile

def build_editable(folder, settings=None, metadata=None):
    name, info = "tiny-1.0-py3-none-any.whl", "tiny-1.0.dist-info"
    files = METADATA
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        for file, text in files.items():
            wheel.writestr(f"{info}/{file}", text)
    return name
"""


def metadata(name: str, version: str, *needs: str) -> dict[str, str]:
    """The files of a wheel that holds nothing else."""
    head = {"Metadata-Version": "2.1", "Name": name, "Version": version}
    tags = {"Wheel-Version": "1.0", "Root-Is-Purelib": "true", "Tag": "py3-none-any"}
    wanted = [("Requires-Dist", need) for need in needs]
    texts = {"METADATA": [*head.items(), *wanted], "WHEEL": list(tags.items()), "RECORD": []}
    return {
        file: "".join(f"{key}: {value}\n" for key, value in lines) for file, lines in texts.items()
    }


def add_part(index: Path, version: str) -> None:
    """Put this version of the package `part` into an index."""
    folder = index / "part"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(folder / f"part-{version}-py3-none-any.whl", "w") as wheel:
        for file, text in metadata("part", version).items():
            wheel.writestr(f"part-{version}.dist-info/{file}", text)
    links = "".join(f'<a href="{each.name}">{each.name}</a>\n' for each in folder.glob("*.whl"))
    (folder / "index.html").write_text(links)


def set_up(checkout: Path, index: Path, *programs: Path) -> str:
    """The output of `scripts/setup`; pip's index is set as people set it, and uv's is not."""
    kept = {name: value for name, value in os.environ.items() if name[:3] not in ("PIP", "UV_")}
    path = [str(folder) for folder in programs] + ["/usr/bin", "/bin"]
    told = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": index.as_uri()}
    told |= {"PATH": os.pathsep.join(path), "PYTHON": str(ROOT / ".venv" / "bin" / "python")}
    return run_program(checkout / "scripts" / "setup", env=kept, more=told).stderr


def installed(checkout: Path) -> tuple[str, str]:
    """The version of `part` in the checkout's environment, and what installed it."""
    (info,) = checkout.glob(".venv/lib/python3*/site-packages/part-*.dist-info")
    return info.name.split("-")[1].removesuffix(".dist"), (info / "INSTALLER").read_text().strip()


@pytest.mark.exhaustive
def test_pip_sets_up_where_there_is_no_uv_and_uv_asks_the_index_that_pip_is_told(
    tmp_path: Path,
) -> None:
    index, checkout = tmp_path / "index", tmp_path / "checkout"
    add_part(index, "1.0")
    (checkout / "scripts").mkdir(parents=True)
    for name in ("setup", "install.py"):
        shutil.copy(ROOT / "scripts" / name, checkout / "scripts")
    shutil.copytree(ROOT / "scripts/core", checkout / "scripts/core")
    (checkout / "pyproject.toml").write_text(PROJECT)
    (checkout / "backend.py").write_text(
        BACKEND.replace("METADATA", repr(metadata("tiny", "1.0", "part")), 1)
    )
    (checkout / "constraints.txt").write_text("part==1.0\n")

    assert "installing" in set_up(checkout, index)
    assert installed(checkout) == ("1.0", "pip")
    assert set_up(checkout, index) == ""

    uv = find_uv()
    if uv is None:
        pytest.skip("there is no uv, and pip finds none")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "uv").symlink_to(uv)
    add_part(index, "2.0")
    (checkout / "constraints.txt").write_text("part==2.0\n")
    assert "could not" not in set_up(checkout, index, tmp_path / "bin")
    assert installed(checkout) == ("2.0", "uv")


def test_uv_is_told_where_pip_looks() -> None:
    asked = {
        "index-url": "https://a/simple",
        "extra-index-url": "\nhttps://b/simple\nhttps://c/simple",
        "find-links": "/wheels /more",
        "cert": "/ca.crt",
        "constraint": "/caps.txt",
        "timeout": "60",
    }
    assert uv_variables(asked) == {
        **AS_PIP,
        "UV_DEFAULT_INDEX": "https://a/simple",
        "UV_INDEX": "https://b/simple https://c/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "SSL_CERT_FILE": "/ca.crt",
        "UV_CONSTRAINT": "/caps.txt",
    }
    assert uv_variables(dict.fromkeys(IRRELEVANT, "1")) == AS_PIP


@pytest.mark.parametrize("name", ["no-index", "only-binary", "keyring-provider", "client-cert"])
def test_what_uv_cannot_be_told_leaves_the_work_to_pip(name: str) -> None:
    assert uv_variables({name: "x"}) is None


def test_pips_settings_are_those_of_installing_the_environment_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pip.conf"
    file.write_text(
        "[global]\nindex-url = https://a\nretries = 3\ncert = a\n"
        "[install]\nindex-url = https://b\nextra-index-url =\n  https://c\n  https://d\n"
        "[freeze]\nno-index = true\n"
    )
    for name in os.environ:
        if name.startswith("PIP_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", str(file))
    monkeypatch.setenv("PIP_CERT", "b=c")
    pip = pip_settings()
    assert pip.items() >= {"index-url": "https://b", "retries": "3", "cert": "b=c"}.items()
    assert pip["extra-index-url"].split() == ["https://c", "https://d"]
    assert "no-index" not in pip


@pytest.mark.slow
@pytest.mark.exhaustive
@pytest.mark.timeout(900)  # the environment is made first
@pytest.mark.parametrize("name", ["jax", "torch"])
def test_a_framework_alone_is_an_environment_that_checks_itself_refuses_and_measures(
    name: str, tmp_path: Path
) -> None:
    python = python_of(name)
    site = next((python.parent.parent / "lib").glob("python3*")) / "site-packages"
    assert not list(site.glob("tensorflow*"))
    doctor = ("-m", "xla_sweeps", "doctor", "--seconds", "0.1")
    told = run_program(python, *doctor, cwd=tmp_path).stdout
    assert told.rstrip().endswith(f"backend={name}")
    assert " packages " not in told
    refused = run_trial(python, tmp_path)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("xla-sweeps: backend=tensorflow: tensorflow is not installed")
    assert refused.stderr.endswith(f"; or add backend={name}\n")
    assert not (tmp_path / "r").exists()
    record = measured(python, tmp_path, f"backend={name}")
    assert record["status"] in ("ok", "contaminated")
    assert record["modes"][{"jax": "jax_xla", "torch": "torch_export"}[name]]["status"] == "ok"
    lines = ["method: grid", "parameters:", "  batch_size: {value: 3}"]
    (tmp_path / "s.yaml").write_text("\n".join(lines))
    words = ["model=tiny_dense", f"backend={name}", "effort=quick", "tracker=none", "results_dir=s"]
    sweep = ("-m", "xla_sweeps", "sweep", "s.yaml", *words, "--accept-contaminated")
    run_program(python, *sweep, cwd=tmp_path)
    (path,) = tmp_path.glob("s/records/*/0.json")
    assert json.loads(path.read_text())["trial"]["batch_size"] == 3


@pytest.mark.exhaustive
def test_the_program_without_tensorflow_is_whole_where_it_is_installed(tmp_path: Path) -> None:
    told = ("-m", "pip", "install", "--quiet", "--no-deps", "--target", "packages")
    run_program(sys.executable, *told, ROOT / "scripts" / "core", cwd=tmp_path)
    package = tmp_path / "packages/xla_sweeps"
    assert (package / "data/conf/config.yaml").is_file()
    assert (package / "data/sweeps/smoke.yaml").is_file()
    code = "import xla_sweeps.cli.main as m; print(m.__file__); m.run(['models', 'resnet50'])"
    own = {"PYTHONPATH": str(package.parent)}
    shown = run_program(sys.executable, "-P", "-c", code, cwd=tmp_path, more=own)
    assert shown.stdout.startswith(str(package))
    assert "ResNet50" in shown.stdout
