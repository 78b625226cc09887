//! Robots that run, hop, walk or swim in a plane: HalfCheetah, Hopper, Walker2d, Swimmer.

use super::{
    numpy::{clip, control_cost, one_if},
    settings::{Camera, Common, Range, range, settings},
    sim::Sim,
    task::{Task, add_normal, add_uniform},
};
use crate::NpRandom;

settings! {
    HalfCheetah("half_cheetah.xml", 5) {
        forward_reward_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 0.1,
        reset_noise_scale: f64 = 0.1,
        exclude_current_positions_from_observation: bool = true,
    }
}

settings! {
    Swimmer("swimmer.xml", 4) {
        forward_reward_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 1e-4,
        reset_noise_scale: f64 = 0.1,
        exclude_current_positions_from_observation: bool = true,
    }
}

settings! {
    Hopper("hopper.xml", 4) {
        forward_reward_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 1e-3,
        healthy_reward: f64 = 1.0,
        terminate_when_unhealthy: bool = true,
        healthy_state_range: Range = range(-100.0, 100.0),
        healthy_z_range: Range = range(0.7, f64::INFINITY),
        healthy_angle_range: Range = range(-0.2, 0.2),
        reset_noise_scale: f64 = 5e-3,
        exclude_current_positions_from_observation: bool = true,
    }
}

settings! {
    Walker2d("walker2d_v5.xml", 4) {
        forward_reward_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 1e-3,
        healthy_reward: f64 = 1.0,
        terminate_when_unhealthy: bool = true,
        healthy_z_range: Range = range(0.8, 2.0),
        healthy_angle_range: Range = range(-1.0, 1.0),
        reset_noise_scale: f64 = 5e-3,
        exclude_current_positions_from_observation: bool = true,
    }
}

impl Task for HalfCheetah {
    fn common(&self) -> &Common {
        &self.common
    }

    fn least_joints(&self) -> usize {
        1
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.0, azimuth: 90.0, elevation: -20.0, height: None, body: Some(1) }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, self.reset_noise_scale, random);
        add_normal(qvel, self.reset_noise_scale, random);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.extend_from_slice(&sim.qpos[usize::from(self.exclude_current_positions_from_observation)..]);
        obs.extend_from_slice(sim.qvel);
    }

    fn reward(
        &self,
        sim: &Sim<'_>,
        [velocity, _]: [f64; 2],
        action: &[f32],
        info: &mut [f64],
    ) -> (f64, bool) {
        let forward = self.forward_reward_weight * velocity;
        let cost = f64::from(control_cost(self.ctrl_cost_weight, action));
        info.copy_from_slice(&[sim.qpos[0], velocity, forward, -cost]);
        (forward - cost, false)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &["x_position", "x_velocity", "reward_forward", "reward_ctrl"]
    }

    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        info[0] = sim.qpos[0];
    }
}

impl Task for Swimmer {
    fn common(&self) -> &Common {
        &self.common
    }

    fn least_joints(&self) -> usize {
        2
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.0, azimuth: 90.0, elevation: -45.0, height: None, body: Some(1) }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, self.reset_noise_scale, random);
        add_uniform(qvel, self.reset_noise_scale, random);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.extend_from_slice(&sim.qpos[2 * usize::from(self.exclude_current_positions_from_observation)..]);
        obs.extend_from_slice(sim.qvel);
    }

    fn reward(&self, sim: &Sim<'_>, velocity: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool) {
        let forward = self.forward_reward_weight * velocity[0];
        let cost = f64::from(control_cost(self.ctrl_cost_weight, action));
        self.reset_info(sim, info);
        info[3..].copy_from_slice(&[velocity[0], velocity[1], forward, -cost]);
        (forward - cost, false)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &[
            "x_position",
            "y_position",
            "distance_from_origin",
            "x_velocity",
            "y_velocity",
            "reward_forward",
            "reward_ctrl",
        ]
    }

    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        info[..3].copy_from_slice(&[sim.qpos[0], sim.qpos[1], sim.distance_from_origin()]);
    }
}

/// Implements `Task` for Hopper and Walker2d, which differ only in the condition for being healthy.
macro_rules! upright {
    ($name:ident, $healthy:expr) => {
        impl Task for $name {
            fn common(&self) -> &Common {
                &self.common
            }

            fn least_joints(&self) -> usize {
                3
            }

            fn camera(&self) -> Camera {
                Camera { distance: 4.0, azimuth: 90.0, elevation: -20.0, height: Some(1.15), body: Some(2) }
            }

            fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
                add_uniform(qpos, self.reset_noise_scale, random);
                add_uniform(qvel, self.reset_noise_scale, random);
            }

            fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
                let skipped = usize::from(self.exclude_current_positions_from_observation);
                obs.extend_from_slice(&sim.qpos[skipped..]);
                obs.extend(sim.qvel.iter().map(|&velocity| clip(velocity, -10.0, 10.0)));
            }

            fn reward(
                &self,
                sim: &Sim<'_>,
                [velocity, _]: [f64; 2],
                action: &[f32],
                info: &mut [f64],
            ) -> (f64, bool) {
                let forward = self.forward_reward_weight * velocity;
                let cost = f64::from(control_cost(self.ctrl_cost_weight, action));
                let is_healthy: fn(&Self, &Sim<'_>) -> bool = $healthy;
                let healthy = is_healthy(self, sim);
                let survive = one_if(healthy) * self.healthy_reward;
                self.reset_info(sim, info);
                info[2..].copy_from_slice(&[velocity, forward, -cost, survive]);
                (forward + survive - cost, !healthy && self.terminate_when_unhealthy)
            }

            fn info_keys(&self) -> &'static [&'static str] {
                &[
                    "x_position",
                    "z_distance_from_origin",
                    "x_velocity",
                    "reward_forward",
                    "reward_ctrl",
                    "reward_survive",
                ]
            }

            fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
                info[..2].copy_from_slice(&[sim.qpos[0], sim.qpos[1] - sim.facts.init_qpos[1]]);
            }
        }
    };
}

upright!(Hopper, |task, sim| {
    let mut state = sim.qpos[2..].iter().chain(sim.qvel);
    state.all(|&value| task.healthy_state_range.holds(value))
        && task.healthy_z_range.holds(sim.qpos[1])
        && task.healthy_angle_range.holds(sim.qpos[2])
});

upright!(Walker2d, |task, sim| {
    task.healthy_z_range.holds(sim.qpos[1]) && task.healthy_angle_range.holds(sim.qpos[2])
});
