"""What a server tells of one request's speculation: read exactly where it agrees with itself, and not believed else."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from pytest_specgate.core.request_speculation import RequestSpeculation, read_request_speculation
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.sse import Read, Timeline, timeline

STEPS: list[tuple[int, int]] = [(4, 4), (4, 1), (2, 2), (4, 0), (2, 1), (3, 3)]
"""Proposed and accepted tokens, step by step, of a request with k=4 whose drafts are short now and then."""


def told(steps: list[tuple[int, int]], *, k: int = 4, detailed: bool = True) -> dict[str, Any]:
    """Return what vLLM would tell of some steps (RequestSpecDecodeMetrics.to_dict)."""
    accepted = [held for _, held in steps]
    proposed = sum(length for length, _ in steps)
    form = {
        "mean_acceptance_length": 1.0 + sum(accepted) / len(steps) if steps else 1.0,
        "draft_acceptance_rate": sum(accepted) / proposed if proposed else 0.0,
        "acceptance_histogram": [accepted.count(held) for held in range(k + 1)],
        "num_spec_steps": len(steps),
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": proposed,
        "num_spec_tokens": k,
    }
    if detailed and steps:
        form |= {"per_step_accepted": accepted, "per_step_drafted": [length for length, _ in steps]}
    return form


def seen(metrics: object, *, delta: bool = False) -> Timeline:
    """Return the timeline of an answer whose last event has these metrics."""
    choice = {"delta": {"content": "a"}} if delta else {"text": "a"}
    usage = {"prompt_tokens": 3, "completion_tokens": 1}
    events = [{"choices": [choice]}, {"choices": [], "usage": usage, "metrics": metrics}]
    stream = "".join(f"data: {json.dumps(event)}\n\n" for event in events) + "data: [DONE]\n\n"
    return timeline([Read(0.5, stream.encode())])


@st.composite
def _requests(draw: st.DrawFn) -> tuple[int, list[tuple[int, int]]]:
    """Draw a horizon and the steps of a request: what each proposed, and how much of that was accepted."""
    k = draw(st.integers(1, 9))
    lengths = draw(st.lists(st.integers(0, k), max_size=40))
    return k, [(length, draw(st.integers(0, length))) for length in lengths]


@given(_requests())
def test_every_count_is_that_of_the_steps(request: tuple[int, list[tuple[int, int]]]) -> None:
    """Whatever a request drafted, its histograms say of each position how many drafts reached it, and how many held."""
    k, steps = request
    found = read_request_speculation(told(steps, k=k))

    assert (found.k, found.drafts) == (k, len(steps))
    assert found.accepted_per_position == tuple(sum(held > place for _, held in steps) for place in range(k))
    assert found.proposed_per_position == tuple(sum(length > place for length, _ in steps) for place in range(k))
    assert found.delta() == SpeculationDelta(
        len(steps), sum(length for length, _ in steps), sum(held for _, held in steps), found.accepted_per_position
    )
    assert found.delta().broken_identities(k=k) == ()
    assert RequestSpeculation.model_validate_json(found.model_dump_json()) == found


@given(_requests())
def test_a_summary_is_the_same_without_lengths(request: tuple[int, list[tuple[int, int]]]) -> None:
    """Without the steps all is known but how long each draft was; of no draft at all that is known, too."""
    k, steps = request
    found = read_request_speculation(told(steps, k=k, detailed=False))

    assert found.delta() == read_request_speculation(told(steps, k=k)).delta()
    assert found.proposed_per_position == (None if steps else (0,) * k)


@given(_requests(), st.data())
def test_one_changed_figure_is_not_believed(request: tuple[int, list[tuple[int, int]]], data: st.DataObject) -> None:
    """Any count that is another one than the steps give contradicts the others, and so nothing is believed."""
    k, steps = request
    form = told(steps, k=k)
    name = data.draw(st.sampled_from(sorted(set(form) - {"mean_acceptance_length", "draft_acceptance_rate"})))
    value = form[name]
    if isinstance(value, list):
        place = data.draw(st.integers(0, len(value) - 1))
        form[name] = [*value[:place], value[place] + 1, *value[place + 1 :]]
    else:
        form[name] = value + 1

    with pytest.raises(ValueError, match=r"^\w+ "):
        read_request_speculation(form)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(name=st.sampled_from(sorted(told(STEPS))), value=JSON, whole=st.booleans())
def test_whatever_is_told_the_answer_stays(name: str, value: Any, *, whole: bool) -> None:
    """No form of the field is a fault of the answer: it is read, or there is one sentence why it is not."""
    form = value if whole else {**told(STEPS), name: value}
    found = seen({"speculative_decoding": form})

    assert (found.error, found.text, found.output_tokens) == (None, "a", 1)
    assert found.speculation is None or found.speculation_problem is None
    assert found.speculation is not None or found.speculation_problem or form is None


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"num_spec_steps": 7}, "num_spec_steps is 7, and acceptance_histogram sums to 6"),
        ({"num_accepted_draft_tokens": 8}, "num_accepted_draft_tokens is 8, and acceptance_histogram has 11"),
        ({"num_spec_tokens": 5}, "acceptance_histogram has 5 entries, and num_spec_tokens is 5"),
        ({"acceptance_histogram": [6], "num_spec_tokens": 0}, "acceptance_histogram has 1 entries, and num_spec"),
        ({"acceptance_histogram": [1, 2, 1, 1, -1]}, "acceptance_histogram is no list of counts"),
        ({"acceptance_histogram": None}, "acceptance_histogram is missing"),
        ({"num_spec_steps": True}, "num_spec_steps is missing, or no count"),
        ({"num_draft_tokens": 19.0}, "num_draft_tokens is missing, or no count"),
        ({"num_draft_tokens": 2**53 + 1}, "num_draft_tokens is missing, or no count"),
        ({"num_draft_tokens": -19}, "num_draft_tokens is missing, or no count"),
        ({"num_draft_tokens": 20}, "lengths of drafts give 19 tokens in 6 drafts of at most 4, and not 20"),
        (
            {"num_draft_tokens": 25, "per_step_accepted": None, "per_step_drafted": None},
            "11 tokens accepted and 25 drafted in 6 drafts of at most 4",
        ),
        (
            {"num_draft_tokens": 10, "per_step_accepted": None, "per_step_drafted": None},
            "11 tokens accepted and 10 drafted in 6 drafts of at most 4",
        ),
        ({"per_step_drafted": None}, "per_step_accepted and per_step_drafted are not of the same steps"),
        ({"per_step_drafted": [4]}, "per_step_accepted and per_step_drafted are not of the same steps"),
        ({"per_step_drafted": "444444"}, "per_step_drafted is no list of counts"),
        ({"per_step_accepted": [4, 1, 2, 0, True, 3]}, "per_step_accepted is no list of counts"),
        ({"per_step_accepted": [4, 1, 3, 0, 1, 2]}, "a step accepted more than it drafted, or drafted more than 4"),
        ({"per_step_drafted": [5, 3, 2, 4, 2, 3]}, "a step accepted more than it drafted, or drafted more than 4"),
        ({"per_step_accepted": [4, 1, 2, 1, 1, 2]}, "per_step_accepted does not give acceptance_histogram"),
    ],
)
def test_contradictions_are_named(changes: dict[str, Any], problem: str) -> None:
    """Figures that cannot all be true leave the request without any, and the timeline says which."""
    found = seen({"speculative_decoding": {**told(STEPS), **changes}})

    assert found.speculation is None
    assert found.speculation_problem is not None
    assert found.speculation_problem.startswith(problem)
    assert found.error is None


@pytest.mark.parametrize("metrics", [None, {}, [], "fast", {"speculative_decoding": None}, {"mean_itl_ms": 2.0}])
def test_nothing_told_is_no_problem(metrics: object) -> None:
    """A server that was not asked tells nothing, and that is not held against it."""
    found = seen(metrics)

    assert (found.speculation, found.speculation_problem, found.error) == (None, None, None)


@pytest.mark.parametrize("delta", [False, True])
def test_both_apis_are_read(*, delta: bool) -> None:
    """Completions and chat tell it in the same place; keys that are new stand beside it in peace."""
    timing = {"mean_itl_ms": 2.0}
    found = seen({**timing, "speculative_decoding": {**told(STEPS), "num_trees": 3}}, delta=delta)

    assert found.speculation == RequestSpeculation(
        draft_tokens=19, accepted_histogram=(1, 2, 1, 1, 1), drafted_histogram=(0, 0, 2, 1, 3)
    )


def test_what_a_server_says_is_not_repeated() -> None:
    """The sentence holds no text of the server: it may be anything."""
    found = seen({"speculative_decoding": {**told(STEPS), "num_spec_steps": "sk-secret", "acceptance_histogram": "s"}})

    assert found.speculation_problem == "num_spec_steps is missing, or no count"


@pytest.mark.parametrize(
    "fields",
    [
        {"draft_tokens": 3, "accepted_histogram": (0, 1), "drafted_histogram": None},
        {"draft_tokens": 1, "accepted_histogram": (1,), "drafted_histogram": None},
        {"draft_tokens": 2, "accepted_histogram": (1, 1), "drafted_histogram": (1, 1)},
        {"draft_tokens": 4, "accepted_histogram": (0, 2, 0), "drafted_histogram": (0, 2, 1)},
        {"draft_tokens": 4, "accepted_histogram": (0, 0, 2, 0), "drafted_histogram": (0, 1, 0, 1)},
        {"draft_tokens": 3, "accepted_histogram": (0, 0, 0, 1), "drafted_histogram": (0, 0, 0, 1, 0)},
        {"draft_tokens": 1, "accepted_histogram": (False, True), "drafted_histogram": None},
    ],
)
def test_a_record_that_contradicts_itself_is_refused(fields: dict[str, Any]) -> None:
    """What is stored is checked as what is told: an edited record does not pass."""
    with pytest.raises(ValidationError):
        RequestSpeculation(**fields)
