"""`specgate probe`: how much of what one speculative arm drafts is accepted, measured without a gate file."""

from __future__ import annotations

import argparse
import functools
import json
import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pytest_specgate.cli.command import Command, say
from pytest_specgate.core.errors import UsageError
from pytest_specgate.names import JOB_SUMMARY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specgate.cli.probe_file import GateFile
    from pytest_specgate.cli.probe_result import ProbeRun
    from pytest_specgate.core.probes import AcceptanceProbe

_K: Final = "num_speculative_tokens"
_PER_REQUEST: Final = "per_request_spec_decode_metrics"
_OUTPUT_TOKENS: Final = 256
_RESULTS: Final = "specgate-results"
_OWN: Final = {
    "--specgate-results": "--results",
    "--specgate-json": "--json",
    "--specgate-attach": "--attach",
    "--specgate-rounds": "--boots",
}
"""Options of the plugin that this command gives itself, and what they are called here."""

_ALONE: Final = ("-p", "no:cacheprovider", "-p", "no:benchmark", "--color=no")
"""Options of pytest with which it leaves nothing in the folder that it runs in."""

_HIDDEN: Final = (
    "PYTEST_", "SPECGATE_ATTACH", "SPECGATE_REQUIRE_GATES", "SPECGATE_RESULTS", "SPECGATE_ROUNDS", JOB_SUMMARY,
)  # fmt: skip
"""Beginnings of variables that are meant for the user's own gates; all others hold here, too."""


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    _add_arm(parser)
    _add_load(parser)
    parser.add_argument("--boots", metavar="N", type=int, help="of the arm (default: 2; 1 with --attach)")
    parser.add_argument(
        "--at-least", metavar="METRIC=LIMIT", nargs="+", action="extend", default=[],
        help="what must be reached in every boot at every load level, as acceptance_length=2.5 or acceptance_rate=60%%;"
        " each boot needs 20 drafts at a level for a figure of acceptance; without a limit nothing is judged",
    )  # fmt: skip
    parser.add_argument("--results", metavar="FOLDER", help=f"for record, logs and gate file (default: {_RESULTS})")
    parser.add_argument(
        "--option", metavar="OPTION", action="append", default=[],
        help="a further option for pytest, as --option=--specgate-start-limit=1800; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--json", action="store_true",
        help="print one JSON object, as `specgate schema acceptance` describes it; shares as fractions; what may not be"
        ' read has "valid": false and no figures',
    )  # fmt: skip


def _add_arm(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", metavar="MODEL", required=True, help="folder or hub id that the engine is given")
    parser.add_argument(
        "--speculative-config", metavar="JSON", required=True,
        help='of vLLM, as \'{"method": "ngram", "num_speculative_tokens": 4}\'',
    )  # fmt: skip
    parser.add_argument("--k", metavar="K", type=int, help=f"draft horizon, in place of {_K} in --speculative-config")
    parser.add_argument(
        "--engine-args", metavar="JSON", default="{}",
        help="further arguments of the engine by their Python names, as '{\"max_model_len\": 4096}'",
    )  # fmt: skip
    parser.add_argument(
        "--env", metavar="NAME=VALUE", nargs="+", action="extend", default=[],
        help="further environment variables of the server; secrets are written into no file",
    )  # fmt: skip
    parser.add_argument(
        "--no-per-request", action="store_true",
        help=f"do not ask the engine what each request drafted ({_PER_REQUEST}), which older ones refuse; intervals are"
        " over boots then",
    )  # fmt: skip
    parser.add_argument("--engine-python", metavar="PATH", help="Python interpreter that has vLLM installed")
    parser.add_argument("--engine-command", metavar="COMMAND", help="what to start instead of its API server")
    parser.add_argument(
        "--attach", metavar="URL",
        help="a server that runs already: it is measured once and left running, and the report says what could not be"
        " proved of it",
    )  # fmt: skip


def _temperature(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is no number: write them apart, as --temperature 0 0.8") from None


def _add_load(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--requests", metavar="LEVEL=N", nargs="+", action="extend", default=[],
        help="number of requests by load level, at each temperature: a concurrency, as 8=32, or an arrival rate, as"
        " 4/s=200 (default: 1=16)",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", metavar="T", type=_temperature, nargs="+", default=[0.0, 0.8],
        help="every load level is measured at each of them; levels of those after the first are called 8 T=0.8"
        " (default: 0 0.8)",
    )  # fmt: skip
    parser.add_argument(
        "--prompts", metavar="SOURCE", default="prose",
        help="prose or code, or a file of your own: .txt or .jsonl (default: prose)",
    )  # fmt: skip
    parser.add_argument(
        "--input-tokens", metavar="N", type=int,
        help="that each prompt is cut to (default: 512; those of a file are sent as they are)",
    )  # fmt: skip
    parser.add_argument(
        "--output-tokens", metavar="N", type=int, default=_OUTPUT_TOKENS,
        help=f"of each answer (default: {_OUTPUT_TOKENS})",
    )  # fmt: skip


def _run(arguments: argparse.Namespace) -> int:
    from pytest_specgate.cli.probe_file import gate_file  # noqa: PLC0415  - see the package's docstring
    from pytest_specgate.cli.probe_request import limits_of, probe_of  # noqa: PLC0415  - likewise
    from pytest_specgate.cli.probe_result import tell_measured, tell_unmeasured  # noqa: PLC0415  - likewise

    for option in arguments.option:
        if (own := _OWN.get(option.partition("=")[0])) is not None:
            raise UsageError(f"--option={option}: this command has {own} for that")
    probe = probe_of(arguments)
    limits = limits_of(arguments, probe)
    options = [*arguments.option, *_engine_options(arguments, probe)]
    again = _safe(shlex.join(options))
    written = gate_file(probe, limits, again=again)
    if not arguments.json:
        boots = "1 boot" if probe.boots == 1 else f"{probe.boots} boots"
        say(f"probe: measuring {boots} of {probe.arm.name}")
    run = _measured(written, options, results=_results(arguments))
    if run.record is None:
        return tell_unmeasured(probe.arm, run, as_json=arguments.json)
    _keep(written.text, beside=run.record)
    return tell_measured(run, as_json=arguments.json, again=again, secrets=tuple(written.secrets))


def _engine_options(arguments: argparse.Namespace, probe: AcceptanceProbe) -> list[str]:
    given = {
        "--specgate-engine-python": arguments.engine_python,
        "--specgate-engine-command": arguments.engine_command,
        "--specgate-attach": f"{probe.arm.name}={arguments.attach}" if arguments.attach else None,
    }
    return [f"{flag}={value}" for flag, value in given.items() if value is not None]


def _results(arguments: argparse.Namespace) -> Path:
    return Path(arguments.results or os.environ.get("SPECGATE_RESULTS") or _RESULTS).absolute()


def _measured(written: GateFile, options: Sequence[str], *, results: Path) -> ProbeRun:
    """Run pytest on a gate file that lies by itself, so that no project's settings steer it."""
    from pytest_specgate.cli.child import listened_pytest  # noqa: PLC0415  - likewise
    from pytest_specgate.cli.probe_file import NAME  # noqa: PLC0415  - likewise
    from pytest_specgate.cli.probe_result import ProbeRun  # noqa: PLC0415  - likewise

    kept = {name: value for name, value in os.environ.items() if not name.startswith(_HIDDEN)}
    # A server that is still being stopped may write while the folder goes.
    with tempfile.TemporaryDirectory(prefix="specgate-probe-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        ini, report = folder / "pytest.ini", folder / "report.json"
        ini.write_text("[pytest]\n", encoding="utf-8")
        (folder / NAME).write_text(written.text, encoding="utf-8")
        place = [f"--rootdir={folder}", f"--config-file={ini}", f"--specgate-results={results}"]
        code, lines = listened_pytest(
            [*_ALONE, *options, *place, f"--specgate-json={report}", str(folder / NAME)],
            folder=Path.cwd(),
            environment={**kept, **written.secrets},
            heard=functools.partial(_heard, secrets=tuple(written.secrets.values())),
        )
        told = json.loads(report.read_text(encoding="utf-8")) if report.exists() else {}
    return ProbeRun(code, lines, told)


def _heard(line: str, *, secrets: Sequence[str]) -> str:
    """Pass on at once how far it is, and cut secrets out of what may be shown at the end."""
    for secret in sorted(secrets, key=len, reverse=True):
        line = line.replace(secret, "[redacted]")
    if line.startswith("specgate: "):
        sys.stderr.write(line + "\n")
        sys.stderr.flush()
    return line


def _safe(text: str) -> str:
    from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - likewise
    from pytest_specgate.reporting.baselines import one_line  # noqa: PLC0415  - likewise

    return one_line(redacted_text(text))


def _keep(text: str, *, beside: Path) -> None:
    from pytest_specgate.adapters.storage import write_atomically  # noqa: PLC0415  - likewise
    from pytest_specgate.cli.probe_file import NAME  # noqa: PLC0415  - likewise

    write_atomically(beside.with_name(NAME), text)


COMMAND = Command(
    name="probe",
    summary="measure how much of what one speculative arm drafts is accepted, without a gate file",
    description="Boot one speculative arm, or take a server that runs (--attach), put it under load at each level and"
    " temperature between two readings of its counters, and show what it accepts: by draft position, with intervals,"
    " and apart from drafts that were shorter than k. The probe is written as a gate file beside the record, without"
    " secrets: keep it, and pytest measures the same again. Settings of a project (its ini file and conftest.py) do not"
    " hold here; the plugin's variables (SPECGATE_START_LIMIT) do, and --option gives any further option. Acceptance"
    " is that of these prompts: take your own. Exit status: 0 shown, and every limit was kept; 1 a limit was broken; 2"
    " wrong usage; 3 something could not be decided, or the window did not run to its end; 4 figures that may not be"
    " read: a server that failed, readings without traffic, an arm that drafted nothing.",
    add_arguments=_add_arguments,
    run=_run,
    example='specgate probe --model MODEL --speculative-config \'{"method": "ngram"}\' --k 4 --requests 1=16 8=32',
)
