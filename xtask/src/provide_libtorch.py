"""Downloads PyTorch's wheel through pip and unpacks the libtorch in it.

Usage: provide_libtorch.py VERSION cpu|cuda DIRECTORY

`cargo xtask setup` runs it. DIRECTORY appears whole or not at all; two of these at once are safe.
The files keep the places they have in the wheels, because the libraries find each other by them.
"""

import ctypes
import errno
import fcntl
import os
import platform
import shutil
import subprocess
import sys
import zipfile
from email import message_from_bytes
from fnmatch import fnmatch
from pathlib import Path

# libtorch_cpu.so of a CUDA wheel is linked to the CUDA runtime and to CUPTI; the rest of CUDA is not needed.
CPU_FILES = [
    "torch/include/*",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libc10.so",
    "torch/lib/libgomp*",
    "nvidia/*/libcudart.so*",
    "nvidia/*/libcupti.so*",
]
CUDA_FILES = ["torch/include/*", "torch/lib/*", "nvidia/*.so*"]
# Wheels and unpacked files together, rounded up.
GIB_NEEDED = {"cpu": 1.5, "cuda": 12.0}
MORE_SPACE = "free some space there, or set XDG_CACHE_HOME to a directory on a larger disk"


def fail(message):
    sys.exit(f"error: {message}")


def way_out(pip_said):
    if "No space left" in pip_said:
        return MORE_SPACE
    if "No module named pip" in pip_said:
        return "install pip: `apt install python3-pip` or `python3 -m ensurepip --user`"
    return "check the network and pip's own settings (proxy, index), or set LIBTORCH to a libtorch that you have"


def pip_download(into, requirements, *options):
    """The wheels of `requirements`, for any Python: only their shared libraries are wanted."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-cache-dir"]
    # The index has torch for Python 3.12 on every platform that it supports; the Python that runs this may be newer.
    command += ["--only-binary=:all:", "--python-version=3.12", "--dest", str(into), *options, *requirements]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        fail(f"pip could not download {' '.join(requirements)} (its own words are above); {way_out(done.stderr)}")


def cuda_runtime(wheel):
    """What the wheel's metadata says about the two CUDA packages that libtorch_cpu.so is linked to."""
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        requirements = message_from_bytes(archive.read(name)).get_all("Requires-Dist", [])
    found = []
    for requirement in (line.split(";")[0].strip() for line in requirements):
        if requirement.startswith("cuda-toolkit["):
            found.append("cuda-toolkit[cudart,cupti]" + requirement.split("]", 1)[1])
        elif requirement.startswith(("nvidia-cuda-runtime", "nvidia-cuda-cupti")):
            found.append(requirement)
    return found


def unpack(wheel, into, patterns):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if any(fnmatch(name, pattern) for pattern in patterns):
                archive.extract(name, into)


def provide(version, kind, directory):
    unfinished = directory.with_name(directory.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # what an interrupted run left; the lock is ours
    wheels = unfinished / "wheels"
    wheels.mkdir(parents=True)

    free = shutil.disk_usage(unfinished).free / 2**30
    if free < GIB_NEEDED[kind]:
        fail(f"{directory.parent} has {free:.1f} GiB free, {GIB_NEEDED[kind]} GiB are needed; {MORE_SPACE}")

    if kind == "cpu":
        pip_download(wheels, [f"torch=={version}"], "--no-deps")
        runtime = cuda_runtime(next(wheels.glob("torch-*.whl")))
        if runtime:
            pip_download(wheels, runtime)
    else:
        pip_download(wheels, [f"torch=={version}"])
    for wheel in wheels.glob("*.whl"):
        unpack(wheel, unfinished, CPU_FILES if kind == "cpu" else CUDA_FILES)
    shutil.rmtree(wheels)

    lib = unfinished / "torch" / "lib"
    if kind == "cpu":
        # The libtorch.so of the wheel is an empty library that wants libtorch_cuda.so.
        (lib / "libtorch.so").symlink_to("libtorch_cpu.so")
    (unfinished / "torch" / "build-version").write_text(version + "\n")
    try:
        ctypes.CDLL(str(lib / "libtorch_cpu.so"))
    except OSError as error:
        fail(f"the unpacked libtorch does not load ({error}); set LIBTORCH to a libtorch {version} that you have")
    shutil.rmtree(directory, ignore_errors=True)
    unfinished.rename(directory)


def main():
    version, kind, directory = sys.argv[1], sys.argv[2], Path(sys.argv[3])
    if platform.system() != "Linux":
        fail(f"only Linux wheels can be taken apart here; set LIBTORCH to a libtorch {version}")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with open(directory.with_name(directory.name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / "torch" / "build-version").exists():
                provide(version, kind, directory)
    except OSError as error:
        full = error.errno == errno.ENOSPC
        fail(f"{error}; {MORE_SPACE if full else 'set XDG_CACHE_HOME to a directory that can be written'}")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was kept")
