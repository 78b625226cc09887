//! A robot with four legs: Ant.

use serde::{Deserialize, Serialize};

use super::{
    layout::Field,
    numpy::{control_cost, one_if, sum},
    settings::{Camera, Common, Range, range, settings},
    sim::Sim,
    task::{Task, add_normal, add_uniform},
};
use crate::NpRandom;

settings! {
    Ant("ant.xml", 5) {
        forward_reward_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 0.5,
        contact_cost_weight: f64 = 5e-4,
        healthy_reward: f64 = 1.0,
        main_body: Body = Body::Index(1),
        terminate_when_unhealthy: bool = true,
        healthy_z_range: Range = range(0.2, 1.0),
        contact_force_range: Range = range(-1.0, 1.0),
        reset_noise_scale: f64 = 0.1,
        exclude_current_positions_from_observation: bool = true,
        include_cfrc_ext_in_observation: bool = true,
    }
}

/// A body of the model, by index or by name.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(untagged)]
enum Body {
    Index(usize),
    Name(String),
}

impl Task for Ant {
    fn common(&self) -> &Common {
        &self.common
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::Xpos, Field::CfrcExt]
    }

    fn bodies(&self) -> Vec<String> {
        match &self.main_body {
            Body::Index(_) => vec![],
            Body::Name(name) => vec![name.clone()],
        }
    }

    fn check(&self, sim: &Sim<'_>) -> Result<(), String> {
        let bodies = sim.field(Field::Xpos).len() / 3;
        match self.main_body {
            Body::Index(index) if index >= bodies => Err(format!(
                "`main_body` is {index}, but it must be below {bodies} (bodies), or a body's name"
            )),
            _ => Ok(()),
        }
    }

    fn least_joints(&self) -> usize {
        3
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.0, azimuth: 90.0, elevation: -45.0, height: None, body: Some(1) }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, self.reset_noise_scale, random);
        add_normal(qvel, self.reset_noise_scale, random);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.extend_from_slice(&sim.qpos[2 * usize::from(self.exclude_current_positions_from_observation)..]);
        obs.extend_from_slice(sim.qvel);
        if self.include_cfrc_ext_in_observation {
            let forces = &sim.field(Field::CfrcExt)[6..];
            obs.extend(forces.iter().map(|&force| self.contact_force_range.clip(force)));
        }
    }

    /// Position of the main body after the last stage of the integration, which the state alone does not determine.
    fn position(&self, sim: &Sim<'_>) -> [f64; 2] {
        let [x, y, _] = match self.main_body {
            Body::Index(index) => {
                let xpos = &sim.field(Field::Xpos)[3 * index..];
                [xpos[0], xpos[1], xpos[2]]
            }
            Body::Name(_) => sim.body(0),
        };
        [x, y]
    }

    fn reward(&self, sim: &Sim<'_>, velocity: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool) {
        let forward = velocity[0] * self.forward_reward_weight;
        let finite = sim.qpos.iter().chain(sim.qvel).all(|value| value.is_finite());
        let Range { low, high } = self.healthy_z_range;
        let healthy = finite && low <= sim.qpos[2] && sim.qpos[2] <= high;
        let survive = one_if(healthy) * self.healthy_reward;
        let control = f64::from(control_cost(self.ctrl_cost_weight, action));
        let forces = sim.field(Field::CfrcExt);
        let square = |i: usize| {
            let force = self.contact_force_range.clip(forces[i]);
            force * force
        };
        let contact = self.contact_cost_weight * sum(forces.len(), square);
        self.reset_info(sim, info);
        info[3..].copy_from_slice(&[velocity[0], velocity[1], forward, -control, -contact, survive]);
        (forward + survive - (control + contact), !healthy && self.terminate_when_unhealthy)
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
            "reward_contact",
            "reward_survive",
        ]
    }

    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        info[..3].copy_from_slice(&[sim.qpos[0], sim.qpos[1], sim.distance_from_origin()]);
    }
}
