"""Reasons why a boot or a point cannot be judged, whatever its figures are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specgate.core import counters
from pytest_specgate.core.errors import ScrapeError
from pytest_specgate.core.profile import same
from pytest_specgate.core.records import Failure

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.counters import CounterPage
    from pytest_specgate.core.profile import RequestProfile
    from pytest_specgate.core.records import BootRecord, PointRecord

NOT_AS_DECLARED = "arm-not-as-declared"


def unproved(arm: Arm, *, speculative_config: JsonValue, page: CounterPage, model: str) -> Failure | None:
    """Say why a fresh server is not the arm that was declared, `None` if it is.

    Args:
        arm: the declaration.
        speculative_config: what the server resolved, from ``/server_info``; `None` means that speculation is off.
        page: counters before any traffic.
        model: name under which the model should be served.
    """
    if not isinstance(speculative_config, dict | None):
        return Failure(
            reason=NOT_AS_DECLARED,
            message=f"arm {arm.name}: the server says of its speculation only {speculative_config!r}",
        )
    resolved, problem = speculative_config, None
    if strangers := page.models() - {model}:
        problem = f"the server counts for model {', '.join(sorted(strangers))}, not for {model}"
    elif arm.speculates:
        problem = _speculation_unproved(arm, resolved, positions=len(page.speculation))
    elif resolved is not None or page.speculation:
        problem = (
            f"no speculation is declared, but the server runs it: {page.speculation if resolved is None else resolved}"
        )
    return Failure(reason=NOT_AS_DECLARED, message=f"arm {arm.name}: {problem}") if problem else None


def _speculation_unproved(arm: Arm, resolved: dict[str, JsonValue] | None, *, positions: int) -> str | None:
    """Compare what an arm declares of its speculation with what the server resolved and counts."""
    declared = arm.args["speculative_config"]
    if resolved is None:
        return "speculation is declared, but the server resolved none"
    for name, value in declared.items() if isinstance(declared, dict) else ():
        # A path to a draft model may be spelt anew; everything else is kept as given.
        if name != "model" and name in resolved and not same(_plain(name, value), _plain(name, resolved[name])):
            return f"{name}={value} is declared, but the server resolved {name}={resolved[name]}"
    k = resolved.get("num_speculative_tokens")
    return None if k == positions else f"the server resolved k={k}, but counts {positions} draft positions"


def _plain(name: str, value: JsonValue) -> JsonValue:
    """Return a value under the one name that vLLM keeps of several: ``[ngram]``, ``deepseek_mtp``."""
    if name != "method" or not isinstance(value, str):
        return value
    return "mtp" if value.endswith("mtp") else value.strip("[]")


def boot_problem(arm: Arm, boot: BootRecord, profile: RequestProfile) -> Failure | None:
    """Return the first reason why a boot cannot be judged at all, `None` if there is none."""
    if boot.failure is not None:
        return boot.failure
    missing = [at for at in profile.points if boot.point(at) is None]
    if missing:
        points = ", ".join(f"c={at}" for at in missing)
        return Failure(reason="not-measured", message=f"arm {arm.name}, round {boot.round}: {points} was not measured")
    return None


def point_problem(arm: Arm, point: PointRecord, profile: RequestProfile) -> Failure | None:
    """Return the first reason why a point cannot be judged, `None` if there is none."""
    try:
        return next(_point_problems(arm, point, profile), None)
    except ScrapeError as error:
        return Failure(reason="counters-unreadable", message=_at(arm, point, str(error)))


def _point_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    asked = profile.requests[point.concurrency]
    if point.failed:
        first = point.failed[0]
        text = f"{len(point.failed)} of {asked} requests failed, the first with: {first.error}"
        yield Failure(reason="failed-requests", message=_at(arm, point, text))
    if len(point.completed) < asked:
        text = f"{len(point.completed)} of {asked} requests completed"
        yield Failure(reason="too-few-requests", message=_at(arm, point, text))
    yield from _length_problems(arm, point, profile)
    yield from _count_problems(arm, point)
    yield from _speculation_problems(arm, point)


def _length_problems(arm: Arm, point: PointRecord, profile: RequestProfile) -> Iterator[Failure]:
    """Check what every answer must have: a token count and, where the end token is ignored, the length asked for."""
    uncounted = [request.index for request in point.completed if request.output_tokens is None]
    if uncounted:
        text = f"the server sent no usage for {len(uncounted)} requests, so their tokens are unknown"
        yield Failure(reason="no-usage", message=_at(arm, point, text))
    other = [request for request in point.completed if request.output_tokens != profile.output_tokens]
    if profile.ignore_eos and other:
        text = f"request {other[0].index} ended after {other[0].output_tokens} of {profile.output_tokens} output tokens"
        yield Failure(reason="output-lengths", message=_at(arm, point, text))


def _count_problems(arm: Arm, point: PointRecord) -> Iterator[Failure]:
    """Reconcile the server's counts with the client's: more on the server's side is somebody else's traffic."""
    finished = point.counters.finished()
    ended_badly = {reason: count for reason, count in finished.items() if reason in {"abort", "error"}}
    if ended_badly:
        yield Failure(reason="aborted-requests", message=_at(arm, point, f"the server ended requests by {ended_badly}"))
    ours = sum(request.output_tokens or 0 for request in point.completed)
    theirs = int(point.counters.total(counters.GENERATION_TOKENS))
    if theirs != ours:
        text = f"the server generated {theirs} tokens, our requests received {ours}"
        yield Failure(reason="foreign-traffic" if theirs > ours else "counter-mismatch", message=_at(arm, point, text))


def _speculation_problems(arm: Arm, point: PointRecord) -> Iterator[Failure]:
    speculation = point.counters.speculation()
    if not arm.speculates or speculation is None:
        if arm.speculates:
            yield Failure(reason=NOT_AS_DECLARED, message=_at(arm, point, "the server has no speculation counters"))
        return
    if speculation.drafts == 0:
        yield Failure(reason="speculation-inactive", message=_at(arm, point, "speculation did not run: 0 drafts"))
    broken = speculation.broken_identities()
    if broken:
        yield Failure(reason="counter-identity", message=_at(arm, point, f"impossible counters: {'; '.join(broken)}"))


def _at(arm: Arm, point: PointRecord, text: str) -> str:
    return f"arm {arm.name} at c={point.concurrency}: {text}"
