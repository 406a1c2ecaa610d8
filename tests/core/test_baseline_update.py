"""Updating a baseline: what a window changes, what is refused, and what has to be called a regression."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.baseline_closed import unclaimed
from pytest_specgate.core.baseline_offer import window_id
from pytest_specgate.core.baseline_update import plan_update
from pytest_specgate.core.baselines import BaselineFile
from pytest_specgate.core.errors import InvalidError, UsageError
from pytest_specgate.core.speculation import SpeculationDelta
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.thresholds import NoiseFloor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.core.baseline_threshold import BaselineThreshold
    from pytest_specgate.core.baseline_update import EntryChange, Update
    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import BootRecord, PointRecord, WindowRecord
    from tests.core.conftest import Build

THROUGHPUT = "c1-output_throughput"
FLOOR = NoiseFloor(0.005, "nights of a test")


def gate_of(build: type[Build], *claims: BaselineThreshold, **pair: Any) -> Gate:
    """Return a gate with some claims about baselines, by default one about throughput at c=1."""
    return build.gate(build.pair(**pair), *(claims or (build.claim(),)))


def day(build: type[Build], number: int, *speeds: float, pace: float = 1.0, **pair: Any) -> WindowRecord:
    """Return a window whose candidate ran at some speeds, by default as fast as the reference."""
    ran = speeds or (1.0, 1.0)
    return build.day(build.pair(**pair), number, [pace] * len(ran), ran)


def ids(change: EntryChange) -> list[str]:
    """Return the days of the windows of an entry."""
    return [values.window[8:10] for values in change.after.windows]


def plan(build: type[Build], gate: Gate, window: WindowRecord, file: BaselineFile | None, **how: Any) -> Update:
    """Return what a window would change."""
    return plan_update(gate, window, file, how=build.accepting(**how))


def test_a_first_window_is_created(build: type[Build]) -> None:
    """Without a file every claimed entry is new: one window, which is the anchor, and nothing to be judged by."""
    gate = gate_of(build, build.claim(), build.claim("ttft_p50", 8))
    window = day(build, 2, 1.0, 1.1)

    update = plan(build, gate, window, None, reason="the first night")

    assert [(change.entry_id, change.kind) for change in update.changes] == [
        (THROUGHPUT, "created"), ("c8-ttft_p50", "created")
    ]  # fmt: skip
    [first, _] = update.changes
    assert (first.before, first.verdicts, first.regression) == (None, (), "")
    assert first.after.windows == (first.after.anchor,)
    assert update.after.windows[window_id(window)].reason == "the first night"
    assert (update.writes, update.regressions, update.before) == (True, (), None)
    assert BaselineFile.model_validate_json(update.after.model_dump_json()) == update.after


def test_new_leaves_what_is_there(build: type[Build]) -> None:
    """Case 108: of two claims the one that has an entry keeps it, and only the missing one is written."""
    file = build.accepted(gate_of(build), day(build, 2))
    gate = gate_of(build, build.claim(), build.claim(at=8))

    update = plan(build, gate, day(build, 3, 0.5, 0.5), file, mode="new")

    assert [change.kind for change in update.changes] == ["kept", "created"]
    assert update.after.entries[THROUGHPUT] == file.entries[THROUGHPUT]
    assert update.changes[0].after == update.changes[0].before


def test_new_with_nothing_missing_writes_nothing(build: type[Build]) -> None:
    """Where all entries are there the file stays as it is, and a loss is no regression, since nothing takes it in."""
    file = build.accepted(gate_of(build), day(build, 2))

    update = plan(build, gate_of(build), day(build, 3, 0.5, 0.5), file, mode="new")

    assert (update.writes, update.regressions, update.after) == (False, (), file)


def test_a_window_is_appended_and_the_anchor_stays(build: type[Build]) -> None:
    """Each accepted window is added to those that are compared with; the first one stays the anchor."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2), day(build, 3, 1.01))

    [change] = plan(build, gate, day(build, 4, 1.02), file).changes

    assert (change.kind, ids(change)) == ("appended", ["02", "03", "04"])
    assert change.after.anchor == file.entries[THROUGHPUT].anchor == change.after.windows[0]
    assert [verdict.reason for verdict in change.verdicts] == ["no-cross-window-noise"]


def test_windows_are_sorted_by_their_time(build: type[Build]) -> None:
    """An older window that is accepted later goes to its place."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 4), day(build, 2))

    [change] = plan(build, gate, day(build, 3, 0.5), file).changes

    assert ids(change) == ["02", "03", "04"]
    assert change.after.anchor.window.startswith("2026-11-04")


def test_a_window_is_accepted_once(build: type[Build]) -> None:
    """The same record a second time would count its noise twice."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2))

    with pytest.raises(UsageError) as refused:
        plan(build, gate, day(build, 2), file)

    assert str(refused.value) == f"{THROUGHPUT}: this window is in the baseline already; measure another one"


def test_replace_starts_anew_and_keeps_the_anchor(build: type[Build]) -> None:
    """Replaced windows are forgotten, but not the first one, against which slow erosion is seen."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2), day(build, 3))

    update = plan(build, gate, day(build, 4), file, mode="replace")
    [change] = update.changes

    assert (change.kind, ids(change)) == ("replaced", ["04"])
    assert change.after.anchor.window.startswith("2026-11-02")
    assert {name[8:10] for name in update.after.windows} == {"02", "04"}


def test_a_new_anchor_is_asked_for(build: type[Build]) -> None:
    """Only on demand the first window is forgotten, too."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2), day(build, 3))

    update = plan(build, gate, day(build, 4), file, mode="replace", new_anchor=True)

    assert update.changes[0].after.anchor == update.changes[0].after.latest
    assert {name[8:10] for name in update.after.windows} == {"04"}


def test_append_ignores_a_new_anchor(build: type[Build]) -> None:
    """A window that is only added changes no anchor."""
    gate = gate_of(build)
    file = build.accepted(gate, day(build, 2))

    [change] = plan(build, gate, day(build, 3), file, new_anchor=True).changes

    assert change.after.anchor.window.startswith("2026-11-02")


def _other_file(build: type[Build], other: str) -> tuple[Gate, BaselineFile, str]:
    if other == "load":
        changed: dict[str, Any] = {"seed": 7}
        line = "the load of this baseline is not that of today"
    else:
        changed = {"reference": 7}
        line = "the arms of this baseline are not those of today"
    gate = gate_of(build, **changed)
    return gate, build.accepted(gate, day(build, 2, **changed)), line


@pytest.mark.parametrize("other", ["load", "arms"])
def test_another_load_is_not_appended(build: type[Build], other: str) -> None:
    """A window of another load, or of other arms, is refused with the fields, and how the entry is started anew."""
    _, file, line = _other_file(build, other)

    with pytest.raises(UsageError) as refused:
        plan(build, gate_of(build), day(build, 3), file)

    told = str(refused.value)
    assert told.startswith(f"{THROUGHPUT}: {line} (")
    assert " in the baseline, " in told
    assert told.endswith("): start it anew with specgate baseline accept RECORD --replace --reason '...'")
    assert "measure with" not in told


@pytest.mark.parametrize("other", ["load", "arms"])
def test_another_load_replaces_the_anchor(build: type[Build], other: str) -> None:
    """Figures of another load are no anchor for what comes after; nothing is called a regression that is not."""
    _, file, _ = _other_file(build, other)

    update = plan(build, gate_of(build), day(build, 3, 0.5), file, mode="replace")

    assert update.changes[0].after.anchor.window.startswith("2026-11-03")
    assert {name[8:10] for name in update.after.windows} == {"03"}
    assert (update.regressions, len(update.after.profiles), len(update.after.definitions)) == ((), 1, 1)


def test_settings_that_are_equal_by_value_are_the_same(build: type[Build]) -> None:
    """A number is compared by its value: 1 and 1.0 are one setting, and the entry keeps its definition."""
    gate = gate_of(build)
    one, again = (
        day(build, number).model_copy(update={"settings": {"load_format_scale": value}})
        for number, value in ((2, 1), (3, 1.0))
    )

    after = build.accepted(gate, one, again)

    assert len(after.entries[THROUGHPUT].windows) == 2
    assert BaselineFile.model_validate_json(after.model_dump_json()) == after


def test_a_gate_of_a_record_whose_secrets_are_gone_is_the_same_load(build: type[Build]) -> None:
    """The load is compared as it was observed: the profile in a record lacks its secrets, and so has another hash."""
    gate, stored = gate_of(build, extra_body={"api_key": "hunter2"}), gate_of(build, extra_body={"api_key": "[gone]"})
    windows = [day(build, number, extra_body={"api_key": "hunter2"}) for number in (2, 3)]
    file = build.accepted(gate, windows[0])

    [change] = plan(build, stored, windows[1], file).changes

    assert change.kind == "appended"


def _unfinished(window: WindowRecord) -> WindowRecord:
    return window.model_copy(update={"finished": False})


def _died(window: WindowRecord) -> WindowRecord:
    died = Failure(reason="server-died", message="arm off: the server died")
    boots = [window.boots[0].model_copy(update={"failure": died}), *window.boots[1:]]
    return window.model_copy(update={"boots": tuple(boots)})


def _attached(window: WindowRecord) -> WindowRecord:
    boots: Sequence[BootRecord] = [
        boot.model_copy(update={"unproved": ("its arguments",)}) if boot.arm == "k4" else boot for boot in window.boots
    ]
    return window.model_copy(update={"boots": tuple(boots)})


def _nowhere(window: WindowRecord) -> WindowRecord:
    return window.model_copy(update={"host_class": ""})


@pytest.mark.parametrize("mode", ["new", "append", "replace"])
@pytest.mark.parametrize(
    ("edit", "reason", "told"),
    [
        (_unfinished, "unfinished", "the window did not run to its end: measure it whole"),
        (_died, "server-died", "arm off: the server died"),
        (_attached, "attached", "the server of k4 was attached, and nobody knows its machine: it makes no baseline"),
        (_nowhere, "unknown-host", "the record does not say on which class of machine it was measured"),
    ],
)
def test_what_must_not_be_judged_is_no_baseline(
    build: type[Build], *, mode: Any, edit: Any, reason: str, told: str
) -> None:
    """A window that is INVALID, unfinished or of an unknown machine is refused in every mode."""
    with pytest.raises(InvalidError, match=re.escape(told)) as refused:
        plan(build, gate_of(build), edit(day(build, 2)), None, mode=mode)

    assert refused.value.reason == reason


def test_a_point_that_cannot_be_judged_is_refused(build: type[Build]) -> None:
    """A failed request at the level of an entry refuses the window, before anything is changed."""

    def fail(point: PointRecord) -> PointRecord:
        return build.point([*point.requests[:-1], build.failed(9)], at=point.at)

    window = build.edited_point(day(build, 2), arm="off", edit=fail)

    with pytest.raises(InvalidError, match="1 of 10 requests failed"):
        plan(build, gate_of(build), window, None)


def test_a_moved_machine_is_not_appended(build: type[Build]) -> None:
    """In absolute mode a window whose reference left its baseline, too, is INVALID, and so no baseline."""
    gate = gate_of(build, build.claim(mode="absolute", cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))

    with pytest.raises(InvalidError, match="the machine moved") as refused:
        plan(build, gate, day(build, 3, 0.8, 0.8, pace=0.8), file)
    assert refused.value.reason == "machine-moved"

    replaced = plan(build, gate, day(build, 3, 0.8, 0.8, pace=0.8), file, mode="replace")
    assert replaced.changes[0].kind == "replaced"
    assert len(replaced.regressions) == 1


def test_a_figure_of_nothing_is_no_baseline(build: type[Build]) -> None:
    """A window in which nothing met its limits gives later ones nothing to be compared with."""
    limits: dict[str, Any] = {"goodput_limits": {"ttft": "150ms"}}
    gate = gate_of(build, build.claim("goodput"), **limits)

    with pytest.raises(InvalidError, match="c1-goodput is 0 in this window, and nothing can be compared") as refused:
        plan(build, gate, day(build, 2, 0.5, **limits), None)

    assert refused.value.reason == "fell-to-zero"


@pytest.mark.parametrize(("both", "refused"), [(True, True), (False, False)])
def test_a_share_of_nothing_is_a_baseline_in_points_only(build: type[Build], *, both: bool, refused: bool) -> None:
    """In points 0 is a share like any other; a claim about its ratio beside that one makes it useless."""
    points = build.claim("acceptance_rate", margin=0.02, points=True)
    ratio = build.claim("acceptance_rate", mode="absolute")
    gate = gate_of(build, points, *([ratio] if both else []), reference=7)

    def nothing(point: PointRecord) -> PointRecord:
        return build.point(point.requests, at=1, speculation=SpeculationDelta(40, 160, 0, (0, 0, 0, 0)))

    window = build.edited_point(day(build, 2, 1.0, reference=7), arm="k4", edit=nothing)

    if refused:
        with pytest.raises(InvalidError, match="c1-acceptance_rate is 0 in this window"):
            plan(build, gate, window, None)
    else:
        assert plan(build, gate, window, None).writes


def test_another_engine_build_is_appended_unless_the_claim_asks(build: type[Build]) -> None:
    """Baselines outlive engine builds; a claim of the same build refuses another, and replacing keeps the anchor."""
    engine = {"off": {"version": "0.33.0"}, "k4": {"version": "0.33.0"}}
    newer = day(build, 3).model_copy(update={"engine": engine})
    same = gate_of(build, build.claim(engine="same"))
    file = build.accepted(same, day(build, 2))

    assert plan(build, gate_of(build), newer, file).changes[0].kind == "appended"
    with pytest.raises(UsageError, match=r"ran on another engine build.*\(reference.version: "):
        plan(build, same, newer, file)
    replaced = plan(build, same, newer, file, mode="replace").changes[0]
    assert replaced.after.anchor.window.startswith("2026-11-02")


@pytest.mark.parametrize("reason", ["", "  ", "x", " ab "])
def test_a_reason_is_wanted(build: type[Build], reason: str) -> None:
    """An update without a reason is a usage error, not one of a library."""
    with pytest.raises(UsageError, match="wants to know why it changed: say it, as --reason"):
        plan(build, gate_of(build), day(build, 2), None, reason=reason)


def test_a_gate_without_claims_has_no_baseline(build: type[Build]) -> None:
    """A gate that claims nothing of a baseline is named, with what to add."""
    with pytest.raises(UsageError, match=r"test_gate claims nothing of a baseline: add not_worse_than_baseline\("):
        plan(build, build.gate(build.pair(), build.threshold()), day(build, 2), None)


@pytest.mark.parametrize("changes", [{"gate": "other.py::test_other"}, {"host_class": "h200x1"}])
def test_a_file_of_something_else_is_refused(build: type[Build], changes: dict[str, str]) -> None:
    """Windows of two machines, or of two gates, never share a file."""
    file = build.accepted(gate_of(build), day(build, 2)).model_copy(update=changes)

    with pytest.raises(UsageError, match=r"the baseline is that of .* accept it into its own"):
        plan(build, gate_of(build), day(build, 3), file)


def test_case_108_an_update_of_some_claims_leaves_the_others(build: type[Build]) -> None:
    """Case 108: of three entries the one that was asked for changes; the others are equal, to the byte."""
    claims = [build.claim(), build.claim(at=8), build.claim("ttft_p50")]
    gate = gate_of(build, *claims)
    file = build.accepted(gate, day(build, 2))

    update = plan_update(gate, day(build, 3), file, how=build.accepting(), thresholds=claims[1:2])

    assert [change.entry_id for change in update.changes] == ["c8-output_throughput"]
    for name in (THROUGHPUT, "c1-ttft_p50"):
        assert update.after.entries[name].model_dump_json() == file.entries[name].model_dump_json()


def test_both_modes_share_an_entry(build: type[Build]) -> None:
    """Two claims about one metric and level are judged each, and write one entry once."""
    gate = gate_of(build, build.claim(cross_window=FLOOR), build.claim(mode="absolute", cross_window=FLOOR))
    file = build.accepted(gate, day(build, 2))

    [change] = plan(build, gate, day(build, 3, 1.01, 1.01), file).changes

    assert len(change.verdicts) == len(change.claims) == 2
    assert len(change.after.windows) == 2


def test_case_118_entries_that_no_gate_claims(build: type[Build]) -> None:
    """Case 118: what a gate no longer claims is listed, and all of a file whose gate is gone."""
    file = build.accepted(gate_of(build, build.claim(), build.claim(at=8)), day(build, 2))

    assert unclaimed(file, gate_of(build)) == {"c8-output_throughput"}
    assert unclaimed(file, gate_of(build, build.claim(mode="absolute"), build.claim(at=8))) == frozenset()
    assert unclaimed(file, None) == set(file.entries)
