"""`xla-sweeps compare` as a person and as CI use it."""

from __future__ import annotations

import csv
import io
import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from commands import fresh_command
from comparisons import trial
from factories import CONFIG, MODEL, failed_outcome, make_outcome, make_record
from in_process import command

from xla_sweeps.schema.columns import ANCHOR_TAG
from xla_sweeps.schema.measurement import Status
from xla_sweeps.store.store import Store


def save_anchors(folder: Path) -> None:
    """Anchors of a machine that is as fast as ever."""
    settings = {**CONFIG, "tracker": {"name": "none", "tags": [ANCHOR_TAG]}}
    times = {"graph": 0.05, "graph_2": 0.05}
    for record in trial(times, processes=6, noise=0.001, asked="anchor", config=settings):
        Store(folder).save(replace(record, trial_id="a" * 16))


@pytest.fixture
def folders(tmp_path: Path) -> Path:
    """A and B: XLA is 20 % slower in B, vgg16 is in A only, and the versions differ."""
    for name, xla, version in (("A", 0.10, "2.20.0"), ("B", 0.125, "2.21.0")):
        store = Store(tmp_path / name)
        environment = {"packages": {"tensorflow": version}, "host": "h"}
        seed = 10 if name == "A" else 20
        for record in trial(
            {"eager": 0.4, "graph": 0.2, "xla": xla}, seed=seed, environment=environment
        ):
            store.save(record)
        save_anchors(tmp_path / name)
    Store(tmp_path / "A").save(
        make_record(
            request_id="q2",
            trial_id="e" * 16,
            model=replace(MODEL, name="vgg16", family="VGG", variant="VGG16"),
        )
    )
    return tmp_path


def test_names_and_figures_are_whole_in_80_columns(folders: Path) -> None:
    done = command("compare", "A", "B", cwd=folders, COLUMNS="80")
    lines = done.stdout.splitlines()
    places = [place for place, line in enumerate(lines) if " throughput " in line]
    assert len(places) == 3
    for place in places:
        assert lines[place - 1].startswith(" resnet50 224 px, batch 4 ")
    assert max(map(len, lines)) <= 80


def test_changes_are_shown_with_missing_trials_and_both_environments(folders: Path) -> None:
    done = fresh_command("compare", "A", "B", cwd=folders)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    for part in (
        "B against A",
        "resnet50 224 px, batch 4 xla throughput 0.80",
        "▼ slower 3:3",
        "■ equivalent 3:3",
        "the machine itself changed by +0.0 %",
        "only in A (1) vgg16 224 px, batch 4 on Some CPU",
        "tensorflow 2.20.0 2.21.0",
        "1 trial on both sides, 4 comparisons: 2 slower, 0 faster, 0 ambiguous, 2 equivalent",
    ):
        assert part in text, part
    assert max(map(len, done.stdout.splitlines())) <= 120


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("A B slower", 1, ["slower: resnet50 224 px, batch 4, xla throughput 0.80"]),
        ("A B slower,missing --fail-on broke", 1, ["slower", "missing: vgg16"]),
        ("A B broke", 0, []),
        ("B A slower", 0, []),
        ("B A missing", 0, []),
        (
            "A B slower,broke,missing --where model=vgg16",
            1,
            ["missing: vgg16", "slower: nothing", "broke: nothing"],
        ),
        (
            "B A slower,broke,missing --where model=vgg16",
            3,
            [f"{what}: nothing could be judged" for what in ("slower", "broke", "missing")],
        ),
    ],
)
def test_the_exit_code_is_for_ci(words: str, code: int, said: list[str], folders: Path) -> None:
    first, second, *asked = words.split()
    done = command("compare", first, second, "--fail-on", *asked, cwd=folders)
    assert done.returncode == code
    for line, start in zip(done.stderr.splitlines(), said, strict=True):
        assert line.startswith(f"--fail-on {start}")


def test_flags_of_one_folder_are_compared_by_a_filter_of_each_side(tmp_path: Path) -> None:
    for seed, graph, config in ((10, 0.2, CONFIG), (20, 0.1, {**CONFIG, "onednn": False})):
        for record in trial({"graph": graph}, seed=seed, asked=f"q{seed}", config=config):
            Store(tmp_path / "A").save(record)
    asked = ("--where-a", "runtime=null", "--where-b", "runtime~onednn")
    done = command("compare", "A", "A", *asked, cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    text = " ".join(done.stdout.split())
    assert "0 slower, 1 faster, 0 ambiguous, 0 equivalent" in text
    assert "TensorFlow's defaults" in text
    assert "onednn=false" in text


def test_a_broken_mode_comes_first_and_fails_on_request(folders: Path) -> None:
    modes = {
        "graph": make_outcome(0.2),
        "xla": failed_outcome(Status.UNSUPPORTED_OP, "no kernel for Foo"),
    }
    record = make_record({"graph": 0.2}, request_id="q2", trial_id="d" * 16, modes=modes)
    Store(folders / "B").save(record)
    done = command("compare", "A", "B", "--fail-on", "broke", cwd=folders, code=1)
    assert done.stdout.splitlines()[2].startswith("✕ ")
    assert "xla broke (unsupported_op: no kernel for Foo)" in done.stdout.splitlines()[2]
    back = command("compare", "B", "A", cwd=folders)
    assert "xla fixed" in back.stdout.splitlines()[2]


def test_contaminated_sides_are_marked_and_ignored_by_fail_on(folders: Path) -> None:
    for record in trial({"graph": 0.2, "xla": 0.2}, seed=30, status=Status.CONTAMINATED):
        Store(folders / "C").save(record)
    save_anchors(folders / "C")
    done = command("compare", "A", "C", "--fail-on", "slower", cwd=folders, code=3)
    assert done.stderr.splitlines() == [
        "--fail-on ignored 2 contaminated comparisons, as resnet50 224 px, batch 4, xla "
        "throughput; --accept-contaminated counts them",
        "--fail-on slower: nothing could be judged",
    ]
    assert "3:3~" in done.stdout
    assert "~ contaminated by other load" in done.stdout
    assert "slower 3:3" not in " ".join(done.stdout.split())
    done = command("compare", "A", "C", "--fail-on", "slower", "--accept-contaminated", cwd=folders)
    assert done.returncode == 1
    assert done.stderr.startswith("--fail-on slower: resnet50 224 px, batch 4, xla throughput 0.5")
    assert "3:3~" in done.stdout


def test_csv_and_json_hold_the_same_changes(folders: Path) -> None:
    shutil.move(folders / "B", folders / "B\u202e\x9b")
    text = command("compare", "A", "B\u202e\x9b", "--format", "json", cwd=folders).stdout
    assert text.isascii(), "no character that a terminal obeys"
    document = json.loads(text)
    assert document["title_b"].endswith("B\u202e\x9b")
    shutil.move(folders / "B\u202e\x9b", folders / "B")
    keys = "counts environment notes only_a only_b rows title_a title_b"
    assert sorted(document) == keys.split()
    assert document["counts"]["slower"] == 2
    done = command("compare", "A", "B", "--format", "csv", "-o", "changes.csv", cwd=folders)
    assert (done.returncode, done.stdout) == (0, "")
    lines = list(csv.DictReader(io.StringIO((folders / "changes.csv").read_text())))
    assert [line["quantity"] for line in lines] == [row["quantity"] for row in document["rows"]]
    assert [float(line["ratio"]) for line in lines] == pytest.approx(
        [row["ratio"] for row in document["rows"]]
    )


def test_folders_of_one_name_are_distinguished_by_their_paths(folders: Path) -> None:
    (folders / "old").mkdir()
    (folders / "A").rename(folders / "old" / "B")
    assert command("compare", "old/B", "B", cwd=folders).stdout.startswith("B against old/B")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("A", "nowhere"), "nowhere holds no records"),
        (("A", "B", "--where", "famly=x"), "where, character 1: unknown column 'famly'"),
        (("A", "B", "--where", "family=x"), "compare: no row matches --where 'family=x' in A or B"),
        (("A", "B", "--format", "json", "-o", "no/such"), "cannot write no/such: No such file or"),
    ],
)
def test_a_mistake_is_reported_in_one_line_with_exit_code_2(
    arguments: tuple[str, ...], complaint: str, folders: Path
) -> None:
    done = command("compare", *arguments, cwd=folders)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith(f"xla-sweeps: {complaint}")
