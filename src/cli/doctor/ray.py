"""Says as JSON which Ray this Python has and, if RAY_ADDRESS is set, what the machines of that cluster have."""

import json
import os
import socket
import sys

sys.path[:] = [place for place in sys.path if place]
# Standard output is for the answer alone, and what Ray prints goes elsewhere.
answer = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)


def look(folders):
    """What a worker on this machine would find."""
    import importlib.metadata
    import os
    import platform

    try:
        torch = importlib.metadata.version("torch")
    except importlib.metadata.PackageNotFoundError:
        torch = None
    folders = [*folders, *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    has_libtorch = any(os.path.exists(os.path.join(folder, "libtorch_cpu.so")) for folder in folders if folder)
    return {"processor": platform.machine(), "torch": torch, "has_libtorch": has_libtorch}


def cluster(address):
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    host, _, port = address.rpartition(":")
    if host and port.isdigit():
        # Ray itself would try for minutes.
        socket.create_connection((host, int(port)), timeout=10).close()
    ray.init(address=address, logging_level="error", log_to_driver=False)
    folders = [*sys.argv[1:], *os.environ.get("LD_LIBRARY_PATH", "").split(":")]
    task = ray.remote(num_cpus=0)(look)
    machines = []
    for node in ray.nodes():
        if node["Alive"]:
            there = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            machine = {"address": node["NodeManagerAddress"]}
            try:
                machine.update(ray.get(task.options(scheduling_strategy=there).remote(folders), timeout=30))
            except Exception as error:
                machine["error"] = first_line(error)
            machines.append(machine)
    return machines


def first_line(error):
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    # Which versions, Ray says in the lines after its first.
    first = " ".join(lines) if "version mismatch" in str(error).lower() else lines[0]
    return first[:400].rstrip(".")


said = {}
address = os.environ.get("RAY_ADDRESS", "")
try:
    import importlib.metadata

    said["version"] = importlib.metadata.version("ray")
    if address not in ("", "local"):
        said["machines"] = cluster(address)
except importlib.metadata.PackageNotFoundError:
    pass
except (Exception, SystemExit) as error:
    said["error"] = first_line(error)
with answer:
    json.dump(said, answer)
