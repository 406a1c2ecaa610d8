"""A server that prints 240 KB when it listens, and 1 KB a completion; after so many answers it leaves with code 7.

Its variables say which models it lists, what odd list it gives, which statuses its first completions get, how many
answers it gives, and whether a process works beside it that nobody can persuade to leave.
"""

from __future__ import annotations

import http.server
import json
import os
import subprocess
import sys

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
names = json.loads(os.environ.get("STUB_MODELS", "null")) or [arguments["--served-model-name"]]
odd = os.environ.get("STUB_ODD_LIST")
refused = json.loads(os.environ.get("STUB_REFUSED", "[]"))
answers_left = [int(os.environ.get("STUB_PATIENCE", "1000000"))]
DEAF = "import signal, time; [signal.signal(number, signal.SIG_IGN) for number in (2, 15)]; time.sleep(600)"


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def answer(self, body: bytes, status: int = 200) -> None:
        """Answer, or leave."""
        answers_left[0] -= 1
        if answers_left[0] < 0:
            os._exit(7)
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        """List the models."""
        self.answer(odd.encode() if odd else json.dumps({"data": [{"id": name} for name in names]}).encode())

    def do_POST(self) -> None:
        """Complete nothing."""
        self.rfile.read(int(self.headers["content-length"]))
        sys.stdout.write("x" * 1023 + "\n")
        sys.stdout.flush()
        self.answer(b"{}", refused.pop(0) if refused else 200)

    def log_message(self, *_: object) -> None:
        """Print nothing else."""


if "STUB_ENGINE_CORE" in os.environ:
    subprocess.Popen([sys.executable, "-S", "-c", DEAF])
server = http.server.HTTPServer(("127.0.0.1", int(arguments["--port"])), Handler)
sys.stdout.write("flood\n" * 40_000)
sys.stdout.flush()
server.serve_forever()
