"""The sweep of overhead.rs on Ray Tune: trials that do nothing, ten reports each. Prints `RESULT name seconds`.

pip install "ray[tune]==2.60.0"; python ray_peer.py [TRIALS]
"""

import os
import sys
import tempfile
import time

os.environ.setdefault("RAY_AIR_NEW_OUTPUT", "0")
os.environ.setdefault("TUNE_DISABLE_AUTO_CALLBACK_LOGGERS", sys.argv[2] if len(sys.argv) > 2 else "0")

import ray
from ray import tune


class Trivial(tune.Trainable):
    def setup(self, config):
        self.steps = 0

    def step(self):
        self.steps += 1
        return {"score": self.steps}

    def save_checkpoint(self, checkpoint_dir):
        pass

    def load_checkpoint(self, checkpoint_dir):
        pass

    def reset_config(self, new_config):
        self.steps = 0
        return True


def main():
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    ray.init(num_cpus=os.cpu_count(), include_dashboard=False, log_to_driver=False)
    for name, reuse in [("Ray Tune, reused actors", True), ("Ray Tune, an actor per trial", False)]:
        # Ray needs minutes for all of them: a few, scaled.
        count = max(1, trials // (10 if reuse else 100))
        with tempfile.TemporaryDirectory() as home:
            tuner = tune.Tuner(
                Trivial,
                param_space={"lr": tune.uniform(0.0, 1.0)},
                tune_config=tune.TuneConfig(num_samples=count, reuse_actors=reuse),
                run_config=tune.RunConfig(
                    storage_path=home,
                    stop={"training_iteration": 10},
                    verbose=0,
                    checkpoint_config=tune.CheckpointConfig(checkpoint_at_end=False),
                ),
            )
            started = time.perf_counter()
            results = tuner.fit()
            seconds = time.perf_counter() - started
            assert len(results) == count and results.num_errors == 0
            scaled = "" if count == trials else f" (from {count} trials)"
            print(f"RESULT {name}{scaled} {seconds * trials / count}", flush=True)


main()
