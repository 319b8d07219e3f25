"""Wrong requests for a trial: each is refused in one line, before anything starts."""

from __future__ import annotations

import pytest
from composed import cases, complaint

from xla_sweeps.system import environment
from xla_sweeps.system.installation import install

REFUSED = """
source.name=hub -> option 'source.name' was removed: write source=NAME
scenario.name=call -> option 'scenario.name' was removed: write scenario=NAME
known_records=3 -> option 'known_records' was removed: leave it out
path=net.keras -> path=net.keras: applies only to a model of your own; add model=local
model=local source=keras_cv path=x
  -> source=keras_cv: model=local is your own model; leave source out
model=local path=x weights=imagenet -> weights=imagenet: your own model keeps its weights
model=local -> model=local: name it, as in path=my_model.keras
optimizer=adam -> optimizer=adam: scenario=call trains nothing; add scenario=train_step or remove
scenario=fit optimizer=adan -> unknown optimizer 'adan'. Did you mean 'adam'
scenario=fit learning_rate=0 -> learning_rate=0: expected a number above 0
model=yolo_v8_xs scenario=train_step
  -> scenario=train_step: yolo_v8_xs is for the task detection, which has no loss here
model=vit_b16 source=hub scenario=train_step
  -> scenario=train_step: vit_b16 from source=hub is a SavedModel, a graph without
model=resnet50 scenario=detect
  -> scenario=detect: resnet50 is not a detector; detectors: dfine_large
model=mixer_b16 precision=mixed_bfloat16
  -> precision=mixed_bfloat16: mixer_b16 from source=hub has fixed dtypes
model=fusion_example precision=mixed_bfloat16
  -> precision=mixed_bfloat16: fusion_example from source=examples has fixed dtypes
source=keras_cv
  -> source=keras_cv: mobilenet_v2 is not available from it. Sources that have it: applications.
resolution=0 -> resolution=0: must be at least 1
resolution=big -> resolution=big: expected an integer
resolution=224.5 -> resolution=224.5: expected an integer
resolution=16 -> resolution=16: too small for mobilenet_v2, which needs at least 32 px (native: 224)
batch_size=0 -> batch_size=0: must be at least 1 and at most 65536
batch_size=many -> batch_size=many: expected an integer
jit=maybe -> jit=maybe: allowed are true (xla)
'modes=[grph]'
  -> unknown execution mode 'grph'. Did you mean 'graph'? Allowed: eager, default, graph, xla, autoc
'modes=[]' -> modes=[]: give a list, as in modes=[eager,graph,xla]
precision=mixed_float16 -> precision=mixed_float16:
tf32=true -> tf32=true:
effort=quik -> unknown effort 'quik'. Did you mean 'quick'? Allowed: check, publish, quick,
effort.rounds_min=2 -> effort.rounds_min=2: must be at least 6
effort.rounds_max=7 -> effort.rounds_max=7 is below effort.rounds_min=10
effort.block_s=0 -> effort.block_s=0: expected a number above 0
+effort.blok_s=1 -> unknown option of effort 'blok_s'. Did you mean 'block_s'?
timeouts.compile=-1 -> timeouts.compile=-1: expected a number above 0
device=tpu -> device=tpu: allowed are auto, cpu, gpu and gpu:N; this machine has
device=gpu:99 -> device=gpu:99: this machine has
ui=fancy -> unknown ui 'fancy'. Allowed: auto, live, plain, quiet, json.
seed=-1 -> seed=-1: must be at least 0
memory_limit_gib=0 -> memory_limit_gib=0: expected a number above 0
bach_size=4 -> unknown option 'bach_size'. Did you mean 'batch_size'?
effort.blok_s=1 -> unknown option 'effort.blok_s'. Did you mean 'effort.block_s'?
+bach_size=4 -> unknown option 'bach_size'. Did you mean 'batch_size'?
precision=float16 -> unknown precision 'float16'. Did you mean 'mixed_float16'? Allowed: float32
weights=/no/such/file
  -> weights=/no/such/file: no such file; allowed: random, imagenet, or the path of a weights file
jit=true jit=false -> conflicting overrides: 'jit=true' and 'jit=false'; give jit once
jit=true 'modes=[eager,graph]'
  -> conflicting overrides: jit=true asks for the mode xla, which is not in modes=[eager,graph]
model=resnet50,vgg16 -> 'model=resnet50,vgg16' gives several values: add -m to run each of them
model= -> model: name one, as in model=
'model=[1' -> cannot read the override 'model=[1'
+model._target_=os.system -> _target_ in override
'results_dir=${oc.env:HOME}' -> resolver ${oc.env:…} in override
tracker.project=a/b -> tracker.project=a/b: W&B takes at most 128 characters
'tracker.project=[1]' -> tracker.project=[1]: expected a string
'tracker.group={a: 1}' -> tracker.group={'a': 1}: expected a string
tracker.tags=abc -> tracker.tags=abc: expected a list
'tracker.tags=[[1]]' -> tracker.tags=[[1]]: expected a list
tracker.telemetry=2 -> tracker.telemetry=2: expected true or false
"accelerator=''" -> accelerator=: expected a part of a device's name
'accelerator=***' -> accelerator=***: expected a part of a device's name
tracker.project=sweeps -> tracker.project=sweeps: W&B's client cannot read a project of that name
source=keras_cb -> unknown source 'keras_cb'. Did you mean 'keras_cv'? Allowed: auto, applications,
source= -> source: name one, as in source=auto
tracker=wand -> unknown tracker 'wand'. Did you mean 'wandb'? Allowed: auto,
tracker=none tracker=wandb
  -> conflicting overrides: 'tracker=none' and 'tracker=wandb'; give tracker once
tracker.projct=x -> unknown option 'tracker.projct'. Did you mean 'tracker.project'?
scenario=fits -> unknown scenario 'fits'. Did you mean 'fit'? Allowed: call, detect, predict,
scenario=fit steps_per_execution=9
  -> steps_per_execution=9: an epoch is 8 batches; use steps_per_execution=8 or less
scenario=fit steps_per_execution=2 'modes=[graph,xla]'
  -> steps_per_execution=2: no mode of modes=[graph,xla] calls fit; add fit_graph or
scenario=train_step steps_per_execution=2
  -> steps_per_execution=2: a call of scenario=train_step calls no fit; add scenario=fit or remove s
scenario=predict batches=4 steps_per_execution=2
  -> steps_per_execution=2: a call of scenario=predict calls no fit; use the modes predict_graph_ste
scenario=fit steps_per_execution=0 -> steps_per_execution=0:
scenario=predict batches=0 -> batches=0: must be at least 1
copies=apar -> unknown copies 'apar'. Did you mean 'apart'?
"""

REFUSED_SO = """
'modes=[graph,predict_xla]'
  -> modes: predict_xla is no mode of scenario=call; it belongs to scenario=predict
scenario=predict 'modes=[predict_xla_steps]'
  -> modes: predict_xla_steps executes several batches at once; add batches=2 or more
batches=8
  -> batches=8: a call of scenario=call takes one batch; use scenario=predict or fit, or batch_size
keras=4 -> keras=4: must be at least 2 and at most 3
model=regnetx_002 keras=3 -> keras=3: Keras 3 has no RegNetX002 any more; leave keras out
keras=2 scenario=predict 'modes=[predict,predict_auto]'
  -> modes: predict_auto: tf_keras (Keras 2) has no jit_compile="auto"
effort.sustained_s=-1 -> effort.sustained_s=-1: expected a number above 0
"""
"""Whole lines."""

OF_A_BACKEND = """
backend=jax jit=null -> jit=null: JAX has the modes jax_eager, jax_xla only
backend=jax scenario=fit -> JAX does not measure scenario=fit; it has call, predict, train_step
backend=jax keras=2 -> is built by tf_keras, which runs on TensorFlow only
backend=jax threads.intra=1 -> threads.intra: JAX has no such option
backend=jax 'modes=[graph,xla]' -> graph is a mode of TensorFlow
backend=torch scenario=fit -> PyTorch does not measure scenario=fit; it has call, predict, train
backend=torch keras=2 -> is built by tf_keras, which runs on TensorFlow only
backend=torch threads.intra=1 -> threads.intra: PyTorch has no such option
backend=torch 'modes=[jax_eager,jax_xla]' -> jax_eager is a mode of JAX
scenario=train_step 'modes=[graph,jax_xla]'
  -> scenario=train_step: the modes of one trial are of one backend
"""


@pytest.mark.parametrize(("words", "line"), cases(REFUSED))
def test_a_wrong_or_contradicting_request_is_refused_in_one_line(
    words: list[str], line: str
) -> None:
    assert complaint(*words).startswith(line)


@pytest.mark.parametrize(("words", "line"), cases(REFUSED_SO))
def test_a_request_is_refused_in_exactly_this_line(words: list[str], line: str) -> None:
    assert complaint(*words) == line


@pytest.mark.parametrize(("words", "message"), cases(OF_A_BACKEND))
def test_what_a_backend_lacks_is_refused(
    words: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: True)
    assert message in complaint("model=mobilenet_v2", *words)


@pytest.mark.parametrize("backend", ["jax", "torch", "tensorflow"])
def test_a_backend_that_is_not_installed_is_one_line_with_the_command(
    backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(environment, "is_installed", lambda name: name != backend)
    chosen = "auto" if backend == "tensorflow" else backend
    refusal = complaint("model=mobilenet_v2", f"backend={chosen}")
    told = f"backend={backend}: {backend} is not installed; install: {install(backend)}; or add b"
    assert told in refusal
