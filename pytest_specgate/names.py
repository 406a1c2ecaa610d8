"""Names that are part of the public surface: marks, fixtures, junit properties."""

from __future__ import annotations

from typing import Final

GATE_MARK: Final = "specgate"
PAIRS_MARK: Final = "specgate_pairs"
THRESHOLD_FIXTURE: Final = "specgate_threshold"
WINDOW_FIXTURE: Final = "specgate_window"
SERVER_FIXTURE: Final = "vllm_server"
OUTCOME_PROPERTY: Final = "specgate_outcome"
EXPECTED_PROPERTY: Final = "specgate_expected"
