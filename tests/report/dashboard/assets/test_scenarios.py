"""One scenario at a time: no figure of the page is of several."""

from __future__ import annotations

from typing import Any

import pytest
from browser import Browser
from dashboard_page import Show, bring, draw_everything, turn
from synthetic_rows import Row, pair_row

pytestmark = pytest.mark.browser

KERAS = {"scenario": "predict", "baseline": "predict_graph"}

XLA = "model.predict with XLA"


def row(number: int, rate: float, **changes: Any) -> Row:
    """A pair of 100 and `rate` images/s."""
    return pair_row(number, rate, model=f"net{number}", **changes)


def several_scenarios() -> list[Row]:
    """Three pairs of calls, two of training steps, and one trial of predict."""
    twin = {"scenario": "train_step", "candidate": "graph_2"}
    return [
        row(1, 50.0, scenario="train_step"),
        row(2, 50.0, scenario="train_step"),
        row(2, 101.0, **twin),
        *(row(number, 200.0) for number in (1, 2, 3)),
        row(9, 150.0, **KERAS, candidate="predict_xla"),
        row(9, 101.0, **KERAS, candidate="predict", jit_compile="false"),
    ]


def choose(browser: Browser, scenario: str) -> None:
    browser.evaluate(
        f"""(() => {{ const list = document.querySelector("[name=f-scenario]");
          list.value = "{scenario}"; list.dispatchEvent(new Event("change")); }})()"""
    )
    browser.wait(f"xlaSweeps.state.scenario === '{scenario}' && xlaSweeps.settled()")


def found(browser: Browser) -> tuple[Any, ...]:
    """Pairs, geometric mean and title."""
    return tuple(
        browser.evaluate(
            """[xlaSweeps.overview().pairs, Number(xlaSweeps.overview().geomean.toFixed(2)),
              document.getElementById("title").innerText]"""
        )
    )


def test_the_page_starts_at_the_commonest_scenario_and_shows_one_at_a_time(show: Show) -> None:
    browser = show(several_scenarios())
    where = browser.words("#title").partition(" on ")[2]
    assert found(browser) == (3, 2.0, f"XLA against graph in call: 3 models on {where}")
    names = "[...document.querySelectorAll('[name=f-scenario] option')].map((one) => one.value)"
    assert browser.evaluate(names) == ["call", "train_step", "predict"]
    choose(browser, "train_step")
    assert found(browser) == (2, 0.5, f"XLA against graph in train_step: 2 models on {where}")
    assert "scenario=train_step" in browser.evaluate("location.hash")
    draw_everything(browser)
    assert "net3" not in browser.words("main")
    choose(browser, "predict")
    pairs, mean, title = found(browser)
    assert (pairs, mean) == (1, 1.5)
    assert title == f"{XLA} against model.predict without XLA in predict: net9 on {where}"
    bring(browser, "#answer-rows")
    modes = browser.words("#answer-rows .modes")
    assert "model.predict without compile, without XLA" in modes
    assert XLA in modes
    turn(browser, [("scenario", "train_step")])
    turn(browser, [("scenario", "predict")])
    assert found(browser)[2] == title, "a link without sides has those of its scenario"
    browser.evaluate("document.getElementById('reset').click()")
    assert found(browser)[0] == 3


def test_a_page_of_one_scenario_has_no_picker_of_scenarios(show: Show) -> None:
    browser = show([row(1, 200.0)])
    hidden = "document.querySelector('[name=f-scenario]').closest('label').hidden"
    assert browser.evaluate(hidden) is True
    assert " in call" not in browser.words("#title")


@pytest.mark.parametrize("scenario", ["call", "new_shapes"])
def test_what_to_keep_for_new_shapes_is_no_answer_for_later_calls(
    show: Show, scenario: str
) -> None:
    browser = show([row(1, 50.0, scenario=scenario)])
    said = browser.words("main")
    remark = ", where each shape is called once or twice," * (scenario != "call") + " for"
    assert f"Keep tf.function(jit_compile=False){remark}" in said


def test_the_pair_to_begin_with_has_the_origin_that_is_shown(show: Show) -> None:
    published = row(2, 200.0, origin="imported")
    browser = show([row(1, 300.0, baseline="eager"), published, published])
    assert browser.evaluate("xlaSweeps.state.origin") == "measured"
    assert browser.evaluate("document.querySelector('[name=f-pair]').value") == "xla/eager"
    assert found(browser)[0] == 1


def test_published_figures_beside_measured_ones_answer_and_count_by_themselves(show: Show) -> None:
    """A device with figures of one mode alone has no say; a link may name the origin alone."""
    shared = {"baseline": "eager", "origin": "imported", "verdict": "ambiguous"}
    bounds = dict.fromkeys(("speedup_low", "speedup_high", "baseline_throughput_samples_per_s"))
    rows = [
        row(1, 300.0, baseline="eager"),
        row(2, 120.0),
        *(row(number, 200.0, device="A100") | shared for number in (3, 4)),
        row(5, 200.0, device="V100") | shared | bounds | {"speedup": None},
    ]
    browser = show(rows, [("origin", "all"), ("baseline", "eager")])
    said = "XLA is faster than eager execution in 1 of 1 configuration and 2 of 2 published figures"
    assert browser.words("[data-chart=pairs] h3").startswith(said)
    assert browser.words("#answer-sentence") == "Yes."
    show(rows, [("origin", "imported")])
    assert browser.words("#answer-sentence").startswith("Yes, as published.")


def test_what_changed_is_of_one_scenario(show: Show) -> None:
    common = {"device": "CPU", "quantity": "xla throughput", "p_value": 0.0, "q_value": 0.0}
    changes = [
        {**common, "name": name, "scenario": scenario, "ratio": ratio, "verdict": verdict}
        | {"low": ratio * 0.99, "high": ratio * 1.01, "contaminated": False}
        for name, scenario, ratio, verdict in (
            ("net1", "call", 1.2, "faster"),
            ("net2", "call", 1.3, "faster"),
            ("net1 step", "train_step", 0.8, "slower"),
        )
    ]
    comparison = {"title_a": "A", "title_b": "B", "rows": changes}
    browser = show(several_scenarios(), comparison=comparison)
    bring(browser, "#difference")
    said = "document.querySelector('[data-chart=difference] h3').innerText"
    assert "faster than A in 2 of 2 comparisons, slower in 0" in browser.evaluate(said)
    choose(browser, "train_step")
    bring(browser, "#difference")
    browser.wait(f"{said}.includes('in 0 of 1 comparison, slower in 1')")


ENGINES = (
    ("graph", "xla"),
    ("graph", "jax_xla"),
    ("jax_eager", "jax_xla"),
    ("torch_eager", "torch_export"),
)


def several_engines() -> list[Row]:
    """A pair of each engine, and one across two."""
    return [
        row(number, 100.0 + number, baseline=baseline, candidate=candidate)
        for number, (baseline, candidate) in enumerate(ENGINES, start=1)
    ]


def pairs_offered(browser: Browser) -> tuple[str, list[str]]:
    """The pair in the picker, and those to choose from."""
    shown, offered = browser.evaluate(
        """((select) => [select.selectedOptions[0]?.text ?? "",
          [...select.options].map(({text}) => text)])(document.querySelector("[name=f-pair]"))"""
    )
    return shown, offered


def test_the_picker_offers_the_pairs_that_were_measured_and_shows_the_chosen(show: Show) -> None:
    browser = show(several_engines())
    words = [
        "XLA against graph",
        "JAX with XLA against eager JAX",
        "PyTorch exported and compiled against eager PyTorch",
        "JAX with XLA against graph",
    ]
    assert pairs_offered(browser) == (words[0], words)
    also = browser.words("#answer-words")
    assert all(text in also for text in words[1:3])
    browser.evaluate("document.querySelector('[name=f-pair]').focus()")
    for text in words[1:]:
        browser.press("ArrowDown")
        browser.wait(f"document.getElementById('title').innerText.startsWith({text!r})")
        assert browser.evaluate("xlaSweeps.rows()") == 1, text
        assert pairs_offered(browser) == (text, words)


def test_a_link_with_one_side_shows_the_pair_that_has_it(show: Show) -> None:
    browser = show(several_engines())
    for link, candidate, baseline, rows in (
        ([("baseline", "jax_eager")], "jax_xla", "jax_eager", 1),
        ([("candidate", "jax_xla")], "jax_xla", "jax_eager", 1),
        ([("candidate", "torch_export"), ("scenario", "call")], "torch_export", "torch_eager", 1),
        ([("baseline", "graph"), ("candidate", "jax_xla")], "jax_xla", "graph", 1),
        ([("baseline", "jax_eager"), ("candidate", "xla")], "xla", "jax_eager", 0),
    ):
        turn(browser, link)
        assert browser.evaluate("[xlaSweeps.state.candidate, xlaSweeps.state.baseline]") == [
            candidate,
            baseline,
        ]
        assert browser.evaluate("xlaSweeps.rows()") == rows, link
