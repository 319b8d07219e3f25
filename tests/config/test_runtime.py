"""The options of TensorFlow itself: what is refused, and the trial that they give."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from composed import cases, complaint, settings

from xla_sweeps.config import runtime
from xla_sweeps.errors import ConfigError
from xla_sweeps.schema.overrides import runtime_text
from xla_sweeps.schema.trial import request_id
from xla_sweeps.sweeps.compose import Composer
from xla_sweeps.sweeps.launchers.slots import Slot
from xla_sweeps.system import environment
from xla_sweeps.system.devices import resolve_device

pytestmark = pytest.mark.usefixtures("composed_once")

LISTED = {
    "XLA_FLAGS": {
        **{"xla_cpu_enable_fast_math": "bool", "xla_cpu_prefer_vector_width": "int"},
        **{"xla_gpu_autotune_gemm_rtol": "float", "xla_cpu_max_isa": "str", "xla_dump_to": "str"},
    },
    "TF_XLA_FLAGS": {"tf_xla_max_cluster_size": "int"},
}


@pytest.fixture(autouse=True)
def listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's list of flags, as it is kept; TensorFlow is never asked."""
    monkeypatch.setenv("XLA_SWEEPS_CACHE", str(tmp_path))
    runtime.listed_flags.cache_clear()
    runtime.accepts.cache_clear()
    version = environment.versions()["tensorflow"]
    (tmp_path / "flags").mkdir()
    for variable, kinds in LISTED.items():
        place = tmp_path / "flags" / f"{version}-{variable}.json"
        place.write_bytes(msgspec.json.encode(kinds))
    unknown = (-6, "F0000 parse_flags_from_env.cc:234] Unknown flag in XLA_FLAGS: --x")
    answers = {"--xla_gpu_late_flag=true": (0, "")}
    monkeypatch.setattr(
        runtime, "_ask", lambda backend, variable, value: answers.get(value, unknown)
    )


REFUSED = """
xla_flags.xla_cpu_enable_fastmath=true
  -> unknown flag in xla_flags 'xla_cpu_enable_fastmath=true'. Did you mean 'xla_cpu_enable_fast_mat
xla_flags.xla_cpu_enable_fast_math=2 -> xla_flags.xla_cpu_enable_fast_math=2: expected true or false
xla_flags.xla_cpu_prefer_vector_width=wide
  -> xla_flags.xla_cpu_prefer_vector_width=wide: expected an integer
"xla_flags.xla_cpu_max_isa='a b'"
  -> xla_flags.xla_cpu_max_isa=a b: expected letters, digits and
xla_flags.xla_dump_to=here -> xla_flags.xla_dump_to=here: a trial's flags name no files
tf_xla_flags.tf_xla_persistent_cache_directory=here
  -> tf_xla_flags.tf_xla_persistent_cache_directory=here: a trial's flags name no files
xla_flags.xla_gpu_autotune_gemm_rtol=nan
  -> xla_flags.xla_gpu_autotune_gemm_rtol=nan: expected a finite number
xla_flags.xla_gpu_autotune_gemm_rtol=inf
  -> xla_flags.xla_gpu_autotune_gemm_rtol=inf: expected a finite number
'xla_flags={nan:1}' -> unknown flag in xla_flags 'nan=1'
'xla_flags={a:[1]}' -> xla_flags.a=[1]: expected letters, digits and
xla_flags=fast -> xla_flags=fast: write xla_flags.NAME=VALUE
threads.intra=0 -> threads.intra=0: must be at least 1
threads.intra=1.5 -> threads.intra=1.5: expected an integer
threads=2 -> threads=2: write threads.KEY=VALUE; keys: intra, inter
onednn=maybe -> onednn=maybe: expected true or false
"""


@pytest.mark.parametrize(("words", "line"), cases(REFUSED))
def test_what_tensorflow_would_not_take_is_refused_in_one_line(words: list[str], line: str) -> None:
    assert complaint(*words).startswith(line)


@pytest.mark.parametrize(
    ("override", "environ"),
    [
        ("onednn=false", {"TF_ENABLE_ONEDNN_OPTS": "0"}),
        ("threads.intra=1", {"TF_NUM_INTRAOP_THREADS": "2"}),
        ("threads.inter=1", {"TF_NUM_INTEROP_THREADS": "2"}),
        ("xla_flags.xla_cpu_max_isa=AVX2", {"XLA_FLAGS": "--a --xla_cpu_max_isa=AVX2"}),
    ],
)
def test_what_the_environment_sets_too_is_refused(override: str, environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match=r"set.* too"):
        settings(override, environ=environ)
    other = settings(override, environ={"XLA_FLAGS": "--xla_other=1"})
    assert runtime_text(other.trial) == override
    assert other.trial.runtime != settings().trial.runtime


def test_values_get_the_types_of_their_flags() -> None:
    typed = settings(
        "xla_flags={xla_cpu_enable_fast_math:True,xla_cpu_prefer_vector_width:512}",
        "xla_flags.xla_gpu_autotune_gemm_rtol=1",
        "xla_flags.xla_gpu_late_flag=true",
        "tf_xla_flags.tf_xla_max_cluster_size=10",
        "onednn=false",
        "threads.intra=1",
    )
    assert typed.trial.runtime.xla_flags == {
        **{"xla_cpu_enable_fast_math": True, "xla_cpu_prefer_vector_width": 512},
        **{"xla_gpu_autotune_gemm_rtol": 1.0, "xla_gpu_late_flag": True},
    }
    assert runtime_text(typed.trial) == (
        "onednn=false tf_xla_flags.tf_xla_max_cluster_size=10 threads.intra=1 "
        "xla_flags.xla_cpu_enable_fast_math=true xla_flags.xla_cpu_prefer_vector_width=512 "
        "xla_flags.xla_gpu_autotune_gemm_rtol=1.0 xla_flags.xla_gpu_late_flag=true"
    )
    again = settings(*runtime_text(typed.trial).split())
    assert again.trial == typed.trial
    assert request_id(again.trial) != request_id(settings().trial)


def test_an_absent_option_and_an_empty_one_are_one_request() -> None:
    plain = settings()
    empty = settings("xla_flags={}", "threads.intra=null", "onednn=null")
    none = settings("xla_flags=null", "threads=null")
    assert plain.trial == empty.trial == none.trial
    assert runtime_text(plain.trial) == ""


@pytest.mark.parametrize(
    "values",
    [
        {"xla_flags.xla_cpu_enable_fast_math": True, "threads.intra": 1, "onednn": False},
        {"xla_flags": {"xla_cpu_enable_fast_math": True}, "threads": {"intra": 1}, "onednn": False},
    ],
)
def test_a_sweep_varies_them_in_either_notation(values: dict[str, object]) -> None:
    slot = Slot(name="cpu", device=resolve_device("cpu"))
    task = Composer([], slots=[slot], environ={}).task({"model": "mobilenet_v2", **values})
    typed = settings(
        "xla_flags.xla_cpu_enable_fast_math=true", "threads.intra=1", "onednn=false"
    ).trial
    assert task.request_id == request_id(typed)


def test_a_crash_at_a_flag_is_not_called_an_unknown_flag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        runtime, "_ask", lambda backend, variable, value: (-11, "Segmentation fault")
    )
    assert complaint("xla_flags.xla_cpu_deadly=true") == (
        "TensorFlow does not start with XLA_FLAGS=--xla_cpu_deadly=true (exit code -11); remove it"
    )
