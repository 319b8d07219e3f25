"""Sentences and rules that terminal, W&B and page share, each written once. Pure data.

`report.advice` and `report.overall` fill them in for the terminal and W&B, and have those that the
page does not write itself. The page has these as its constant `PACKAGE` (`report.dashboard.page`)
and fills them in for what its reader filters: figures are written as suits each place, words are
the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from xla_sweeps.schema.columns import IMPORTED, Verdict
from xla_sweeps.schema.measurement import Flag, Status
from xla_sweeps.schema.modes import Scenario

TOO_LITTLE = "too little to tell"

SETTLE = "more replicates (effort.replicates=3) settle it"

SETTLE_ALL = "more replicates (effort.replicates=3) or a quieter machine settle them"

NOTHING = "Nothing was compared yet"

SENTENCES: Mapping[str, str] = {
    # over many pairs
    "compiling": "Compiling takes {seconds} longer",
    "no longer": "Compiling takes no longer",
    "half": "; half pay it back within {amount}",
    "one": "; it pays back after {amount}",
    "most": "; most never pay it back",
    "one never": "; it never pays back",
    "never": ", {count} never do",
    "by device": "It depends on the device.",
    "folders": "A configuration that several folders have counts once, with the most replicates, "
    "or else the newest: {folders}",
    "of folder": "{count} of {results}",
    # of one pair
    str(Verdict.FASTER): "{candidate} is {speedup} faster than {baseline} (clear: {interval}); "
    "{advice}.",
    str(Verdict.SLOWER): "{candidate} is {speedup} slower than {baseline} (clear: {interval}). "
    "Keep {switch} for this model on this device.",
    str(Verdict.EQUIVALENT): "{candidate} and {baseline} are equally fast to within {floor} "
    "(clear: {interval}). Choose by compile time and memory, not by speed.",
    str(Verdict.AMBIGUOUS): "{candidate} against {baseline} is ambiguous: {speedup} (open: "
    "{interval}). {advice}",
    "interval": "95 % {bounds}, {replicates}",
    "use": "use {switch}",
    "pays back": "its {seconds} of compilation pay back after {amount}",
    "pays back at once": "preparation takes no longer",
    "excluded": "A difference above {bound} is excluded",
    "open": "{excluded}; {replicates} would settle whether there is one above {floor}.",
    "one more": "one more replicate (effort.replicates=1, {time})",
    "more": "about {replicates} (effort.replicates={count}, {time})",
    "many": "more than {count} replicates, or a quieter machine (`xla-sweeps doctor`),",
    "published": "published, not measured here: {candidate} {speedup} {direction} than {baseline}, "
    "from single measurements, so the uncertainty is unknown.",
    "busy": "{count} of {all} contaminated by other load: only their clear differences count",
    "busy machine": "but measured on a busy machine",
    "fastest way": "The fastest way to run it here is {mode}: {speedup} as fast as {baseline}",
}
"""Sentences and parts of sentences by name, with places for figures and names."""

REMARKS: Mapping[str, str] = {
    str(Scenario.NEW_SHAPES): ", where each shape is called once or twice,"
}
"""Words after the mode to keep, by scenario, where it is not the answer for every call."""


def fill(name: str, **values: object) -> str:
    """The sentence of that name, with figures and names in its places, as the page's `say` does."""
    return SENTENCES[name].format(**values)


_UNSUPPORTED = "{failed} cannot run this model: {reason}. {keep}."

_NO_MEMORY = "{tried} ran out of memory: {reason}. Try batch_size=1 or a smaller resolution."

FAILURES: Mapping[str, str] = {
    str(Status.WRONG_RESULT): "{failed} does not compute what eager execution computes, so its "
    "speed is meaningless: {reason}.",
    str(Status.UNVERIFIABLE): "{failed} cannot be verified, so no speedup is given: {reason}.",
    str(Status.NONDETERMINISTIC): "{failed} cannot be verified, because the model is not "
    "deterministic: {reason}.",
    str(Status.MODE_NOT_EFFECTIVE): "{failed} was not in force, so there is no result: {reason}.",
    str(Status.RETRACED): "a mode was traced again while it was measured, so its speed is "
    "withheld: {reason}.",
    str(Status.UNSUPPORTED_OP): _UNSUPPORTED,
    str(Status.DYNAMIC_SHAPE): _UNSUPPORTED,
    str(Status.OOM_GPU): _NO_MEMORY,
    str(Status.OOM_HOST): _NO_MEMORY,
    str(Status.TIMEOUT): "{tried} timed out: {reason}.",
    str(Status.INTERRUPTED): "{tried} was interrupted before there was enough to compare. Rerun "
    "to resume.",
    str(Status.KILLED): "{tried} was killed, so there is no result: {reason}. Rerun to measure it "
    "again.",
    "baseline": "{candidate} could not be compared: {failed} failed: {reason}.",
    "": "{tried} could not be measured: {reason}.",
    "keep": "Keep {switch}, or see the hint",
    "hint": "See the hint",
}
"""Reasons of no speedup, by status: "baseline" where the candidate did not fail, "" for any other
status."""


FLAG_TEXTS: dict[str, str] = {
    Flag.BUILD_CHANGED: "earlier replicates are left out: they measured another model or other "
    "libraries under the same name",
    Flag.NOT_CONVERGED: "rounds or time ran out before the interval was as narrow as required",
    Flag.WARMUP_NOT_STATIONARY: "the mode's speed still changed when warm-up ended or over the "
    "rounds, while that of the other modes did not",
    Flag.QUEUE_FILL: "filling the device's queue and draining it takes more than 1 % of a block: "
    "calls are so long that a block has few",
    Flag.SUSTAINED_DIFFERS: "alone and for long, a mode runs at another speed than in turns with "
    "the others, because of power or heat; see speedup_sustained",
    Flag.CONTAINS_XLA: "parts of the model are compiled by XLA in every mode (such as Keras's "
    "grouped convolutions), so the other modes contain XLA too",
    Flag.NO_REFERENCE: "there is no float64 reference, so the modes were compared with eager only",
    Flag.CALIBRATED: "the model gave the same output for every input; to compare the modes, its "
    "batch normalization was set from one batch. Times do not depend on it",
    Flag.FIRST_CALL: "the first call of a new model fails where XLA compiles it, so call the model "
    "once without XLA before",
    Flag.RECOMPILES: "the mode compiles again in later calls",
    Flag.INPUTS_DIFFER: "some inputs take much longer than others: the throughput is that over all "
    "of them, more than 5 % from that of the middle one, and depends on which were drawn",
    Flag.SLOW_ON_NEW_INPUTS: "calls on new input values take more than 1.5 times as long as calls "
    "on values just seen: the mode keeps answers or compiles again, and its figures are not "
    "those of new inputs",
    Flag.COLLECTIONS_PUT_OFF: "calls leave so much garbage that each would start a collection; "
    "collections are put off while calls are timed, so their time is in no figure",
    Flag.OUTPUTS_ELSEWHERE: "some outputs are not on the device, so a part of the model may run on "
    "the CPU",
    Flag.GRAPH_BREAKS: "torch.compile captured the model as several graphs, with Python between "
    "them; `explain` has all breaks",
    Flag.RANDOM_LAYERS: "the model has dropout or the like: XLA draws other random numbers "
    "than the other modes, so losses differ; modes were compared without it, or by the range of "
    "their losses",
    Flag.EAGER_IS_GRAPH: "the model is a saved graph, which its eager calls run, so they cannot be "
    "compared with another model's eager execution",
    Flag.DRIFT: "the anchor trials before and after differ by more than 2 %: the machine's speed "
    "changed between them",
    Flag.TOOK_TURNS: "devices slowed each other down, so only one measured at a time",
    Flag.COMPILED_AHEAD: "the modes were compiled beside other trials (--ahead), which "
    "makes compile times longer, so there is no break-even",
    Flag.CLOCK_DIFFERS: "the measuring process's clock ran at another speed than the machine's",
    Flag.POWER_LIMITED: "the power limit held the GPU's clock down: a mode that runs alone for "
    "longer may be slower",
    Flag.NO_GPU_TELEMETRY: "the driver does not say whether heat or power slowed the GPU",
    Flag.CUT_SHORT: "the measuring process ended early; its finished rounds are kept",
    IMPORTED: "published by others: single measurements without an interval, one mode after the "
    "other",
    Status.CONTAMINATED: "more than a fifth of the rounds were contaminated by other load on the "
    "machine",
}
"""The text of each caveat, as people read it."""


class Rule(NamedTuple):
    """An answer over many pairs, given where the share of all pairs has this verdict.

    `sign` is 1 or -1 where the geometric mean, if there is one, must lie above or below 1.
    """

    word: str
    verdict: str
    share: float
    sign: int = 0


USUALLY = 0.6
"""Share of all pairs from which the answer is "usually"."""

RULES = (
    Rule("Yes.", Verdict.FASTER, 1),
    Rule("No.", Verdict.SLOWER, 1),
    Rule("It fails.", Verdict.FAILED, 1),
    Rule("Usually yes.", Verdict.FASTER, USUALLY, 1),
    Rule("Usually no.", Verdict.SLOWER, USUALLY, -1),
    Rule("It hardly matters.", Verdict.EQUIVALENT, USUALLY),
    Rule("Mostly it fails.", Verdict.FAILED, USUALLY),
    Rule("Not known yet.", Verdict.AMBIGUOUS, 1 - USUALLY),
)
"""The first that holds gives the answer; `OTHERWISE` where none does."""

DRAWN_PIPELINE = (
    "This pipeline only hands over batches of drawn values from memory: it reads, decodes, "
    "shuffles and batches nothing, so a real one takes longer. data=PATH measures one of pictures."
)

OTHERWISE = "Mixed."
"""There are clear verdicts of two kinds."""

AGREEING = (("Yes.", "Usually yes."), ("No.", "Usually no."))
"""Words of several devices that are no contradiction."""
