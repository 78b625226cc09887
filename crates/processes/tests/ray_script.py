"""Tests of `src/ray.py` that need no Ray: `python3 ray_script.py NAME` runs one. `ray_script.rs` has the claims."""

import hashlib
import json
import os
import runpy
import shutil
import signal
import socket
import stat
import tempfile
import types
import unittest

SCRIPT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../src/ray.py")


class Case(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name
        self.addCleanup(setattr, tempfile, "tempdir", tempfile.tempdir)
        tempfile.tempdir = self.place
        self.script = runpy.run_path(SCRIPT)


class Executable(Case):
    DATA = b"#!/bin/sh\nexit 0\n"

    def setUp(self):
        super().setUp()
        self.folder = os.path.join(self.place, f"pavlov-workers-{os.getuid()}")
        self.digest = hashlib.sha256(self.DATA).hexdigest()

    def unpack(self):
        return self.script["unpack"](self.DATA, self.digest)

    def is_whole(self, path):
        self.assertEqual(path, os.path.join(self.folder, self.digest))
        with open(path, "rb") as file:
            self.assertEqual(file.read(), self.DATA)
        status = os.lstat(path)
        self.assertTrue(stat.S_ISREG(status.st_mode))
        self.assertEqual(stat.S_IMODE(status.st_mode), 0o700)
        self.assertEqual(os.listdir(self.folder), [self.digest])
        return status.st_ino

    def test_written_once(self):
        first = self.is_whole(self.unpack())
        self.assertEqual(stat.S_IMODE(os.stat(self.folder).st_mode), 0o700)
        self.assertEqual(self.is_whole(self.unpack()), first)

    def test_replaced(self):
        other = os.path.join(self.place, "other")
        with open(other, "w") as file:
            file.write("mine")
        path = self.unpack()

        def is_empty():
            open(path, "w").close()

        def is_another():
            with open(path, "wb") as file:
                file.write(self.DATA[:-2] + b"1\n")

        def is_open_to_others():
            os.chmod(path, 0o777)

        def is_a_link():
            os.remove(path)
            os.symlink(other, path)

        def is_a_pipe():
            os.remove(path)
            os.mkfifo(path)

        for change in (is_empty, is_another, is_open_to_others, is_a_link, is_a_pipe):
            with self.subTest(change.__name__):
                change()
                self.is_whole(self.unpack())
        with open(other) as file:
            self.assertEqual(file.read(), "mine")

    def refused(self, why):
        with self.assertRaisesRegex(PermissionError, why):
            self.unpack()

    def test_folder_is_a_link(self):
        elsewhere = os.path.join(self.place, "elsewhere")
        os.mkdir(elsewhere, 0o700)
        os.symlink(elsewhere, self.folder)
        self.refused("is no folder, or a symbolic link; remove it")
        self.assertEqual(os.listdir(elsewhere), [])

    def test_folder_is_open(self):
        os.mkdir(self.folder)
        os.chmod(self.folder, 0o777)
        self.refused("other users can write to ")

    def test_folder_is_a_strangers(self):
        os.mkdir(self.folder, 0o700)
        real = os.getuid
        self.addCleanup(setattr, os, "getuid", real)
        # To the script the folder's owner is another user.
        os.rename(self.folder, os.path.join(self.place, f"pavlov-workers-{real() + 1}"))
        os.getuid = lambda: real() + 1
        self.refused("belongs to another user; set another folder for temporary files by TMPDIR")


class Ray:
    """What starts a cluster, as Ray does: it opens its folder to all."""

    def init(self, _temp_dir, **_):
        os.makedirs(_temp_dir, exist_ok=True)
        os.chmod(_temp_dir, 0o777)
        self.folder = _temp_dir


class Cluster(Case):
    def test_folder_is_closed(self):
        ray = self.script["connect"].__globals__["ray"] = Ray()
        folder = self.script["connect"]("")
        self.addCleanup(shutil.rmtree, folder)
        self.assertEqual(stat.S_IMODE(os.stat(folder).st_mode), 0o700)
        self.assertEqual(os.path.dirname(ray.folder), folder)
        self.assertTrue(os.path.basename(folder).startswith("pavlov-ray-"))

    def test_left_over(self):
        path = lambda name: os.path.join(self.place, "pavlov-ray-" + name)
        os.mkdir(path("old"), 0o700)
        os.mkfifo(path("pipe"))
        elsewhere = os.path.join(self.place, "elsewhere")
        os.mkdir(elsewhere, 0o700)
        os.symlink(elsewhere, path("link"))
        used = self.script["folder_of_its_own"](self.place)
        # One that waits for a pipe is ended.
        signal.alarm(10)
        self.addCleanup(signal.alarm, 0)
        self.script["remove_left_over"](self.place)
        left = {os.path.join(self.place, name) for name in os.listdir(self.place)}
        self.assertEqual(left, {path("pipe"), path("link"), elsewhere, used})

    def test_no_second_cluster(self):
        """What Ray reads of the environment when it is imported."""
        names = self.script["main"].__globals__
        seen = []

        def import_ray():
            seen.append(os.environ.get("RAY_ENABLE_AUTO_CONNECT"))
            raise names["Refused"]("there is no Ray")

        names["import_ray"] = import_ray
        before = dict(os.environ)
        self.addCleanup(os.environ.update, before)
        self.addCleanup(os.environ.clear)
        kept = [os.dup(number) for number in (0, 1)]
        control, heard = socket.socketpair()
        os.dup2(control.fileno(), 0)
        try:
            names["main"]()
        finally:
            for number, copy in enumerate(kept):
                os.dup2(copy, number)
                os.close(copy)
        self.assertEqual(json.loads(heard.recv(1000)), {"failed": "there is no Ray"})
        self.assertEqual(seen, ["0"])
        control.close()
        heard.close()


class Remote:
    """A method of an actor that answers at once."""

    def __init__(self, method):
        self.remote = method


class Actor:
    """An actor on a machine of the cluster, which notes what it is started with."""

    def __init__(self, node):
        self.where = Remote(lambda: node)
        self.start = Remote(self.note)
        self.end = Remote(lambda: {"code": 0})

    def note(self, program, shipped):
        self.environment = dict(program["environment"])


class Environment(Case):
    def started_on(self, node):
        """The variables that an actor on this machine is sent, and how the life ended."""
        names = self.script["environment_for"].__globals__
        names["ENVIRONMENT"] = {
            "AWS_SECRET_ACCESS_KEY": "secret", "HOME": "/home/x", "PAVLOV_A": "1", "RUST_LOG": "2", "OMP_A": "3",
            "MKL_A": "4", "LD_LIBRARY_PATH": "/lib",
        }
        context = types.SimpleNamespace(get_node_id=lambda: "home")
        names["ray"] = types.SimpleNamespace(
            get_runtime_context=lambda: context, get=lambda answer: answer, kill=lambda actor: None
        )
        names["RayError"] = RuntimeError
        actor = Actor(node)
        control, heard = socket.socketpair()
        stream, run = socket.socketpair()
        for end in (control, heard, stream, run):
            self.addCleanup(end.close)
        run.shutdown(socket.SHUT_WR)
        engine = self.script["Engine"](control)
        engine.private, engine.libtorch, engine.shipped = False, "", (None, None)
        engine.worker = types.SimpleNamespace(options=lambda **_: Remote(lambda *_: actor))
        engine.live({"life": 1, "pool": 0, "worker": 0, "resources": {}, "program": {}}, stream)
        self.assertEqual(json.loads(heard.recv(1000)), {"life": 1, "code": 0})
        return actor.environment

    def test_secrets_stay(self):
        elsewhere = self.started_on("elsewhere")
        self.assertEqual(
            elsewhere, {"PAVLOV_A": "1", "RUST_LOG": "2", "OMP_A": "3", "MKL_A": "4", "LD_LIBRARY_PATH": "/lib"}
        )
        self.assertEqual(self.started_on("home")["AWS_SECRET_ACCESS_KEY"], "secret")


if __name__ == "__main__":
    unittest.main()
