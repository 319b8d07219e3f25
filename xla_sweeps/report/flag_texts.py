"""The text of each caveat, as people read it."""

from __future__ import annotations

from xla_sweeps.schema.columns import IMPORTED
from xla_sweeps.schema.measurement import Flag, Status

FLAG_TEXTS: dict[str, str] = {
    Flag.BUILD_CHANGED: "earlier replicates are left out: they measured another model or other "
    "libraries under the same name",
    Flag.NOT_CONVERGED: "rounds or time ran out before the interval was as narrow as required",
    Flag.WARMUP_NOT_STATIONARY: "the mode's speed still changed when warm-up ended or over the "
    "rounds, while that of the other modes did not",
    Flag.HOST_BOUND: "the device waits for the host",
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
    Flag.RECOMPILES: "new input values make the mode compile again",
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
    Flag.COMPILED_AHEAD: "the modes were compiled beside other trials (--compile-ahead), which "
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
