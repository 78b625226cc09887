"""Compares exported policies with what the policy did: `compare.py FOLDER`."""

import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime
import torch


def close(found, wanted, what):
    found = np.asarray(found, np.float64)
    wanted = np.asarray(wanted, np.float64)
    assert found.shape == wanted.shape, (what, found.shape, wanted.shape)
    gap = np.abs(found - wanted) / (1 + np.abs(wanted))
    assert np.all(gap <= 1e-5), (what, gap.max(), found, wanted)


def feed(description, copies, step, memory, noise):
    values = {}
    for port in description["inputs"]:
        shape = [copies, *port["shape"][1:]]
        name = port["name"]
        if name in ("obs", "mask"):
            values[name] = np.asarray(step[name]).reshape(shape).astype(port["dtype"])
        elif name == "noise":
            values[name] = noise(shape).astype(np.float32)
        else:
            values[name] = memory.get(name, np.zeros(shape, np.float32))
    return values


def check_draws(found, values, step):
    """The drawn action and its probability follow from the numbers of the head and the noise."""
    head = found["head"].astype(np.float64)
    noise = values["noise"].astype(np.float64)
    if found["action"].dtype == np.int64:
        assert noise.shape[1] == 1, "one choice"
        weights = np.exp(head - head.max(1, keepdims=True))
        shares = weights / weights.sum(1, keepdims=True)
        sums = shares.cumsum(1)
        drawn = (sums <= noise).sum(1)
        near = np.abs(sums - noise).min(1) < 1e-6
        first = found["action"].reshape(-1) - drawn
        assert np.all((first == first[~near][0]) | near), (found["action"], drawn)
        close(found["logp"][~near], np.log(shares[np.arange(len(drawn)), drawn])[~near], "logp")
    else:
        mean, log_std = np.split(head, 2, 1)
        assert np.all(np.isfinite(found["logp"])) and found["logp"].shape == (len(head),)


def onnx_runtime(path, description):
    """The file as a function from arrays by name to arrays."""
    onnx.checker.check_model(str(path), full_check=True)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    for port, of in [("inputs", session.get_inputs()), ("outputs", session.get_outputs())]:
        assert [p["name"] for p in description[port]] == [p.name for p in of], (port, of)
        assert [p["shape"] for p in description[port]] == [p.shape for p in of], (port, of)
    return lambda values: session.run(None, values)


def torchscript(path, description):
    """The same of a file of TorchScript, which takes its arguments in the order of the description and gives one tensor."""
    module = torch.jit.load(str(path))

    def run(values):
        rows = module(*(torch.from_numpy(values[port["name"]]) for port in description["inputs"])).numpy()
        parts = []
        for port in description["outputs"]:
            own = rows[:, slice(*port["columns"])]
            parts.append(own.reshape([len(rows), *port["shape"][1:]]).astype(port["dtype"]))
        return parts

    return run


home = pathlib.Path(sys.argv[1])
recorded = json.loads((home / "recorded.json").read_text())
random = np.random.default_rng(0)
for path in [home / name for name in recorded["files"]]:
    name = path.stem
    description = json.loads(path.with_name(path.name + ".json").read_text())
    run = (torchscript if path.suffix == ".pt" else onnx_runtime)(path, description)
    memory = {}
    discrete = description["outputs"][0]["dtype"] == "int64"
    draw = random.random if discrete else random.standard_normal
    for step in recorded["steps"]:
        values = feed(description, recorded["copies"], step, memory, draw)
        names = [port["name"] for port in description["outputs"]]
        found = dict(zip(names, run(values)))
        for port in description["outputs"]:
            assert str(found[port["name"]].dtype) == port["dtype"], port
            assert list(found[port["name"]].shape) == [recorded["copies"], *port["shape"][1:]], port
        memory = {key[: -len("_next")]: found[key] for key in found if key.endswith("_next")}
        if name == "drawn":
            check_draws(found, values, step)
            continue
        wanted = np.asarray(step["actions"]).reshape(found["action"].shape)
        if discrete:
            # Two values may be as good as equal.
            best = np.sort(found["head"], 1)
            clear = best[:, -1] - best[:, -2] > 1e-5 * (1 + np.abs(best[:, -1]))
            assert np.array_equal(found["action"][clear], wanted[clear]), (found, wanted)
        else:
            close(found["action"], wanted, "action")
