"""Servers beside which ours is put: each a script around the same package, written as its own documentation does it."""

PLAIN = """
import numpy as np
import uvicorn
from fastapi import FastAPI, Request

from netdyno.shipping.package import opened

package = opened({folder!r})
call = package.call()
ports = package.manifest.signature.inputs
app = FastAPI()


@app.get("/health")
async def health():
    return {{"ready": True}}


@app.post("/predict")
async def predict(request: Request):
    given = (await request.json())["inputs"]
    outputs = call(tuple(np.asarray([given[port.name]], dtype=port.dtype) for port in ports))
    return {{"outputs": {{f"output{{at}}": array[0].tolist() for at, array in enumerate(outputs)}}}}


uvicorn.run(app, host="127.0.0.1", port={port}, log_level="error", access_log=False)
"""

# The batcher that everybody writes: take one, wait a window for more, run them together in a thread.
WINDOW = """
import asyncio

import numpy as np
import uvicorn
from fastapi import FastAPI, Request

from netdyno.shipping.package import opened

package = opened({folder!r})
call = package.call()
ports = package.manifest.signature.inputs
app = FastAPI()
queue = asyncio.Queue()


@app.on_event("startup")
async def start():
    app.state.task = asyncio.create_task(work())


async def work():
    loop = asyncio.get_running_loop()
    while True:
        batch = [await queue.get()]
        until = loop.time() + {delay_s!r}
        while len(batch) < {largest}:
            try:
                batch.append(await asyncio.wait_for(queue.get(), until - loop.time()))
            except (asyncio.TimeoutError, ValueError):
                break
        rows = tuple(np.concatenate(column) for column in zip(*(row for row, _ in batch)))
        outputs = await loop.run_in_executor(None, call, rows)
        for at, (_, future) in enumerate(batch):
            future.set_result([array[at] for array in outputs])


@app.get("/health")
async def health():
    return {{"ready": True}}


@app.post("/predict")
async def predict(request: Request):
    given = (await request.json())["inputs"]
    future = asyncio.get_running_loop().create_future()
    await queue.put((tuple(np.asarray([given[port.name]], dtype=port.dtype) for port in ports), future))
    outputs = await future
    return {{"outputs": {{f"output{{at}}": array.tolist() for at, array in enumerate(outputs)}}}}


uvicorn.run(app, host="127.0.0.1", port={port}, log_level="error", access_log=False)
"""

BENTO = """
from __future__ import annotations

import bentoml
import numpy as np

from netdyno.shipping.package import opened

package = opened({folder!r})


@bentoml.service(workers=1, traffic={{"timeout": 30}})
class Model:
    def __init__(self) -> None:
        self.call = package.call()

    @bentoml.api(batchable=True, max_batch_size={largest}, max_latency_ms={latency_ms}, route="/predict")
    def predict(self, rows: np.ndarray) -> np.ndarray:
        dtype = package.manifest.signature.inputs[0].dtype
        return self.call((np.ascontiguousarray(rows, dtype=dtype),))[0]
"""
