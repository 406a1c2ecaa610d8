"""`specgate counters`: what two metrics pages say of the traffic between them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.cli.command import EXIT_INVALID, EXIT_OK, Command, read_text, say
from pytest_specgate.cli.horizon_arguments import horizon
from pytest_specgate.core.errors import ScrapeError, UsageError

if TYPE_CHECKING:
    import argparse

    from pytest_specgate.core.counters import CounterPage


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("before", metavar="BEFORE", type=Path, help="text of /metrics before the traffic")
    parser.add_argument("after", metavar="AFTER", type=Path, help="text of /metrics after it, of the same server")
    parser.add_argument("--k", type=horizon, metavar="K", help="draft horizon that the counters must show")
    parser.add_argument("--model", metavar="NAME", help="served model name that the counters must carry")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object; times in seconds, shares as fractions"
    )


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.core.analysis import analyse_counters  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.reporting.offline import counter_lines  # noqa: PLC0415  - likewise

    before, after = _page(arguments.before), _page(arguments.after)
    _check_models(before, after, expected=arguments.model)
    found = analyse_counters(before, after, k=arguments.k)
    say(found.model_dump_json(indent=2) if arguments.json else "\n".join(counter_lines(found)))
    return EXIT_OK if found.valid else EXIT_INVALID


def _page(path: Path) -> CounterPage:
    from pytest_specgate.adapters.scrape import parse_page  # noqa: PLC0415  - likewise

    try:
        return parse_page(read_text(path))
    except ScrapeError as error:
        raise UsageError(f"{path}: {error}") from error


def _check_models(before: CounterPage, after: CounterPage, *, expected: str | None) -> None:
    """Refuse pages of two servers, or of another one than was meant."""
    names = [", ".join(sorted(page.models())) for page in (before, after)]
    if names[0] != names[1]:
        raise UsageError(f"the pages count for two models, {names[0]} and {names[1]}: take both from one server")
    if expected is not None and names[1] != expected:
        raise UsageError(f"the pages count for model {names[1]}, not for {expected}")


COMMAND = Command(
    name="counters",
    summary="what two /metrics pages say of the traffic between them: tokens per step, acceptance by position",
    description="Subtract two pages of a vLLM server's /metrics, taken before and after some traffic, sum over engines,"
    " check the identities that must hold, and show tokens per decode step, acceptance by draft position and what else"
    " the counters tell. Nothing is shown of pages that contradict themselves. Exit status: 0 shown, 2 wrong usage or a"
    " file that is no such page, 4 the pages contradict themselves or show no traffic.",
    add_arguments=_add_arguments,
    run=_run,
)
