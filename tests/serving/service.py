"""A service for tests of load: it does by path what services do, well and badly. Standard library only."""

import asyncio
import contextlib
import json
import threading
import time

ROWS = 8


class Service:
    """Answers on a free port of the loopback, from a thread of its own. `asked` counts requests by path."""

    def __init__(self):
        self.asked = {}
        self.began = time.monotonic()
        self.stalled = False
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        self._ready.wait(10)

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def close(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def _run(self):
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(asyncio.start_server(self._served, "127.0.0.1", 0))
        self.port = server.sockets[0].getsockname()[1]
        self._ready.set()
        self._loop.run_forever()
        server.close()
        for task in asyncio.all_tasks(self._loop):
            task.cancel()
        self._loop.run_until_complete(asyncio.sleep(0))

    async def _served(self, reader, writer):
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._once(reader, writer):
                pass
        writer.close()

    async def _once(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        method, path, _ = head[0].split(" ")
        sizes = [int(line.split(":")[1]) for line in head if line.lower().startswith("content-length:")]
        body = await reader.readexactly(sizes[0]) if sizes else b""
        self.asked[path] = self.asked.get(path, 0) + 1
        return await self._answer(writer, method, path, body)

    async def _answer(self, writer, method, path, body):
        name = path.strip("/").split("/")[0]
        turn = self.asked[path]
        if name == "silent":
            await asyncio.sleep(30)
        if name == "slow":
            await asyncio.sleep(0.5)
        if name == "stall" and turn == 20:
            _stand_still()
        if name == "hangs-up" and turn % 5 == 0:
            return False
        if name == "chunked":
            writer.write(b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5\r\n": 1}\r\n0\r\n\r\n')
            await writer.drain()
            return True
        if name == "nonsense":
            writer.write(b"220 this is a mail server\r\n")
            await writer.drain()
            return True
        status, answer = self._content(name, method, path, body, turn)
        writer.write(f"HTTP/1.1 {status} Fine\r\nContent-Length: {len(answer)}\r\n\r\n".encode() + answer)
        await writer.drain()
        return True

    def _content(self, name, method, path, body, turn):
        if name == "busy" and turn % 4 == 0:
            return 503, b"come back later"
        if name == "wrong" and turn % 10 == 0:
            return 200, b'{"a": 2}'
        if path == "/v2/repository/index":
            return 200, b'[{"name": "sums"}]'
        if path == "/v2/models/sums":
            return 200, json.dumps({"inputs": [{"name": "x", "datatype": "FP32", "shape": [-1, ROWS]}]}).encode()
        if path == "/v2/models/sums/infer":
            return self._summed(json.loads(body), turn)
        if name == "v2":
            return 404, b"no such model"
        return 200, b'{"a": 1}'

    def _summed(self, asked, turn):
        rows, data = asked["inputs"][0]["shape"][0], asked["inputs"][0]["data"]
        sums = [sum(data[at * ROWS : (at + 1) * ROWS]) for at in range(rows)]
        output = {"name": "y", "shape": [rows, 1], "datatype": "FP32", "data": sums}
        return 200, json.dumps({"id": str(turn), "outputs": [output]}).encode()


def _stand_still():
    """As a service does that collects its garbage: nobody is answered meanwhile."""
    time.sleep(0.6)
