"""What a window keeps of the earlier runs that it goes on with."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from pytest_specgate.core.stored import Stored


class Continuation(Stored):
    """What an earlier run measured of a window before it died.

    Attributes:
        created_at: wall-clock time of its start, ISO 8601 with zone.
        record: where its record lay.
        record_sha256: of that file.
        rounds: whole rounds that were taken over from it.
    """

    created_at: str
    record: str
    record_sha256: str
    rounds: Annotated[int, Field(ge=1)]
