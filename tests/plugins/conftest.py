"""Gates beside other plugins: each module needs one or more of them, and is skipped visibly where one is missing."""

from __future__ import annotations

from tests.integration.conftest import gate_folder, new_gate_folder

__all__ = ["gate_folder", "new_gate_folder"]
