"""Records what the schedulers and stoppers of Ray Tune decide, for the tests of this crate.

    python3 -m venv venv && venv/bin/pip install "ray[tune]==2.60.0"
    venv/bin/python tune/tests/record_ray_schedulers.py tune/tests/fixtures

A small controller drives the real schedulers: it adds trials, asks which to run, and makes up results. Per scenario one
line is written: settings, the random draws of Ray in order, and every call with what the scheduler answered; `stuck`
is one where Ray waits forever and this crate does not. Metrics
are multiples of 1/8, so that sums are exact and ties happen; NaN is written as null.
"""

import json
import math
import os
import pathlib
import random
import sys
import tempfile

import numpy as np
import ray
from ray import tune
from ray.train._internal.session import _FutureTrainingResult, _TrainingResult
from ray.tune import stopper as stoppers
from ray.tune.execution.placement_groups import PlacementGroupFactory
from ray.tune.experiment import Trial
from ray.tune.schedulers import create_scheduler, hb_bohb, hyperband, pbt
from ray.tune.schedulers.resource_changing_scheduler import (
    DistributeResources,
    DistributeResourcesToTopJob,
    ResourceChangingScheduler,
)
from ray.tune.search.sample import Domain

assert ray.__version__ == "2.60.0", ray.__version__

OUT = pathlib.Path(sys.argv[1])
METRIC, TIME = "score", "training_iteration"
NUMPY_CHOICE = np.random.choice
LOGS = tempfile.TemporaryDirectory()


class Draws:
    """Stands in for the modules `random` and `numpy.random` and keeps what they gave."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.drawn = []

    def keep(self, value, recorded=None):
        self.drawn.append(value if recorded is None else recorded)
        return value

    def random(self):
        return self.keep(self.rng.random())

    def choice(self, options, p=None):
        if p is not None:
            return self.keep(self.rng.choices(range(options), p)[0])
        index = self.rng.randrange(len(options))
        return self.keep(options[index], index)


class RecordedTrial(Trial):
    """A trial without trainable or files."""

    def __init__(self, number, config, resources):
        super().__init__("none", trial_id=f"t{number}", config=config, experiment_tag=f"{number}", stub=True)
        self.placement_group_factory = resources
        self.number = number
        self.time = 0
        self.result = {}

    last_result = property(lambda self: self.result)
    local_experiment_path = property(lambda self: LOGS.name)
    local_dir = local_experiment_path
    checkpoint = property(lambda self: object())

    def update_resources(self, resources):
        self.placement_group_factory = resources


class Saved(_FutureTrainingResult):
    def __init__(self, trial, result):
        self.result = _TrainingResult(object(), {**result, "time": trial.time})

    def resolve(self, block=True):
        return self.result


class Searcher:
    def __init__(self, controller):
        self.controller = controller

    def on_pause(self, trial_id):
        pass

    def on_unpause(self, trial_id):
        self.controller.orders.append(["unpause", int(trial_id[1:])])


class Controller:
    """What the schedulers need of a TuneController. `orders` is what they asked of it in the current call."""

    def __init__(self, scheduler, cpus, gpus):
        self.scheduler = scheduler
        self.trials = []
        self.orders = []
        self.search_alg = type("SearchAlg", (), {"searcher": Searcher(self)})()
        self._resource_updater = type("Updater", (), {"get_num_cpus": lambda _: cpus, "get_num_gpus": lambda _: gpus})()

    def get_trials(self):
        return self.trials

    def get_live_trials(self):
        return [t for t in self.trials if not t.is_finished()]

    def stop_trial(self, trial):
        self.orders.append(["stop", trial.number])
        assert trial.status == Trial.PAUSED
        self.scheduler.on_trial_remove(self, trial)
        trial.status = Trial.TERMINATED

    def pause_trial(self, trial, should_checkpoint=True):
        trial.status = Trial.PAUSED

    def _schedule_trial_save(self, trial, result=None):
        assert trial.status == Trial.RUNNING
        self.orders.append(["save", trial.number])
        return Saved(trial, result)

    def take(self):
        orders, self.orders = self.orders, []
        return orders


def domains(mutations, draws):
    """Mutations from their JSON form, with their draws kept."""
    made = {}
    for name, value in mutations.items():
        if isinstance(value, list):
            made[name] = value
        elif len(value) == 1 and hasattr(tune, next(iter(value))):
            kind, arguments = next(iter(value.items()))
            domain = getattr(tune, kind)(*([arguments] if kind == "choice" else arguments))
            assert isinstance(domain, Domain)
            sample = domain.sample
            domain.sample = lambda spec, sample=sample: draws.keep(sample(None))
            made[name] = domain
        else:
            made[name] = domains(value, draws)
    return made


def build(settings, draws, controller):
    """Scheduler from the settings of a sweep file."""
    settings = dict(settings)
    kind = settings.pop("type")
    if kind == "resource_changing":
        base = build(settings["base_scheduler"], draws, controller)
        function = dict(settings["resources_allocation_function"])
        allocation = {
            "DistributeResources": DistributeResources,
            "DistributeResourcesToTopJob": DistributeResourcesToTopJob,
        }[function.pop("type")]
        return ResourceChangingScheduler(base, allocation(**function))
    if "hyperparam_mutations" in settings:
        settings["hyperparam_mutations"] = domains(settings["hyperparam_mutations"], draws)
    if settings.pop("custom", False):
        settings["custom_explore_fn"] = lambda config: {**config, "lr": min(config["lr"], 0.5)}
    scheduler = create_scheduler({"ASHA": "async_hyperband"}.get(kind, kind), **settings)
    if isinstance(scheduler, pbt.PopulationBasedTraining):
        exploit = scheduler._exploit

        def recorded(_, trial, source):
            exploit(controller[0], trial, source)
            saved = scheduler._trial_state[source].last_result
            trial.time = saved.get("time", source.time)
            order = ["exploit", trial.number, source.number, dict(trial.config), trial.experiment_tag]
            controller[0].orders.append(order)

        scheduler._exploit = recorded
    elif isinstance(scheduler, hyperband.HyperBandScheduler) and not isinstance(scheduler, hb_bohb.HyperBandForBOHB):
        scheduler._unpause_trial = lambda _, trial: controller[0].orders.append(["unpause", trial.number])
    return scheduler


def may_end(scheduler, trial):
    """Whether Ray goes on after this trial ended: it never does where a bracket waits for it alone, later than at the
    first milestone; and it halves empty brackets. See `stuck` for the former."""
    if not isinstance(scheduler, hyperband.HyperBandScheduler):
        return True
    bracket, _ = scheduler._trial_info[trial]
    others = [bracket._get_result_time(r) >= bracket._cumul_r for t, r in bracket._live_trials.items() if t is not trial]
    return bool(others) and not (all(others) and (bracket.is_being_processed or bracket._halves == 0))


def choose(scheduler, controller, again):
    """The trial to run next and what the scheduler asked for. Ray's controller asks `again` and again while nothing
    runs; every time that moves milestones may be the one before something happens."""
    while True:
        chosen, orders = scheduler.choose_trial_to_run(controller), controller.take()
        brackets = [b for band in getattr(scheduler, "_hyperbands", []) for b in band if b]
        now = [b._halves for b in brackets]
        if chosen or orders or not again or now == again:
            return chosen, orders
        again = now


def plain(value):
    """NaN becomes null, other numbers are Python's."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and math.isnan(value) else value


def short(result):
    """Time and metric; "-" stands for a key that is not there."""
    return plain([result.get(TIME, "-"), result.get(METRIC, "-")])


def scenario(
    name,
    settings,
    *,
    trials,
    slots,
    mode="max",
    seed=0,
    until=math.inf,
    pending=2,
    missing=0.0,
    nan=0.0,
    fails=0.0,
    ends=0.0,
    jumps=0.0,
    jump=(2, 5),
    levels=12,
    spread=True,
    config=lambda rng: {},
    events_at_most=200,
    resources=({"CPU": 1},),
    total=(8, 0),
    last_results=False,
):
    """One run. `fails` and `ends` are chances per step, `jumps` that a result comes late, `levels` how many values a
    metric can take; with `spread` trials are of different quality."""
    rng = random.Random(f"{name} {seed}")
    draws = Draws(seed + 1)
    holder = []
    pbt.random = draws

    def choice(options, size=None, replace=True, p=None):
        return draws.choice(options, p) if size is None else NUMPY_CHOICE(options, size, replace, p)

    np.random.choice = choice
    scheduler = build(settings, draws, holder)
    scheduler.set_search_properties(METRIC, mode)
    controller = Controller(scheduler, *total)
    holder.append(controller)
    for file in pathlib.Path(LOGS.name).iterdir():
        file.unlink()
    events, joined = [], 0

    def running():
        return [t for t in controller.trials if t.status == Trial.RUNNING]

    def measure(trial):
        result = {TIME: trial.time, METRIC: (rng.randrange(levels) + (trial.quality if spread else 0)) / 8}
        if rng.random() < nan:
            result[METRIC] = float("nan")
        if rng.random() < missing:
            del result[rng.choice([TIME, METRIC])]
        return result

    while len(events) < events_at_most:
        while joined < trials and sum(t.status == Trial.PENDING for t in controller.trials) < pending:
            given = config(rng)
            trial = RecordedTrial(joined, dict(given), PlacementGroupFactory([dict(b) for b in resources]))
            trial.quality = rng.randrange(levels)
            if last_results:
                trial.result = {METRIC: trial.quality / 8}
            scheduler.on_trial_add(controller, trial)
            controller.trials.append(trial)
            events.append(["add", given, trial.config, *([trial.quality / 8] if last_results else [])])
            joined += 1
        while len(running()) < slots:
            stands_still = not running() and isinstance(scheduler, hb_bohb.HyperBandForBOHB)
            chosen, orders = choose(scheduler, controller, stands_still)
            if orders or (chosen is None and stands_still):
                events += [["choose", None], ["idle", orders]]
            events.append(["choose", chosen.number if chosen else None])
            if chosen is None and orders:
                continue
            if chosen is None:
                break
            chosen.status = Trial.RUNNING
        if not running():
            break
        trial = rng.choice(running())
        if may_end(scheduler, trial) and rng.random() < fails:
            trial.status = Trial.ERROR
            scheduler.on_trial_error(controller, trial)
            events.append(["error", trial.number, controller.take()])
            continue
        trial.time += rng.randrange(*jump) if rng.random() < jumps else 1
        result = measure(trial)
        if (trial.time >= until or rng.random() < ends) and may_end(scheduler, trial):
            trial.result = result
            scheduler.on_trial_complete(controller, trial, result)
            trial.status = Trial.TERMINATED
            events.append(["complete", trial.number, short(result), controller.take()])
            continue
        decision = scheduler.on_trial_result(controller, trial, dict(result))
        orders = controller.take()
        if decision == "PAUSE" and trial in getattr(scheduler, "_trials_to_reallocate", {}):
            bundles = scheduler._trials_to_reallocate[trial].bundles
            decision, orders = "NOOP", orders + [["set_resources", trial.number, bundles]]
            trial.status = Trial.PAUSED
        events.append(["result", trial.number, short(result), decision, orders])
        trial.result = result
        if decision == "PAUSE":
            trial.status = Trial.PAUSED
        elif decision == "STOP":
            scheduler.on_trial_complete(controller, trial, result)
            trial.status = Trial.TERMINATED
            events.append(["complete", trial.number, short(result), controller.take()])
    files = {file.name: file.read_text() for file in sorted(pathlib.Path(LOGS.name).iterdir())}
    return {
        "name": name,
        "scheduler": settings,
        "mode": mode,
        "resources": resources,
        "total": {"CPU": total[0], "GPU": total[1]},
        "draws": plain(draws.drawn),
        "events": events,
        "files": files,
    }


def asha():
    base = {"type": "ASHA", "max_t": 27, "reduction_factor": 3}
    yield scenario("asha", base, trials=40, slots=4, missing=0.05, fails=0.01, ends=0.01)
    yield scenario("asha_min", base, trials=30, slots=5, mode="min", jumps=0.2)
    yield scenario("asha_nan_and_ties", base, trials=30, slots=4, nan=0.2, levels=3, spread=False)
    brackets = {**base, "brackets": 3, "max_t": 64, "reduction_factor": 2, "grace_period": 2}
    yield scenario("asha_brackets", brackets, trials=40, slots=6, jumps=0.3)
    last = {**base, "stop_last_trials": False, "max_t": 9}
    yield scenario("asha_last_trials_go_on", last, trials=20, slots=4, until=12)
    yield scenario("asha_odd_numbers", {**base, "max_t": 20, "reduction_factor": 2.5}, trials=30, slots=3)


def median():
    base = {"type": "median_stopping_rule", "time_attr": TIME, "grace_period": 2}
    yield scenario("median", base, trials=15, slots=4, until=12, missing=0.05, fails=0.01)
    yield scenario("median_min", base, trials=15, slots=4, until=12, mode="min", jumps=0.2, ends=0.02)
    soft = {**base, "hard_stop": False, "min_samples_required": 2}
    yield scenario("median_soft", soft, trials=12, slots=3, until=8)
    slices = {**base, "min_time_slice": 2, "min_samples_required": 4}
    yield scenario("median_time_slices", slices, trials=12, slots=3, until=8, levels=3)


def bands():
    base = {"type": "hyperband", "max_t": 9, "reduction_factor": 3}
    yield scenario("hyperband", base, trials=40, slots=5, pending=6, events_at_most=300)
    yield scenario("hyperband_min_and_ties", base, trials=30, slots=3, mode="min", levels=2, spread=False)
    yield scenario("hyperband_ends", base, trials=40, slots=4, fails=0.03, ends=0.04, jumps=0.1)
    odd = {**base, "max_t": 50, "reduction_factor": 4}
    yield scenario("hyperband_odd_numbers", odd, trials=40, slots=8, jumps=0.8, jump=(2, 12), events_at_most=300)
    last = {**base, "stop_last_trials": False}
    yield scenario("hyperband_last_trials_go_on", last, trials=20, slots=4, until=12, events_at_most=300)
    small = {**base, "max_t": 81, "reduction_factor": 3}
    yield scenario("hyperband_81", small, trials=40, slots=9, pending=9, jumps=1.0, jump=(7, 15), events_at_most=300)
    late = {"trials": 30, "slots": 3, "pending": 6, "jumps": 0.8, "jump": (2, 12)}
    yield scenario("hyperband_late_results", {**base, "max_t": 4}, **late)
    bohb = {**base, "type": "hb_bohb"}
    yield scenario("bohb", bohb, trials=40, slots=4, events_at_most=300)
    yield scenario("bohb_few_trials", bohb, trials=7, slots=3, mode="min", jumps=0.2)
    yield scenario("bohb_fails", bohb, trials=30, slots=4, fails=0.03)
    yield scenario("bohb_late_results", bohb, seed=4, **late)


def populations():
    lr = {"lr": {"uniform": [0, 1]}, "batch": [8, 16, 32, 64]}
    base = {"type": "pbt", "time_attr": TIME, "perturbation_interval": 3, "hyperparam_mutations": lr}

    def config(rng):
        return {"lr": rng.randrange(1, 9) / 8, "batch": rng.choice([8, 16, 32, 64]), "other": "x"}

    yield scenario("pbt", base, trials=8, slots=8, pending=8, until=30, config=config)
    yield scenario("pbt_min_few_slots", base, trials=9, slots=3, until=12, mode="min", config=config, nan=0.1)
    nested = {
        "model": {"width": {"randint": [8, 64]}, "deep": {"act": ["relu", "tanh"]}},
        "flag": {"choice": [True, False]},
        "lr": {"loguniform": [1e-4, 1e-2]},
    }
    settings = {**base, "hyperparam_mutations": nested, "quantile_fraction": 0.5, "resample_probability": 0.6}
    yield scenario("pbt_nested_and_filled", settings, trials=5, slots=5, pending=5, until=24, fails=0.01)
    settings = {**base, "burn_in_period": 4, "require_attrs": False, "perturbation_factors": [2, 0.5, 1.1]}
    yield scenario("pbt_burn_in", settings, trials=6, slots=4, until=20, config=config, missing=0.1, jumps=0.2, ends=0.01)
    yield scenario("pbt_custom", {**base, "custom": True}, trials=4, slots=4, pending=4, until=24, config=config)
    no_log = {**base, "log_config": False, "quantile_fraction": 0}
    yield scenario("pbt_never", no_log, trials=4, slots=2, until=10, config=config)
    synch = {**base, "synch": True}
    yield scenario("pbt_synch", synch, trials=8, slots=3, pending=8, until=40, config=config)
    yield scenario("pbt_synch_late", synch, trials=5, slots=5, pending=5, until=40, jumps=0.3, config=config, mode="min")


def resources():
    even = {"type": "DistributeResources"}
    base = {"type": "resource_changing", "base_scheduler": {"type": "FIFO"}, "resources_allocation_function": even}
    run = {"trials": 6, "slots": 4, "until": 6, "events_at_most": 120}
    yield scenario("resources", base, total=(13, 0), **run)
    asha = {**base, "base_scheduler": {"type": "ASHA", "max_t": 9, "reduction_factor": 3}}
    yield scenario("resources_asha", asha, total=(16, 0), **run)
    gpus = {**base, "resources_allocation_function": {**even, "reserve_resources": {"CPU": 2, "GPU": 1}}}
    yield scenario("resources_gpus", gpus, total=(12, 9), resources=({"CPU": 2, "GPU": 1},), **run)
    by = {**even, "increase_by": {"CPU": 2, "GPU": 0.5}, "increase_by_times": 2}
    by = {**base, "resources_allocation_function": by}
    yield scenario("resources_by", by, total=(30, 6), resources=({"CPU": 1, "GPU": 0.5},), **run)
    add = {**base, "resources_allocation_function": {**even, "add_bundles": True}}
    yield scenario("resources_bundles", add, total=(22, 0), resources=({"CPU": 1}, {"CPU": 2}), **run)
    head = ({}, {"CPU": 2})
    yield scenario("resources_empty_head", add, total=(22, 0), resources=head, **run)
    for mode in ["max", "min"]:
        top = {"type": "DistributeResourcesToTopJob", "metric": METRIC, "mode": mode}
        top = {**base, "resources_allocation_function": top}
        yield scenario(f"resources_top_{mode}", top, total=(12, 0), last_results=True, mode=mode, **run)
        limit = {**top["resources_allocation_function"], "increase_by": {"CPU": 2}, "increase_by_times": 2}
        limit = {**base, "resources_allocation_function": limit}
        yield scenario(f"resources_top_limit_{mode}", limit, total=(15, 0), last_results=True, mode=mode, **run)
        bundles = {**top["resources_allocation_function"], "add_bundles": True, "increase_by": {"CPU": 1}}
        bundles = {**base, "resources_allocation_function": {**bundles, "increase_by_times": 1}}
        yield scenario(f"resources_top_bundles_{mode}", bundles, total=(15, 0), last_results=True, mode=mode, **run)


def stuck():
    """A bracket waits for its last trial at the second milestone; that fails, and Ray does nothing any more."""
    settings = {"type": "hyperband", "max_t": 9, "reduction_factor": 3}
    scheduler = create_scheduler(**{"scheduler": "hyperband", "max_t": 9, "reduction_factor": 3})
    scheduler.set_search_properties(METRIC, "max")
    controller = Controller(scheduler, 8, 0)
    scheduler._unpause_trial = lambda _, trial: controller.orders.append(["unpause", trial.number])
    events = []

    def add(number):
        trial = RecordedTrial(number, {}, None)
        scheduler.on_trial_add(controller, trial)
        controller.trials.append(trial)
        events.append(["add", {}, {}])

    def choose():
        chosen = scheduler.choose_trial_to_run(controller)
        events.append(["choose", chosen.number if chosen else None])
        if chosen:
            chosen.status = Trial.RUNNING

    def report(number, time, score):
        trial = controller.trials[number]
        result = {TIME: time, METRIC: score}
        decision = scheduler.on_trial_result(controller, trial, result)
        events.append(["result", number, short(result), decision, controller.take()])
        trial.result = result
        trial.status = {"PAUSE": Trial.PAUSED, "CONTINUE": Trial.RUNNING, "STOP": Trial.TERMINATED}[decision]
        if decision == "STOP":
            scheduler.on_trial_complete(controller, trial, result)
            events.append(["complete", number, short(result), controller.take()])

    # Three trials go to bracket 0, five to bracket 1, which halves to two.
    for number in range(8):
        add(number)
    for _ in range(8):
        choose()
    for number in range(7, 2, -1):
        report(number, 3, number)
    choose()
    report(7, 9, 1.0)
    trial = controller.trials[6]
    assert trial.status == Trial.RUNNING
    trial.status = Trial.ERROR
    scheduler.on_trial_error(controller, trial)
    events.append(["error", trial.number, controller.take()])
    assert events[-1][2] == [] and scheduler.choose_trial_to_run(controller) is None
    return {
        "name": "hyperband_stuck",
        "scheduler": settings,
        "mode": "max",
        "resources": [{"CPU": 1}],
        "total": {"CPU": 8, "GPU": 0},
        "draws": [],
        "events": events,
        "files": {},
    }


def record_stoppers():
    rng = random.Random(0)
    cases = [
        ("MaximumIterationStopper", {"max_iter": 3}),
        ("TrialPlateauStopper", {"metric": METRIC}),
        ("TrialPlateauStopper", {"metric": METRIC, "std": 0.2, "num_results": 3, "grace_period": 5}),
        ("TrialPlateauStopper", {"metric": METRIC, "std": 0.3, "metric_threshold": 0.5, "mode": "max"}),
        ("TrialPlateauStopper", {"metric": METRIC, "std": 0.3, "metric_threshold": 0.5, "mode": "min"}),
        ("ExperimentPlateauStopper", {"metric": METRIC}),
        ("ExperimentPlateauStopper", {"metric": METRIC, "std": 0.05, "top": 4, "mode": "max", "patience": 3}),
        ("ExperimentPlateauStopper", {"metric": METRIC, "std": 0.1, "top": 5, "mode": "min", "patience": 1}),
    ]
    for name, settings in cases:
        stopper = getattr(stoppers, name)(**settings)
        calls = []
        for step in range(40):
            trial = rng.randrange(3)
            result = {METRIC: rng.randrange(9) / 8 if step < 15 else rng.choice([0, 0, 0, 0, 0, 1]) / 4}
            if name == "TrialPlateauStopper" and "mode" not in settings and step % 11 == 5:
                del result[METRIC]
            calls.append([trial, result, bool(stopper(f"t{trial}", result)), bool(stopper.stop_all())])
        yield {"stopper": name, "settings": settings, "calls": calls}


def write(name, rows):
    header = {"ray": ray.__version__, "numpy": np.__version__}
    with open(OUT / name, "w") as file:
        for row in [header, *rows]:
            file.write(json.dumps(row, separators=(",", ":"), allow_nan=False) + "\n")


os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
np.random.seed(0)
recorded = [run for kind in [asha, median, bands, populations, resources] for run in kind()] + [stuck()]
write("ray_schedulers.jsonl", recorded)
write("ray_stoppers.jsonl", record_stoppers())
