"""Text that is safe to show."""

from __future__ import annotations

import string

import pytest

from xla_sweeps.system.text import displayable, file_name, has_credentials, redact

HOSTILE = "a\x1b[31mb\x1b]0;title\x07c\u202ed\x9be\ud800f\x00\u200b\u2066"


def test_control_and_direction_characters_are_removed_and_white_space_becomes_spaces() -> None:
    assert displayable(HOSTILE) == "a[31mb]0;titlecdef"
    assert displayable("line\nbreak\ttab\u2028end") == "line break tab end"
    assert displayable("größer × 日本") == "größer × 日本"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("::error::boo", ": :error::boo"),
        (" \u2028::set-output name=verdict::faster", "  : :set-output name=verdict::faster"),
        ("it said ##[add-mask]a", "it said ## [add-mask]a"),
        ("####[group]a ##vso[task.x]b", "#### [group]a ## vso[task.x]b"),
        ("tensorflow::Status [::1] ## a [b]", "tensorflow::Status [::1] ## a [b]"),
    ],
)
def test_the_log_of_a_job_takes_no_text_for_a_command(text: str, shown: str) -> None:
    assert displayable(text) == displayable(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("GET https://me:p4ss@host/x failed", "GET https://***@host/x failed"),
        ("s3://token@bucket", "s3://***@bucket"),
        ("https://h/x?a=1&X-Amz-Signature=abc&b=2", "https://h/x?a=1&***&b=2"),
        ("the key is hunter22hunter22.", "the key is ***."),
        ("mail me@host, a://b and c@d", "mail me@host, a://b and c@d"),
    ],
)
def test_credentials_and_secrets_of_the_environment_are_removed(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "hunter22hunter22")
    assert redact(text) == shown
    assert has_credentials(text) is ("://***" in shown or "&***" in shown)


@pytest.mark.parametrize(
    "name", ["mine", "a_b-2", "../../x", "/abs/x", "a\0b", "ä" * 300, "", ".", "\ud800"]
)
def test_any_name_becomes_a_files_name_of_its_own(name: str) -> None:
    made = file_name(name)
    assert made == name or len(made) > 7
    assert len(made) <= 70
    assert not set(made) - set(string.ascii_letters + string.digits + "-_")
    assert made != file_name(name + "x")
