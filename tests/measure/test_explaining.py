"""What remains of an explanation whose process did not finish."""

from __future__ import annotations

from xla_sweeps.measure.explaining import completed
from xla_sweeps.schema.explanation import Explanation, State, Trap, TrapName


def test_what_a_dead_process_did_not_say_is_not_available_with_the_reason() -> None:
    seen = Trap(name=TrapName.DROPPED_CHECKS, state=State.FOUND, what="seen")
    known = Explanation(
        model="net",
        device="XLA_CPU_JIT",
        operations=7,
        refusals=(),
        traps=(seen,),
        missing={"clustering": "an earlier reason"},
    )
    whole = completed(known, "the process died with SIGABRT")
    assert whole.refusals == ()
    assert whole.compiler is None
    assert dict(whole.missing) == {
        "registered": "the process died with SIGABRT",
        "compiler": "the process died with SIGABRT",
        "clustering": "an earlier reason",
    }
    assert {trap.name for trap in whole.traps} == set(TrapName)
    assert whole.traps[0] == seen
    assert {trap.state for trap in whole.traps[1:]} == {State.UNKNOWN}
