//! A robot with two legs and two arms, which walks or stands up: Humanoid, HumanoidStandup.

use super::{
    layout::Field,
    numpy::{one_if, sum, sum_of_squares},
    settings::{Camera, Common, Range, range, settings},
    sim::Sim,
    task::{Task, add_uniform},
};
use crate::NpRandom;

settings! {
    Humanoid("humanoid.xml", 5) {
        forward_reward_weight: f64 = 1.25,
        ctrl_cost_weight: f64 = 0.1,
        contact_cost_weight: f64 = 5e-7,
        contact_cost_range: Range = range(f64::NEG_INFINITY, 10.0),
        healthy_reward: f64 = 5.0,
        terminate_when_unhealthy: bool = true,
        healthy_z_range: Range = range(1.0, 2.0),
        reset_noise_scale: f64 = 0.01,
        exclude_current_positions_from_observation: bool = true,
        include_cinert_in_observation: bool = true,
        include_cvel_in_observation: bool = true,
        include_qfrc_actuator_in_observation: bool = true,
        include_cfrc_ext_in_observation: bool = true,
    }
}

settings! {
    HumanoidStandup("humanoidstandup.xml", 5) {
        /// Accepted and unused, as in Gymnasium's class.
        uph_cost_weight: f64 = 1.0,
        ctrl_cost_weight: f64 = 0.1,
        impact_cost_weight: f64 = 5e-7,
        impact_cost_range: Range = range(f64::NEG_INFINITY, 10.0),
        reset_noise_scale: f64 = 0.01,
        exclude_current_positions_from_observation: bool = true,
        include_cinert_in_observation: bool = true,
        include_cvel_in_observation: bool = true,
        include_qfrc_actuator_in_observation: bool = true,
        include_cfrc_ext_in_observation: bool = true,
    }
}

/// Methods of `Task` that both environments share.
macro_rules! body {
    () => {
        fn common(&self) -> &Common {
            &self.common
        }

        fn fields(&self) -> &'static [Field] {
            &[Field::Xipos, Field::Cinert, Field::Cvel, Field::QfrcActuator, Field::CfrcExt]
        }

        fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
            add_uniform(qpos, self.reset_noise_scale, random);
            add_uniform(qvel, self.reset_noise_scale, random);
        }

        /// Observes the state and the arrays, without the parts of the world (body 0) and of the free joint (the first six
        /// forces).
        fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
            let skipped = 2 * usize::from(self.exclude_current_positions_from_observation);
            obs.extend_from_slice(&sim.qpos[skipped..]);
            obs.extend_from_slice(sim.qvel);
            for (included, field, from) in [
                (self.include_cinert_in_observation, Field::Cinert, 10),
                (self.include_cvel_in_observation, Field::Cvel, 6),
                (self.include_qfrc_actuator_in_observation, Field::QfrcActuator, 6),
                (self.include_cfrc_ext_in_observation, Field::CfrcExt, 6),
            ] {
                if included {
                    obs.extend_from_slice(&sim.field(field)[from..]);
                }
            }
        }
    };
}

impl Task for Humanoid {
    body!();

    fn least_joints(&self) -> usize {
        6
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.0, azimuth: 90.0, elevation: -20.0, height: Some(1.2), body: Some(1) }
    }

    /// The centre of mass after the last stage of the integration, which the state alone does not determine.
    fn position(&self, sim: &Sim<'_>) -> [f64; 2] {
        let mass = &sim.facts.body_mass;
        let xipos = sim.field(Field::Xipos);
        let total = sum(mass.len(), |body| mass[body]);
        [0, 1].map(|axis| {
            let weighted = mass.iter().enumerate().map(|(body, mass)| mass * xipos[3 * body + axis]);
            weighted.fold(0.0, |sum, part| sum + part) / total
        })
    }

    fn reward(&self, sim: &Sim<'_>, velocity: [f64; 2], _: &[f32], info: &mut [f64]) -> (f64, bool) {
        let forward = self.forward_reward_weight * velocity[0];
        let healthy = self.healthy_z_range.holds(sim.qpos[2]);
        let survive = one_if(healthy) * self.healthy_reward;
        let control = self.ctrl_cost_weight * sum_of_squares(sim.ctrl);
        let contact = self.contact_cost_weight * sum_of_squares(sim.field(Field::CfrcExt));
        let contact = self.contact_cost_range.clip(contact);
        self.reset_info(sim, info);
        info[3..].copy_from_slice(&[velocity[0], velocity[1], survive, forward, -control, -contact]);
        (forward + survive - (control + contact), !healthy && self.terminate_when_unhealthy)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &[
            "x_position",
            "y_position",
            "distance_from_origin",
            "x_velocity",
            "y_velocity",
            "reward_survive",
            "reward_forward",
            "reward_ctrl",
            "reward_contact",
        ]
    }

    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        info[..3].copy_from_slice(&[sim.qpos[0], sim.qpos[1], sim.distance_from_origin()]);
    }
}

impl Task for HumanoidStandup {
    body!();

    fn least_joints(&self) -> usize {
        6
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.0, azimuth: 90.0, elevation: -20.0, height: Some(0.8925), body: Some(1) }
    }

    fn reward(&self, sim: &Sim<'_>, _: [f64; 2], _: &[f32], info: &mut [f64]) -> (f64, bool) {
        let up = sim.qpos[2] / sim.facts.timestep;
        let control = self.ctrl_cost_weight * sum_of_squares(sim.ctrl);
        let impact = self.impact_cost_weight * sum_of_squares(sim.field(Field::CfrcExt));
        let impact = self.impact_cost_range.clip(impact);
        self.reset_info(sim, info);
        info[3..].copy_from_slice(&[up, -control, -impact]);
        (up - control - impact + 1.0, false)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &[
            "x_position",
            "y_position",
            "z_distance_from_origin",
            "reward_linup",
            "reward_quadctrl",
            "reward_impact",
        ]
    }

    fn reset_info(&self, sim: &Sim<'_>, info: &mut [f64]) {
        info[..3].copy_from_slice(&[sim.qpos[0], sim.qpos[1], sim.qpos[2] - sim.facts.init_qpos[2]]);
    }
}
