"""A tracker of another service costs the files that CONTRIBUTING.md lists, and no other."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from paths import ROOT, SUPPORT
from programs import run_program

MODULE = """
import json
from pathlib import Path
from typing import Any

from xla_sweeps.errors import ConfigError
from xla_sweeps.report.run_content import run_content
from xla_sweeps.trial.tracking import Tracker, TrackerReport


class SummaryFile(Tracker):
    title = "summary"

    def require(self):
        if Path("refused").exists():
            raise ConfigError("tracker=summary_file: the service refuses")

    def open(self, header):
        self.header = header

    def finish(self, records, summary, *, exit_code):
        content = run_content(self.header, records, summary, exit_code=exit_code)
        path = self.header.results_dir / "summary.json"
        path.write_text(json.dumps({"project": self.header.tracker.project, **content["summary"]}))
        return TrackerReport(place=str(path.absolute()), complete=True)
"""


@pytest.mark.exhaustive
def test_a_tracker_is_one_module_and_one_line(tmp_path: Path) -> None:
    recipe = (ROOT / "CONTRIBUTING.md").read_text("utf-8").partition("## Add a tracker")[2]
    files = re.findall(r"^\| `(\S+\.py)` \| (.*) \|$", recipe.partition("\n## ")[0], flags=re.M)
    (module, _), (declared, line) = files
    changed = {module: MODULE}
    (entry,) = re.findall(r"`(\".*\))` in `TRACKERS`", line)
    text = (ROOT / "xla_sweeps" / declared).read_text("utf-8")
    changed[declared] = text.replace("TRACKERS = {\n", f"TRACKERS = {{\n    {entry},\n")
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "xla_sweeps", copy / "xla_sweeps")
    (copy / "conf").symlink_to(ROOT / "conf")
    for name, content in changed.items():
        (copy / "xla_sweeps" / name).write_text(content)
    words = ["model=mobilenet_v2", "modes=[graph,xla]", "device=cpu", "effort=quick"]
    command = [sys.executable, str(SUPPORT / "fake_trial.py"), *words, "tracker=summary_file"]
    own = {"PYTHONPATH": str(copy), "WANDB_PROJECT": "not-of-wandb"}
    (tmp_path / "refused").touch()
    refused = run_program(*command, cwd=tmp_path, more=own, code=2)
    assert refused.stderr.count("\n") == 1, refused.stderr
    (tmp_path / "refused").unlink()
    done = run_program(*command, cwd=tmp_path, more=own)
    kept = json.loads((tmp_path / "results" / "summary.json").read_text())
    assert (kept["project"], kept["status"]) == ("xla-sweeps", "ok")
    assert re.search(r"summary +results/summary.json", done.stdout), done.stdout
