"""Records which trials Ray Tune makes of search spaces: order of the grid, values, tags.

    python3 -m venv venv && venv/bin/pip install "ray[tune]==2.60.0"
    venv/bin/python tune/tests/record_ray_variants.py tune/tests/fixtures/ray_variants.json

Only spaces whose values Ray does not draw at random are recorded, or ones whose domain has one value, since the draws
need not be equal.
"""

import json
import sys

import ray
from ray import tune
from ray.tune.experiment import Experiment
from ray.tune.search.basic_variant import BasicVariantGenerator

assert ray.__version__ == "2.60.0", ray.__version__

GRID = "grid_search"
# name, space, num_samples, settings of the generator
CASES = [
    ("one_grid", {"lr": {GRID: [0.1, 0.01]}}, 1, {}),
    ("the_first_path_changes_fastest", {"b": {GRID: [1, 2]}, "a": {GRID: ["x", "y", "z"]}}, 1, {}),
    ("samples_repeat_the_grid", {"b": {GRID: [1, 2]}, "a": {GRID: [True, False]}}, 2, {}),
    ("nested", {"model": {"act": {GRID: ["relu", "tanh"]}, "hiddens": {GRID: [[64, 64], [256]]}}, "z": 1}, 1, {}),
    ("lists", {"layers": [{"size": {GRID: [8, 16]}}, {GRID: [3, 4]}, 5]}, 1, {}),
    ("no_domain", {"a": 1, "b": {"c": [1, 2]}}, 3, {}),
    (
        "points_first",
        {"a": {GRID: [1, 2]}, "b": {"choice": [7]}},
        4,
        {"points_to_evaluate": [{"a": 2, "b": 7}, {"a": 1}, {"b": 7}]},
    ),
    ("more_points_than_samples", {"a": {GRID: [1, 2]}}, 1, {"points_to_evaluate": [{"a": 2}, {"a": 1}, {}]}),
    ("constant_over_the_grid", {"a": {GRID: [1, 2, 3]}, "b": {"choice": ["only"]}}, 2, {"constant_grid_search": True}),
    (
        "values_in_tags",
        {
            "none": {GRID: [None]},
            "flag": {GRID: [True]},
            "small": {GRID: [0.00001]},
            "floats": {GRID: [[0.00001, 1.5, 2.0, 1e20, 123456.0]]},
            "text": {GRID: ["a/b c.d-e_f"]},
            "object": {GRID: [{"type": "sgd", "deep": [1, None, False]}]},
            "whole": {GRID: [3.0, -2]},
            "odd key!": {GRID: ["ä"]},
        },
        1,
        {},
    ),
    (
        "a_chosen_object_has_its_own_domains",
        {"optimizer": {GRID: [{"type": "adam"}, {"type": "sgd", "momentum": {"choice": [0.9]}}]}},
        1,
        {},
    ),
]


def to_ray(value):
    """Ray reads grids as JSON, but needs an object for a choice."""
    if isinstance(value, dict):
        if list(value) == ["choice"]:
            return tune.choice(value["choice"])
        return {key: to_ray(item) for key, item in value.items()}
    return [to_ray(item) for item in value] if isinstance(value, list) else value


def record(name, space, num_samples, settings):
    generator = BasicVariantGenerator(**settings)
    generator.add_configurations(Experiment("e", run=lambda config: None, config=to_ray(space), num_samples=num_samples))
    trials = []
    while (trial := generator.next_trial()) is not None:
        trials.append({"config": trial.config, "tag": trial.experiment_tag})
    total = generator.total_samples
    return {"name": name, "space": space, "num_samples": num_samples, "settings": settings, "total": total, "trials": trials}


def main(path):
    cases = [record(*case) for case in CASES]
    text = ",\n".join(json.dumps(case) for case in cases)
    with open(path, "w") as file:
        file.write(f"[\n{text}\n]\n")


if __name__ == "__main__":
    main(sys.argv[1])
