"""What the hooks of a project answer: checked where it is asked for, and put into one sentence where it is wrong."""

from __future__ import annotations

import inspect
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specgate import hookspecs
from pytest_specgate.core.added_metrics import AddedMetric
from pytest_specgate.core.arms import Arm
from pytest_specgate.core.errors import UsageError
from pytest_specgate.core.metrics import added_definitions
from pytest_specgate.project_hooks import call_verdict_hook, hooks_of, no_hooks, take_metrics

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ARM = Arm("k4", model="tiny", args={"max_model_len": 64})
COMMAND = ("python", "-m", "engine", "--port", "{port}")
METRIC = AddedMetric(name="waits", unit="s", better="lower", formula="x", compute=lambda _: 1.0)


class Project:
    """As much of a pytest session as hooks need: plugins, and a place to keep things."""

    def __init__(self) -> None:
        self.manager = pytest.PytestPluginManager()
        self.manager.add_hookspecs(hookspecs)
        self.cleanups: list[Callable[[], None]] = []
        self.config: Any = SimpleNamespace(
            pluginmanager=self.manager,
            hook=self.manager.hook,
            rootpath=Path("/project"),
            stash=pytest.Stash(),
            add_cleanup=self.cleanups.append,
        )

    def plugin(self, name: str = "/project/conftest.py", **hooks: Any) -> None:
        """Register a plugin with some hooks, named by what follows ``pytest_specgate_``."""
        self.manager.register(SimpleNamespace(**{f"pytest_specgate_{hook}": own for hook, own in hooks.items()}), name)

    def close(self) -> None:
        """End the session."""
        for cleanup in reversed(self.cleanups):
            cleanup()
        self.cleanups.clear()


@pytest.fixture
def project() -> Iterator[Project]:
    """A session, ended after the test."""
    made = Project()
    yield made
    made.close()


class _Skipped(BaseException):
    """As pytest's own outcomes are: no `Exception`."""


def raising(error: BaseException) -> Callable[[], Any]:
    """Return a hook that fails."""

    def fail() -> Any:
        raise error

    return fail


def test_metrics_are_known_until_the_session_ends(project: Project) -> None:
    """Those of a plugin that comes later are known from then on."""
    later = AddedMetric(name="later", unit="s", better="lower", formula="x", compute=lambda _: 1.0)
    project.plugin(metrics=lambda: [METRIC])
    take_metrics(project.config)
    at_first = [one.name for one in added_definitions()]
    project.plugin("/project/perf/conftest.py", metrics=lambda: (later,))
    found, computed = [one.name for one in added_definitions()], hooks_of(project.config).added.added
    project.close()

    assert (at_first, found) == (["waits"], ["waits", "later"])
    assert computed == (METRIC, later)
    assert added_definitions() == ()


def test_a_project_without_hooks_adds_and_changes_nothing(project: Project) -> None:
    """No fact of the machine is read for a veto that nobody has."""
    take_metrics(project.config)
    for found in (hooks_of(project.config), no_hooks()):
        assert found.added.added == ()
        assert found.change(ARM, COMMAND) is None
        assert found.vetoes(raising(AssertionError("facts were read"))) == ()


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (lambda: [METRIC, METRIC], "metric waits is added twice: one name, one metric"),
        (lambda: METRIC, "pytest_specgate_metrics returns a list of AddedMetric(...), got AddedMetric"),
        (lambda: ["waits"], "a metric is added as AddedMetric(...), got str"),
        (raising(UsageError("AddedMetric needs 'better'")), "AddedMetric needs 'better'"),
    ],
    ids=["twice", "no_list", "no_metric", "mistake"],
)
def test_metrics_that_cannot_be_added_stop_the_session(
    project: Project, answer: Callable[[], Any], sentence: str
) -> None:
    """The sentence names the hook and whose it is."""
    project.plugin(metrics=answer)
    with pytest.raises(pytest.UsageError) as caught:
        take_metrics(project.config)

    assert str(caught.value) == f"pytest_specgate_metrics of conftest.py: {sentence}"


@pytest.mark.parametrize("early", [True, False])
def test_a_hook_that_fails_stops_the_session_with_its_place(project: Project, early: bool, tmp_path: Path) -> None:
    """Whoever wrote it needs the line; what is no `Exception` is told as well, early and late."""
    file = tmp_path / "conftest.py"
    file.write_text("import pytest\ndef fail():\n    pytest.fail('not today')\n")
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), file, "exec"), names)
    project.config.rootpath = tmp_path
    if not early:
        take_metrics(project.config)
    with pytest.raises(pytest.UsageError if early else pytest.Collector.CollectError) as caught:  # noqa: PT012  - which of the two lines fails is what is tested
        project.plugin(f"{file}", metrics=names["fail"])
        take_metrics(project.config)

    assert str(caught.value) == "pytest_specgate_metrics of conftest.py failed at conftest.py:3: Failed: not today"


def test_a_session_inside_another_knows_its_own_metrics_only(project: Project) -> None:
    """As where pytest is run by a test of a plugin, in one process; the outer one's are known again after it."""
    project.plugin(metrics=lambda: [METRIC])
    take_metrics(project.config)
    inner = Project()
    take_metrics(inner.config)
    inside = added_definitions()
    inner.close()

    assert inside == ()
    assert [one.name for one in added_definitions()] == ["waits"]


def test_a_command_is_asked_for_once_and_changed(project: Project) -> None:
    """Both what it gets and what it is told of the arm are copies."""
    asked: list[tuple[str, tuple[str, ...]]] = []

    def wrap(arm: Arm, command: tuple[str, ...]) -> list[str]:
        asked.append((arm.name, command))
        arm.args["max_model_len"] = 1
        return ["nice", *command]

    project.plugin(engine_command=wrap)
    change = hooks_of(project.config).change
    found = [change(ARM, COMMAND) for _ in range(3)]

    assert asked == [("k4", COMMAND)]
    assert {one.words for one in found if one is not None} == {("nice", *COMMAND)}
    assert found[0] is not None
    assert found[0].by == "pytest_specgate_engine_command of conftest.py"
    assert ARM.args == {"max_model_len": 64}


def test_the_first_command_counts(project: Project) -> None:
    """As in pytest, the plugin that was registered last is asked first, and `None` leaves it to the next."""
    project.plugin("first", engine_command=lambda command: ["nice", *command])
    project.plugin("second", engine_command=lambda: None)
    found = hooks_of(project.config).change(ARM, COMMAND)

    assert found is not None
    assert found.words == ("nice", *COMMAND)


def test_the_same_command_is_no_change(project: Project) -> None:
    """A hook that gives back what it got has changed nothing."""
    project.plugin(engine_command=lambda command: command)

    assert hooks_of(project.config).change(ARM, COMMAND) is None


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda: "nice python", "returned a str, and a list of words is wanted, for arm k4"),
        (
            lambda: ["nice", 1, "{port}"],
            "returned a list with a int in it, and every word of a command is text, for arm",
        ),
        (lambda: [*""], "returned a command without a program for arm k4"),
        (lambda: [" ", "{port}"], "returned a command without a program for arm k4"),
        (lambda: ["a\0", "{port}"], "returned a command with a zero byte in it for arm k4"),
        (lambda: ["nice"], "returned a command without {port}, on which nobody could find the server, for arm k4"),
        (raising(KeyError("k4")), "failed for arm k4: KeyError: 'k4'"),
        (raising(_Skipped("not here")), "failed for arm k4: _Skipped: not here"),
        (raising(ValueError("\ud800")), "failed for arm k4: ValueError: \\ud800"),
    ],
    ids=["text", "number", "empty", "blank", "zero", "no_port", "raises", "skips", "surrogate"],
)
def test_what_is_no_command_is_one_sentence(project: Project, answer: Callable[[], Any], problem: str) -> None:
    """It names the hook, whose it is, and the arm."""
    project.plugin(engine_command=answer)
    project.plugin("house", engine_command=lambda: None)
    with pytest.raises(UsageError) as caught:
        hooks_of(project.config).change(ARM, COMMAND)

    assert str(caught.value).startswith("pytest_specgate_engine_command of conftest.py or house ")
    assert problem in str(caught.value)


def test_every_reason_against_a_machine_is_told(project: Project) -> None:
    """Each plugin has a say, one line each and without secrets; `None` is none, and facts are copies."""
    facts: dict[str, Any] = {"gpus": ["A"]}
    project.plugin("one", veto_host=lambda facts: facts["gpus"].clear())
    project.plugin("two", veto_host=lambda: "wrong\npartition")
    project.plugin(
        "three", veto_host=lambda facts: f"token=abcdef {facts['hostname']}" if "hostname" in facts else None
    )
    found = hooks_of(project.config).vetoes(lambda: {**facts, "hostname": "n1"})

    assert found == ("token=[redacted] n1", "wrong partition")
    assert facts == {"gpus": ["A"]}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (lambda: True, "returned True, and a sentence or None is wanted"),
        (lambda: "", "returned '', and a sentence or None is wanted"),
        (raising(KeyError("gpus")), "failed: KeyError: 'gpus'"),
        (raising(_Skipped("not here")), "failed: _Skipped: not here"),
    ],
    ids=["true", "empty", "raises", "skips"],
)
def test_a_veto_that_does_not_tell_is_one(project: Project, answer: Callable[[], Any], reason: str) -> None:
    """Nobody knows what it would have said, so nothing is measured."""
    project.plugin(veto_host=answer)

    assert hooks_of(project.config).vetoes(dict) == (f"pytest_specgate_veto_host of conftest.py {reason}",)


def test_an_interrupted_veto_interrupts(project: Project) -> None:
    """Ctrl-C is no reason against a machine."""
    project.plugin(veto_host=raising(KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        hooks_of(project.config).vetoes(dict)


@pytest.mark.parametrize("error", [ValueError("no database"), _Skipped("today")])
def test_a_verdict_hook_that_fails_is_told(project: Project, error: BaseException) -> None:
    """The sentence says that nothing changed."""
    project.plugin(verdict=raising(error))
    item: Any = SimpleNamespace(config=project.config, ihook=project.manager.hook, nodeid="test_a.py::test_a")
    told = call_verdict_hook(item, verdict=None, gate=None, record_path=None, node_id="")

    assert told == (
        "pytest_specgate_verdict of conftest.py failed, and the verdict of test_a.py::test_a stays as it is: "
        f"{type(error).__name__}: {error}"
    )


def test_an_interrupted_verdict_hook_interrupts(project: Project) -> None:
    """Ctrl-C stops the run."""
    project.plugin(verdict=raising(KeyboardInterrupt()))
    item: Any = SimpleNamespace(config=project.config, ihook=project.manager.hook, nodeid="test_a.py::test_a")

    with pytest.raises(KeyboardInterrupt):
        call_verdict_hook(item, verdict=None, gate=None, record_path=None, node_id="")


def test_every_hook_says_what_it_is() -> None:
    """Meaning, arguments and an example, for each; what it gives back, unless that is nothing."""
    hooks = [own for name, own in vars(hookspecs).items() if name.startswith("pytest_specgate_")]
    texts = {own.__name__: inspect.getdoc(own) or "" for own in hooks}

    assert sorted(texts) == [
        "pytest_specgate_engine_command", "pytest_specgate_metrics", "pytest_specgate_verdict",
        "pytest_specgate_veto_host",
    ]  # fmt: skip
    for name, text in texts.items():
        assert [part for part in ("Args:\n", "Example:\n", "    def pytest_specgate_") if part not in text] == []
        assert ("Returns:\n" in text) == (name != "pytest_specgate_verdict")
