"""Entry point of the process that explains a model; the parent's side is `measure.explaining`."""

from __future__ import annotations

from xla_sweeps.schema.trial import ReplicateJob
from xla_sweeps.tf import worker


def explain(job: ReplicateJob, channel: worker.Channel) -> None:
    """Explain the job's model; TensorFlow loads here, after the stage is announced."""
    from xla_sweeps.tf.explain import explaining

    explaining.explain(job, channel)


if __name__ == "__main__":
    worker.end(worker.main(explain))
