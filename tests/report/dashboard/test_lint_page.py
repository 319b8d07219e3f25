"""`scripts/lint_page` finds a wrong column or sentence, and says so where it checks nothing."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from paths import ROOT
from programs import run_program

TSC = ROOT / ".node/node_modules/.bin/tsc"


@pytest.mark.skipif(not TSC.exists(), reason="no tsc: scripts/lint installs it, with npm")
@pytest.mark.parametrize(
    ("file", "right", "wrong", "said"),
    [
        ("marks.js", "", "", ""),
        ("marks.js", "view.at(row).model, ", "view.at(row).modl, ", "'modl' does not exist"),
        ("devices.js", 'say("compiling"', 'say("compilng"', '"compilng"'),
    ],
)
def test_a_wrong_name_is_an_error_of_types(
    tmp_path: Path, file: str, right: str, wrong: str, said: str
) -> None:
    shutil.copytree(ROOT / "xla_sweeps/report/dashboard/assets/page", tmp_path / "page")
    text = (tmp_path / "page" / file).read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "page" / file).write_text(text.replace(right, wrong) if right else text, "utf-8")
    options = json.loads((ROOT / "scripts/tsconfig.json").read_text(encoding="utf-8"))
    (tmp_path / "tsconfig.json").write_text(json.dumps({**options, "include": ["page", "types"]}))
    run_program(sys.executable, ROOT / "scripts/page_types.py", tmp_path / "types")
    done = run_program(TSC, "--project", tmp_path, code=None)
    assert (done.returncode == 0) == (said == ""), done.stdout
    assert said in done.stdout


def test_without_npm_a_line_says_that_the_scripts_are_not_checked(tmp_path: Path) -> None:
    for name in ("bash", "dirname", "env"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    done = run_program(ROOT / "scripts/lint_page", more={"PATH": str(tmp_path)})
    assert done.stdout == ""
    assert done.stderr == ("scripts/lint: npm is missing, so the page's scripts are not checked\n")
