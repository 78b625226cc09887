//! Without libtorch every buffer is in the main memory.

use crate::base::{Device, Stats};
use crate::kernels::Adam;
use crate::params::optimizer_config::OptimizerConfig;
use std::ops::Range;

/// A buffer in libtorch's memory: there is none.
#[derive(Debug)]
pub(crate) enum OnDevice {}

impl OnDevice {
    pub(super) fn new(_: &[f32], _: Device) -> Option<Self> {
        None
    }

    pub(super) fn zeros(&self, _: usize) -> Self {
        match *self {}
    }

    pub(super) fn duplicate(&self) -> Self {
        match *self {}
    }

    pub(super) fn read(&self) -> &[f32] {
        match *self {}
    }

    pub(super) fn write(&mut self) -> Result<&mut [f32], &mut Self> {
        match *self {}
    }

    pub(super) fn set(&mut self, _: &[f32]) {
        match *self {}
    }

    pub(super) fn approach(&mut self, _: &Self, _: f64) {
        match *self {}
    }

    pub(crate) fn add_scaled(&mut self, _: &Range<usize>, _: &Self, _: f64) {
        match *self {}
    }

    pub(super) fn clip(&mut self, _: &Range<usize>, _: f64, _: &'static str, _: &mut Stats) {
        match *self {}
    }

    pub(super) fn step(
        &mut self,
        _: &Self,
        _: &Range<usize>,
        _: (&mut Self, &mut Self, Option<&mut Self>),
        _: (OptimizerConfig, Option<Adam>),
        _: f64,
    ) {
        match *self {}
    }
}
