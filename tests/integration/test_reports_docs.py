"""docs/reports.md: its gate file, its tables and its examples say what is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from pytest_specgate.core import run_reports
from pytest_specgate.names import JOB_SUMMARY
from pytest_specgate.option_table import OPTIONS
from pytest_specgate.reporting.markdown import COMMENT_BYTES, headline, markdown
from pytest_specgate.reporting.session_report import SessionReport

_PAGE: Final = (Path(__file__).parents[2] / "docs" / "reports.md").read_text(encoding="utf-8")


def test_the_gate_file_of_the_page_is_one() -> None:
    """Its arms, its load and its claims are accepted."""
    names: dict[str, Any] = {}
    exec(re.findall(r"```python\n(.*?)```", _PAGE, re.DOTALL)[0], names)

    assert {"test_k4", "test_at_once"} <= set(names)


@pytest.mark.parametrize("name", ["json", "markdown", "html", "report_key"])
def test_the_table_has_the_names_of_each_option(name: str) -> None:
    """Flag, variable and ini name stand in one row."""
    option = next(one for one in OPTIONS if one.name == name)

    assert re.search(
        rf"^\| `{option.flag}={option.metavar}` \| `{option.variable}` \| `{option.ini}` \| ", _PAGE, re.MULTILINE
    )


def test_the_table_of_the_json_has_every_key() -> None:
    """Nothing is missing in it, and nothing is in it that a report has not."""
    table = _PAGE.partition("| key | what |")[2].partition("\n\n")[0]
    names = {
        name for row in table.splitlines() for name in re.findall(r"`([a-z_]+)", row.partition("|")[2].split("|")[0])
    }

    assert names == set(run_reports.RunReport.model_fields)


def test_the_filters_name_keys_that_exist() -> None:
    """A renamed key would leave a filter that finds nothing, and says nothing."""
    known = {
        name for model in vars(run_reports).values() if hasattr(model, "model_fields") for name in model.model_fields
    }
    used = {
        name
        for line in re.findall(r"^\$ jq .*'(.*)'", _PAGE, re.MULTILINE)
        for name in re.findall(r"\.([a-z_0-9]+)", line)
    }

    assert used - known == {"c4", "ttft_p50_s"}


def test_the_markdown_is_of_today() -> None:
    """First line, head of the table and the limit of a comment are as they are written."""
    nothing = SessionReport((), exit_status=0)
    head = "| claim | outcome | change | interval | margin | load | test |"

    assert f"````markdown\n{markdown(nothing).splitlines()[0]}\n### specgate: " in _PAGE
    assert head in _PAGE
    assert f"this text may have {COMMENT_BYTES} bytes" in _PAGE
    assert f"`{headline(nothing)}`" in _PAGE
    assert f"`{JOB_SUMMARY}`" in _PAGE
