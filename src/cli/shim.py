"""pavlov's algorithms as a trainable of Ray Tune, printed by `pavlov tune-shim`.

The settings of a trial are those of the algorithm, with `algorithm` and `env` beside them. The program `pavlov`, or the one that
the environment variable PAVLOV names, must be on every machine of the cluster.
"""

import json
import os
import subprocess

from ray import tune

COMMAND = [os.environ.get("PAVLOV", "pavlov"), "trainable"]


def line(request, **what):
    return json.dumps({"request": request, **what}, default=lambda number: number.item()) + "\n"


def checked(answer):
    answer = json.loads(answer or '{"error": "pavlov has ended; what it said is in the log of its trial"}')
    if "error" in answer:
        raise RuntimeError(answer["error"])
    return answer


class Pavlov(tune.Trainable):
    def ask(self, request, **what):
        try:
            self.pavlov.stdin.write(line(request, **what))
            self.pavlov.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended, and there is no answer.
        return checked(self.pavlov.stdout.readline())

    def setup(self, config):
        # Ctrl-C is for Ray, which then saves.
        piped = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        self.pavlov = subprocess.Popen(COMMAND, start_new_session=True, **piped)
        self.ask("setup", config=config)

    def step(self):
        result = self.ask("step")["result"]
        return {key: float("nan") if value is None else value for key, value in result.items()}

    def save_checkpoint(self, checkpoint_dir):
        self.ask("save_checkpoint", dir=checkpoint_dir)

    def load_checkpoint(self, checkpoint_dir):
        self.ask("load_checkpoint", dir=checkpoint_dir)

    def reset_config(self, new_config):
        return self.ask("reset_config", config=new_config)["done"]

    def cleanup(self):
        self.pavlov.communicate()

    @classmethod
    def default_resource_request(cls, config):
        asked = subprocess.run(COMMAND, input=line("resources", config=config), stdout=subprocess.PIPE, text=True)
        return tune.PlacementGroupFactory([checked(asked.stdout)["resources"]])
