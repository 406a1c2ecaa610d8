"""Identity of the request profile: is what was put on both arms, and what came back, the same, field by field?"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from pytest_specgate.core.levels import level_id
from pytest_specgate.core.profile import same, sha256_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.profile import ProfileFields
    from pytest_specgate.core.records import BootRecord, PointRecord, RequestRecord

UNSET: Final = "(unset)"
OF_ONE_BOOT: Final = "request profile: of one boot, which is compared with none"

_TOKENIZER = (
    "let both arms load the same tokenizer files: check tokenizer, tokenizer_mode and tokenizer_revision in args"
)
_TEMPLATE = "let both arms use the same chat template: check chat_template in args, and the model folder's own"
_ONE_WINDOW = "measure both arms in one window, with one RequestProfile: this record mixes two loads"

REMEDIES: Final = {
    "observed_prompt_tokens": (
        "the arms read the same bodies as other tokens: compare their tokenizers, chat templates and special tokens "
        "(tokenizer, chat_template in args)"
    ),
    "observed_output_tokens": (
        "answers of other lengths are other work: set ignore_eos=True in the profile, and look for a limit that one "
        "arm has alone (max_model_len, a stop string)"
    ),
    "observed_finish_reasons": (
        "answers ended for other reasons: set ignore_eos=True in the profile, leave out stop strings, and give both "
        "arms the same max_model_len"
    ),
    "prompt_set_sha256": (
        "one arm was sent other prompts: run the window again in one go; if it comes back, report it, for prompts are "
        "made once a window"
    ),
    "warmup_prompts_sha256": "the arms were warmed up with other prompts: run the window again in one go",
    "arrivals_sha256": "requests arrived on another schedule: measure both arms in one window",
    "client_processes": "another number of client processes sent the load: fix client_processes in the profile",
    "client_version": "the load client was updated in between: measure both arms with one pytest-specgate",
    "metric_definition_version": "figures were defined otherwise: measure both arms with one pytest-specgate",
    "tokenizer_sha256": _TOKENIZER,
    "chat_template_sha256": _TEMPLATE,
    "prompt_source_sha256": "the source of the prompts was edited in between: measure both arms with one version",
    "model": "both arms of a pair serve one model: another model needs other prompts, and a window of its own",
    "revision": "both arms of a pair serve one revision of the model: set revision alike in their args",
}
"""What to do about a field that differs, by the field's name before its point."""


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """One field that is not the same everywhere.

    Attributes:
        field: its name.
        left_boot: the boot it is compared with, as ``off, round 1``.
        left: the value there.
        right_boot: the first boot that disagrees.
        right: the value there.
    """

    field: str
    left_boot: str
    left: JsonValue
    right_boot: str
    right: JsonValue

    @property
    def remedy(self) -> str:
        """What to do about it."""
        return REMEDIES.get(self.field.partition(".")[0], _ONE_WINDOW)


@dataclasses.dataclass(frozen=True, slots=True)
class IdentityReport:
    """Result of the comparison of all boots of a pair.

    Attributes:
        fields: number of fields that were compared; 0 where nothing was.
        differences: one for each field that is not the same everywhere.
        alone: whether one boot of one arm is all there is.
    """

    fields: int
    differences: tuple[Difference, ...]
    alone: bool = False

    @property
    def identical(self) -> bool:
        """Whether there was something to compare and all of it agreed."""
        return self.fields > 0 and not self.differences

    @property
    def sentence(self) -> str:
        """The line that every report starts with; of nothing it is not said that nothing of it agreed."""
        if not self.fields:
            return OF_ONE_BOOT if self.alone else "request profile: not compared"
        return f"request profile: {self.fields - len(self.differences)} of {self.fields} fields identical"


def sent_hash(requests: Sequence[RequestRecord]) -> str:
    """Return the hash of some requests as the client sent them: their bodies, in sending order."""
    return sha256_of([request.body_sha256 for request in requests])


def observed_fields(points: Sequence[PointRecord]) -> ProfileFields:
    """Return what was sent at each point, and what the server made of it, request by request."""
    fields: ProfileFields = {}
    for point in points:
        at = level_id(point.at)
        fields[f"prompt_set_sha256.{at}"] = sent_hash(point.requests)
        fields[f"observed_prompt_tokens.{at}"] = [request.prompt_tokens for request in point.requests]
        fields[f"observed_output_tokens.{at}"] = [request.output_tokens for request in point.requests]
        fields[f"observed_finish_reasons.{at}"] = [request.finish_reason for request in point.requests]
        fields[f"arrivals_sha256.{at}"] = _arrivals(point)
        fields[f"client_processes.{at}"] = point.client.processes
    return fields


def _arrivals(point: PointRecord) -> JsonValue:
    """Return the hash of the schedule of an open loop; `None` in a closed loop, which has none."""
    due: list[JsonValue] = [request.due_s for request in point.requests]
    return None if None in due else sha256_of(due)


def compare(boots: Sequence[BootRecord], *, arms: int = 2) -> IdentityReport:
    """Compare the request profiles of some boots with that of the first.

    Boots that failed carry no complete profile and are left out: they are invalid for a reason of their own.

    Args:
        boots: of a pair, or of one arm.
        arms: of how many arms they must be for anything to be compared.
    """
    usable = [boot for boot in boots if boot.failure is None]
    if len(usable) < 2 or len({boot.arm for boot in usable}) < arms:
        return IdentityReport(0, (), alone=arms == len(usable) == 1)
    first, *others = usable
    names = list(dict.fromkeys(name for boot in usable for name in boot.profile))
    differences = [found for name in names if (found := _difference(name, first, others)) is not None]
    return IdentityReport(len(names), tuple(differences))


def _difference(name: str, first: BootRecord, others: Sequence[BootRecord]) -> Difference | None:
    left = first.profile.get(name, UNSET)
    for boot in others:
        right = boot.profile.get(name, UNSET)
        if (name in first.profile) != (name in boot.profile) or not same(left, right):
            return Difference(name, _label(first), left, _label(boot), right)
    return None


def _label(boot: BootRecord) -> str:
    return f"{boot.arm}, round {boot.round}"


def shortened(left: object, right: object, *, width: int = 72) -> tuple[str, str]:
    """Return two values as text, cut around the place where they begin to differ."""
    texts = [str(value) for value in (left, right)]
    if max(map(len, texts)) <= width:
        return texts[0], texts[1]
    same = next((i for i, (a, b) in enumerate(zip(*texts, strict=False)) if a != b), min(map(len, texts)))
    start = max(0, same - width // 2)
    cut = [
        f"{'...' if start else ''}{text[start : start + width]}{'...' if len(text) > start + width else ''}"
        for text in texts
    ]
    return cut[0], cut[1]
