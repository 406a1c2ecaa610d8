"""Names that are part of the public surface: marks, fixtures, junit properties."""

from __future__ import annotations

from typing import Final

GATE_MARK: Final = "specgate"
PAIRS_MARK: Final = "specgate_pairs"
THRESHOLD_FIXTURE: Final = "specgate_threshold"
WINDOW_FIXTURE: Final = "specgate_window"
SERVER_FIXTURE: Final = "vllm_server"
OUTCOME_PROPERTY: Final = "specgate_outcome"
REASON_PROPERTY: Final = "specgate_reason"
EXPECTED_PROPERTY: Final = "specgate_expected"
RUNS_PROPERTY: Final = "specgate_test_runs"
JOB_SUMMARY: Final = "GITHUB_STEP_SUMMARY"
"""Variable that names the file with the summary of a job's step."""
REPORT_KEY: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._]|-(?!-)){0,63}"
"""What may tell one Markdown report from others: it stands in an HTML comment, which it must not end."""
