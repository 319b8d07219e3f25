"""Reports of made-up trials, and what the server stored of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from factories import CONFIG, MODEL, make_record
from wandb_server import WandbServer
from wandb_views import StoredView

from xla_sweeps.cli.dashboard import report_command
from xla_sweeps.store.store import Store


def measure(results_dir: Path, *names: str, project: str = "xla-sweeps", day: int = 1) -> None:
    """Records of trials of these models, two processes each."""
    settings = {**CONFIG["tracker"], "project": project}
    for number, name in enumerate(names):
        config = {
            **CONFIG,
            "model": {"name": name, "family": "F", "variant": name},
            "tracker": settings,
        }
        for replicate in (0, 1):
            times = {"eager": 0.4, "graph": 0.2, "xla": 0.1 * (number + 1)}
            Store(results_dir).save(
                make_record(
                    times,
                    noise=0.01,
                    seed=replicate,
                    replicate=replicate,
                    trial_id=f"{name:0>16}",
                    config=config,
                    model=replace(MODEL, name=name, family="F", variant=name),
                    started_at=f"2026-01-{day:02d}T00:00:0{number}+00:00",
                )
            )


def report(results_dir: Path, **options: Any) -> int:
    words = [
        f"--{name.replace('_', '-')}" if value is True else f"--{name}={value}"
        for name, value in options.items()
        if value
    ]
    return report_command([str(results_dir), *words])


def only(views: list[StoredView]) -> StoredView:
    (view,) = views
    return view


def blocks(view: StoredView, kind: str) -> list[dict[str, Any]]:
    return [block for block in view.spec["blocks"] if block["type"] == kind]


def texts(view: StoredView) -> str:
    return "\n".join(block["content"] for block in blocks(view, "markdown-block"))


def uploaded(server: WandbServer) -> dict[str, bytes]:
    """The files of all artifacts by name."""
    return {
        name: content
        for artifact in server.pages.artifacts.values()
        for name, content in artifact.files.items()
    }
