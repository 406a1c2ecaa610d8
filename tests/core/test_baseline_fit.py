"""Whether a baseline says anything of a window: each reason why it does not, with what differs and what to do."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_fit import ANEW, differing_lines, known_baseline, known_entry, problem_of
from pytest_specgate.core.baseline_offer import builds_of, offer
from pytest_specgate.core.baselines import BaselineFile
from pytest_specgate.core.metrics import DEFINITION_VERSION
from tests.core.conftest import HOST_CLASS

if TYPE_CHECKING:
    from pytest_specgate.core.baseline_threshold import BaselineThreshold
    from pytest_specgate.core.baselines import KnownBaseline
    from pytest_specgate.core.records import WindowRecord
    from pytest_specgate.core.stored import Failure
    from tests.core.conftest import Build


def known(
    build: type[Build], file: BaselineFile | None, *, claim: BaselineThreshold | None = None, **changes: Any
) -> KnownBaseline:
    """Return what is known beforehand of the baseline of a claim; `changes` are of the pair, or of where it is."""
    where: dict[str, Any] = {"path": "baselines/x.json", "host_class": HOST_CLASS, "settings": {}}
    where |= {name: changes.pop(name) for name in ("host_class", "elsewhere", "settings") if name in changes}
    claim = claim or build.claim()
    return known_baseline(build.gate(build.pair(**changes), claim), claim, file, **where)


def one_window(build: type[Build], **changes: Any) -> BaselineFile:
    """Return a baseline of one window."""
    gate = build.gate(build.pair(), build.claim())
    window = build.day(gate.pair, 2, [1.0, 1.0], [1.1, 1.1]).model_copy(update=changes)
    return build.accepted(gate, window)


def found_problem(
    build: type[Build],
    file: BaselineFile,
    window: WindowRecord | None = None,
    *,
    claim: BaselineThreshold | None = None,
    **pair: Any,
) -> Failure | None:
    """Return why a window cannot be judged against a baseline."""
    claim, pair_of = claim or build.claim(), build.pair(**pair)
    window = window or build.day(pair_of, 9, [1.0], [1.0])
    stored = known_entry(file.entries[claim.entry_id], file, path="")
    return problem_of(claim, offer(pair_of, claim, window), stored, engine=builds_of(pair_of, window))


def test_a_baseline_of_the_same_thing_fits(build: type[Build]) -> None:
    """Equal arms, load, formulas and machine: the entry is known with all that a record needs to be judged by it."""
    file = one_window(build)

    found = known(build, file)

    assert found.problem is None
    assert found.entry == file.entries["c1-output_throughput"]
    assert (found.windows, found.path) == (file.windows, "baselines/x.json")
    assert list(file.profiles.values()) == [found.profile]
    assert list(file.definitions.values()) == [found.definition]
    assert found_problem(build, file) is None


def test_only_windows_of_the_entry_are_known(build: type[Build]) -> None:
    """A record does not keep what other entries of the file rest on."""
    pair = build.pair()
    first = build.gate(pair, build.claim())
    both = build.gate(pair, build.claim(), build.claim(at=8))
    file = build.accepted(first, build.day(pair, 2, [1.0], [1.0]))
    file = build.accepted(both, build.day(pair, 3, [1.0], [1.0]), file=file)

    assert len(known(build, file).windows) == 2
    assert len(known(build, file, claim=build.claim(at=8)).windows) == 1


def test_case_106_there_is_no_baseline_yet(build: type[Build]) -> None:
    """Case 106: a missing file and a missing entry are no-baseline, and the message says how one is written."""
    nothing, other = known(build, None), known(build, one_window(build), claim=build.claim(at=8))

    for found in (nothing, other):
        assert found.entry is None
        assert found.problem is not None
        assert found.problem.reason == "no-baseline"
        assert found.problem.message == f"no baseline for {HOST_CLASS} yet: write it with --specgate-baseline=new"


def test_baselines_of_other_machines_are_named(build: type[Build]) -> None:
    """Where only other classes of machine have a baseline, they are named and not used."""
    found = known(build, None, elsewhere=("a100x1-1", "h200x1-2"))

    assert found.problem is not None
    assert found.problem.message.endswith(
        "; there are baselines of a100x1-1, h200x1-2, which say nothing of this machine"
    )


def test_baselines_of_other_machines_are_not_named_beside_ones_own(build: type[Build]) -> None:
    """Where this machine has a file, and only the entry is missing, other machines have nothing to do with it."""
    found = known(build, one_window(build), claim=build.claim(at=8), elsewhere=("a100x1-1",))

    assert found.problem is not None
    assert "a100x1-1" not in found.problem.message


def test_a_baseline_of_another_machine_is_foreign(build: type[Build]) -> None:
    """A file that says it is of another class of machine was moved: it is named with both classes."""
    found = known(build, one_window(build), host_class="h200x1-9")

    assert found.problem is not None
    assert found.problem.reason == "foreign-host"
    assert found.problem.message == (
        f"this baseline was measured on {HOST_CLASS}, and this machine is h200x1-9: the file was moved or copied by "
        f"hand; remove it, and write one of this machine with --specgate-baseline=new"
    )


def test_other_arms_are_quoted(build: type[Build]) -> None:
    """An argument that changed is named with both values, before anything starts and after."""
    file = one_window(build)

    beforehand, afterwards = known(build, file, candidate=7).problem, found_problem(build, file, candidate=7)

    assert beforehand == afterwards
    assert beforehand is not None
    assert beforehand.reason == "other-definition"
    assert beforehand.message == f"the arms of this baseline are not those of today: {ANEW}"
    assert beforehand.detail == ("candidate.args.speculative_config.num_speculative_tokens: 4 in the baseline, 7 today")


def test_other_settings_are_other_arms(build: type[Build]) -> None:
    """What every server of the session is given belongs to what is compared."""
    found = known(build, one_window(build), settings={"engine_args": ["--enforce-eager"]})

    assert found.problem is not None
    assert found.problem.detail == 'settings.engine_args: (unset) in the baseline, ["--enforce-eager"] today'


def test_another_load_is_quoted(build: type[Build]) -> None:
    """A field of the load that changed is named with both values, before anything starts and after."""
    file = one_window(build)

    beforehand = known(build, file, requests={1: 20, 8: 16}).problem
    afterwards = found_problem(build, file, requests={1: 20, 8: 16})

    assert beforehand is not None
    assert afterwards is not None
    assert beforehand.reason == afterwards.reason == "other-profile"
    assert beforehand.message == f"the load of this baseline is not that of today: {ANEW}"
    assert beforehand.detail == "requests.c1: 10 in the baseline, 20 today"
    assert "requests.c1: 10 in the baseline, 20 today" in afterwards.detail.splitlines()


@pytest.mark.parametrize(
    "changed",
    [{"temperature": 0.5}, {"seed": 7}, {"order_seed": 7}, {"requests": {1: 10}}, {"requests": {1: 10, 8: 16, 9: 18}}],
)
def test_any_other_load_is_seen_beforehand(build: type[Build], changed: dict[str, Any]) -> None:
    """Sampling, order and levels: whatever is declared otherwise is known before a server starts."""
    found = known(build, one_window(build), **changed)

    assert found.problem is not None
    assert found.problem.reason == "other-profile"


def test_other_prompts_are_seen_afterwards(build: type[Build]) -> None:
    """What was sent, or came back, is known once it was measured: other bodies are another load."""
    pair = build.pair()
    window = build.day(pair, 9, [1.0], [1.0])
    boots = [
        boot.model_copy(update={"profile": {**boot.profile, "prompt_set_sha256.c1": "f"}}) for boot in window.boots
    ]
    found = found_problem(build, one_window(build), window.model_copy(update={"boots": tuple(boots)}))

    assert found is not None
    assert found.reason == "other-profile"
    assert found.detail.startswith("prompt_set_sha256.c1: ")
    assert found.detail.endswith(' in the baseline, "f" today')


def test_another_version_of_the_client_is_the_same_load(build: type[Build]) -> None:
    """Baselines outlive updates of the libraries that send the load."""
    pair = build.pair()
    window = build.day(pair, 9, [1.0], [1.0])
    boots = [boot.model_copy(update={"profile": {**boot.profile, "client_version": "9"}}) for boot in window.boots]

    assert found_problem(build, one_window(build), window.model_copy(update={"boots": tuple(boots)})) is None


def test_figures_of_other_formulas_are_not_compared(build: type[Build]) -> None:
    """A baseline of another version of the formulas is another definition, beforehand and offline."""
    stored = one_window(build).model_dump(mode="json")
    stored["entries"]["c1-output_throughput"]["metric_definition_version"] = DEFINITION_VERSION - 1
    file = BaselineFile.model_validate_json(json.dumps(stored))

    beforehand, afterwards = known(build, file).problem, found_problem(build, file)

    assert beforehand == afterwards
    assert beforehand is not None
    assert beforehand.reason == "other-definition"
    assert beforehand.message.startswith(
        f"figures of this baseline were computed by version {DEFINITION_VERSION - 1} of the formulas, and today's by "
        f"version {DEFINITION_VERSION}: "
    )


def _engines(off: str, k4: str, **others: str) -> dict[str, Any]:
    return {"engine": {name: {"version": version} for name, version in {"off": off, "k4": k4, **others}.items()}}


@pytest.mark.parametrize(
    ("stored", "today", "detail"),
    [
        (_engines("1", "1"), _engines("1", "1"), None),
        (_engines("1", "1"), _engines("1", "2"), 'candidate.version: "1" in the baseline, "2" today'),
        (_engines("1", "1"), _engines("2", "1"), 'reference.version: "1" in the baseline, "2" today'),
        (_engines("1", "1", k9="1"), _engines("1", "1"), None),
        (_engines("1", "1"), _engines("1", "1", k9="5"), None),
        (
            _engines("1", "1"),
            {"engine": {"k4": {"version": "1"}}},
            'reference.version: "1" in the baseline, (unset) today',
        ),
    ],
)
def test_engine_builds_count_where_the_claim_asks(
    build: type[Build], stored: dict[str, Any], today: dict[str, Any], detail: str | None
) -> None:
    """Baselines are compared across builds, unless the claim asks for the same one; arms of other pairs never count."""
    file = one_window(build, **stored)
    window = build.day(build.pair(), 9, [1.0], [1.0]).model_copy(update=today)

    found = found_problem(build, file, window, claim=build.claim(engine="same"))

    assert found_problem(build, file, window) is None
    assert (found.detail if found else None) == detail
    assert found is None or (found.reason, ANEW in found.message) == ("other-engine", True)


def test_an_anchor_of_another_build_is_no_obstacle(build: type[Build]) -> None:
    """Only the windows that today is compared with have to be of one build, not the first one of long ago."""
    gate = build.gate(build.pair(), build.claim(engine="same"))
    file = build.accepted(gate, build.day(gate.pair, 2, [1.0], [1.0]).model_copy(update=_engines("1", "1")))
    newer = build.day(gate.pair, 3, [1.0], [1.0]).model_copy(update=_engines("2", "2"))
    entry = file.entries["c1-output_throughput"]
    found = offer(gate.pair, gate.baselines[0], newer)
    stored = known_entry(entry, file, path="")
    moved = stored.model_copy(
        update={
            "entry": entry.model_copy(update={"windows": (found.values,)}),
            "windows": {
                **stored.windows,
                found.values.window: stored.windows[entry.anchor.window].model_copy(
                    update={"engine": builds_of(gate.pair, newer)}
                ),
            },
        }
    )

    assert problem_of(gate.baselines[0], found, moved, engine=builds_of(gate.pair, newer)) is None


def test_a_baseline_of_nothing_has_no_ratio(build: type[Build]) -> None:
    """A share that was 0 in a window can be compared in points, and not by its ratio."""
    pair = build.pair(reference=7)
    points = build.claim("acceptance_rate", margin=0.02, points=True)
    file = build.accepted(build.gate(pair, points), build.day(pair, 2, [1.0], [1.0]))
    stored = file.model_dump(mode="json")
    stored["entries"]["c1-acceptance_rate"]["windows"][0]["candidate"][0] = 0.0
    empty = BaselineFile.model_validate_json(json.dumps(stored))

    ratio = found_problem(build, empty, claim=build.claim("acceptance_rate"), reference=7)

    assert found_problem(build, empty, claim=points, reference=7) is None
    assert ratio is not None
    assert ratio.reason == "baseline-is-zero"
    assert ratio.message.startswith("acceptance_rate is 0 in a window of this baseline, and nothing can be compared")


@pytest.mark.parametrize(
    ("stored", "today", "lines"),
    [
        ({"a": 1}, {"a": 1.0}, []),
        ({"a": 1}, {"a": True}, ["a: 1 in the baseline, true today"]),
        ({"a": "1"}, {"a": 1}, ['a: "1" in the baseline, 1 today']),
        ({"a": None}, {}, ["a: null in the baseline, (unset) today"]),
        ({}, {"b": 0}, ["b: (unset) in the baseline, 0 today"]),
        ({"a": {"b": {"c": 1, "d": 2}}}, {"a": {"b": {"c": 3, "d": 2}}}, ["a.b.c: 1 in the baseline, 3 today"]),
        ({"a": {"b": 1}}, {"a": 2}, ['a: {"b": 1} in the baseline, 2 today']),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a: [1, 2] in the baseline, [2, 1] today"]),
    ],
)
def test_fields_are_compared_one_by_one(stored: dict[str, Any], today: dict[str, Any], lines: list[str]) -> None:
    """Numbers are compared by value, never with a text or a bool; unset is not `None`; order matters."""
    assert list(differing_lines(stored, today)) == lines


def test_long_values_are_cut_around_where_they_differ() -> None:
    """Of two long texts the part that differs is quoted."""
    [line] = differing_lines({"template": "x" * 500 + "a"}, {"template": "x" * 500 + "b"})

    assert line.startswith("template: ...x")
    assert 'xa" in the baseline, ' in line
    assert line.endswith('xb" today')
    assert len(line) < 240
