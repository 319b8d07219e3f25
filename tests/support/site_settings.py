"""Take a user's or a site's own settings from the tests: variables, ignored signals."""

from __future__ import annotations

import re
import signal
from collections.abc import MutableMapping

OF_THE_SITE = re.compile(
    r"(?!KERAS_HOME|TORCH_HOME|ONEDNN_MAX_CPU_ISA|TF_ENABLE_ONEDNN_OPTS)"
    r"(?:CUBLAS|CUBLASLT|CUDA|CUDNN|DNNL|GITHUB|GOMP|HYDRA|JAX|KERAS|KMP|MALLOC|MKL|NCCL|NUMEXPR"
    r"|NVIDIA|OMP|ONEDNN|OPENBLAS|PYTORCH|RAY|SLURM|TCMALLOC|TF|TORCH|TORCHINDUCTOR|TRITON"
    r"|WANDB|XLA)_\w+"
    r"|PYTHON\w+|GIT_(?:DIR|INDEX_FILE|WORK_TREE|OBJECT_DIRECTORY|COMMON_DIR|PREFIX)"
    r"|XDG_(?:CACHE|CONFIG|DATA|STATE)_HOME|NETRC|GLIBC_TUNABLES|LD_PRELOAD|TZ|LANGUAGE|LC_\w+"
    r"|COLUMNS|LINES|NO_COLOR|FORCE_COLOR|CLICOLOR|CLICOLOR_FORCE"
)
"""Names of variables that tests start without. A test that is about one of them sets it.

`scripts/nightly` sets two of oneDNN's for all tests, and folders of weights may be anywhere.
"""

_LOCAL = "127.0.0.1,localhost"

_ENDING = (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)


def clean(environ: MutableMapping[str, str]) -> None:
    """Remove what a site sets, and have servers of tests asked without its proxy."""
    for name in filter(OF_THE_SITE.fullmatch, list(environ)):
        del environ[name]
    environ["LANG"], environ["TERM"] = "C.UTF-8", "xterm"
    for name in ("no_proxy", "NO_PROXY"):
        environ[name] = ",".join(filter(None, [environ.get(name), _LOCAL]))


def heed_signals() -> None:
    """Restore signals that `nohup`, a shell's background or a service has ignored or blocked."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (*_ENDING, signal.SIGCHLD, signal.SIGINT):
        if signal.getsignal(number) is signal.SIG_IGN:
            usual = signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL
            signal.signal(number, usual)
