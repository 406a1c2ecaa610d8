"""What tests and benchmarks share: tests that boot real vLLM say so, and are skipped visibly where there is none."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Skip tests marked ``real_vllm`` without vLLM, unless ``SPECGATE_REQUIRE_VLLM`` says that it must be there."""
    if importlib.util.find_spec("vllm") is not None or os.environ.get("SPECGATE_REQUIRE_VLLM"):
        return
    reason = "no vLLM in this environment; run `tox run -e speculation -- tests/e2e`"
    for item in items:
        if item.get_closest_marker("real_vllm") is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
