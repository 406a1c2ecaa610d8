"""What every stored thing has in common, and why something measured cannot be used."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Stored(BaseModel):
    """Base of everything that is stored: frozen, nothing unknown, no NaN, nothing invented for what is missing."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class Failure(Stored):
    """Why something that was measured cannot be used.

    Attributes:
        reason: code, such as ``server-died``.
        message: one sentence.
        detail: further lines, such as the end of the server's log.
    """

    reason: str
    message: str
    detail: str = ""
