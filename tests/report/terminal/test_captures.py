"""The text of what calls compile and of what is captured as graphs."""

from __future__ import annotations

from xla_sweeps.report.terminal.explained_lines import WIDTH
from xla_sweeps.report.terminal.explanation import explanation_text
from xla_sweeps.schema.explanation import Break, Capture, Compilation, Explanation

CAPTURE = Capture(
    way="torch.compile(model)",
    graphs=8,
    calls=100,
    breaks=(Break(reason="a reason " * 12, times=7, line="net.py:7"),),
    recompilations={"the same batch": 0, "a batch of 3": 2},
    limit=8,
    gave_up=("call (net.py:9)",),
)

LACKS = {"traps": "no XLA", "clustering": "no XLA", "time": "no trace"}


def text_of(explanation: Explanation) -> str:
    text = explanation_text(explanation)
    assert max(map(len, text.splitlines())) <= WIDTH
    return " ".join(text.split())


def test_breaks_limits_and_further_graphs_are_shown_below_the_graphs() -> None:
    text = text_of(Explanation(model="net", device="CPU", captures=(CAPTURE,), missing=LACKS))
    for part in (
        "! torch.compile(model): 8 graphs with 100 operations, 7 breaks ! 7 breaks: a reason",
        "net.py:7 ! call (net.py:9) reached the limit of 8 recompilations",
        "further graphs: 0 for the same batch, 2 for a batch of 3",
        "Not available",
        "– silent traps of XLA: not available: no XLA",
    ):
        assert part in text, text
    assert "Silent traps" not in text


def test_one_graph_is_whole_and_a_refusal_has_its_place() -> None:
    whole = Capture(way="torch.export", graphs=1, calls=27)
    refused = Capture(way="torch.export", graphs=None, refusal="no such guard", place="net.py:3")
    text = text_of(Explanation(model="net", device="CPU", captures=(whole, refused)))
    assert "✓ torch.export: 1 graph with 27 operations, 0 breaks" in text
    assert "! torch.export: no such guard net.py:3" in text


def test_programs_of_each_call_have_their_seconds() -> None:
    row = Compilation(
        call="jax.jit, a batch of 3", programs=1, trace_s=0.01, lower_s=0.02, compile_s=1.5
    )
    text = text_of(Explanation(model="net", device="CPU", compilations=(row,)))
    assert "programs trace lower compile call 1 10 ms 20 ms 1.5 s jax.jit, a batch of 3" in text


def test_a_process_that_dies_before_them_says_that_they_are_not_available() -> None:
    awaited = Explanation(model="net", device="CPU", captures=None, compilations=None)
    text = text_of(awaited.completed("SIGABRT"))
    assert "what is captured as graphs: not available: SIGABRT" in text
    assert "what each call compiles: not available: SIGABRT" in text
    neither = text_of(Explanation(model="net", device="CPU").completed("SIGABRT"))
    assert "captured as graphs" not in neither
