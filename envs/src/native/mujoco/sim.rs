//! A MuJoCo simulation as a task sees it.

use std::ops::Range;

use super::layout::{FIELDS, Field};

/// Constants of a model, and the ranges of the arrays that a task reads.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Simulated seconds per `mj_step`.
    pub(super) timestep: f64,
    pub(super) body_mass: Vec<f64>,
    /// Lower and upper control bound of each actuator, interleaved.
    pub(super) ctrl_range: Vec<f64>,
    /// Initial positions of the model; the initial velocities are 0.
    pub(super) init_qpos: Vec<f64>,
    pub(super) init_qvel: Vec<f64>,
    /// Indices of the bodies that the task named.
    pub(super) bodies: Vec<usize>,
    /// Range of each field in the row of fields; empty for a field that the task does not read.
    pub(super) places: [Range<usize>; FIELDS],
}

/// State of one simulation at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sim<'a> {
    pub(super) facts: &'a Facts,
    pub(super) qpos: &'a [f64],
    pub(super) qvel: &'a [f64],
    pub(super) ctrl: &'a [f64],
    pub(super) fields: &'a [f64],
}

impl<'a> Sim<'a> {
    /// Values of a field; empty if the task does not declare it in `Task::fields`.
    pub(super) fn field(&self, field: Field) -> &'a [f64] {
        &self.fields[self.facts.places[field as usize].clone()]
    }

    /// Position of a body; `index` counts the bodies that `Task::bodies` names.
    pub(super) fn body(&self, index: usize) -> [f64; 3] {
        let at = 3 * self.facts.bodies[index];
        let xpos = self.field(Field::Xpos);
        [xpos[at], xpos[at + 1], xpos[at + 2]]
    }

    /// Distance from the origin in the plane, `np.linalg.norm(qpos[0:2])`.
    pub(super) fn distance_from_origin(&self) -> f64 {
        super::numpy::norm(&self.qpos[..2])
    }
}
