"""Downloads MuJoCo's wheel through pip and unpacks the library in it, with its licences.

Usage: provide_mujoco.py VERSION DIRECTORY

`cargo xtask setup --mujoco` runs it. DIRECTORY appears whole or not at all; two of these at once are safe.
"""

import fcntl
import hashlib
import platform
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

# The package that holds the library, and the SHA-256 of the library for Linux on x86-64.
VERSIONS = {
    "3.17.0": ("mujoco", "23496b023ee80fb61ab71167e94bc649f9941710fde96b18bb8204fb332523ad"),
    "4.0.0": ("mujoco-core", "90bc997a73efc90624a120f63eccd67441dfc6c705cd537357508f44757880ba"),
}


def fail(message):
    sys.exit(f"error: {message}")


def provide(version, directory):
    package, checksum = VERSIONS[version]
    unfinished = directory.with_name(directory.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)  # what an interrupted run left; the lock is ours
    wheels = unfinished / "wheels"
    wheels.mkdir(parents=True)
    # The library is the same for every Python; the index has wheels for 3.12.
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--no-cache-dir", "--no-deps"]
    command += ["--only-binary=:all:", "--python-version=3.12", "--dest", str(wheels), f"{package}=={version}"]
    if subprocess.run(command).returncode != 0:
        fail(
            f"pip could not download {package} {version} (its own words are above); check the network and pip's own "
            "settings (proxy, index), or set PAVLOV_MUJOCO to a libmujoco that you have"
        )
    library = f"mujoco/libmujoco.so.{version}"
    with zipfile.ZipFile(next(wheels.glob("*.whl"))) as archive:
        names = archive.namelist()
        for name in names:
            if name == library or ".dist-info/licenses/" in name or name.endswith(".dist-info/METADATA"):
                archive.extract(name, unfinished)
    found = hashlib.sha256((unfinished / library).read_bytes()).hexdigest() if library in names else "missing"
    if found != checksum:
        shutil.rmtree(unfinished)
        fail(f"the SHA-256 of {library} is {found}, but it must be {checksum}; nothing was kept")
    shutil.rmtree(wheels)
    shutil.rmtree(directory, ignore_errors=True)
    unfinished.rename(directory)


def main():
    version, directory = sys.argv[1], Path(sys.argv[2])
    if version not in VERSIONS:
        fail(f"MuJoCo {version} is not known here; choose one of {', '.join(VERSIONS)}")
    machine = f"{platform.system()} {platform.machine()}"
    if machine != "Linux x86_64":
        fail(f"this is {machine}, but only Linux x86_64 has checksums here; install the Python package mujoco {version}")
    try:
        directory.parent.mkdir(parents=True, exist_ok=True)
        with open(directory.with_name(directory.name + ".lock"), "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (directory / "mujoco").exists():
                provide(version, directory)
    except OSError as error:
        fail(f"{error}; set XDG_CACHE_HOME to a directory that can be written and has 100 MB free")
    print(f"MuJoCo {version} is in {directory}; licences lie beside it")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("interrupted; nothing was kept")
