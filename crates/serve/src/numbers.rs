//! Rows of observations and actions whose scalar type is known when the server runs.

use super::refusal::Refusal;
use pavlov_envs::{DType, Element};
use pavlov_trainer::policy::ActionRows;
use pavlov_trainer::rng::Stream;
use pavlov_trainer::{Loaded, Observations, Result};

/// Observations, row after row.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numbers {
    U8(Vec<u8>),
    I64(Vec<i64>),
    F32(Vec<f32>),
    F64(Vec<f64>),
}

/// Actions, row after row.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Actions {
    Int(Vec<i64>),
    Float(Vec<f32>),
}

impl Numbers {
    pub(crate) fn empty(dtype: DType) -> Self {
        match dtype {
            DType::U8 => Self::U8(Vec::new()),
            DType::I64 => Self::I64(Vec::new()),
            DType::F32 => Self::F32(Vec::new()),
            DType::F64 => Self::F64(Vec::new()),
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::U8(all) => all.len(),
            Self::I64(all) => all.len(),
            Self::F32(all) => all.len(),
            Self::F64(all) => all.len(),
        }
    }

    /// The bytes of all numbers.
    pub(crate) fn bytes(&self) -> &[u8] {
        match self {
            Self::U8(all) => all,
            Self::I64(all) => bytemuck::cast_slice(all),
            Self::F32(all) => bytemuck::cast_slice(all),
            Self::F64(all) => bytemuck::cast_slice(all),
        }
    }

    /// Appends the rows of `more`, which have the same type.
    pub(super) fn append(&mut self, more: &Self) {
        match (self, more) {
            (Self::U8(all), Self::U8(more)) => all.extend_from_slice(more),
            (Self::I64(all), Self::I64(more)) => all.extend_from_slice(more),
            (Self::F32(all), Self::F32(more)) => all.extend_from_slice(more),
            (Self::F64(all), Self::F64(more)) => all.extend_from_slice(more),
            _ => unreachable!("all rows have the type of the policy's observations"),
        }
    }

    /// Appends a number that a client wrote as text.
    pub(crate) fn push(&mut self, number: f64) -> std::result::Result<(), Refusal> {
        let whole = |low: f64, high: f64| {
            if number.fract() == 0.0 && (low..=high).contains(&number) {
                return Ok(());
            }
            let message = format!("{number} is given where the space takes integers from {low} to {high}");
            Err(Refusal::bad("rows", message))
        };
        match self {
            Self::U8(all) => {
                whole(0.0, 255.0)?;
                all.push(number as u8);
            }
            Self::I64(all) => {
                // Integers beyond are not exact as numbers of JSON.
                whole(-9_007_199_254_740_992.0, 9_007_199_254_740_992.0)?;
                all.push(number as i64);
            }
            Self::F32(all) => all.push(number as f32),
            Self::F64(all) => all.push(number),
        }
        Ok(())
    }

    /// Refuses NaN and infinities.
    pub(super) fn check_finite(&self, width: usize) -> std::result::Result<(), Refusal> {
        let at = match self {
            Self::F32(all) => all.iter().position(|x| !x.is_finite()),
            Self::F64(all) => all.iter().position(|x| !x.is_finite()),
            Self::U8(_) | Self::I64(_) => None,
        };
        let Some(at) = at else { return Ok(()) };
        let message = format!(
            "number {} of row {} is NaN or infinite; observations must be finite",
            at % width,
            at / width
        );
        Err(Refusal::bad("not_finite", message))
    }

    /// The network's outputs for all rows.
    pub(super) fn outputs(&self, policy: &Loaded, memory: &mut [f32]) -> Result<Vec<f32>> {
        match self {
            Self::U8(obs) => outputs(policy, obs, memory),
            Self::I64(obs) => outputs(policy, obs, memory),
            Self::F32(obs) => outputs(policy, obs, memory),
            Self::F64(obs) => outputs(policy, obs, memory),
        }
    }

    /// Lets the policy act for all rows.
    pub(super) fn act(
        &self,
        policy: &Loaded,
        mask: Option<&[bool]>,
        memory: &mut [f32],
        streams: Option<&mut [Stream]>,
    ) -> Result<Actions> {
        match self {
            Self::U8(obs) => act(policy, obs, mask, memory, streams),
            Self::I64(obs) => act(policy, obs, mask, memory, streams),
            Self::F32(obs) => act(policy, obs, mask, memory, streams),
            Self::F64(obs) => act(policy, obs, mask, memory, streams),
        }
    }
}

fn outputs<T: Element>(policy: &Loaded, obs: &[T], memory: &mut [f32]) -> Result<Vec<f32>> {
    policy.outputs(Observations::new(obs).with_memory(memory))
}

fn act<T: Element>(
    policy: &Loaded,
    obs: &[T],
    mask: Option<&[bool]>,
    memory: &mut [f32],
    streams: Option<&mut [Stream]>,
) -> Result<Actions> {
    let mut rows = Observations::new(obs).with_memory(memory);
    if let Some(mask) = mask {
        rows = rows.with_mask(mask);
    }
    if let Some(streams) = streams {
        rows = rows.drawn_from(streams);
    }
    let numbers = obs.len() / policy.observation_width() * policy.action_width();
    if policy.is_discrete() {
        let mut actions = vec![0; numbers];
        policy.act(rows, ActionRows::Int(&mut actions))?;
        return Ok(Actions::Int(actions));
    }
    let mut actions = vec![0.0; numbers];
    policy.act(rows, ActionRows::Float(&mut actions))?;
    Ok(Actions::Float(actions))
}

impl Actions {
    /// The numbers `from..to`.
    pub(super) fn part(&self, from: usize, to: usize) -> Self {
        match self {
            Self::Int(all) => Self::Int(all[from..to].to_vec()),
            Self::Float(all) => Self::Float(all[from..to].to_vec()),
        }
    }

    /// Whether all numbers are finite.
    pub(super) fn is_finite(&self) -> bool {
        match self {
            Self::Int(_) => true,
            Self::Float(all) => all.iter().all(|x| x.is_finite()),
        }
    }
}
