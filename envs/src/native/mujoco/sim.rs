//! A simulation as a task sees it.

use std::ops::Range;

use super::layout::{FIELDS, Field};

/// What is constant in a model, and where a task finds what it reads.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    /// Seconds per `mj_step`.
    pub(super) timestep: f64,
    pub(super) body_mass: Vec<f64>,
    /// Low and high, actuator by actuator.
    pub(super) ctrl_range: Vec<f64>,
    /// The positions of the model, and velocities of 0.
    pub(super) init_qpos: Vec<f64>,
    pub(super) init_qvel: Vec<f64>,
    /// Indices of the bodies that the task named.
    pub(super) bodies: Vec<usize>,
    /// Places in the row of fields; empty for a field that the task does not read.
    pub(super) places: [Range<usize>; FIELDS],
}

/// One simulation at some moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sim<'a> {
    pub(super) facts: &'a Facts,
    pub(super) qpos: &'a [f64],
    pub(super) qvel: &'a [f64],
    pub(super) ctrl: &'a [f64],
    pub(super) fields: &'a [f64],
}

impl<'a> Sim<'a> {
    /// Of the fields that a task reads; another one is empty.
    pub(super) fn field(&self, field: Field) -> &'a [f64] {
        &self.fields[self.facts.places[field as usize].clone()]
    }

    /// The position of one of the bodies that a task reads.
    pub(super) fn body(&self, index: usize) -> [f64; 3] {
        let at = 3 * self.facts.bodies[index];
        let xpos = self.field(Field::Xpos);
        [xpos[at], xpos[at + 1], xpos[at + 2]]
    }

    /// `np.linalg.norm(qpos[0:2])`.
    pub(super) fn distance_from_origin(&self) -> f64 {
        super::numpy::norm(&self.qpos[..2])
    }
}
