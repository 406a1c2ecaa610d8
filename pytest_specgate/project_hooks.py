"""What the hooks of a project say: asked when it is needed, checked, and put into one sentence where it is wrong."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import functools
import sys
import traceback
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pydantic import JsonValue

    from pytest_specgate.core.added_metrics import AddedMetric, MetricFunctions
    from pytest_specgate.core.arms import Arm
    from pytest_specgate.core.ports import ChangedCommand

ADDED_KEY: Final = pytest.StashKey[dict[str, "AddedMetric"]]()
PORT: Final = "{port}"
"""Stands for the port in the commands that hooks see and give."""

_LONGEST: Final = 300


@dataclasses.dataclass(frozen=True, slots=True)
class ProjectHooks:
    """What a project says of how its gates are measured.

    Attributes:
        added: metrics that it adds to the table.
        change: changes the command that starts the server of an arm; `None` leaves it as it is.
        changes: whether anybody is asked for `change`.
        vetoes: returns why nothing is to be measured on a machine, by its facts, which are only read if anybody asks.
    """

    added: MetricFunctions
    change: Callable[[Arm, Sequence[str]], ChangedCommand | None]
    vetoes: Callable[[Callable[[], Mapping[str, JsonValue]]], tuple[str, ...]]
    changes: bool = False


def hooks_of(config: pytest.Config) -> ProjectHooks:
    """Return the hooks of a session as what measures needs them; each arm, and the machine, is asked about once."""
    from pytest_specgate.core.added_metrics import MetricFunctions  # noqa: PLC0415  - only gates pay for it

    known: dict[tuple[str, ...], ChangedCommand | None] = {}

    def change(arm: Arm, command: Sequence[str]) -> ChangedCommand | None:
        key = (arm.key, *command)
        if key not in known:
            known[key] = _changed(config, arm, command)
        return known[key]

    added = MetricFunctions(tuple((config.stash.get(ADDED_KEY, None) or {}).values()))
    changes = bool(config.hook.pytest_specgate_engine_command.get_hookimpls())
    return ProjectHooks(added, change, functools.partial(_vetoes, config), changes)


def no_hooks() -> ProjectHooks:
    """Return the hooks of a project that has none."""
    from pytest_specgate.core.added_metrics import MetricFunctions  # noqa: PLC0415  - likewise

    return ProjectHooks(MetricFunctions(), lambda _, __: None, lambda _: ())


def take_metrics(config: pytest.Config) -> None:
    """Know the metrics that plugins add, until the session ends; those of a plugin that comes later from then on.

    Raises:
        pytest.UsageError: one of them cannot be added.
    """
    stack = contextlib.ExitStack()
    config.add_cleanup(stack.close)
    if (metrics := sys.modules.get("pytest_specgate.core.metrics")) is not None:
        # In the process of another run, whose metrics are none of this one's.
        stack.enter_context(metrics.with_added(()))
    # Historic: it hears of the plugins that are there first, then of each that comes.
    try:
        config.pluginmanager.register(_Metrics(config, stack), "specgate-metrics")
    except pytest.Collector.CollectError as error:
        raise pytest.UsageError(str(error)) from None


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class _Metrics:
    """A plugin that asks each plugin for its metrics when it is registered: a conftest.py below comes late."""

    config: pytest.Config
    stack: contextlib.ExitStack

    @pytest.hookimpl
    def pytest_plugin_registered(self, plugin: object, manager: pytest.PytestPluginManager) -> None:
        """Know what a plugin adds."""
        found = self.config.hook.pytest_specgate_metrics.get_hookimpls()
        by = f"pytest_specgate_metrics of {_name(self.config, manager.get_name(plugin) or '')}"
        for own in (one for one in found if one.plugin is plugin and not (one.wrapper or one.hookwrapper)):
            with _one_sentence(by, self.config):
                # As pytest calls it: with the arguments that it names, of which there is one.
                given = own.function(*(self.config for _ in own.argnames))
                if given is not None:
                    _know(self.config, self.stack, given)


def _know(config: pytest.Config, stack: contextlib.ExitStack, given: object) -> None:
    from pytest_specgate.core.added_metrics import together  # noqa: PLC0415  - only who adds one pays for it
    from pytest_specgate.core.errors import UsageError  # noqa: PLC0415  - likewise
    from pytest_specgate.core.metrics import with_added  # noqa: PLC0415  - likewise

    if not isinstance(given, list | tuple):
        raise UsageError(f"pytest_specgate_metrics returns a list of AddedMetric(...), got {type(given).__name__}")
    known = config.stash.get(ADDED_KEY, None) or {}
    added = config.stash[ADDED_KEY] = together(known, given)
    stack.enter_context(with_added(one.definition for one in added.values()))


@contextlib.contextmanager
def _one_sentence(by: str, config: pytest.Config) -> Iterator[None]:
    """Put a mistake in what a hook says into one sentence that names whose it is.

    Raises:
        pytest.Collector.CollectError: there is one; pytest shows its sentence and nothing else.
    """
    try:
        with _answered():
            yield
    except _FailedError as failed:
        from pytest_specgate.core.errors import SpecgateError  # noqa: PLC0415  - only mistakes pay for it

        error = failed.error
        text = f": {error}" if isinstance(error, SpecgateError) else f" failed{_place(config, error)}: {_said(error)}"
        raise pytest.Collector.CollectError(f"{by}{text}") from None


class _FailedError(Exception):
    """What a hook has raised, whatever it is: pytest.skip() in there must not skip a gate, or end in a traceback."""

    def __init__(self, error: BaseException) -> None:
        super().__init__(str(error))
        self.error = error


@contextlib.contextmanager
def _answered() -> Iterator[None]:
    """Turn whatever a hook raises into one error, but for what ends the run."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001  - see the error
        raise _FailedError(error) from None


def _place(config: pytest.Config, error: BaseException) -> str:
    """Return where in the project something was raised: `` at conftest.py:3``; empty where it is not known."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [frame for frame in frames if frame.filename.startswith(f"{config.rootpath}/")]
    return f" at {_name(config, places[-1].filename)}:{places[-1].lineno}" if places else ""


def _by(config: pytest.Config, hook: str) -> str:
    """Return a hook with the plugins that implement it: ``pytest_specgate_verdict of conftest.py``."""
    names = [_name(config, implementation.plugin_name) for implementation in getattr(config.hook, hook).get_hookimpls()]
    return f"{hook} of {' or '.join(names)}"


def _name(config: pytest.Config, plugin: str) -> str:
    """Return the name of a plugin; a conftest.py is called by its path."""
    return plugin.removeprefix(f"{config.rootpath}/")


def _changed(config: pytest.Config, arm: Arm, command: Sequence[str]) -> ChangedCommand | None:
    """Ask what is started instead of a command.

    Raises:
        UsageError: it cannot be told, or is no command.
    """
    hook = config.hook.pytest_specgate_engine_command
    if not hook.get_hookimpls():
        return None
    from pytest_specgate.core.errors import UsageError  # noqa: PLC0415  - only who changes one pays for it
    from pytest_specgate.core.ports import ChangedCommand  # noqa: PLC0415  - likewise

    by = _by(config, "pytest_specgate_engine_command")
    try:
        with _answered():
            found: Any = hook(config=config, arm=copy.deepcopy(arm), command=tuple(command))
    except _FailedError as failed:
        raise UsageError(f"{by} failed for arm {arm.name}: {_said(failed.error)}") from None
    if found is not None and (problem := _no_command(found)):
        raise UsageError(f"{by} returned {problem} for arm {arm.name}")
    return None if found is None or list(found) == list(command) else ChangedCommand(tuple(found), by)


def _no_command(found: Any) -> str:
    """Say what is wrong with a command, empty where nothing is."""
    if not isinstance(found, list | tuple):
        return f"a {type(found).__name__}, and a list of words is wanted,"
    strange = [type(word).__name__ for word in found if not isinstance(word, str)]
    if strange:
        return f"a list with a {strange[0]} in it, and every word of a command is text,"
    if not found or not found[0].strip():
        return "a command without a program"
    if any("\0" in word for word in found):
        return "a command with a zero byte in it"
    if not any(PORT in word for word in found):
        return f"a command without {PORT}, on which nobody could find the server,"
    return ""


def _vetoes(config: pytest.Config, facts: Callable[[], Mapping[str, JsonValue]]) -> tuple[str, ...]:
    """Return why nothing is to be measured here; a hook that does not tell is a reason, too."""
    hook = config.hook.pytest_specgate_veto_host
    if not hook.get_hookimpls():
        return ()
    by = _by(config, "pytest_specgate_veto_host")
    try:
        with _answered():
            answers: list[Any] = hook(config=config, facts=copy.deepcopy(dict(facts())))
    except _FailedError as failed:
        return (f"{by} failed: {_said(failed.error)}",)
    return tuple(_reason(answer, by) for answer in answers)


def _reason(answer: Any, by: str) -> str:
    if isinstance(answer, str) and answer.strip():
        return _line(answer)
    return f"{by} returned {_line(repr(answer))}, and a sentence or None is wanted"


def call_verdict_hook(item: pytest.Item, **told: Any) -> str:
    """Hand a verdict to the project, and return what went wrong there as a sentence; empty where nothing did.

    Args:
        item: that was judged.
        told: arguments of the hook.
    """
    if not item.config.hook.pytest_specgate_verdict.get_hookimpls():
        return ""
    try:
        with _answered():
            item.ihook.pytest_specgate_verdict(config=item.config, **told)
    except _FailedError as failed:
        by = _by(item.config, "pytest_specgate_verdict")
        return f"{by} failed, and the verdict of {item.nodeid} stays as it is: {_said(failed.error)}"
    return ""


def _said(error: BaseException) -> str:
    return _line(f"{type(error).__name__}: {error}")


def _line(text: str) -> str:
    """Return text as one line without secrets, and without halves of characters, which no file can hold."""
    from pytest_specgate.core.redaction import redacted_text  # noqa: PLC0415  - only who says something pays for it

    whole = text.encode("utf-8", "backslashreplace").decode()
    return redacted_text(" ".join(whole.split()))[:_LONGEST]
