"""Words that `fuzz_commands.py` types and sets in the environment."""

from __future__ import annotations

from collections.abc import Mapping

NUMBERS = (
    *("0", "-1", "1e400", "1e308", "-1e-320", "nan", ".inf", "0x10", "1_0", "²", "10" * 15),
    *("9" * 5000, "0.1", "1e9", "2147483648", "-9223372036854775809", "true", "null"),
)

WORDS = (
    *("", " ", "=", "~", "+", "-", "--", "{", "}", "[", "]", "*", "?", "[a", "a]b", "'", '"', "\\"),
    *("a=b", "a b", "a,b", "a(1)", "é", "\u202egnp.exe", "ﷺ" * 30, "💥", "\udcff", "\udc80x"),
    *("\x1b[31mred", "\x1b]0;title\x07", "\r\nx", "\t", "a\nb", "\x7f", "\x01" * 9),
    *("[" * 100, "[" * 300 + "]" * 300, "{a:" * 50, "(" * 200, "x" * 300, "x" * 5000, "'" * 51),
    *("${seed}", "${oc.env:HOME}", "${", "$(id)", "`id`", "${now:%Y}", "${hydra:job.name}", "%s%n"),
    *("_target_", "__class__", "None", "{}", "[]", "{a: 1}", "!!python/name:os.system", "&a", "*a"),
    *("../x", "/dev/null", "/proc/self/mem", "f", "loop", "pipe", "results", "a/b/c", "con", "."),
)

PATHS = (
    *("results", "other", "f", "loop", "pipe", "", ".", "é", "a b", "x" * 300, "/dev/null"),
    *("/proc/x", "f/g", "loop/x", "\x1b[31m", "\udcff", "x/" * 3000, "results/records", "link"),
)
"""Paths; a case writes to none outside its folder, and to no pipe that nobody reads."""

ENVIRONMENT: Mapping[str, tuple[str, ...]] = {
    "PYTHONIOENCODING": ("ascii", "latin-1", "utf-16", "cp1252"),
    "COLUMNS": ("wide", "0", "-1", "1", "9999999999", "²", "20"),
    "LINES": ("x", "0", "1"),
    "TERM": ("", "dumb", "xterm\x1b[31m"),
    "FORCE_COLOR": ("1",),
    "HOME": ("", "/proc/nonexistent", "~", "x" * 300),
    "WANDB_MODE": ("online", "disabled", "offline", "dryrun", "x"),
    "WANDB_PROJECT": ("a/b", "", "é", "sweeps", "x" * 300),
    "WANDB_BASE_URL": ("http://[::1", "x", "", "http://127.0.0.1:9"),
    "WANDB_API_KEY": ("x", "x" * 40, "\x1b[31m"),
    "WANDB_RUN_GROUP": ("\x1b[31m", "a\nb"),
    "WANDB_DIR": ("f", "loop", ""),
    "NETRC": ("f", "~nobody-of-that-name/x", "pipe" * 100),
    "XDG_CACHE_HOME": ("f", ""),
    "XLA_FLAGS": ("--xla_dump_to=/x", "\x1b[31m", "x" * 5000),
    "TF_XLA_FLAGS": ("--nosuch", ""),
    "CUDA_VISIBLE_DEVICES": ("", "-1", "x", "7"),
    "OMP_NUM_THREADS": ("x", "-1", "0"),
    "HYDRA_FULL_ERROR": ("1",),
    "CI": ("1",),
    "NO_COLOR": ("1",),
}
