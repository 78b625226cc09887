"""How Ray Data cuts datasets in two or more: the numbers in `datasets/parts.rs`.

    python3 -m venv venv && venv/bin/pip install "ray[data]==2.60.0"
    venv/bin/python record_ray_splits.py
"""

import logging

import ray

PROPORTIONS = [
    (10, [0.2, 0.5]),
    (10, [0.1, 0.1, 0.1]),
    (5, [0.9]),
    (3, [0.4, 0.3]),
    (1000, [0.333, 0.333]),
    (4, [0.98, 0.01]),
]
TEST_SIZES = [(10, 0.25), (10, 0.3), (3, 0.5), (2, 0.1), (1000, 0.1)]

ray.init(num_cpus=1, logging_level=logging.ERROR, log_to_driver=False, include_dashboard=False)
for n, proportions in PROPORTIONS:
    counts = [part.count() for part in ray.data.range(n).split_proportionately(proportions)]
    print(f"({n}, &{proportions}, &{counts}),")
for n, test_size in TEST_SIZES:
    counts = [part.count() for part in ray.data.range(n).train_test_split(test_size)]
    print(f"({n}, {test_size}, {counts}),")
