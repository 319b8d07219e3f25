"""Explain a model under XLA: the order of work, whichever engine calls XLA."""

from __future__ import annotations

import traceback
from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from xla_sweeps.backends.keras.explain import program
from xla_sweeps.backends.keras.explain.explainer import Explainer
from xla_sweeps.backends.keras.explain.trace import CALLS
from xla_sweeps.backends.keras.explain.traps import LOOKS, Looks, Ran, look_for
from xla_sweeps.backends.keras.hlo import Module
from xla_sweeps.errors import XlaSweepsError
from xla_sweeps.schema.explanation import CompilerVerdict, Explanation, Place, Work
from xla_sweeps.schema.measurement import Agreement, Phase
from xla_sweeps.trial.failures import error_line

REFUSED = "XLA does not compile the model"


class XlaExplainer(Explainer):
    """The steps of explaining a model under XLA. An engine supplies its programs and its traps.

    Attributes:
        untraced: reason for all parts of a model that cannot be traced.
        baseline: the model without XLA; `compiled` under it, as long as XLA takes it.
        plain: outputs without XLA, and `again` those of a second run; `under_xla` those under it.
        lowered: programs before XLA's optimizer, one for each batch that was lowered.
        optimized: the program after it.
    """

    looks: ClassVar[Looks] = LOOKS
    untraced: ClassVar[str] = "the model cannot be traced"
    baseline: Any
    compiled: Any = None
    plain: Ran
    again: Ran
    under_xla: Ran = RuntimeError(REFUSED)
    lowered: Sequence[Module] = ()
    optimized: Module

    def explain(self, *, trace: bool = True) -> Explanation:
        """Trace the model, compile it, run it without and with XLA, and read what XLA made."""
        self.begin(Phase.TRACE)
        try:
            self.trace()
        except Exception as error:
            self.refuse(error, Phase.TRACE)
            self.end(self.untraced)
            return self.explanation
        self._look(Phase.TRACE)
        self._compile()
        self._look(Phase.COMPILE)
        self._run()
        self._look(Phase.VERIFY)
        self.begin(Phase.MEASURE)
        self._read(trace=trace)
        self._look(Phase.MEASURE)
        return self.explanation

    @abstractmethod
    def trace(self) -> None:
        """Trace the model, note its operations, and bind `baseline`."""

    @abstractmethod
    def compile(self) -> None:
        """Compile the model as `compiled`; raises what the compiler says."""

    def lower(self) -> Sequence[Module]:
        """Programs of the compiled model before XLA's optimizer; those that compiling has left."""
        return self.lowered

    @abstractmethod
    def optimize(self, *, calls: int) -> Module:
        """The program after XLA's optimizer; a profiler may need a few calls to show it."""

    @abstractmethod
    def layer_of(self, name: str) -> str:
        """The layer of an operation of the program; "" for none."""

    def run_first(self) -> list[Any]:
        """Outputs of the baseline's first call."""
        outputs: list[Any] = self.baseline.outputs()
        return outputs

    def count_compilations(self) -> None:
        """Note what further calls compile, where the engine tells."""

    def resizing(self) -> list[Place]:
        """Operations from which an output of another shape may come."""
        return []

    def narrowing(self) -> list[Place]:
        """Casts to a type that holds fewer numbers."""
        return []

    def compare(self) -> Agreement:
        """Compare outputs under XLA with those without it, by all that a trial has for it."""
        later = range(1, len(self.bench.inputs))
        self.bench.eager, self.bench.later = self.plain, list(map(self.baseline.outputs, later))
        agreed: Agreement = self.bench.verify_outputs(self.under_xla, self.tell)
        return agreed

    def least_work(self) -> Work:
        """The least work of one call, by the program before XLA's optimizer."""
        if not self.lowered:
            raise XlaSweepsError(f"{REFUSED}, so its work is not known")
        return program.work_of(self.lowered[0], self.bench.inputs[0])

    def _look(self, after: Phase) -> None:
        for trap in look_for(self.looks, self, after):
            self.note(trap)

    def _compile(self) -> None:
        """Compile the model: the compiler's verdict, and the program before its optimizer."""
        self.begin(Phase.COMPILE, self.modes[1])
        try:
            self.compile()
        except Exception as error:
            self.compiled = None
            self.miss(REFUSED, "hlo_operations")
            self.refuse(error, Phase.COMPILE)
            return
        self.note(compiler=CompilerVerdict(compiles=True))
        with self.or_missing("hlo_operations"):
            self.lowered = self.lower()
            self.note(hlo_operations=len(list(self.lowered[0].running())))
        self.count_compilations()

    def _run(self) -> None:
        """Run both modes on the same inputs, and keep what they return."""
        usual, compiled = self.modes
        self.plain = self.again = _outputs_of(self.run_first)
        if isinstance(self.plain, Exception):
            self.miss(error_line(self.plain), "graph_operations")
        else:
            self.again = _outputs_of(self.baseline.outputs)
        if isinstance(self.again, Exception):
            self.miss(f"{usual.execution} mode failed: {error_line(self.again)}", "time")
        else:
            self.ran[usual] = self.baseline
        if self.compiled is None:
            return
        self.under_xla = _outputs_of(self.compiled.outputs)
        if not isinstance(self.under_xla, Exception):
            self.ran[compiled] = self.compiled
            return
        self.compiled = None
        if not isinstance(self.plain, Exception):
            self.refuse(self.under_xla, Phase.COMPILE)

    def _read(self, *, trace: bool) -> None:
        """Read what XLA makes of the model, and from a trace where the time of both modes goes."""
        if not trace:
            self.miss("left out by --no-trace", "time")
        if self.compiled is None:
            self.miss(REFUSED, "program", "time")
            return
        with self.or_missing("program", "time"):
            self.optimized = self.optimize(calls=CALLS if trace else 1)
            with self.or_missing("program"):
                self.note(program=program.program_of(self.optimized, self.layer_of))
            self.break_down()


def _outputs_of(run: Callable[[], list[Any]]) -> Ran:
    try:
        return run()
    except Exception as error:
        traceback.print_exc()
        return error
