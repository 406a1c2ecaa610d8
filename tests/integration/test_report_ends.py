"""Reports of runs that went wrong beside their verdicts: each failure is named, and none of them says "Passed"."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.integration.report_runs import plain, read

if TYPE_CHECKING:
    from collections.abc import Mapping

_OPTIONS: Final = ("--specgate-json=out.json", "--specgate-markdown=out.md")
_LATE: Final = """\
    import pytest

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_sessionfinish(session):
        yield
        if not hasattr(session.config, "workerinput"):
            session.exitstatus = 3
    """


def broken(pytester: pytest.Pytester) -> list[Mapping[str, str]]:
    """Return what the JSON report of a run says that failed otherwise."""
    found: list[Mapping[str, str]] = read(pytester.path)["broken"]
    return found


@pytest.mark.parametrize(("text", "sentence"), [
    ("import os\nimport nowhere\n", "test_plain.py:2: ModuleNotFoundError: No module named 'nowhere'"),
    ("x = (\n", "test_plain.py:1: SyntaxError: '(' was never closed"),
    ("import pytest\npytest.importorskip\nassert 1 == 2\n", "test_plain.py:3: assert 1 == 2"),
    ("from pytest_specgate import at_most\n\nat_most('ttft_p50', at=1, limit='2')\n",
     "test_plain.py:3: limit='2' is no duration: write a positive number with its unit, as '200ms' or '1.5s'"),
])  # fmt: skip
def test_what_could_not_be_collected_is_named(pytester: pytest.Pytester, text: str, sentence: str) -> None:
    """File, line and sentence stand in JSON and Markdown."""
    done = plain(pytester, *_OPTIONS, text=text)
    markdown = (pytester.path / "out.md").read_text(encoding="utf-8")

    assert done.ret == pytest.ExitCode.INTERRUPTED
    assert broken(pytester) == [{"node_id": "test_plain.py", "kind": "collection", "message": sentence}]
    assert "### specgate: 0 of 0 thresholds judged, 1 error while collecting\n" in markdown
    assert "* <code>test_plain.py</code> was not collected: test_plain.py:" in markdown


@pytest.mark.parametrize(("words", "text", "sentence"), [
    (("nothing.py",), "", "file or directory not found: nothing.py"),
    (("--specgate-calibrate",), "def test_plain(): pass\n",
     "--specgate-calibrate found no gate and no @measured test: there is nothing to calibrate"),
    ((), "import pytest\n\ndef test_plain(): pytest.exit('enough')\n", "enough"),
])  # fmt: skip
def test_what_stopped_the_run_is_named(
    pytester: pytest.Pytester, words: tuple[str, ...], text: str, sentence: str
) -> None:
    """A usage error of pytest, one of ours, and a test that ends everything."""
    plain(pytester, *_OPTIONS, *words, text=text)

    assert broken(pytester) == [{"node_id": "pytest", "kind": "run", "message": sentence}]
    assert "judged, pytest was stopped\n" in (pytester.path / "out.md").read_text(encoding="utf-8")


def test_tests_besides_are_counted(pytester: pytest.Pytester) -> None:
    """A test that fails in two phases is one, and one that is skipped is none."""
    text = """
        import pytest

        @pytest.fixture
        def torn():
            yield
            raise RuntimeError

        def test_twice(torn): raise ValueError
        def test_once(torn): pass
        def test_skipped(): pytest.skip("not today")
    """
    plain(pytester, *_OPTIONS, text=text)

    assert read(pytester.path)["other_failures"] == 2
    assert "### specgate: 0 of 0 thresholds judged, 2 tests besides failed\n" in (pytester.path / "out.md").read_text(
        encoding="utf-8"
    )


@pytest.mark.parametrize("workers", ["0", "1"])
def test_the_exit_status_is_that_of_the_end(pytester: pytest.Pytester, workers: str) -> None:
    """Changed after they were written, or by the process that started the worker alone: reports have the last one."""
    pytester.makeconftest(_LATE)
    done = plain(pytester, *_OPTIONS, "-n", workers)

    assert (done.ret, read(pytester.path)["exit_status"]) == (3, 3)
    assert "exit status 3\n" in (pytester.path / "out.md").read_text(encoding="utf-8")


def test_a_report_that_is_missing_is_known_to_the_others(pytester: pytest.Pytester) -> None:
    """One file cannot be written, and the other one has the exit status that comes of it."""
    plain(pytester, *_OPTIONS, text="import os\n\n\ndef test_plain(): os.mkdir('out.md')\n")

    assert read(pytester.path)["exit_status"] == 1


def test_a_worker_that_died_is_named(pytester: pytest.Pytester) -> None:
    """Its test stands in the report of the process that started it, and is not counted besides."""
    done = plain(pytester, *_OPTIONS, "-n", "1", text="import os\n\n\ndef test_plain(): os._exit(3)\n")
    sentence = "worker 'gw0' crashed while running 'test_plain.py::test_plain'"
    found = read(pytester.path)

    assert (done.ret, found["other_failures"]) == (1, 0)
    assert found["broken"] == [{"node_id": "test_plain.py::test_plain", "kind": "test", "message": sentence}]


def test_errors_of_a_worker_are_told_once(pytester: pytest.Pytester) -> None:
    """The worker and the process that started it both know of a file that cannot be collected."""
    plain(pytester, *_OPTIONS, "-n", "1", text="import nowhere\n")

    assert [one["kind"] for one in broken(pytester)] == ["collection"]
