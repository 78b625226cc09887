//! Robot arms: Reacher, Pusher.

use super::{
    layout::Field,
    numpy::{control_cost, norm},
    settings::{Camera, Common, settings},
    sim::Sim,
    task::{Task, add_uniform},
};
use crate::NpRandom;

settings! {
    Reacher("reacher.xml", 2) {
        reward_dist_weight: f64 = 1.0,
        reward_control_weight: f64 = 1.0,
    }
}

settings! {
    Pusher("pusher_v5.xml", 5) {
        reward_near_weight: f64 = 0.5,
        reward_dist_weight: f64 = 1.0,
        reward_control_weight: f64 = 0.1,
    }
}

/// Minus the distance between two points.
fn nearness(a: [f64; 3], b: [f64; 3]) -> f64 {
    -norm(&[a[0] - b[0], a[1] - b[1], a[2] - b[2]])
}

impl Task for Reacher {
    fn common(&self) -> &Common {
        &self.common
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::Xpos]
    }

    fn bodies(&self) -> Vec<String> {
        ["fingertip", "target"].map(String::from).to_vec()
    }

    fn least_joints(&self) -> usize {
        4
    }

    fn camera(&self) -> Camera {
        Camera { distance: 0.9, azimuth: 90.0, elevation: -60.0, height: Some(0.0), body: None }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        add_uniform(qpos, 0.1, random);
        let goal = loop {
            let goal = [random.uniform(-0.2, 0.2), random.uniform(-0.2, 0.2)];
            if norm(&goal) < 0.2 {
                break goal;
            }
        };
        let joints = qpos.len() - 2;
        qpos[joints..].copy_from_slice(&goal);
        add_uniform(qvel, 0.005, random);
        let joints = qvel.len() - 2;
        qvel[joints..].fill(0.0);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        let [a, b] = [sim.qpos[0], sim.qpos[1]];
        obs.extend([a.cos(), b.cos(), a.sin(), b.sin()]);
        obs.extend_from_slice(&sim.qpos[2..]);
        obs.extend_from_slice(&sim.qvel[..2]);
        let tip = sim.body(0);
        let target = sim.body(1);
        obs.extend([tip[0] - target[0], tip[1] - target[1]]);
    }

    fn reward(&self, sim: &Sim<'_>, _: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool) {
        let distance = nearness(sim.body(0), sim.body(1)) * self.reward_dist_weight;
        let control = -f64::from(control_cost(self.reward_control_weight, action));
        info.copy_from_slice(&[distance, control]);
        (distance + control, false)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &["reward_dist", "reward_ctrl"]
    }
}

impl Task for Pusher {
    fn common(&self) -> &Common {
        &self.common
    }

    fn fields(&self) -> &'static [Field] {
        &[Field::Xpos]
    }

    fn bodies(&self) -> Vec<String> {
        ["tips_arm", "object", "goal"].map(String::from).to_vec()
    }

    fn least_joints(&self) -> usize {
        11
    }

    fn camera(&self) -> Camera {
        Camera { distance: 3.2, azimuth: 110.0, elevation: -35.0, height: Some(-0.2), body: None }
    }

    fn start(&self, qpos: &mut [f64], qvel: &mut [f64], random: &mut NpRandom) {
        let object = loop {
            let object = [random.uniform(-0.3, 0.0), random.uniform(-0.2, 0.2)];
            if norm(&object) > 0.17 {
                break object;
            }
        };
        let joints = qpos.len() - 4;
        qpos[joints..].copy_from_slice(&[object[0], object[1], 0.0, 0.0]);
        add_uniform(qvel, 0.005, random);
        let joints = qvel.len() - 4;
        qvel[joints..].fill(0.0);
    }

    fn observe(&self, sim: &Sim<'_>, obs: &mut Vec<f64>) {
        obs.extend_from_slice(&sim.qpos[..7]);
        obs.extend_from_slice(&sim.qvel[..7]);
        (0..3).for_each(|body| obs.extend(sim.body(body)));
    }

    fn reward(&self, sim: &Sim<'_>, _: [f64; 2], action: &[f32], info: &mut [f64]) -> (f64, bool) {
        let [tip, object, goal] = [0, 1, 2].map(|body| sim.body(body));
        let near = nearness(object, tip) * self.reward_near_weight;
        let distance = nearness(object, goal) * self.reward_dist_weight;
        let control = -f64::from(control_cost(self.reward_control_weight, action));
        info.copy_from_slice(&[distance, control, near]);
        (distance + control + near, false)
    }

    fn info_keys(&self) -> &'static [&'static str] {
        &["reward_dist", "reward_ctrl", "reward_near"]
    }
}
