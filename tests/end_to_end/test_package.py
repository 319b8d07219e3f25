"""The package as it is shipped: a wheel with its configuration, and files without private paths."""

from __future__ import annotations

import re
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_program

from xla_sweeps.config.catalog import SOURCES, load_catalog
from xla_sweeps.system.installation import EXTRAS


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", folder)
    run_program(sys.executable, "-m", "pip", "wheel", *options, ROOT)
    (wheel,) = folder.glob("xla_sweeps-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_the_wheel_works_from_any_directory_with_its_own_configuration(
    unpacked: Path, tmp_path: Path
) -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv.pop(1)); import xla_sweeps; "
        "print(xla_sweeps.__file__);"
        "from xla_sweeps.cli.main import run; sys.exit(run(sys.argv[1:]))"
    )
    words = (unpacked, "model=regnetx_016", "--cfg", "job")
    done = run_program(sys.executable, "-c", code, *words, cwd=tmp_path, more={"PYTHONPATH": ""})
    assert done.stdout.startswith(str(unpacked))
    assert "constructor: RegNetX016" in done.stdout


def test_the_wheel_has_types_configuration_and_licence_and_no_tests(unpacked: Path) -> None:
    names = {str(path.relative_to(unpacked)) for path in unpacked.rglob("*") if path.is_file()}
    assert "xla_sweeps/py.typed" in names
    assert "xla_sweeps/data/conf/config.yaml" in names
    assert "xla_sweeps/data/sweeps/smoke.yaml" in names
    assert (
        len([name for name in names if name.startswith("xla_sweeps/data/conf/model/")])
        == len(load_catalog()) + 1
    )
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not any(name.startswith(("test", "conf/")) or "/test" in name for name in names)
    assert {
        "xla_sweeps/report/dashboard/assets/page.html",
        "xla_sweeps/report/dashboard/assets/plot.min.js",
        "xla_sweeps/report/dashboard/assets/licenses/plot.LICENSES",
    } <= names


def tracked_files() -> list[Path]:
    done = run_program("git", "-C", ROOT, "ls-files")
    return [ROOT / name for name in done.stdout.splitlines() if (ROOT / name).is_file()]


def test_constraints_name_versions_and_no_hosts() -> None:
    lines = [
        line
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    ]
    assert len(lines) > 30
    assert all(re.fullmatch(r"[\w.-]+==[\w.]+", line) for line in lines)


SHIPPED = {"api/shipping.py": 4, "backends/tensorflow/sources/shipped.py": 2}
"""Lines with a model's own code from `measure` to its measuring process, read with trust_code."""


def test_no_code_evaluates_pickles_or_calls_a_shell_but_for_what_measure_ships() -> None:
    forbidden = re.compile(
        r"\b(pickle|marshal|dill)\b|(?<!\.)\beval\(|\bexec\(|shell=True|os\.system\(|yaml\.load\((?!.*loader)|mktemp\("
    )
    found: dict[str, int] = {}
    for path in tracked_files():
        if (
            path.suffix == ".py"
            and "xla_sweeps" in path.parts
            and "tests" not in path.relative_to(ROOT).parts
        ):
            hits = sum(map(bool, map(forbidden.search, path.read_text().splitlines())))
            if hits:
                found[str(path.relative_to(ROOT / "xla_sweeps"))] = hits
    assert found == SHIPPED


def test_every_extra_that_a_hint_or_a_document_names_exists_as_every_pip_spells_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", name) for name in extras), "pip 23 finds no other"
    assert {source.extra for source in SOURCES.values() if source.extra} <= set(extras)
    for extra, packages in EXTRAS.items():
        required = " ".join(extras[extra])
        assert all(name in required for name in packages), extra
    for path in tracked_files():
        if path.suffix not in (".py", ".md", ".yaml", ".sh", "") or "tests" in path.parts:
            continue
        for name, listed in re.findall(
            r"(pip install '\.|xla-sweeps)\[([a-z_,-]+)\]", path.read_text()
        ):
            assert name != "xla-sweeps", f"{path}: no package index has xla-sweeps"
            assert set(listed.split(",")) <= set(extras), f"{path}: {listed}"
