//! Poles on a cart: InvertedPendulum, InvertedDoublePendulum.

use super::{
    layout::Field,
    numpy::{clip, one_if},
    settings::{Camera, Common, settings},
    sim::Sim,
    task::{Task, add_normal, add_uniform},
};
use crate::{NpRandom, native::numpy_math::square};

settings! {
    InvertedPendulum("inverted_pendulum.xml", 2) {
        reset_noise_scale: f64 = 0.01,
    }
}

settings! {
    InvertedDoublePendulum("inverted_double_pendulum.xml", 5) {
        healthy_reward: f64 = 10.0,
        reset_noise_scale: f64 = 0.1,
    }
}

impl Task for InvertedPendulum {
    fn common(&self) -> &Common {
        &self.common
    }

    fn least_joints(&self) -> usize {
        2
    }

    fn camera(&self) -> Camera {
        Camera { distance: 2.8, azimuth: 90.0, elevation: -20.0, height: Some(0.2), body: None }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, self.reset_noise_scale, random);
        add_uniform(qvel, self.reset_noise_scale, random);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.extend_from_slice(sim.qpos);
        obs.extend_from_slice(sim.qvel);
    }

    fn reward(&self, sim: &Sim<'_>, _: [f64; 2], _: &[f32], info: &mut [f64]) -> (f64, bool) {
        let finite = sim.qpos.iter().chain(sim.qvel).all(|value| value.is_finite());
        let terminated = !finite || sim.qpos[1].abs() > 0.2;
        info[0] = one_if(!terminated);
        (info[0], terminated)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &["reward_survive"]
    }
}

impl Task for InvertedDoublePendulum {
    fn common(&self) -> &Common {
        &self.common
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::SiteXpos, Field::QfrcConstraint]
    }

    fn least_joints(&self) -> usize {
        3
    }

    fn check(&self, sim: &Sim<'_>) -> Result<(), String> {
        let sites = sim.field(Field::SiteXpos).len() / 3;
        if sites > 0 { Ok(()) } else { Err("the model has no site, which is the tip of the poles".into()) }
    }

    fn camera(&self) -> Camera {
        Camera { distance: 4.1225, azimuth: 90.0, elevation: -20.0, height: Some(0.6), body: None }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, self.reset_noise_scale, random);
        add_normal(qvel, self.reset_noise_scale, random);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.push(sim.qpos[0]);
        obs.extend(sim.qpos[1..].iter().map(|angle| angle.sin()));
        obs.extend(sim.qpos[1..].iter().map(|angle| angle.cos()));
        obs.extend(sim.qvel.iter().map(|&velocity| clip(velocity, -10.0, 10.0)));
        obs.push(clip(sim.field(Field::QfrcConstraint)[0], -10.0, 10.0));
    }

    fn reward(&self, sim: &Sim<'_>, _: [f64; 2], _: &[f32], info: &mut [f64]) -> (f64, bool) {
        let tip = sim.field(Field::SiteXpos);
        let x = tip[0];
        let y = tip[2];
        let terminated = y <= 1.0;
        let survive = self.healthy_reward * one_if(!terminated);
        let distance = 0.01 * square(x) + square(y - 2.0);
        let velocity = 1e-3 * square(sim.qvel[1]) + 5e-3 * square(sim.qvel[2]);
        info.copy_from_slice(&[survive, -distance, -velocity]);
        (survive - distance - velocity, terminated)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &["reward_survive", "distance_penalty", "velocity_penalty"]
    }
}
