"""Only a kernel of TensorFlow's that fails excuses a test of a half precision."""

from __future__ import annotations

import pytest
from half_precision import failure_of

ERRORS = "tensorflow.python.framework.errors_impl."

ABORTED = "AbortedError: Exception encountered when calling Conv2D.call().\n\nmessage: could not"


@pytest.mark.parametrize(
    ("code", "errors", "why"),
    [
        (0, "a warning", ""),
        (-6, "F0000 Check failed", "SIGABRT"),
        (-11, "", "SIGSEGV"),
        (1, f"Traceback\n{ERRORS}{ABORTED}", ABORTED.partition("\n")[0]),
        (1, f"{ERRORS}UnimplementedError: no such product", "UnimplementedError: no such product"),
    ],
)
def test_a_kernel_that_fails_is_named(code: int, errors: str, why: str) -> None:
    assert failure_of(code, errors) == why


@pytest.mark.parametrize(
    "errors",
    [
        "ModuleNotFoundError: No module named 'keras'",
        "AssertionError",
        f"{ERRORS}InvalidArgumentError: shapes differ",
        "",
    ],
)
def test_another_failure_is_one_of_the_test(errors: str) -> None:
    with pytest.raises(AssertionError):
        failure_of(1, errors)
