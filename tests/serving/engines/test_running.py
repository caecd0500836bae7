"""Engines that really run here, each around a package of eager PyTorch: ready, right, and gone afterwards."""

import json
import os
import socket
import sys
import urllib.request

import numpy as np
import pytest

from netdyno.records.deployment import Manifest, Port, Running, Signature
from netdyno.records.trial import Change
from netdyno.runtimes import _base as runtimes
from netdyno.runtimes import _export
from netdyno.serving.engines import _base as engines
from netdyno.serving.engines._base import Wanted
from netdyno.shipping import package as packages

pytestmark = pytest.mark.slow  # an export, and servers that start

# A release, as a user writes one.
SOURCE = """
import torch
from netdyno.targets.release import Release

Small = Release(
    model=lambda: torch.nn.Sequential(torch.nn.Linear(6, 3)), example=lambda: torch.randn(4, 6), names=("x",), name="small"
)
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    folder = tmp_path_factory.mktemp("running")
    (folder / "small.py").write_text(SOURCE)
    reference = f"{folder / 'small.py'}:Small"
    signature = Signature(
        inputs=(Port(name="x", dtype="float32", shape=(6,)),), outputs=(Port(name="y", dtype="float32", shape=(3,)),)
    )
    change, running = Change(id="eager"), Running(batches=(1, 2, 4))
    artifact = folder / "artifact"
    artifact.mkdir()
    spec = _export.Spec(reference=reference, change=change, folder=str(artifact), signature=signature)
    _export.export(spec, timeout_s=120)
    call = runtimes.padded(runtimes.read(change).load(artifact, running), running.batches)
    inputs = (np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32),)
    manifest = Manifest(
        name="small", version="1", made_by="a test", made_at="2026-01-01T00:00:00Z", model_hash="0", runtime=change,
        running=running, signature=signature, machine="here",
    )  # fmt: skip
    packages.write(folder / "package", manifest, artifact=artifact, inputs=inputs, answers=call(inputs))
    return packages.opened(folder / "package")


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as there:
        return there.getsockname()[1]


def posted(url, body):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.loads(answer.read())


def answers_of(package, name, ask, *, python=sys.executable):
    """What a running engine answers to each row of the example."""
    found = []
    rows = package.example()[0][0]

    def said(url):
        found.extend(ask(url, row.tolist()) for row in rows)

    wanted = Wanted(port=free_port(), largest=4, delay_s=0.001)
    engines.serve(engines.named(name), package, wanted, python=python, for_s=0.0, said=said)
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", wanted.port), timeout=1)
    return np.array(found, np.float32)


def test_litserve_answers_as_the_package_does(package):
    pytest.importorskip("litserve", reason="needs the extra `litserve`")
    found = answers_of(
        package, "litserve", lambda url, row: posted(f"{url}/predict", {"inputs": {"x": row}})["outputs"]["y"]
    )
    assert np.allclose(found, package.example()[1][0], atol=1e-5)


def test_ray_serve_answers_as_the_package_does(package):
    python = os.environ.get("NETDYNO_RAY_PYTHON")
    if python is None:
        pytest.importorskip(
            "ray", reason="needs the extra `ray`, or NETDYNO_RAY_PYTHON: an interpreter that has it and torch"
        )
    found = answers_of(
        package, "ray-serve", lambda url, row: posted(url, {"inputs": {"x": row}})["outputs"]["y"],
        python=python or sys.executable,
    )  # fmt: skip
    assert np.allclose(found, package.example()[1][0], atol=1e-5)
