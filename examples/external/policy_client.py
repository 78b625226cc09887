"""Asks a run of pavlov for actions, and reports what came of them: RLlib's PolicyClient, in one file without packages.

A run with `input: {"type": "PolicyServerInput", "address": "127.0.0.1:9900"}` listens. docs/external.md has the messages.
"""

import json
import random
import socket


class Refused(Exception):
    """The run refused a message. `code` is for programs: `unknown_episode` says that the episode must start anew."""

    def __init__(self, code, message):
        super().__init__(f"{message} ({code})")
        self.code = code


class PolicyClient:
    """A program that plays episodes. `name` tells it from others; if it comes back within 2 s it keeps its episodes."""

    def __init__(self, address="127.0.0.1:9900", name=None, token=None, timeout=600.0):
        host, _, port = address.removeprefix("http://").rpartition(":")
        self.address, self.timeout = (host, int(port)), timeout
        self.name = name or f"{random.getrandbits(64):x}"
        lines = [f"Host: {host}:{port}", "Content-Type: application/json"]
        self.header = "\r\n".join(lines + ([f"Authorization: Bearer {token}"] if token else []))
        self.episodes = {}  # The number of actions, and the rewards since the last one, of each running episode.
        self.socket = None

    def start_episode(self, episode_id=None):
        """Begins an episode, and returns its name."""
        episode = self._ask("start_episode", {"episode": episode_id} if episode_id else {})["episode"]
        self.episodes[episode] = [0, 0.0]
        return episode

    def get_action(self, episode_id, observation, mask=None):
        """The policy's action on an observation: a number, or a flat list of numbers."""
        return self._turn("get_action", episode_id, observation, mask, {})["action"]

    def log_action(self, episode_id, observation, action, logp=None, version=None, mask=None):
        """Reports an action that the program chose itself, with the logarithm of its probability where it is needed.

        `version` is that of the copy of the policy that chose it.
        """
        extra = {"action": _numbers(action)} | ({} if logp is None else {"logp": float(logp)})
        extra |= {} if version is None else {"version": version}
        self._turn("log_action", episode_id, observation, mask, extra)

    def get_policy(self, version=None):
        """A copy of the policy as ONNX, and its version; without a copy if the program has this version already."""
        known = "" if version is None else f'If-None-Match: "{version}"\r\n'
        head = f"GET /v1/external/policy.onnx HTTP/1.1\r\n{known}{self.header}\r\n\r\n"
        status, headers, body = self._sent(head.encode())
        if status not in (200, 304):
            raise Refused(**json.loads(body)["error"])
        return body if status == 200 else None, int(headers[b"etag"].strip(b'"'))

    def log_returns(self, episode_id, reward):
        """Adds a reward; it is sent with the next message of the episode."""
        self.episodes[episode_id][1] += float(reward)

    def end_episode(self, episode_id, observation, truncated=False, mask=None):
        """Ends an episode with its last observation; `truncated` says that a limit cut it, `mask` what is legal there."""
        _, reward = self.episodes.pop(episode_id)
        message = {"episode": episode_id, "obs": _numbers(observation), "reward": reward}
        message |= {"truncated": True} if truncated else {}
        message |= {} if mask is None else {"mask": [bool(flag) for flag in mask]}
        return self._ask("end_episode", message)

    def _turn(self, kind, episode, observation, mask, extra):
        actions, reward = self.episodes[episode]
        message = {"episode": episode, "seq": actions, "obs": _numbers(observation), "reward": reward} | extra
        if mask is not None:
            message["mask"] = [bool(flag) for flag in mask]
        answer = self._ask(kind, message)
        self.episodes[episode] = [actions + 1, 0.0]
        return answer

    def _ask(self, kind, message):
        body = json.dumps(message | {"client": self.name}).encode()
        head = f"POST /v1/external/{kind} HTTP/1.1\r\n{self.header}\r\nContent-Length: {len(body)}\r\n\r\n"
        _, _, body = self._sent(head.encode() + body)
        answer = json.loads(body)
        if "error" in answer:
            raise Refused(**answer["error"])
        return answer

    def _sent(self, request):
        try:
            return self._exchange(request)
        except OSError:  # The connection broke. A message that comes twice counts once.
            self.socket = None
            return self._exchange(request)

    def _exchange(self, request):
        if self.socket is None:
            self.socket = socket.create_connection(self.address, self.timeout)
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(request)
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._more()
        head, _, body = answer.partition(b"\r\n\r\n")
        lines = [line.partition(b":") for line in head.split(b"\r\n")[1:]]
        headers = {name.lower(): value.strip() for name, _, value in lines}
        while len(body) < int(headers.get(b"content-length", 0)):
            body += self._more()
        return int(head[9:12]), headers, body

    def _more(self):
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the run closed the connection")
        return more


def _numbers(value):
    """An observation or an action as JSON has it: numpy's arrays become lists."""
    return value.tolist() if hasattr(value, "tolist") else value
