"""A server that dies as soon as it was asked, while a fork that inherited its socket keeps the port open, in silence.

After ten seconds the fork says that it was waited for too long.
"""

from __future__ import annotations

import os
import socket
import sys
import time

arguments = dict(zip(sys.argv[1::2], sys.argv[2::2], strict=False))
listening = socket.create_server(("127.0.0.1", int(arguments["--port"])))
if os.fork() == 0:
    time.sleep(10)
    os.write(1, b"nobody noticed\n")
    time.sleep(600)
listening.accept()
os.write(1, b"boom\n")
os._exit(3)
