"""Commands and files of the documents work as they stand there."""

from __future__ import annotations

import itertools
import re
import shlex
from pathlib import Path

import pytest
import yaml
from commands import forked
from documents import DOCUMENTS, make_own, typed
from glossary_document import markdown
from paths import ROOT

from xla_sweeps.cli import COMMANDS
from xla_sweeps.config.combinations import choices
from xla_sweeps.config.compose import compose_config, own_entries, sweeper_params
from xla_sweeps.config.own_folder import OwnFolder
from xla_sweeps.config.settings import settings_of
from xla_sweeps.schema.columns import Verdict
from xla_sweeps.schema.overrides import keys_of
from xla_sweeps.system import environment
from xla_sweeps.version import __version__

pytestmark = pytest.mark.usefixtures("composed_once")


def test_the_example_of_a_catalog_entry_is_one(tmp_path: Path) -> None:
    document = (ROOT / "docs" / "models.md").read_text("utf-8")
    (text,) = re.findall(r"```yaml\n(name: .*?)```", document, flags=re.S)
    name = yaml.safe_load(text)["name"]
    path = tmp_path / "model" / f"{name}.yaml"
    path.parent.mkdir()
    path.write_text(text)
    entries, problems = own_entries(OwnFolder(tmp_path))
    assert (entries[name].name, problems) == (name, [])
    composed = compose_config([f"model={name}", "device=cpu"], config_dir=OwnFolder(tmp_path))
    spec = settings_of(composed).trial.model
    assert (spec.name, spec.source, spec.resolution_px) == (name, "applications", 224)


def test_every_definition_that_comes_along_is_listed() -> None:
    listed = (ROOT / "docs" / "sweeps.md").read_text("utf-8").partition("| definition | what |")[2]
    table = listed.partition("\n\n")[0]
    missing = [path.stem for path in (ROOT / "sweeps").iterdir() if f"`{path.stem}`" not in table]
    assert missing == []


def test_the_citation_is_of_this_version() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    assert (cited["version"], cited["type"]) == (__version__, "software")


@pytest.mark.exhaustive
def test_the_recipe_for_ci_passes_and_fails_as_described(tmp_path: Path) -> None:
    recipe = (ROOT / "docs" / "results.md").read_text("utf-8").partition("## In CI")[2]
    definition, script = re.findall(r"```(?:yaml|sh)\n(.*?)```", recipe, flags=re.S)[:2]
    (tmp_path / "ci.yaml").write_text(definition)
    lines = [shlex.split(line, comments=True) for line in script.splitlines()]
    assert lines.pop(0) == ["pip", "install", "--constraint", "constraints.txt", "."]
    assert {name for name, *_ in lines} == {"xla-sweeps"}

    def ended(words: list[str], worker: str = "") -> tuple[int, str]:
        own = {"WANDB_MODE": "disabled", "FAKE_WORKER": worker}
        done = forked("sweep", *words, cwd=tmp_path, more=own)
        return done.returncode, done.stderr

    for _, *words in lines:
        code, said = ended(words)
        assert code == 0, said
    *_, (_, *sweep), (_, *compare) = lines
    assert ended([word.replace("=new", "=broken") for word in sweep], "raise:xla")[0] == 0
    code, said = ended([word.replace("new", "broken") for word in compare])
    assert code == 1
    assert "--fail-on broke: 2, as " in said


@pytest.mark.parametrize(
    "document",
    [
        name if name == "README.md" else pytest.param(name, marks=pytest.mark.exhaustive)
        for name in DOCUMENTS
    ],
)
def test_every_command_of_a_document_can_be_typed(
    document: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_own(tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(environment, "is_installed", lambda module: True)  # of the extras
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)  # which an option sets too
    for first, *words in typed(document):
        options = [word for word in words if "=" in word and not word.startswith("-")]
        if first in COMMANDS:
            if first not in ("advise", "batch-sizes", "explain", "predict-cost", "shapes"):
                continue
        elif first == "--trust-config":
            folder = OwnFolder(Path(words.pop(0)), trusted=True)
            options = [word for word in words if not word.startswith("-")]
            params = sweeper_params(options, folder) if "-m" in words else []
            for each in itertools.product(*choices([*params, *options], folder)):
                settings_of(compose_config(each, config_dir=folder), explicit=keys_of(each))
            continue
        else:
            options = [word for word in (first, *words) if word not in ("-m", "-sc")]
        if not any(word.startswith("model=") for word in options):
            options.append("model=mobilenet_v2")
        for each in itertools.product(*choices(options, None)):
            settings_of(compose_config([*each, "device=cpu"]), explicit=keys_of(each))


def test_the_commands_of_the_documents_are_found() -> None:
    own = ["model=mobilenet_v2", "resolution=96", "scenario=fit", "data=my_pictures"]
    assert own in typed("README.md")
    assert sum(len(typed(document)) for document in DOCUMENTS) > 80


def test_the_words_of_the_glossary_are_those_of_the_program() -> None:
    text = (ROOT / "docs" / "glossary.md").read_text("utf-8")
    assert [str(word) for word in Verdict if str(word) not in text] == []
    block = text.partition("<!-- words: begin -->\n")[2].partition("<!-- words: end -->")[0]
    assert block == markdown(), (
        "put this between the markers of docs/glossary.md: "
        "PYTHONPATH=tests/support .venv/bin/python -m glossary_document"
    )
