"""The process between a run and Ray. It needs only the package `ray`.

Standard input is a socket to the run: lines of JSON, and with each start of a worker or trial the socket that its frames go
through. Each is an actor that starts the run's executable and passes frames on as they are. The frames of a trial, and of the
workers that train together in one, are lines.
The end of the socket ends everything.
"""

import errno
import fcntl
import glob
import hashlib
import json
import os
import pickle
import queue
import secrets
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time

HEADER = 40
SET_WEIGHTS = 2
PROBE = 10
FOLLOW = 11
OBJECT_STORE = 512 << 20
FOLDER = "pavlov-ray-"
WATCH = 5
CLOSE_ON_EXEC = getattr(socket, "MSG_CMSG_CLOEXEC", 0)
TRIAL = "PAVLOV_TRIAL_ON_RAY"
# Every process of a cluster that a run started for itself has this environment variable: the path of the cluster's folder.
OWN_CLUSTER = "PAVLOV_RAY_CLUSTER"
# The program of a process that waits until this one has ended, even by kill -9. Then it kills what is left of the cluster and
# removes the cluster's folder. Without it some of Ray's processes go on for a minute.
CLEANER = """
import os, shutil, signal, sys, time

_, name, folder = sys.argv
mark = f"{name}={folder}".encode()


def of_cluster(pid):
    try:
        with open(f"/proc/{pid}/environ", "rb") as environment:
            return mark in environment.read().split(bytes(1))
    except OSError:
        return False


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError:
        pass


sys.stdin.buffer.read()
for _ in range(50):
    found = [int(pid) for pid in os.listdir("/proc") if pid.isdigit() and of_cluster(pid)]
    for pid in found:
        end(pid)
    if not found:
        break
    time.sleep(0.1)
shutil.rmtree(folder, ignore_errors=True)
"""
# Where this process is the engine of a trial on Ray: the cluster, and the trial's room there.
TRIALS_ROOM = json.loads(os.environ.pop(TRIAL, "null"))
ENVIRONMENT = dict(os.environ)


class Refused(Exception):
    """A sentence that reads on after "`workers` is "ray", but", or after "`executor` is "ray", but"."""


def read(stream, size):
    """So many bytes; none if there are fewer."""
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = stream.recv_into(view)
        if count == 0:
            return None
        view = view[count:]
    return data


def operation(header):
    return int.from_bytes(header[6:8], "little")


def number(header):
    """Of the request that a frame is or answers; 0 is a probe's."""
    return int.from_bytes(header[8:16], "little")


def read_frame(stream):
    """Header and body of the next frame; none at the end."""
    header = read(stream, HEADER)
    if header is None:
        return None
    size = int.from_bytes(header[16:24], "little") + int.from_bytes(header[24:32], "little")
    body = read(stream, size)
    return None if body is None else (header, body)


def frames(stream, are_lines):
    """All frames until the end."""
    if are_lines:
        with stream.makefile("rb") as file:
            yield from ((b"", line) for line in file if line.endswith(b"\n"))
    else:
        while (frame := read_frame(stream)) is not None:
            yield frame


class Actor:
    """In an actor: a child that is the worker or trial."""

    def __init__(self):
        import ray

        self.node = ray.get_runtime_context().get_node_id()
        self.child = None
        self.broken = {"reason": "it was not started"}

    def where(self):
        return self.node

    def start(self, program, shipped):
        """Starts the child. What hinders it is the answer to the first call."""
        import ray

        is_home = self.node == program["node"]
        try:
            if program["trial"] and not is_home and not self.sees(program["trial"]):
                self.broken = {
                    "refused": f"node {self.node[:8]} ({ray.util.get_node_ip_address()}) does not see the trial's directory "
                    f"{program['trial']}: what runs on Ray writes its files itself, so put the experiment into a directory "
                    "that all machines share (`--out`, `storage_path` or PAVLOV_RESULTS_DIR)"
                }
            else:
                self.start_child(program, shipped, is_home, ray)
        except OSError as error:
            hint = "; it was built for another kind of machine" if error.errno == 8 else ""
            self.broken = {"reason": f"node {self.node[:8]} cannot start the executable: {error.strerror}{hint}"}

    def start_child(self, program, shipped, is_home, ray):
        environment = dict(program["environment"] if is_home else os.environ)
        if not is_home:
            # Only where the run's own libtorch is not there, the package of this node serves.
            folders = [program["libtorch"], program["environment"].pop("LD_LIBRARY_PATH", "")]
            folders += [environment.get("LD_LIBRARY_PATH", ""), self.torch()]
            environment.update(program["environment"])
            environment["LD_LIBRARY_PATH"] = ":".join(folder for folder in folders if folder)
        for name in program["unset"]:
            environment.pop(name, None)
        environment.update(program["set"], PAVLOV_NODE_ADDRESS=ray.util.get_node_ip_address())
        if program["room"]:
            # A trial's own workers can be on the cluster, too. It reaches that as this process does.
            environment.update({k: v for k, v in os.environ.items() if k.startswith("RAY_AUTH_")})
            environment.update({TRIAL: json.dumps(program["room"]), "PAVLOV_PYTHON": sys.executable})
        if "CUDA_VISIBLE_DEVICES" in os.environ:
            environment["CUDA_VISIBLE_DEVICES"] = os.environ["CUDA_VISIBLE_DEVICES"]
        path = program["path"] if is_home else unpack(ray.get(shipped[0]), program["digest"])
        self.socket, theirs = socket.socketpair()
        self.child = subprocess.Popen(
            [path, *program["arguments"]],
            stdin=theirs,
            env=environment,
            # What machines share, they may share with the run's own paths.
            cwd=program["folder"] if is_home or program["trial"] and os.path.isdir(program["folder"]) else None,
            start_new_session=True,
        )
        theirs.close()
        self.sending, self.answers, self.probed = threading.Lock(), queue.SimpleQueue(), queue.SimpleQueue()
        threading.Thread(target=self.listen, args=(bool(program["trial"]),), daemon=True).start()

    def listen(self, are_lines):
        """Sorts what the child says: it answers probes while it is busy with a request."""
        try:
            for frame in frames(self.socket, are_lines):
                is_probe = not are_lines and number(frame[0]) == 0
                (self.probed if is_probe else self.answers).put(frame)
        except OSError:
            pass
        self.answers.put(None)

    @staticmethod
    def sees(folder):
        """Whether this machine has the folder. One that is shared may be seen a little late."""
        for _ in range(20):
            if os.path.isdir(folder):
                return True
            time.sleep(0.5)
        return False

    @staticmethod
    def torch():
        """Where the package `torch` of this node has libtorch."""
        import importlib.util

        found = importlib.util.find_spec("torch")
        return os.path.join(os.path.dirname(found.origin), "lib") if found and found.origin else ""

    def call(self, header, body):
        """The frame that answers this one, or how the child ended."""
        if self.child is None:
            return self.end()
        try:
            with self.sending:
                self.socket.sendall(header)
                self.socket.sendall(body)
            frame = self.answers.get()
        except OSError:
            frame = None
        if frame is None:
            return self.end()
        return pickle.PickleBuffer(frame[0] + frame[1])

    def probe(self, frame):
        """What the child answers to a probe, whatever its worker does."""
        with self.sending:
            self.socket.sendall(frame)
        return bytes().join(self.probed.get())

    def end(self):
        """How the child ended, which is given a moment to do so."""
        if self.child is None:
            return self.broken
        shut(self.socket)
        try:
            code = self.child.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.child.kill()
            code = self.child.wait()
        if code == 127:
            return {
                "reason": f"its process could not be loaded on node {self.node[:8]} (exit code 127), as where libtorch is "
                "missing: install the package `torch` in the Python of that node, of the version that the program was "
                "built with, or put libtorch's folder `lib` into LD_LIBRARY_PATH"
            }
        return {"code": code}


def environment_for(is_home):
    """The variables that a child has from the run. Others than these may be secrets, and stay on the run's machine."""
    if is_home:
        return ENVIRONMENT
    kept = ("PAVLOV_", "RUST_", "OMP_", "MKL_")
    return {k: v for k, v in ENVIRONMENT.items() if k.startswith(kept) or k == "LD_LIBRARY_PATH"}


def unpack(data, digest):
    """The path of the executable, which is written to this machine once, where this user alone can write."""
    folder = os.path.join(tempfile.gettempdir(), f"pavlov-workers-{os.getuid()}")
    try:
        os.mkdir(folder, 0o700)
    except FileExistsError:
        pass
    handle = open_own_folder(folder)
    try:
        if not is_executable(handle, digest):
            write_executable(handle, digest, data)
    finally:
        os.close(handle)
    return os.path.join(folder, digest)


def open_own_folder(path):
    """A folder that is no symbolic link, belongs to this user, and that no other can write to."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        raise PermissionError(errno.EPERM, f"{path} is no folder, or a symbolic link; remove it") from None
    status = os.fstat(handle)
    if status.st_uid == os.getuid() and status.st_mode & 0o022 == 0:
        return handle
    os.close(handle)
    if status.st_uid != os.getuid():
        raise PermissionError(errno.EPERM, f"{path} belongs to another user; set another folder for temporary files by TMPDIR")
    raise PermissionError(errno.EPERM, f"other users can write to {path}; remove it")


def is_executable(folder, digest):
    """Whether the file of that name in an open folder is the executable, and no other user could have changed it."""
    try:
        file = os.open(digest, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError:
        return False
    with os.fdopen(file, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o722 != 0o700:
            return False
        found = hashlib.sha256()
        while block := file.read(1 << 20):
            found.update(block)
        return found.hexdigest() == digest


def write_executable(folder, digest, data):
    """Puts the executable into an open folder, in place of what has its name there. Others may do so at the same time."""
    fresh = f".{secrets.token_hex(8)}"
    file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o700, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), 0o700)
        os.rename(fresh, digest, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(fresh, dir_fd=folder)
        raise


class Engine:
    def __init__(self, control):
        self.control = control
        self.saying = threading.Lock()
        # Of each pool: its placement group, and the bundles of its workers.
        self.groups = {}
        # In a trial: its own placement group, and the bundles that no worker has.
        self.room_here, self.free = None, []
        self.rooms = {}
        # What each machine has that was ever seen while a trial waited.
        self.machines = {}
        self.actors = {}
        self.killed = set()
        self.shipped = None
        self.shipping = threading.Lock()
        self.weights = (None, None)
        self.putting = threading.Lock()

    def say(self, **message):
        with self.saying:
            try:
                self.control.sendall(json.dumps(message).encode() + b"\n")
            except OSError:
                pass  # The run is gone, which the reader of the other direction sees.

    def serve(self):
        for message, stream in self.messages():
            operation = message["op"]
            if operation == "reserve":
                threading.Thread(target=self.reserve, args=(message,), daemon=True).start()
            elif operation == "release":
                group, places = self.groups.pop(message["pool"], (None, []))
                if group is not None and group is self.room_here:
                    self.free = sorted(self.free + places)
                elif group is not None:
                    ray.util.remove_placement_group(group)
            elif operation == "start":
                threading.Thread(target=self.live, args=(message, stream), daemon=True).start()
            elif operation == "kill":
                self.kill(message["life"])

    def watch(self, known):
        """Tells the run when machines join or leave."""
        while True:
            time.sleep(WATCH)
            try:
                now = total_resources()
            except Exception:
                return  # Ray is gone.
            if now != known:
                self.say(resources=now)
                known = now

    def messages(self):
        """Lines of JSON; with those that start a worker or trial the socket that came with them."""
        text, sockets = b"", []
        while True:
            data, files, _, _ = socket.recv_fds(self.control, 1 << 16, 16, CLOSE_ON_EXEC)
            if not data:
                return
            sockets += files
            *lines, text = (text + data).split(b"\n")
            for line in lines:
                message = json.loads(line)
                stream = socket.socket(fileno=sockets.pop(0)) if message["op"] == "start" else None
                yield message, stream

    def reserve(self, message):
        """Room for the workers of a pool, all at once; what hinders it is said."""
        try:
            failed = self.make_room(message)
        except Exception as error:
            failed = f"Ray refuses to make room: {sentence(error)}"
        self.say(pool=message["pool"], failed=failed)

    def make_room(self, message):
        """None, or why there is no room."""
        pool, workers, strategy = message["pool"], message["workers"], message["strategy"]
        need = self.need(message["resources"])
        places = [place for place in self.free if covers(self.room_here.bundle_specs[place], need)][:workers]
        if message["labels"]:
            places = []  # A trial's room asks for none.
        if need and len(places) == workers:
            self.free = [place for place in self.free if place not in places]
            self.groups[pool] = (self.room_here, places)
        elif need:
            labels = [message["labels"]] * workers if message["labels"] else None
            group = ray.util.placement_group([need] * workers, strategy=strategy, bundle_label_selector=labels)
            if not group.wait(message["patience"] or 1e9):
                ray.util.remove_placement_group(group)
                return self.too_little(need, message)
            self.groups[pool] = (group, list(range(workers)))
        return None

    def too_little(self, need, message):
        workers, strategy, patience = message["workers"], message["strategy"], message["patience"]
        longer = f" ({message['longer']})" if message["longer"] else ""
        total, free = ray.cluster_resources(), ray.available_resources()
        parts = [
            f"{amount * workers:g} {name} (the cluster has {total.get(name, 0):g}, {free.get(name, 0):g} of them free)"
            for name, amount in need.items()
        ]
        labels = f" on machines with the labels {json.dumps(message['labels'])}" if message["labels"] else ""
        whose = "the cluster that the run started for itself" if self.private else "the cluster"
        return (
            f"{workers} workers by {strategy} need {' and '.join(parts)}{labels}, and {whose} did not have the room in "
            f"{patience:g} s{longer}: ask for fewer workers, for less per worker ({message['less']}), or add nodes"
        )

    def ship(self, program):
        """The executable in the object store, once. A cluster of the run's own is on its machine alone."""
        with self.shipping:
            if self.shipped is None and not self.private:
                with open(program["path"], "rb") as file:
                    data = file.read()
                self.shipped = ([ray.put(pickle.PickleBuffer(data))], hashlib.sha256(data).hexdigest())
        return self.shipped or (None, None)

    def live(self, message, stream):
        """One life of a worker or trial."""
        life, answers, trial = message["life"], queue.SimpleQueue(), message.get("trial")
        replies = None
        try:
            home = ray.get_runtime_context().get_node_id()
            program = dict(message["program"], node=home, folder=os.getcwd())
            program["libtorch"], program["trial"], program["room"] = self.libtorch, trial, None
            shipped, program["digest"] = self.ship(program)
            options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0}
            if message.get("labels"):
                options["label_selector"] = message["labels"]
            if "pool" in message:
                need = self.need(message["resources"])
                group, places = self.groups.get(message["pool"], (None, []))
                place = places[message["worker"]] if places else -1
            else:
                bundles = [self.need(bundle) for bundle in message["bundles"]]
                need, place = bundles[0], 0 if bundles[0] else -1
                group, program["room"] = self.room(bundles, message["strategy"], life, stream)
            if group is not None:
                options["scheduling_strategy"] = PlacementGroupSchedulingStrategy(
                    group, placement_group_bundle_index=place
                )
                options["num_cpus"] = need.pop("CPU", 0)
                options["num_gpus"] = need.pop("GPU", 0)
                options["resources"] = need
            actor = self.worker.options(**options).remote()
            self.actors[life] = actor
            if life in self.killed:
                ray.kill(actor)
            program["environment"] = environment_for(ray.get(actor.where.remote()) == home)
            answers.put(actor.start.remote(program, shipped))
            sending = threading.Lock()
            replies = threading.Thread(target=self.reply, args=(life, actor, answers, stream, sending), daemon=True)
            replies.start()
            for frame in frames(stream, bool(trial)):
                if operation(frame[0]) == PROBE:
                    self.probe(actor, bytes().join(frame), stream, sending)
                else:
                    answers.put(actor.call.remote(*self.packed(*frame)))
            answers.put(actor.end.remote())
        except OSError as error:
            if replies is not None:
                answers.put(actor.end.remote())
            else:
                self.ended(life, stream, reason=f"it could not be started: {error}")
        except Refused as refused:
            self.ended(life, stream, refused=str(refused))
        except Exception as error:
            what = "start it" if replies is None else "pass a request on to it"
            self.ended(life, stream, reason=f"Ray could not {what}: {sentence(error)}")

    def need(self, resources):
        """What a worker or trial asks of Ray. On a cluster of the run's own, all cores are the run's."""
        need = {name: amount for name, amount in resources.items() if amount > 0}
        if self.private:
            need.pop("CPU", None)
        return need

    def room(self, bundles, strategy, life, stream):
        """A trial's room, for which it waits until the run hangs up, and what its own engine must know of it."""
        asked, name = [bundle for bundle in bundles if bundle], f"pavlov-{secrets.token_hex(16)}"
        context = ray.get_runtime_context()
        room = {"address": context.gcs_address, "namespace": context.namespace, "private": self.private}
        if not asked:
            return None, room
        group = self.rooms[life] = ray.util.placement_group(asked, strategy=strategy, name=name)
        # Each of these must be on one machine.
        wholes = [added_up(asked)] if strategy == "STRICT_PACK" else asked
        while not group.wait(1):
            # One that is lost may come back.
            self.machines.update({node["NodeID"]: node["Resources"] for node in ray.nodes() if node["Alive"]})
            for bundle in wholes:
                if not any(covers(has, bundle) for has in list(self.machines.values())):
                    much = " and ".join(f"{amount:g} {name}" for name, amount in bundle.items())
                    raise Refused(
                        f"a trial needs {much} on one machine, and no machine of the cluster has that: ask for less per trial, "
                        "or add such a machine"
                    )
            if life in self.killed or hung_up(stream):
                raise RuntimeError("the run did not wait for room")
        return group, dict(room, name=name, own=1 if bundles[0] else 0)

    def ended(self, life, stream, **how):
        """Gives back what a life had, and says how it ended."""
        self.kill(life)
        self.actors.pop(life, None)
        room = self.rooms.pop(life, None)
        if room is not None:
            try:
                ray.util.remove_placement_group(room)
            except Exception:
                pass  # The cluster is gone.
        self.say(life=life, **how)
        shut(stream)

    def packed(self, header, body):
        """A frame as arguments of a call. Weights are the same for all workers, and batches for all learners: they go into the
        object store once."""
        if len(body) < 100_000 or operation(header) not in (SET_WEIGHTS, FOLLOW):
            return bytes(header), pickle.PickleBuffer(body)
        with self.putting:
            known, reference = self.weights
            if known != body:
                reference = ray.put(pickle.PickleBuffer(body))
                self.weights = (body, reference)
        return bytes(header), reference

    def probe(self, actor, frame, stream, sending):
        """Asks whether an actor and its child live, beside what they are busy with. No answer says that they do not."""

        def answered(future):
            try:
                answer = future.result()
                with sending:
                    stream.sendall(answer)
            except Exception:
                pass

        actor.probe.options(concurrency_group="probe").remote(frame).future().add_done_callback(answered)

    def reply(self, life, actor, answers, stream, sending):
        """Hands the actor's answers on until there are no more, and says why."""
        end = None
        while end is None:
            try:
                answer = ray.get(answers.get())
                if isinstance(answer, dict):
                    end = answer
                elif answer is not None:
                    with sending:
                        stream.sendall(answer)
            except OSError:
                end = {"reason": "the run no longer listened"}
            except RayError as error:
                end = {"reason": f"its actor is gone: {sentence(error)}"}
            except Exception as error:
                end = {"reason": sentence(error)}
        self.ended(life, stream, **end)

    def kill(self, life):
        self.killed.add(life)
        actor = self.actors.get(life)
        if actor is not None:
            try:
                ray.kill(actor)
            except Exception:
                pass  # It is gone.

    def end(self):
        for life in list(self.actors):
            self.kill(life)
        ray.shutdown()


def added_up(bundles):
    names = {name for bundle in bundles for name in bundle}
    return {name: sum(bundle.get(name, 0) for bundle in bundles) for name in names}


def covers(has, need):
    return all(has.get(name, 0) >= amount for name, amount in need.items())


def hung_up(stream):
    poll = select.poll()
    poll.register(stream, select.POLLRDHUP)
    return bool(poll.poll(0))


def shut(stream):
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def sentence(error):
    """What Ray says first, in a line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    first = " ".join(lines) if is_other_version(error) else lines[0]
    return first[:400].rstrip(".")


def is_other_version(error):
    """Whether the cluster has another Ray or Python; which ones, Ray says in the lines after its first."""
    return "version mismatch" in str(error).lower()


def loaded_libtorch():
    """The folder of the libtorch that the run, whose child this is, has loaded."""
    try:
        with open(f"/proc/{os.getppid()}/maps") as maps:
            paths = (line[line.index("/") :].rstrip() for line in maps if "/" in line)
            return next((os.path.dirname(path) for path in paths if path.endswith("/libtorch_cpu.so")), "")
    except OSError:
        return ""


def check_version():
    numbers = [int("".join(c for c in part if c.isdigit()) or 0) for part in ray.__version__.split(".")[:2]]
    if not [2, 60] <= numbers < [3]:
        raise Refused(
            f"{sys.executable} has Ray {ray.__version__}, and workers need Ray 2.60 or a later 2.x: install one, or name "
            "another interpreter by PAVLOV_PYTHON"
        )


def folder_of_its_own(place):
    """A new folder that no other user can enter, and which this process has locked before it has its name."""
    fresh = tempfile.mkdtemp(prefix="pavlov-new-", dir=place)
    fcntl.flock(os.open(fresh, os.O_RDONLY), fcntl.LOCK_EX)
    folder = fresh.replace("pavlov-new-", FOLDER)
    os.rename(fresh, folder)
    return folder


def start_cleaner(folder):
    """Starts the process that kills what is left of the cluster in this folder once this process has ended."""
    # Nothing is written to the pipe, and its other end is open as long as this process lives.
    reading, _ = os.pipe()
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    command = [sys.executable, "-c", CLEANER, OWN_CLUSTER, folder]
    subprocess.Popen(command, stdin=reading, start_new_session=True, **quiet)
    os.close(reading)
    os.environ[OWN_CLUSTER] = folder


def remove_left_over(place):
    """Removes folders that no process has locked any more: those of engines that were killed together with their cleaner."""
    for folder in glob.glob(os.path.join(glob.escape(place), FOLDER + "*")):
        try:
            lock = open_own_folder(folder)
        except OSError:
            continue  # It is gone, another user's, or no folder: a pipe would be waited for.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass  # It is in use.
        finally:
            os.close(lock)


def connect(address, namespace=None):
    """Attaches to the cluster, or starts one; returns the folder of the latter."""
    quiet = {"logging_level": "error", "log_to_driver": True, "namespace": namespace}
    if address not in ("", "local"):
        if "://" in address:
            raise Refused(
                f"RAY_ADDRESS is {address}, and a run must be on a machine of the cluster: start it there, with "
                "RAY_ADDRESS=HOST:PORT or RAY_ADDRESS=auto"
            )
        try:
            host, _, port = address.rpartition(":")
            if host and port.isdigit():
                # Ray itself would try for minutes.
                socket.create_connection((host, int(port)), timeout=10).close()
            ray.init(address=address, **quiet)
        except (Exception, SystemExit) as error:
            hint = "`ray start --head` on the cluster's first machine starts one and says its address"
            if "token" in str(error).lower():
                hint = "set RAY_AUTH_MODE=token and the same RAY_AUTH_TOKEN or RAY_AUTH_TOKEN_PATH everywhere"
            if is_other_version(error):
                hint = "name an interpreter with the cluster's versions by PAVLOV_PYTHON"
            raise Refused(f"there is no Ray cluster to join at RAY_ADDRESS={address} ({sentence(error)}): {hint}")
        return None
    # The kernel takes 107 bytes for the path of a socket, and Ray's below this folder have up to 86.
    short = tempfile.gettempdir() if len(tempfile.gettempdir()) <= 20 else "/tmp"
    remove_left_over(short)
    folder = folder_of_its_own(short)
    start_cleaner(folder)
    # Ray opens the folder that it is given to all users.
    inner = os.path.join(folder, "r")
    try:
        ray.init(address="local", include_dashboard=False, object_store_memory=OBJECT_STORE, _temp_dir=inner, **quiet)
    except (Exception, SystemExit) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise Refused(f"Ray could not start a cluster on this machine: {sentence(error)}")
    return folder


def main():
    control = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.dup2(2, 1)
    engine = Engine(control)
    # The run says itself what a cluster lacks.
    os.environ.setdefault("RAY_SCHEDULER_EVENTS", "0")
    # A call that comes after the end of the cluster would start another one.
    os.environ["RAY_ENABLE_AUTO_CONNECT"] = "0"
    trial = TRIALS_ROOM or {}
    address = trial.get("address") or os.environ.get("RAY_ADDRESS", "")
    engine.private = trial.get("private", address in ("", "local"))
    engine.libtorch = loaded_libtorch()
    if engine.private and not trial:
        # Another user cannot join, nothing is written to the home directory, and workers have the priority of the run.
        os.environ.update(
            RAY_AUTH_MODE="token",
            RAY_AUTH_TOKEN=secrets.token_hex(32),
            RAY_USAGE_STATS_ENABLED="0",
            RAY_worker_niceness="0",
        )
        os.environ.pop("RAY_ADDRESS", None)
    folder = None
    try:
        import_ray()
        check_version()
        folder = connect(address, trial.get("namespace"))
        if trial.get("name"):
            engine.room_here = ray.util.get_placement_group(trial["name"])
            engine.free = list(range(trial["own"], engine.room_here.bundle_count))
        # A probe does not wait for the call before it.
        engine.worker = ray.remote(concurrency_groups={"probe": 1})(Actor)
        resources = None if engine.private else total_resources()
        engine.say(ready=True, resources=resources, node=ray.util.get_node_ip_address())
        if not engine.private:
            threading.Thread(target=engine.watch, args=(resources,), daemon=True).start()
        engine.serve()
        engine.end()
    except Refused as refused:
        engine.say(failed=str(refused))
    finally:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)


def total_resources():
    """What the cluster has, without what Ray itself keeps account of."""
    kept = ("memory", "object_store_memory")
    everything = ray.cluster_resources().items()
    return {name: n for name, n in everything if name not in kept and ":" not in name and "_group_" not in name}


def import_ray():
    global ray, RayError, PlacementGroupSchedulingStrategy
    try:
        import ray
        import ray.util
        from ray.exceptions import RayError
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy
    except ImportError as error:
        raise Refused(
            f"{sys.executable} cannot import Ray ({error}): install it with `pip install ray`, or name another "
            "interpreter by PAVLOV_PYTHON"
        )


if __name__ == "__main__":
    main()
