"""The process of the fake vLLM: boot, listen, leave on a signal."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import select
import selectors
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from pytest_specgate.testing.application import Application
from pytest_specgate.testing.arguments import parse_arguments
from pytest_specgate.testing.http_server import HttpConnection

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Sequence

    from pytest_specgate.testing.arguments import ServerArguments

_logger = logging.getLogger(__name__)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the server until SIGINT or SIGTERM and return the exit code of the process."""
    arguments = parse_arguments(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(format="%(levelname)s:     %(message)s", level=logging.INFO, stream=sys.stderr)
    if arguments.fake.exit_at_start is not None:
        sys.stderr.write(f"{arguments.fake.exit_message}\n")
        return arguments.fake.exit_at_start
    with asyncio.Runner(loop_factory=_event_loop) as runner:
        return runner.run(_serve(arguments))


def _event_loop() -> asyncio.AbstractEventLoop:
    """Make a loop whose timers are exact to some 0.1 ms.

    The default selector of Linux rounds waits up to whole milliseconds, as long as half a step here.
    """
    return asyncio.SelectorEventLoop(_PreciseSelector())


class _PreciseSelector(selectors.EpollSelector):
    """Waits by `select` on its one descriptor, which takes microseconds, and finds out by epoll what is ready."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            select.select([self.fileno()], [], [], timeout)
        return super().select(0)


async def _serve(arguments: ServerArguments) -> int:
    stop = asyncio.Event()
    for number, ignored in (
        (signal.SIGINT, arguments.fake.ignore_sigint),
        (signal.SIGTERM, arguments.fake.ignore_sigterm),
    ):
        react = functools.partial(_logger.info, "Ignoring %s, as programmed", number.name) if ignored else stop.set
        asyncio.get_running_loop().add_signal_handler(number, react)
    _logger.info("Started server process [%d]", os.getpid())
    _logger.info("Waiting for application startup.")
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), arguments.fake.boot_s)
        return 0
    try:
        async with _listening(arguments):
            await stop.wait()
            _logger.info("Shutting down")
    except OSError as error:
        _logger.error("%s", error)  # noqa: TRY400  - the address is taken: a sentence, not a traceback
        return 1
    _logger.info("Application shutdown complete.")
    _logger.info("Finished server process [%d]", os.getpid())
    return 0


@contextlib.asynccontextmanager
async def _listening(arguments: ServerArguments) -> AsyncGenerator[None]:
    """Answer requests while the block lasts; afterwards every connection is cut and the truth left where it should be.

    Raises:
        OSError: the address cannot be had.
    """
    application = Application(arguments, os.environ)
    connections: set[HttpConnection] = set()
    server = await asyncio.get_running_loop().create_server(
        lambda: HttpConnection(application.answer, connections), arguments.host, arguments.port
    )
    try:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(application.run())
            _logger.info("Application startup complete.")
            _logger.info("Uvicorn running on http://%s:%d (Press CTRL+C to quit)", *server.sockets[0].getsockname()[:2])
            yield
            running.cancel()
    finally:
        server.close()
        for connection in tuple(connections):
            connection.drop()
        if arguments.fake.truth_folder is not None:
            path = Path(arguments.fake.truth_folder) / f"truth-{os.getpid()}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(application.truth().model_dump_json(), encoding="utf-8")
