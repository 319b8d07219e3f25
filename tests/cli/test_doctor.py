"""The command `doctor`."""

from __future__ import annotations

from pathlib import Path

from commands import command


def test_doctor_tells_devices_versions_and_quiet_without_writing(tmp_path: Path) -> None:
    done = command("doctor", "--seconds", "0.3", cwd=tmp_path)
    assert done.returncode == 0
    for part in ("cpu", "tensorflow", "quiet", "steal", "disk", "W&B"):
        assert part in done.stdout
    assert not (tmp_path / "results").exists()
