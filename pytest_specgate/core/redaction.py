"""Cuts secrets out of what is stored and shown: known by the name they stand under, or by their own form."""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pydantic import JsonValue

    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.profile import RequestProfile

REDACTED: Final = "[redacted]"

_SECRET_NAME = re.compile(
    r"(?i)secret|password|passwd|credential|authorization$|(api|access|private|auth)[-_]?(key|token)s?$"
    r"|(^|[-_])(auth|token|pass|pwd)$|^tokens$|(bearer|hf|refresh|session)[-_]?tokens$|(?-i:_KEY)$"
)
_SECRET_FORM = re.compile(
    r"(?i)\bhf_[a-z0-9]{16,}|\bsk-[a-z0-9_-]{16,}|(?<=bearer )[\w.~+/=-]{8,}|(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"
)
_SECRET_PLACE = re.compile(
    r"""(?ix)
    ( (?<![\w-]) [\w-]* (?: api[-_]?keys? | [-_]token | \btoken (?==)        # the name
               | password | passwd | [-_]pass | [-_]pwd | secret (?:[-_]key)? )
      ['"]?+ (?: \s*+[=:]\s*+ | (?<=\w)\s++ (?=\S) ) \[?+ ['"]?+             # what joins the two
      (?! \[?redacted\] | - | none\b | null\b | (?<!['"]) \d[\d.e+-]*[,}] ) )     # a JSON number is no secret
    ( [^\s'",&\]]+ )                                                         # the value
    """
)


def redacted(value: JsonValue, *, name: str = "") -> JsonValue:
    """Return a value without secrets: texts whose name gives them away, and those recognised by their form.

    Numbers stay: names such as ``long_prefill_token_threshold`` are no secrets' names, and no secret is a number.
    """
    if isinstance(value, dict):
        return {key: redacted(item, name=name if _secret(name) else key) for key, item in value.items()}
    if isinstance(value, list):
        return [redacted(item, name=name) for item in value]
    if not isinstance(value, str):
        return value
    return REDACTED if _secret(name) else redacted_text(value)


def _secret(name: str) -> bool:
    """Whether a name is a secret's, or a path that leads through one: ``headers.api_key[0]``, ``auth.value``."""
    return any(_SECRET_NAME.search(part) for part in re.split(r"[.\[\]]", name))


def redacted_text(text: str) -> str:
    """Return text without access tokens, bearer values, passwords in addresses, and values of secret settings."""
    return _SECRET_PLACE.sub(rf"\1{REDACTED}", _SECRET_FORM.sub(REDACTED, text))


def redacted_arm(arm: Arm) -> Arm:
    """Return an arm without secrets in its arguments and environment, and in the address of its model."""
    args = {name: redacted(value, name=name) for name, value in arm.args.items()}
    env = {name: str(redacted(value, name=name)) for name, value in arm.env.items()}
    return dataclasses.replace(arm, model=redacted_text(arm.model), args=args, env=env)


def redacted_profile(profile: RequestProfile) -> RequestProfile:
    """Return a profile without secrets in its extra body and its endpoint."""
    extra = {name: redacted(value, name=name) for name, value in profile.extra_body.items()}
    endpoint = None if profile.endpoint is None else redacted_text(profile.endpoint)
    return dataclasses.replace(profile, extra_body=extra, endpoint=endpoint)


def secrets_of(arm: Arm) -> tuple[str, ...]:
    """Return the secret texts of an arm, longest first, so that they can be cut out of what its server prints."""
    found = secrets_in(arm.args) | secrets_in(dict(arm.env))
    return tuple(sorted(found, key=lambda text: (-len(text), text)))


def secrets_in(value: JsonValue, *, name: str = "") -> set[str]:
    """Return the texts that stand under a secret's name in a value; empty ones are none."""
    if isinstance(value, dict):
        parts = (secrets_in(item, name=name if _secret(name) else key) for key, item in value.items())
        return set().union(*parts)
    if isinstance(value, list):
        return set().union(*(secrets_in(item, name=name) for item in value))
    return {value} if isinstance(value, str) and value and _secret(name) else set()
