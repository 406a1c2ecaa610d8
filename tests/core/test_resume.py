"""What a window may take over from the record of one that died, and why nothing may."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate.core.arms import Arm, ArmPair, arms_of
from pytest_specgate.core.baselines import KnownBaseline
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.hosts import known, stored
from pytest_specgate.core.metrics import DEFINITION_VERSION
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.redaction import redacted_arm
from pytest_specgate.core.resume import Source, TakenOver, Today, taken_over
from pytest_specgate.core.stored import Failure
from pytest_specgate.core.stored_gates import stored_gate

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specgate.core.gate import Gate
    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.core.conftest import Build

SOURCE = Source("results/one/record.json", "a" * 64)
HOST = stored(
    {
        "kernel": known("6.1"),
        "hostname": known(
            "one",
        ),
    }
)
SETTINGS: dict[str, Any] = {"args": ["--dtype=bfloat16"], "env": {}, "command": []}
ENGINE: dict[str, Any] = {"version": "0.32.0", "development": False}
NOISE = ArmNoise(
    arm="off", at=1, metric="e2e_p50", sd=0.01, df=3.5, boots=6, builds=1, arm_sha256="b" * 64, measured_at="2026-11-28"
)
ANEW = "measure anew, without --specgate-resume"
MACHINE = "a window is measured on one machine"
PLANNED = "its looks were planned for what was declared"


def _open(build: type[Build], pair: ArmPair, **changes: Any) -> Gate:
    """Return a gate that wants all of six rounds."""
    return build.gate(pair, build.threshold(**{"floor": 0.12, **changes}))


def _today(pair: ArmPair, *gates: Gate, **changes: Any) -> Today:
    """Return a window of today that goes on with what `_record` gives."""
    today = Today(
        pairs=(pair,),
        gates=gates,
        strict=False,
        settings=SETTINGS,
        host_class="cpu-2c",
        host=HOST,
        engine={arm.name: ENGINE for arm in pair.arms},
        commit="c0ffee",
        client_version="client 2",
    )
    return replace(today, **changes)


def _told(boot: BootRecord, **fields: Any) -> BootRecord:
    """Return a boot whose profile also tells the client, and other fields."""
    told = {"client_version": "client 2", "metric_definition_version": DEFINITION_VERSION, **fields}
    return boot.model_copy(update={"profile": {**boot.profile, **told}})


def _record(
    build: type[Build], pair: ArmPair, *gates: Gate, rounds: Sequence[int] = (2, 2), **changes: Any
) -> WindowRecord:
    """Return the record of a window that died; `rounds` of the reference and of the candidate were measured."""
    record = build.window(pair, [1.0] * rounds[0], [1.0] * rounds[1])
    fields: dict[str, Any] = {
        "finished": False,
        "arms": tuple(map(redacted_arm, arms_of([pair]))),
        "gates": tuple(map(stored_gate, gates)),
        "settings": SETTINGS,
        "host_class": "cpu-2c",
        "host": HOST,
        "engine": {arm.name: ENGINE for arm in pair.arms},
        "commit": "c0ffee",
        "boots": tuple(map(_told, record.boots)),
    }
    return record.model_copy(update={**fields, **changes})


def _taken(build: type[Build], record: WindowRecord, pair: ArmPair, *gates: Gate) -> TakenOver:
    return taken_over([_today(pair, *gates)], record, SOURCE)[1]


def _refusal(windows: Sequence[Today], record: WindowRecord) -> str:
    """Return why a record cannot be continued."""
    with pytest.raises(UsageError) as caught:
        taken_over(windows, record, SOURCE)
    head = f"{SOURCE.path} cannot be continued: "
    assert str(caught.value).startswith(head)
    return str(caught.value).removeprefix(head)


def test_whole_rounds_are_taken_over_and_a_part_of_one_is_left_out(build: type[Build]) -> None:
    """Of two rounds and a boot of a third one, four boots go on; the round is what counts."""
    pair = build.pair()
    gate = _open(build, pair)
    # Odd rounds begin with the reference.
    record = _record(build, pair, gate, rounds=(3, 2))
    taken = _taken(build, record, pair, gate)

    assert [(boot.arm, boot.round) for boot in taken.boots] == [("off", 1), ("k4", 1), ("k4", 2), ("off", 2)]
    assert (taken.rounds, taken.of, taken.left_out) == (2, 6, 1)
    assert taken.sentence == (
        "continues results/one/record.json: rounds 1 to 2 of 6 were measured there; "
        "1 boot of round 3, which was not finished, is left out"
    )


def test_what_was_known_when_a_window_began_is_kept(build: type[Build]) -> None:
    """Calibrations, baselines and the number of the attempt are those of the record."""
    pair = build.pair()
    gate = _open(build, pair)
    baseline = KnownBaseline(gate=gate.id, entry_id="c1-e2e_p50", problem=Failure(reason="no-baseline", message=""))
    record = _record(build, pair, gate, noise=(NOISE,), baselines=(baseline,), attempt=3)
    taken = _taken(build, record, pair, gate)

    assert (taken.noise, taken.baselines, taken.attempt) == ((NOISE,), (baseline,), 3)


def test_a_window_can_be_continued_twice(build: type[Build]) -> None:
    """Both records that it goes on with are named, oldest first, each with the whole rounds that it held."""
    pair = build.pair()
    gate = _open(build, pair)
    first = _taken(build, _record(build, pair, gate, rounds=(1, 1)), pair, gate)
    second = _taken(build, _record(build, pair, gate, rounds=(3, 3), continued=first.continued), pair, gate)

    assert first.sentence == "continues results/one/record.json: round 1 of 6 was measured there"
    assert [(run.record, run.record_sha256, run.rounds) for run in second.continued] == [
        (SOURCE.path, SOURCE.sha256, 1),
        (SOURCE.path, SOURCE.sha256, 3),
    ]


def test_a_window_that_a_budget_stopped_goes_on(build: type[Build]) -> None:
    """Its record is a finished one, and some thresholds are open for want of time."""
    pair = build.pair()
    gate = _open(build, pair)
    record = _record(build, pair, gate, finished=True, stopped="the time budget was used up after 2 of 6 rounds")

    assert _taken(build, record, pair, gate).rounds == 2


def test_a_window_that_ran_to_its_end_is_not_measured_on(build: type[Build]) -> None:
    """More rounds after a verdict would be another rule than the one that was declared."""
    pair = build.pair()
    gate = _open(build, pair)

    assert _refusal([_today(pair, gate)], _record(build, pair, gate, finished=True)) == (
        f"it ran to its end, and to measure again is another window: {ANEW}"
    )


@pytest.mark.parametrize(("number", "rounds"), [(1, (2, 2)), (2, (2, 2)), (3, (3, 2))], ids=["1", "2", "unfinished"])
def test_a_failed_boot_is_not_left_out(build: type[Build], number: int, rounds: tuple[int, int]) -> None:
    """Also not one of an unfinished round: what failed would be drawn again until it works."""
    pair = build.pair()
    gate = _open(build, pair)
    failure = Failure(reason="server-died", message="arm off: its server left")
    record = build.edited(
        _record(build, pair, gate, rounds=rounds),
        arm="off",
        number=number,
        edit=lambda boot: boot.model_copy(update={"failure": failure}),
    )

    assert _refusal([_today(pair, gate)], record) == (
        f"arm off failed in round {number} (server-died), and to go on without that boot would be a retry until it is "
        f"green: {ANEW}"
    )


@pytest.mark.parametrize("rounds", [(0, 0), (1, 0)])
def test_a_window_without_a_whole_round_has_nothing_to_go_on_with(build: type[Build], rounds: tuple[int, int]) -> None:
    """Neither before its first boot nor before the end of its first round."""
    pair = build.pair()
    gate = _open(build, pair)
    record = _record(build, pair, gate, rounds=rounds)

    assert _refusal([_today(pair, gate)], record) == f"not one round of it was measured whole: {ANEW}"


def test_a_calibration_is_not_continued(build: type[Build]) -> None:
    """A record without pairs is of A/A windows."""
    pair = build.pair()

    assert _refusal([_today(pair)], _record(build, pair, pairs=())) == (
        "it holds no pair, as that of a calibration, which is run anew"
    )


def _of_pair(change: Callable[[ArmPair], ArmPair]) -> Callable[[Today], Today]:
    """Return what changes the only pair of a window."""
    return lambda window: replace(window, pairs=(change(window.pairs[0]),))


def _with(**changes: Any) -> Callable[[Today], Today]:
    return lambda window: replace(window, **changes)


def _longer(pair: ArmPair) -> ArmPair:
    """Return the pair with another argument in both arms."""
    reference, candidate = (arm.vary(arm.name, args={"max_model_len": 128}) for arm in pair.arms)
    return replace(pair, reference=reference, candidate=candidate)


_CHANGES: dict[str, tuple[Callable[[Today], Today], str]] = {
    "arms": (
        _of_pair(lambda pair: replace(pair, candidate=pair.candidate.vary("k5"))),
        "arms: off, k4 there, and off, k5 today",
    ),
    "order": (
        _of_pair(lambda pair: replace(pair, reference=pair.candidate, candidate=pair.reference)),
        "arms: off, k4 there, and k4, off today",
    ),
    "rounds": (
        _of_pair(lambda pair: pair.with_rounds(8)),
        f"pairs.k4 against off.rounds: 6 there, and 8 today ({PLANNED})",
    ),
    "allowed": (
        _of_pair(lambda pair: replace(pair, allow_engine_differences={"x": "why"})),
        f"pairs.k4 against off.allow_engine_differences.x: (unset) there, and why today ({PLANNED})",
    ),
    "load": (
        _of_pair(lambda pair: replace(pair, profile=replace(pair.profile, seed=7))),
        "profile.seed: 0 there, and 7 today",
    ),
    "argument": (_of_pair(_longer), "arm.off.args.max_model_len: 64 there, and 128 today"),
    "strict": (_with(strict=True), "strict: False there, and True today"),
    "settings": (_with(settings={**SETTINGS, "env": {"A": "1"}}), "settings.env.A: (unset) there, and 1 today"),
    "kernel": (
        _with(host=stored({"kernel": known("6.2"), "hostname": known("two")}), host_class="cpu-4c"),
        f"host.kernel: 6.1 there, and 6.2 today ({MACHINE})",
    ),
    "class": (_with(host_class="cpu-4c"), f"host_class: cpu-2c there, and cpu-4c today ({MACHINE})"),
    "engine": (
        _with(engine={"off": ENGINE, "k4": {**ENGINE, "version": "0.33.0"}}),
        "engine.k4.version: 0.32.0 there, and 0.33.0 today (a window is measured with one build of each engine)",
    ),
    "client": (_with(client_version="client 3"), "client_version: client 2 there, and client 3 today"),
}


@pytest.mark.parametrize(("change", "sentence"), _CHANGES.values(), ids=_CHANGES)
def test_the_first_field_that_differs_is_named(
    build: type[Build], change: Callable[[Today], Today], sentence: str
) -> None:
    """Nothing of what was declared, and nothing of what it ran on, may be another one."""
    pair = build.pair()

    assert _refusal([change(_today(pair))], _record(build, pair)) == f"{sentence}: {ANEW}"


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"margin": 0.06}, "0.fields.fraction: 0.05 there, and 0.06 today"),
        ({"metric": "e2e_p50"}, "0.fields.metric: output_throughput there, and e2e_p50 today"),
        ({"floor": 0.11}, "0.fields.floor.fraction: 0.12 there, and 0.11 today"),
    ],
)
def test_a_claim_is_not_changed_after_figures_were_seen(
    build: type[Build], changes: dict[str, Any], field: str
) -> None:
    """A margin that was chosen by looking at what was measured decides nothing."""
    pair = build.pair()
    record = _record(build, pair, _open(build, pair))
    why = "a claim that is changed after figures were seen decides nothing"

    assert _refusal([_today(pair, _open(build, pair, **changes))], record) == (
        f"gates.test_gate.py::test_gate.thresholds.{field} ({why}): {ANEW}"
    )


def test_a_gate_more_or_less_is_another_window(build: type[Build]) -> None:
    """A pair boots as long as one of its gates is open, so each of them decides how many rounds there are."""
    pair = build.pair()
    gate = _open(build, pair)
    without, with_gate = _record(build, pair), _record(build, pair, gate)

    assert _refusal([_today(pair, gate)], without).startswith(f"gates.{gate.id}: (unset) there, and {{")
    assert re.match(
        rf"gates\.{re.escape(gate.id)}: \{{.* there, and \(unset\) today", _refusal([_today(pair)], with_gate)
    )


@pytest.mark.parametrize(
    ("engine", "commits", "refused"),
    [
        ({"version": "1", "development": True}, ("old", "new"), True),
        ({"command": "python engine.py"}, ("old", "new"), True),
        ({"version": "1", "development": True}, ("old", "old"), False),
        ({"version": "1", "development": True}, ("", "new"), False),
        ({"version": "1", "development": True}, ("old", ""), False),
        ({"version": "1", "development": False}, ("old", "new"), False),
    ],
)
def test_the_commit_counts_where_a_build_does_not_tell_its_code(
    build: type[Build], engine: dict[str, Any], commits: tuple[str, str], *, refused: bool
) -> None:
    """An editable install changes under one version, and a command is anybody's; a release is told by its files."""
    pair = build.pair()
    engines = {arm.name: engine for arm in pair.arms}
    record = _record(build, pair, commit=commits[0], engine=engines)
    today = _today(pair, commit=commits[1], engine=engines)

    if refused:
        assert _refusal([today], record) == (
            f"commit: old there, and new today (the build of its engine does not tell its code): {ANEW}"
        )
    else:
        assert taken_over([today], record, SOURCE)[1].rounds == 2


def test_formulas_of_another_version_are_refused(build: type[Build]) -> None:
    """Figures of one window are computed by one set of formulas."""
    pair = build.pair()
    record = _record(build, pair)
    old = tuple(_told(boot, metric_definition_version=0) for boot in record.boots)

    assert _refusal([_today(pair)], record.model_copy(update={"boots": old})).startswith(
        f"metric_definition_version: 0 there, and {DEFINITION_VERSION} today"
    )


def test_another_secret_is_no_difference(build: type[Build]) -> None:
    """A record holds no secrets, so that a new token does not make another window."""
    pairs = [
        ArmPair(
            reference=Arm("off", model="tiny", env={"HF_TOKEN": secret}),
            candidate=Arm("on", model="tiny", args={"api_key": secret, "max_model_len": 64}, env={"HF_TOKEN": secret}),
            varies=("args.api_key", "args.max_model_len"),
            profile=build.profile(extra_body={"api_key": secret}),
        )
        for secret in ("one", "two")
    ]

    assert taken_over([_today(pairs[1])], _record(build, pairs[0]), SOURCE)[1].rounds == 2


def _drifted(boot: BootRecord) -> BootRecord:
    return boot.model_copy(update={"host_before": {"kernel": "6.1"}, "host_after": {"kernel": "6.2"}})


def _disturbed(build: type[Build], boot: BootRecord) -> BootRecord:
    points = (build.risen(boot.points[0], "vllm:generation_tokens_total", 5.0), *boot.points[1:])
    return boot.model_copy(update={"points": points})


@pytest.mark.parametrize("number", [1, 3], ids=["whole round", "unfinished round"])
def test_what_is_invalid_already_is_not_measured_on(build: type[Build], number: int) -> None:
    """Nothing that was measured badly is lost by going on, and no server is booted for what cannot become valid."""
    pair = build.pair()
    record = _record(build, pair, rounds=(3, 2))
    drifted = build.edited(record, arm="off", number=number, edit=_drifted)
    disturbed = build.edited(record, arm="off", number=number, edit=lambda boot: _disturbed(build, boot))

    assert _refusal([_today(pair)], drifted).startswith(
        f"it is INVALID already (host-drift: arm off, round {number}: the machine changed: kernel was 6.1"
    )
    assert _refusal([_today(pair)], disturbed).startswith("it is INVALID already (foreign-traffic: arm off at c=1: ")


def test_rounds_of_two_loads_are_not_measured_on(build: type[Build]) -> None:
    """Identity is looked for in what is taken over, too."""
    pair = build.pair()
    other = build.edited(_record(build, pair), arm="k4", edit=lambda boot: _told(boot, seed=7))

    assert _refusal([_today(pair)], other).startswith("it is INVALID already (profile-mismatch: request profile: ")


def test_the_window_that_fits_goes_on(build: type[Build]) -> None:
    """Of several windows of a session one goes on, whichever place it has."""
    pair, other = build.pair(), build.pair(seed=7)

    assert taken_over([_today(other), _today(pair)], _record(build, pair), SOURCE)[0] == 1
    assert taken_over([_today(pair), _today(other)], _record(build, pair), SOURCE)[0] == 0


def test_when_no_window_fits_the_nearest_one_tells_why(build: type[Build]) -> None:
    """The first difference of the window that agrees in most, wherever it stands."""
    pair, other = build.pair(), build.pair(candidate=7)
    near = replace(_today(pair), host_class="cpu-4c")
    sentences = {_refusal(windows, _record(build, pair)) for windows in ([near, _today(other)], [_today(other), near])}

    assert sentences == {f"host_class: cpu-2c there, and cpu-4c today ({MACHINE}): {ANEW}"}
