"""The environment: what is recorded, and which variables the measuring process sees."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from xla_sweeps.schema.backend import backends, default_backend
from xla_sweeps.system import environment
from xla_sweeps.system.devices import Device
from xla_sweeps.system.environment import (
    child_environment,
    commit_of,
    dropped_flags,
    environment_id,
    identity,
    processor,
)
from xla_sweeps.system.nvml import GpuSettings

TENSORFLOW = default_backend()

CPU = Device(kind="cpu", index=0, name="Some CPU", memory_bytes=2**34)

A100 = Device(kind="gpu", index=1, name="A100", uuid="GPU-b", memory_bytes=2**36, capability=(8, 0))


def alone(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Nothing but these variables and the ones that a process needs."""
    for name in set(os.environ) - {"PATH", "HOME"}:
        monkeypatch.delenv(name)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


def test_the_measuring_process_sees_its_device_and_no_secret() -> None:
    plain = {"PATH": "/bin", "HOME": "/h", "LC_ALL": "C", "XLA_FLAGS": "--x"}
    secrets = ("WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "TF_TOKEN", "GITHUB_TOKEN", "MY_PASSWORD")
    environ = {**plain, **dict.fromkeys(secrets, "k"), "CUDA_VISIBLE_DEVICES": "0,1,2"}
    environ["TF_XLA_FLAGS"] = "--a"
    extra = {"TF_XLA_FLAGS": "--a --b"}
    assert child_environment(environ, device=A100, backend=TENSORFLOW, extra=extra) == {
        **plain,
        "KERAS_BACKEND": "tensorflow",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "PYTHONUNBUFFERED": "1",
        "CUDA_VISIBLE_DEVICES": "GPU-b",
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "CUDA_CACHE_DISABLE": "1",
        "TF_XLA_FLAGS": "--a --b",
    }
    on_cpu = child_environment(environ, device=CPU, backend=TENSORFLOW)
    assert on_cpu["CUDA_VISIBLE_DEVICES"] == "-1"


CACHE = "--tf_xla_persistent_cache_directory=here"


@pytest.mark.parametrize(
    ("given", "kept", "dropped"),
    [
        ("--xla_dump_to=/etc --xla_cpu_x=1", "--xla_cpu_x=1", ["--xla_dump_to=/etc"]),
        ("--xla_dump_to /etc", "", ["--xla_dump_to", "/etc"]),
        ("/tmp/flags", "", ["/tmp/flags"]),
        ("--xla_new_thing=../x", "", ["--xla_new_thing=../x"]),
        (f"{CACHE} --xla_cpu_x=1", "--xla_cpu_x=1", [CACHE]),
        ('--xla_a="1"--xla_dump_to=here', "", ['--xla_a="1"--xla_dump_to=here']),
        ("--xla_gpu_cuda_data_dir=/c", "--xla_gpu_cuda_data_dir=/c", []),
    ],
)
def test_a_flag_that_names_a_file_reaches_no_trial(
    given: str, kept: str, dropped: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    environ = {"XLA_FLAGS": given}
    child = child_environment(environ, device=A100, backend=TENSORFLOW)
    assert child.get("XLA_FLAGS", "") == kept
    assert dropped_flags(environ) == dropped
    alone(monkeypatch, XLA_FLAGS=given)
    assert environment.environment()["flags"] == ({"XLA_FLAGS": kept} if kept else {})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("JAX_DUMP_IR_TO", "here"), ("TORCH_TRACE", "here"), ("TORCH_LOGS_OUT", "log.txt")),
        *(("TF_DUMP_GRAPH_PREFIX", "g"), ("TORCH_COMPILE_DEBUG", "1"), ("TRITON_DUMP_DIR", "d")),
        ("NCCL_TOPO_FILE", "topology.xml"),
        *(("PYTORCH_TUNABLEOP_FILENAME", "t.csv"), ("TORCHINDUCTOR_WORKER_LOGPATH", "log")),
        *(("TORCHINDUCTOR_PROFILE_OUTPUT", "p"), ("TF_CPP_VLOG_FILENAME", "v.log")),
        *(("CUDNN_LOGDEST_DBG", "d.log"), ("TORCHINDUCTOR_ENABLED_METRIC_TABLES", "overview")),
        ("MALLOC_CONF", "prof:true,prof_prefix:/home/alice/heap"),
    ],
)
def test_a_variable_that_names_files_reaches_no_trial_and_no_record(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, **{name: value})
    for backend in backends():
        assert name not in child_environment(os.environ, device=CPU, backend=backend)
    assert dropped_flags(os.environ) == [name]
    assert environment.environment()["flags"] == {}
    kept = {"LD_PRELOAD": "/usr/lib/libtcmalloc.so", "TRITON_PTXAS_PATH": "/usr/local/bin/ptxas"}
    kept["JAX_TRACEBACK_FILTERING"] = "off"
    assert dropped_flags(kept) == []


def test_the_environment_is_recorded_without_the_hosts_name() -> None:
    facts = environment.environment()
    assert facts["packages"]["tensorflow"]
    assert facts["packages"]["keras"]
    assert facts["cpu"]["cores"] == len(os.sched_getaffinity(0))
    assert os.uname().nodename not in facts["host"]
    assert len(facts["host"]) == 8


def test_the_identity_of_a_trial_of_one_backend_is_as_in_earlier_versions() -> None:
    facts = {
        "packages": {"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.0", "wandb": "0.22"},
        "cpu": {"model": "family 25", "instruction_sets": "avx2", "cores": 2},
        "driver": {},
        "flags": {"XLA_FLAGS": "--xla_something"},
    }
    assert environment_id(CPU, facts, TENSORFLOW) == "794d3a79"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *((name, "1") for name in ("CUBLAS_WORKSPACE_CONFIG", "CUDA_LAUNCH_BLOCKING")),
        *((name, "1") for name in ("CUDNN_LOGINFO_DBG", "DNNL_MAX_CPU_ISA", "ONEDNN_MAX_CPU_ISA")),
        *((name, "1") for name in ("KMP_BLOCKTIME", "OMP_PROC_BIND", "MALLOC_ARENA_MAX")),
        *((name, "1") for name in ("MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "LD_PRELOAD")),
        *((name, "1") for name in ("TF_GPU_THREAD_MODE", "TF_CUDNN_USE_AUTOTUNE")),
        ("TF_DETERMINISTIC_OPS", "1"),
        ("KMP_AFFINITY", "granularity=fine,explicit,proclist=[0-31,64-95]"),
        ("LD_PRELOAD", "/nix/store/0c3yhqfdl1m9f0a4x7y9p1b2c3d4e5f6-gperftools/libtcmalloc.so"),
        ("LD_PRELOAD", "/cache/0123456789abcdef0123456789abcdef/libjemalloc.so.2"),
        ("NCCL_PAT_ENABLE", "0"),
        ("OMP_PLACES", "{0:4},{4:4},{8:4},{12:4}"),
        ("XLA_FLAGS", "--xla_force_host_platform_device_count=8 --xla_cpu_use_thunk_runtime=1"),
    ],
)
def test_a_variable_that_changes_speed_reaches_the_trial_is_recorded_and_identifies_it(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch)
    before = environment.environment()
    assert before["flags"] == {}
    monkeypatch.setenv(name, value)
    facts = environment.environment()
    assert facts["flags"] == {name: value}
    assert child_environment(os.environ, device=CPU, backend=TENSORFLOW)[name] == value
    assert identity(CPU, facts, TENSORFLOW) != identity(CPU, before, TENSORFLOW)
    assert environment_id(CPU, facts, TENSORFLOW) != environment_id(CPU, before, TENSORFLOW)


def test_paths_log_levels_and_caches_reach_the_trial_and_identify_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    harmless = {
        **{"CUDA_HOME": "/c", "CUDA_VERSION": "12.5", "KERAS_HOME": "/k", "LD_LIBRARY_PATH": "/l"},
        **{"NVIDIA_REQUIRE_CUDA": "c>=12", "TF_CPP_MIN_LOG_LEVEL": "2", "XLA_SWEEPS_CACHE": "/x"},
        **{"https_proxy": "http://p:3128", "NO_PROXY": "x", "SSL_CERT_FILE": "/s", "HF_HOME": "/h"},
    }
    secret = {"HTTPS_PROXY": "http://me:password@p:3128", "http_proxy": "me:password@p:3128"}
    secret |= {"HF_HUB_TOKEN": "hf"}
    alone(monkeypatch, **harmless, **secret)
    assert environment.environment()["flags"] == {}
    child = child_environment(os.environ, device=CPU, backend=TENSORFLOW)
    assert child.items() >= harmless.items()
    assert not child.keys() & secret.keys()
    assert dropped_flags(os.environ) == ["HTTPS_PROXY", "http_proxy"]


def test_no_secret_is_recorded_whatever_its_name_begins_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    terraform = {"TF_VAR_database": "secret", "TF_CLI_ARGS": "secret", "TF_LOG": "trace"}
    terraform |= {"TF_ENCRYPTION": 'passphrase = "secret"', "TF_HTTP_USERNAME": "me"}
    address = {"TF_DUMP_GRAPH_PREFIX": "http://me:password@host"}
    alone(monkeypatch, NVIDIA_API_KEY="k" * 20, **terraform, **address)
    assert environment.environment()["flags"] == {}
    child = child_environment(os.environ, device=CPU, backend=TENSORFLOW)
    named = {name for name in child if name.startswith(("NVIDIA_", "TF_"))}
    assert named == {*TENSORFLOW.variables} - {"KERAS_BACKEND"}


@pytest.mark.parametrize(
    ("name", "value", "named"),
    [
        ("MKL_DB_PW", "hunter2", False),
        ("NCCL_JWT", "x.y.z", False),
        ("TF_COOKIE_JAR", "a=b", False),
        ("OMP_NOTE", "note:Zm9vYmFyMTIzNGV4YW1wbGU", True),
        ("NVIDIA_NGC", "0123456789abcdef0123456789abcdef01234567", True),
        ("XLA_FLAGS", "--xla_note=AKIAIOSFODNN7EXAMPLE", True),
    ],
)
def test_what_looks_like_a_secret_by_name_or_value_reaches_neither_trial_nor_record(
    name: str, value: str, named: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone(monkeypatch, **{name: value})
    assert environment.environment()["flags"] == {}
    assert name not in child_environment(os.environ, device=CPU, backend=TENSORFLOW)
    assert dropped_flags(os.environ) == ([name] if named else [])


def test_addresses_folders_and_what_the_program_sets_itself_identify_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names = (
        *("CUDA_MPS_PIPE_DIRECTORY", "NCCL_COMM_ID", "NVIDIA_DCGM_PORT_9400_TCP_ADDR", "TF_CONFIG"),
        *("TF_JOB_7_SERVICE_HOST", "TORCH_CUDA_ARCH_LIST", "PYTORCH_BUILD_VERSION"),
        *("JAX_PLATFORMS", "XLA_PYTHON_CLIENT_PREALLOCATE", "TF_FORCE_GPU_ALLOW_GROWTH"),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES",
    )
    alone(monkeypatch, **dict.fromkeys(names, "10.0.0.7:2222"))
    assert environment.environment()["flags"] == {}


CPUINFO = """processor\t: 0
vendor_id\t: GenuineIntel
cpu family\t: 6
model\t\t: {model}
model name\t: Intel(R) Xeon(R) Processor
stepping\t: 4
flags\t\t: fpu sse2 smep avx2 {flag}

processor\t: 1
model\t\t: 1
"""


def test_cpus_of_one_name_are_told_apart_by_model_and_instruction_sets() -> None:
    skylake = processor(CPUINFO.format(model=85, flag="avx512f"))
    assert skylake == {
        "model": "vendor_id GenuineIntel cpu family 6 model 85 stepping 4",
        "instruction_sets": "avx2 avx512f sse2",
    }
    assert processor(CPUINFO.format(model=143, flag="avx512f")) != skylake
    assert processor(CPUINFO.format(model=85, flag="amx_tile")) != skylake
    arm = "processor\t: 0\nFeatures\t: fp asimd sve\nCPU implementer\t: 0x41\nCPU part\t: 0xd40\n"
    assert processor(arm) == {
        "model": "CPU implementer 0x41 CPU part 0xd40",
        "instruction_sets": "asimd sve",
    }
    assert processor("") == {"model": "", "instruction_sets": ""}


def test_the_libraries_of_a_gpu_and_the_cpu_are_part_of_the_identity() -> None:
    facts = environment.environment()
    newer = {**facts, "packages": {**facts["packages"], "nvidia-cudnn-cu12": "9.10.2.21"}}
    assert identity(A100, newer, TENSORFLOW) != identity(A100, facts, TENSORFLOW)
    assert identity(CPU, newer, TENSORFLOW) == identity(CPU, facts, TENSORFLOW)
    other = {**facts, "cpu": {**facts["cpu"], "instruction_sets": "sse2"}}
    assert identity(CPU, other, TENSORFLOW) != identity(CPU, facts, TENSORFLOW)


def test_cuda_keeps_kernels_between_processes_only_where_asked_to_and_that_is_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone(monkeypatch, CUDA_CACHE_DISABLE="0")
    assert (
        child_environment(os.environ, device=A100, backend=TENSORFLOW)["CUDA_CACHE_DISABLE"] == "0"
    )
    assert environment.environment()["flags"] == {"CUDA_CACHE_DISABLE": "0"}
    assert "CUDA_CACHE_DISABLE" not in child_environment({}, device=CPU, backend=TENSORFLOW)


def test_the_power_limit_that_was_set_is_part_of_a_gpus_identity() -> None:
    facts = environment.environment()
    capped = replace(A100, settings=GpuSettings(power_limit_w=250))
    assert identity(capped, facts, TENSORFLOW) != identity(A100, facts, TENSORFLOW)
    assert environment_id(capped, facts, TENSORFLOW) != environment_id(A100, facts, TENSORFLOW)
    assert "power_limit_w" not in identity(CPU, facts, TENSORFLOW)
    managed = [
        replace(A100, settings=GpuSettings(power_limit_w=watts, power_limit_set_w=400))
        for watts in (400, 350)
    ]
    one, other = (identity(gpu, facts, TENSORFLOW) for gpu in managed)
    assert one == other, "what a site's power manager enforces for a while splits no trial"


GIT = ("git", "-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always", "-C")


def checkout(folder: Path) -> Path:
    """A checkout of one commit with one file."""
    subprocess.run(["git", "init", "-q", folder], check=True)
    (folder / "model.py").write_text("one")
    for words in (["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*GIT, folder, *words], check=True)
    return folder


def plant(folder: Path, proof: Path) -> None:
    """Name a program in every place of a checkout's configuration where Git may run one."""
    program = proof.with_suffix(".sh")
    program.write_text(f"#!/bin/sh\necho $0 $* >> {proof}\ncat\n")
    program.chmod(0o755)
    git = Path(
        subprocess.check_output([*GIT, folder, "rev-parse", "--absolute-git-dir"], text=True)[:-1]
    )
    (git / "info").mkdir(exist_ok=True)
    (git / "info" / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
    (git / "hooks").mkdir(exist_ok=True)
    for hook in ("post-index-change", "fsmonitor-watchman", "reference-transaction"):
        (git / "hooks" / hook).symlink_to(program)
    for name in (
        *("filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.textconv"),
        *("diff.evil.command", "diff.external", "core.fsmonitor", "core.pager", "pager.status"),
        *("core.sshCommand", "core.editor", "merge.evil.driver", "alias.rev-parse", "gpg.program"),
    ):
        subprocess.run([*GIT, folder, "config", name, str(program)], check=True)


@pytest.mark.parametrize("kind", ["plain", "worktree", "submodule"])
def test_the_commit_of_a_folder_is_told_without_a_program_that_the_folder_names(
    tmp_path: Path, kind: str
) -> None:
    proof = tmp_path / "proof"
    folder = checkout(tmp_path / "own")
    planted = folder
    if kind == "worktree":
        subprocess.run([*GIT, folder, "worktree", "add", "-q", tmp_path / "two"], check=True)
        folder = planted = tmp_path / "two"
    elif kind == "submodule":
        other = checkout(tmp_path / "other")
        subprocess.run([*GIT, folder, "submodule", "--quiet", "add", other, "sub"], check=True)
        subprocess.run([*GIT, folder, "commit", "-qm", "second"], check=True)
        planted = folder / "sub"
    clean = commit_of(folder)
    assert re.fullmatch(r"[0-9a-f]{12}", clean)
    plant(planted, proof)
    os.utime(planted / "model.py", (1, 1))
    assert commit_of(folder) == clean
    (planted / "model.py").write_text("two")
    assert commit_of(folder) == (clean if kind == "submodule" else f"{clean}+dirty")
    assert not proof.exists(), proof.read_text()
    (folder / "sub.d").mkdir()
    assert commit_of(folder / "sub.d").startswith(clean)
    assert commit_of(tmp_path) == ""


def test_a_hooks_variables_do_not_name_another_checkout(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = commit_of(checkout(tmp_path / "own"))
    assert own
    checkout(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "other" / ".git"))
    assert commit_of(tmp_path / "own") == own
