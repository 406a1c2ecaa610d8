"""Calibration: what A/A windows say of the noise of an arm, kept by host class, and which windows say nothing."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import ValidationError

from pytest_specgate.core.arms import Arm
from pytest_specgate.core.calibration import (
    NO_SETTINGS,
    SCHEMA_VERSION,
    ArmCalibration,
    CalibrationWindow,
    NoiseBook,
    NoiseFigure,
    _values,
    arm_sha256,
    figures,
    window_of,
)
from pytest_specgate.core.errors import InvalidError, RecordError
from pytest_specgate.core.metrics import DEFINITION_VERSION, METRICS
from pytest_specgate.core.noise import arm_noise
from pytest_specgate.core.profile import sha256_of
from pytest_specgate.core.records import ArmNoise
from pytest_specgate.core.stored import Failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specgate.core.records import BootRecord, WindowRecord
    from tests.core.conftest import Build

THROUGHPUT = "output_throughput"
SHARE = "acceptance_rate"


def _window(values: Mapping[str, Mapping[str, Sequence[float]]], *, day: int = 29) -> CalibrationWindow:
    tuples = {point: {name: tuple(one) for name, one in row.items()} for point, row in values.items()}
    return CalibrationWindow(measured_at=f"2026-11-{day}T12:00:00+00:00", engine={"version": "0.32.0"}, values=tuples)


def _simple(*values: float, day: int = 29) -> CalibrationWindow:
    return _window({"c1": {THROUGHPUT: values}}, day=day)


def _row(*values: float, name: str = THROUGHPUT) -> NoiseFigure | None:
    return figures([_window({"c1": {name: values}})])["c1"].get(name)


def test_noise_of_ratios() -> None:
    """Values of a metric count as logarithms: a figure is the scatter of ratios, whatever the unit."""
    small, large = _row(1.0, 1.1, 1.0), _row(100.0, 110.0, 100.0)

    assert small is not None
    assert large is not None
    assert (large.boots, large.df) == (small.boots, small.df) == pytest.approx((3, 1.6))
    assert (large.sd, small.sd) == pytest.approx((math.log(1.1), math.log(1.1)))


def test_noise_of_shares() -> None:
    """Shares count as they are, in points; one of nothing is a value like any other."""
    found = _row(0.70, 0.68, 0.0, name=SHARE)

    assert found is not None
    assert found.sd == pytest.approx(math.sqrt((0.02**2 + 0.68**2) / 2))


@pytest.mark.parametrize("values", [(), (100.0,), (100.0, 0.0), (100.0, -1.0)], ids=str)
def test_values_that_tell_no_noise(values: tuple[float, ...]) -> None:
    """Fewer than two boots, and values without a logarithm, give no figure."""
    assert _row(*values) is None


def test_figures_of_several_windows() -> None:
    """Windows add up, each by itself; one that lacks a point or a metric, or has a single boot of it, is left out."""
    windows = [
        _window({"c1": {THROUGHPUT: (100.0, 102.0), "ttft_p50": (0.1, 0.2)}, "c8": {THROUGHPUT: (50.0, 55.0)}}),
        _window({"c1": {THROUGHPUT: (200.0, 208.0, 204.0)}}),
        _window({"c1": {THROUGHPUT: (7.0,), "ttft_p50": (5.0,)}, "c32": {SHARE: (0.5,)}}),
    ]

    found = figures(windows)

    logs = [[math.log(100), math.log(102)], [math.log(200), math.log(208), math.log(204)]]
    noise = arm_noise(logs)
    assert list(found) == ["c1", "c32", "c8"]
    assert found["c1"][THROUGHPUT] == NoiseFigure(boots=5, sd=noise.sigma, df=noise.df)
    assert found["c1"]["ttft_p50"] == NoiseFigure(boots=2, sd=math.log(0.2) - math.log(0.1), df=1.0)
    assert list(found["c1"]) == [THROUGHPUT, "ttft_p50"]
    assert found["c8"][THROUGHPUT].sd == pytest.approx(math.log(1.1))
    assert found["c32"] == {}


def test_a_metric_of_another_version_is_a_ratio() -> None:
    """Values of a metric that the table no longer knows are kept, and count as logarithms."""
    found = _row(10.0, 11.0, name="bygone_metric")

    assert found is not None
    assert found.sd == pytest.approx(math.log(1.1))


@pytest.mark.parametrize(
    ("field", "value"), [("boots", 1), ("sd", -0.01), ("sd", math.nan), ("df", 0.0), ("df", math.inf), ("boots", 2.5)]
)
def test_impossible_figures(field: str, value: float) -> None:
    """A stored figure is of two boots at least, not negative, and has degrees of freedom."""
    fields: dict[str, Any] = {"boots": 2, "sd": 0.0, "df": 1.0, field: value}

    with pytest.raises(ValidationError, match=field):
        NoiseFigure.model_validate(fields)


@pytest.mark.parametrize(
    "changes",
    [{"model": "other"}, {"args": {"max_model_len": 65}}, {"args": {}}, {"env": {"VLLM_USE_V1": "1"}}],
    ids=str,
)
def test_what_makes_another_arm(build: type[Build], changes: dict[str, Any]) -> None:
    """Model, arguments and environment make an arm."""
    fields: dict[str, Any] = {"model": "folder", "args": {"max_model_len": 64}, **changes}

    assert arm_sha256(Arm("off", **fields)) != arm_sha256(build.arm())


def test_what_is_the_same_arm(build: type[Build]) -> None:
    """Name and place of the engine do not make an arm: a calibration outlives a new build of the engine."""
    arm = Arm("renamed", model="folder", args={"max_model_len": 64}, python="/venv/bin/python")

    assert arm_sha256(arm) == arm_sha256(build.arm())


def test_secrets_do_not_make_an_arm(build: type[Build]) -> None:
    """A hash in a committed file must not depend on a secret."""
    first, second = (build.arm().vary("off", env={"HF_TOKEN": secret}) for secret in ("one", "two"))

    assert arm_sha256(first) == arm_sha256(second) != arm_sha256(build.arm())


def test_a_calibration_of_an_arm(build: type[Build]) -> None:
    """A calibration carries what it applies to, its windows, and the figures that follow from them."""
    arm, profile, windows = build.arm(), build.profile(), [_simple(100.0, 102.0), _simple(100.0, 101.0)]

    found = ArmCalibration.of(arm, profile, windows, settings=NO_SETTINGS)

    assert (found.arm, found.arm_sha256, found.profile_sha256) == ("off", arm_sha256(arm), profile.fingerprint())
    assert found.settings_sha256 == sha256_of({})
    assert found.metric_definition_version == DEFINITION_VERSION
    assert found.windows == tuple(windows)
    assert found.noise == figures(windows)


def test_what_a_calibration_fits(build: type[Build]) -> None:
    """It fits its arm under its load with its formulas, started alike: another of them has none."""
    given: dict[str, Any] = {"args": ["--max-num-seqs=1"]}
    other: dict[str, Any] = {"args": ["--max-num-seqs=2"]}
    found = ArmCalibration.of(build.arm(), build.profile(), [_simple(100.0, 102.0)], settings=given)
    older = found.model_copy(update={"metric_definition_version": DEFINITION_VERSION - 1})

    assert found.fits(build.arm(), build.profile(), settings=dict(given))
    assert not found.fits(build.arm(4), build.profile(), settings=given)
    assert not found.fits(build.arm(), build.profile(output_tokens=12), settings=given)
    assert not found.fits(build.arm(), build.profile(), settings=other)
    assert not found.fits(build.arm(), build.profile(), settings=NO_SETTINGS)
    assert not older.fits(build.arm(), build.profile(), settings=given)


def test_a_calibration_needs_a_window(build: type[Build]) -> None:
    """An entry of no window at all is refused."""
    with pytest.raises(ValidationError, match="windows"):
        ArmCalibration.of(build.arm(), build.profile(), [], settings=NO_SETTINGS)


def test_an_empty_book(build: type[Build]) -> None:
    """A new book of a host class knows nothing, and says so."""
    book = NoiseBook(host_class="cpu-test-2c-00000000")

    assert (book.schema_version, book.arms) == (SCHEMA_VERSION, ())
    assert book.of(build.arm(), build.profile()) is None
    assert book.noises([build.arm()], build.profile()) == ()
    book.verify()


def test_windows_of_one_arm_and_load_are_kept_together(build: type[Build]) -> None:
    """A further window of an arm is added to the earlier ones, and the figures are of all of them."""
    empty, arm, profile = NoiseBook(host_class="h"), build.arm(), build.profile()
    first, second = _simple(100.0, 102.0, day=28), _simple(100.0, 104.0, day=29)

    book = empty.with_window(arm, profile, first).with_window(arm, profile, second)

    assert empty.arms == ()
    assert book.host_class == "h"
    assert [entry.windows for entry in book.arms] == [(first, second)]
    assert book.of(arm, profile) == book.arms[0]
    assert book.arms[0].noise == figures([first, second])
    book.verify()


def test_arms_and_loads_have_their_own_entries(build: type[Build]) -> None:
    """Another arm, or the same under another load, is another entry, and their order is not that of the runs."""
    off, k4, short, long = build.arm(), build.arm(4), build.profile(), build.profile(output_tokens=12)
    window = _simple(100.0, 102.0)
    calls = [(off, short), (k4, short), (off, long)]
    books = []
    for order in (calls, calls[::-1]):
        book = NoiseBook(host_class="h")
        for arm, profile in order:
            book = book.with_window(arm, profile, window)
        books.append(book)

    assert books[0] == books[1]
    assert [entry.arm for entry in books[0].arms] == ["k4", "off", "off"]
    for arm, profile in calls:
        assert books[0].of(arm, profile) == ArmCalibration.of(arm, profile, [window], settings=NO_SETTINGS)


def test_a_book_survives_storing(build: type[Build]) -> None:
    """Read back from its text a book is the same to the last digit, and still follows from its values."""
    book = NoiseBook(host_class="h").with_window(build.arm(), build.profile(), _simple(100.0, 102.7, 99.1))

    again = NoiseBook.model_validate_json(book.model_dump_json())

    assert again == book
    again.verify()


def test_windows_of_another_definition_are_not_mixed_in(build: type[Build]) -> None:
    """An entry whose figures were defined otherwise stays as it is, and a new window begins a new one."""
    arm, profile, window = build.arm(), build.profile(), _simple(100.0, 104.0)
    book = NoiseBook(host_class="h").with_window(arm, profile, _simple(100.0, 102.0))
    older = book.arms[0].model_copy(update={"metric_definition_version": DEFINITION_VERSION - 1})

    found = book.model_copy(update={"arms": (older,)}).with_window(arm, profile, window)

    assert len(found.arms) == 2
    assert older in found.arms
    assert found.of(arm, profile) == ArmCalibration.of(arm, profile, [window], settings=NO_SETTINGS)


@pytest.mark.parametrize("change", [{"sd": 0.001}, {"df": 20.0}, {"boots": 9}], ids=str)
def test_a_figure_edited_by_hand(build: type[Build], change: dict[str, float]) -> None:
    """A figure that does not follow from the values beside it is refused, with the name of its arm."""
    book = NoiseBook(host_class="h").with_window(build.arm(), build.profile(), _simple(100.0, 102.0))
    entry = book.arms[0]
    edited = entry.noise["c1"][THROUGHPUT].model_copy(update=change)
    forged = entry.model_copy(update={"noise": {"c1": {THROUGHPUT: edited}}})

    with pytest.raises(RecordError) as caught:
        book.model_copy(update={"arms": (forged,)}).verify()

    assert str(caught.value) == "the noise of arm off does not follow from its windows: the file was edited by hand"


@pytest.mark.parametrize("version", [SCHEMA_VERSION - 1, SCHEMA_VERSION + 1])
def test_a_book_of_another_schema(version: int) -> None:
    """A book of an unknown schema is not read."""
    with pytest.raises(ValidationError, match="schema_version"):
        NoiseBook.model_validate({"schema_version": version, "host_class": "h", "arms": ()})


def test_noises_of_arms_under_a_load(build: type[Build]) -> None:
    """A window keeps what is known of its own arms at its own points, under the names they have now."""
    profile = build.profile()
    window = _window({at: {THROUGHPUT: (100.0, 110.0)} for at in ("c1", "c8", "c32")})
    book = NoiseBook(host_class="h").with_window(build.arm(), profile, _simple(1.0, 1.1, day=28))
    book = book.with_window(build.arm(), profile, window).with_window(build.arm(8), profile, window)
    renamed = Arm("plain", model="folder", args={"max_model_len": 64})

    found = book.noises([renamed, build.arm(4)], profile)

    sd = found[1].sd
    of_both: dict[str, Any] = {
        "arm": "plain", "metric": THROUGHPUT, "builds": 1, "arm_sha256": arm_sha256(build.arm()),
        "measured_at": "2026-11-29T12:00:00+00:00",
    }  # fmt: skip
    assert found == (
        ArmNoise(**of_both, at=1, sd=found[0].sd, df=2.0, boots=4),
        ArmNoise(**of_both, at=8, sd=sd, df=1.0, boots=2),
    )
    assert (found[0].sd, sd) == pytest.approx((math.log(1.1), math.log(1.1)))


def test_noises_of_several_arms(build: type[Build]) -> None:
    """Every arm that is known is told; a point without figures is left out."""
    profile, arms = build.profile(), [build.arm(), build.arm(4)]
    book = NoiseBook(host_class="h")
    for arm in arms:
        book = book.with_window(arm, profile, _simple(100.0, 110.0))

    assert [(one.arm, one.at) for one in book.noises(arms, profile)] == [("off", 1), ("k4", 1)]


def _measured(build: type[Build], *speeds: float) -> WindowRecord:
    """Return a window whose reference ran at these speeds."""
    return build.window(build.pair(), speeds, [1.0] * len(speeds))


def test_values_of_all_boots(build: type[Build]) -> None:
    """Every metric that can be gated and has a ratio is kept, with the value of each boot in its order."""
    record = _measured(build, 1.0, 1.25, 0.8)

    found = _values(record.boots_of("off"), record.profile, at=1)

    assert found["ttft_p50"] == pytest.approx((0.1, 0.08, 0.125))
    assert found["decode_rate_p50"] == pytest.approx((10.0, 12.5, 8.0))
    assert all(METRICS[name].gated and METRICS[name].unit != "events" for name in found)
    assert {"tpot_mean", "step_time", "tokens_per_step", THROUGHPUT} <= found.keys()
    assert not {"preemptions", "achieved_concurrency", SHARE, "ttft_p99", "goodput"} & found.keys()


def test_shares_of_a_speculative_arm(build: type[Build]) -> None:
    """An arm that drafts has values of its acceptance too."""
    record = build.window(build.pair(), [1.0, 1.0], [1.0, 1.1])

    found = _values(record.boots_of("k4"), record.profile, at=8)

    assert found[SHARE] == pytest.approx((6 / 16, 6 / 16))


def test_one_boot_is_no_window(build: type[Build]) -> None:
    """A single boot has no neighbour to differ from, so none of its values is kept."""
    record = _measured(build, 1.0)

    assert _values(record.boots_of("off"), record.profile, at=1) == {}


def test_a_metric_that_one_boot_lacks(build: type[Build]) -> None:
    """A metric that some boot does not have is not kept, the others are; a point that one did not measure has none."""
    record = _measured(build, 1.0, 1.0)

    def blind(boot: BootRecord) -> BootRecord:
        requests = tuple(one.model_copy(update={"first_text_s": None}) for one in boot.points[0].requests)
        return boot.model_copy(update={"points": (boot.points[0].model_copy(update={"requests": requests}),)})

    boots = build.edited(record, arm="off", number=2, edit=blind).boots_of("off")

    found = _values(boots, record.profile, at=1)
    assert "first_text_p50" not in found
    assert len(found["ttft_p50"]) == 2
    assert _values(boots, record.profile, at=8) == {}


def _died(boot: BootRecord) -> BootRecord:
    return boot.model_copy(update={"failure": Failure(reason="server-died", message="the server left"), "points": ()})


def _forgot_a_point(boot: BootRecord) -> BootRecord:
    return boot.model_copy(update={"points": boot.points[:1]})


def _lost_a_request(boot: BootRecord) -> BootRecord:
    first, *others = boot.points
    return boot.model_copy(update={"points": (first.model_copy(update={"requests": first.requests[1:]}), *others)})


def _moved(boot: BootRecord) -> BootRecord:
    return boot.model_copy(update={"host_before": {"cpu_model": "another"}, "host_after": {"cpu_model": "another"}})


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (_died, "the server left"),
        (_forgot_a_point, "arm off, round 2: c=8 was not measured"),
        (_lost_a_request, "arm off at c=1: 9 of 10 requests completed"),
        (_moved, "the machine changed between off, round 1, and off, round 2"),
    ],
)
def test_windows_that_must_not_be_read(build: type[Build], edit: Any, *, words: str) -> None:
    """A boot that failed, a point that must not be judged, or another machine makes no calibration."""
    record = build.edited(_measured(build, 1.0, 1.0), arm="off", number=2, edit=edit)

    with pytest.raises(InvalidError) as caught:
        window_of(build.arm(), record)

    assert str(caught.value).startswith(f"no calibration of off: {words}")


def test_the_first_problem_is_told(build: type[Build]) -> None:
    """Of a boot that failed and another that was cut short, the earlier one is named."""
    record = build.edited(_measured(build, 1.0, 1.0), arm="off", number=2, edit=_forgot_a_point)
    record = build.edited(record, arm="off", number=1, edit=_died)

    with pytest.raises(InvalidError, match=r"^no calibration of off: the server left$"):
        window_of(build.arm(), record)
