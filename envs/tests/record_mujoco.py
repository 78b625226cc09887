"""Records what Gymnasium's MuJoCo environments do, for the tests of this crate.

    python record_mujoco.py FILE STEPS SEEDS [variants] [ENV..]

Needs gymnasium, mujoco and numpy. Each environment is played with its defaults and, with `variants`, with other
settings besides. Floats are written as the hex digits of their bits. MuJoCo writes its warnings to MUJOCO_LOG.TXT in
the working directory.
"""

import ctypes
import ctypes.util
import json
import sys
import warnings

import gymnasium
import mujoco
import numpy as np

fma = ctypes.CDLL(ctypes.util.find_library("m")).fma
fma.restype, fma.argtypes = ctypes.c_double, [ctypes.c_double] * 3


def norm(vector, ord=2):
    """`np.linalg.norm` with products and sums fused, as OpenBLAS has it on some processors and not on others: there the last
    bit of a distance differs. The environments of this crate are equal on all."""
    total = 0.0
    for x in vector:
        total = fma(x, x, total)
    return np.sqrt(total)


np.linalg.norm = norm

# Every setting of each class differs from its default in one of these.
VARIANTS = {
    "HalfCheetah-v5": [
        {
            "forward_reward_weight": 1.7,
            "ctrl_cost_weight": 0.3,
            "reset_noise_scale": 0.2,
            "exclude_current_positions_from_observation": False,
            "frame_skip": 3,
        }
    ],
    "Hopper-v5": [
        {"terminate_when_unhealthy": False, "healthy_reward": 0.3, "ctrl_cost_weight": 0.07, "frame_skip": 3},
        {
            "healthy_state_range": [-1.5, 1.5],
            "healthy_z_range": [0.9, 1.3],
            "healthy_angle_range": [-0.1, 0.3],
            "reset_noise_scale": 0.01,
            "forward_reward_weight": 1.3,
            "exclude_current_positions_from_observation": False,
        },
    ],
    "Walker2d-v5": [
        {
            "terminate_when_unhealthy": False,
            "healthy_reward": 0.3,
            "ctrl_cost_weight": 0.07,
            "forward_reward_weight": 1.3,
            "exclude_current_positions_from_observation": False,
            "frame_skip": 3,
        },
        {"healthy_z_range": [1.0, 1.5], "healthy_angle_range": [-0.3, 0.5], "reset_noise_scale": 0.01},
    ],
    "Swimmer-v5": [
        {
            "forward_reward_weight": 1.7,
            "ctrl_cost_weight": 0.3,
            "reset_noise_scale": 0.2,
            "exclude_current_positions_from_observation": False,
            "frame_skip": 3,
        }
    ],
    "Ant-v5": [
        {
            "main_body": "front_left_leg",
            "contact_cost_weight": 0.1,
            "contact_force_range": [-0.3, 0.5],
            "healthy_z_range": [0.3, 0.8],
            "healthy_reward": 0.3,
            "forward_reward_weight": 1.3,
            "include_cfrc_ext_in_observation": False,
        },
        {
            "main_body": 4,
            "terminate_when_unhealthy": False,
            "ctrl_cost_weight": 0.07,
            "reset_noise_scale": 0.05,
            "exclude_current_positions_from_observation": False,
            "frame_skip": 3,
        },
    ],
    "Humanoid-v5": [
        {
            "forward_reward_weight": 1.7,
            "ctrl_cost_weight": 0.3,
            "contact_cost_weight": 1e-4,
            "contact_cost_range": [0.01, 0.5],
            "healthy_reward": 0.3,
            "healthy_z_range": [1.2, 1.45],
            "include_cinert_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
        },
        {
            "terminate_when_unhealthy": False,
            "reset_noise_scale": 0.05,
            "exclude_current_positions_from_observation": False,
            "include_cvel_in_observation": False,
            "include_cfrc_ext_in_observation": False,
            "frame_skip": 3,
        },
    ],
    "HumanoidStandup-v5": [
        {
            "uph_cost_weight": 2.0,
            "ctrl_cost_weight": 0.3,
            "impact_cost_weight": 1e-4,
            "impact_cost_range": [0.01, 0.5],
            "include_cinert_in_observation": False,
            "include_qfrc_actuator_in_observation": False,
        },
        {
            "reset_noise_scale": 0.05,
            "exclude_current_positions_from_observation": False,
            "include_cvel_in_observation": False,
            "include_cfrc_ext_in_observation": False,
            "frame_skip": 3,
        },
    ],
    "InvertedPendulum-v5": [{"reset_noise_scale": 0.05, "frame_skip": 3}],
    "InvertedDoublePendulum-v5": [{"healthy_reward": 3.3, "reset_noise_scale": 0.05, "frame_skip": 3}],
    "Reacher-v5": [{"reward_dist_weight": 1.3, "reward_control_weight": 0.7, "frame_skip": 3}],
    "Pusher-v5": [
        {"reward_near_weight": 0.3, "reward_dist_weight": 1.3, "reward_control_weight": 0.7, "frame_skip": 3}
    ],
}


def f64(values):
    return np.asarray(values, ">f8").tobytes().hex()


def f32(values):
    return np.asarray(values, ">f4").tobytes().hex()


def header():
    angles = [0.05, 0.1, 0.15, 0.2, 0.7, 1.3, 2.0, 2.9, 3.7, 5.1, -0.17, -1.9]
    return {
        "gymnasium": gymnasium.__version__,
        "mujoco": mujoco.__version__,
        "numpy": np.__version__,
        "angles": angles,
        "sin": f64([np.sin(np.float64(a)) for a in angles]),
        "cos": f64([np.cos(np.float64(a)) for a in angles]),
    }


def numbers(info):
    return {key: f64(value) for key, value in info.items() if np.ndim(value) == 0}


def play(env_id, config, seed, steps):
    """Random actions, now strong, now weak, so that there are short and long episodes; streams go on after them."""
    env = gymnasium.make(env_id, disable_env_checker=True, **config)
    rng = np.random.default_rng(seed + 999)
    low, high = env.action_space.low, env.action_space.high
    obs, info = env.reset(seed=seed)
    row = {"env": env_id, "config": config, "seed": seed, "first": f64(obs), "first_info": numbers(info)}
    row["steps"] = []
    for step in range(steps):
        # Beyond the bounds now and then.
        strength = 0.1 if step // 150 % 2 else 1.1
        action = (rng.uniform(low, high) * strength).astype(np.float32)
        obs, reward, terminated, truncated, info = env.step(action)
        record = [f32(action), f64(obs), f64(reward), bool(terminated), bool(truncated), numbers(info), None]
        if terminated or truncated:
            record[-1] = f64(env.reset()[0])
        row["steps"].append(record)
    env.close()
    return row


if __name__ == "__main__":
    path, steps, seeds, *rest = sys.argv[1:]
    warnings.simplefilter("ignore")
    gymnasium.logger.min_level = gymnasium.logger.ERROR
    variants = "variants" in rest
    ids = [name for name in rest if name != "variants"] or list(VARIANTS)
    with open(path, "w") as file:
        file.write(json.dumps(header(), separators=(",", ":")) + "\n")
        for env_id in ids:
            for config in [{}, *(VARIANTS[env_id] if variants else [])]:
                for seed in [0, 1, 12345][: int(seeds)]:
                    row = play(env_id, config, seed, int(steps))
                    file.write(json.dumps(row, separators=(",", ":")) + "\n")
