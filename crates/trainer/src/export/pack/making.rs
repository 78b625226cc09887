//! Packing of a session's policy.

use crate::export::pack::plan::{Choice, Plan};
use crate::export::pack::{About, FORMAT_VERSION, Pack, PackFacts, PackSpaces};
use crate::export::spaces::{draw, tame};
use crate::policy::Policy;
use crate::sample::{Action, FloatActions, Inference, PolicyToEnv, Session};
use pavlov_envs::{DType, Element, NpRandom, Space};
use pavlov_learn::Recording;
use pavlov_learn::base::{Error, Result};
use pavlov_learn::distributions::{ActionDist, LOG_STD_MIN};
use std::sync::Arc;

/// Number of steps that the policy and its pack are compared in.
const STEPS: usize = 64;

impl Session {
    /// Packs the policy: the network that acts, its weights, the observation filter and the spaces, without anything that
    /// only learning needs. The packed policy is compared with this one before it is returned; the session then begins
    /// new episodes.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the policy has no network or a rule of its own for actions, if its network does what a
    /// pack cannot hold, if a weight is not finite, or if the packed policy chooses other actions.
    pub fn pack(&mut self, facts: PackFacts) -> Result<Pack> {
        let Self { id, desk, policies, .. } = self;
        let pack = made(desk, policies.get_mut(id)?.as_ref(), facts)?;
        if pack.stored() != desk.stored {
            let reason = "its observations reach it by a setting that a packed model does not hold \
                          (`multiagent.observation_fn`); share the checkpoint instead";
            return Err(Error::state("the policy", reason));
        }
        // What is written is what is compared, as a reader gets it.
        let pack = Pack::from_bytes(&pack.to_bytes()?)?;
        let copies = desk.copies();
        let mut packed = pack.session(copies)?;
        match desk.obs_dtype() {
            DType::U8 => compare::<u8>(self, &mut packed, copies)?,
            DType::I64 => compare::<i64>(self, &mut packed, copies)?,
            DType::F32 => compare::<f32>(self, &mut packed, copies)?,
            DType::F64 => compare::<f64>(self, &mut packed, copies)?,
        }
        Ok(pack)
    }
}

fn made(desk: &Inference, policy: &dyn Policy, facts: PackFacts) -> Result<Pack> {
    let recording = policy.recording(desk.connector.mask_width())?;
    made_of(desk, policy, &recording, facts)
}

/// A session that acts by the numbers of a recording in place of a policy's own.
pub(in crate::export) fn session_of(
    desk: &Inference,
    policy: &dyn Policy,
    recording: &Recording,
) -> Result<Session> {
    made_of(desk, policy, recording, PackFacts::default())?.session(desk.copies())
}

fn made_of(desk: &Inference, policy: &dyn Policy, recording: &Recording, facts: PackFacts) -> Result<Pack> {
    let options = desk.connector.mask_width();
    let action_space = desk.connector.action_space();
    let has_best = recording.best.is_some();
    let choice = choice(policy.distribution(), action_space, has_best)?;
    let (plan, tensors) = Plan::of(recording, choice)?;
    let (normalizes, clips) = match desk.connector.to_env() {
        PolicyToEnv::Float { how, .. } => (*how == FloatActions::Unsquash, *how == FloatActions::Clip),
        PolicyToEnv::Int { .. } => (true, false),
    };
    let about = About {
        format_version: FORMAT_VERSION,
        pavlov: env!("CARGO_PKG_VERSION").to_owned(),
        spaces: PackSpaces {
            observation_space: desk.space.clone(),
            action_space: action_space.clone(),
            obs_dtype: desk.obs_dtype(),
            normalize_actions: normalizes,
            clip_actions: clips,
            mask_actions: options.is_some(),
        },
        filter: desk.connector.filter.as_ref().map(|filter| filter.running().clone()),
        facts,
    };
    Pack::new(plan, Arc::new(tensors), about)
}

/// How the outputs become actions.
fn choice(dist: Option<&ActionDist>, space: &Space, has_best: bool) -> Result<Choice> {
    let fitting = ActionDist::for_space(space)?;
    match dist {
        Some(dist) if *dist == fitting => return Ok(Choice::Distribution),
        Some(ActionDist::SquashedGaussian { dim, log_std_min }) if *dim == space.width() => {
            let is_usual = *log_std_min == LOG_STD_MIN;
            return Ok(if is_usual {
                Choice::SquashedDistribution
            } else {
                Choice::SquashedFrom(*log_std_min)
            });
        }
        None if fitting.is_discrete() => return Ok(Choice::Values),
        None if has_best => return Ok(Choice::Exact),
        _ => {}
    }
    let reason = "it chooses its actions by a rule of its own, which a packed model does not hold; share the checkpoint instead";
    Err(Error::state("the policy", reason))
}

/// Returns an error unless both sessions choose the same actions for random observations.
fn compare<T: Element>(own: &mut Session, packed: &mut Session, copies: usize) -> Result<()> {
    for copy in 0..copies {
        own.reset(copy)?;
    }
    let mut random = NpRandom::new(0);
    let space = tame(&own.desk.space);
    let mut rows = vec![T::default(); copies * space.width()];
    for _ in 0..STEPS {
        draw(&space, &mut random, bytemuck::cast_slice_mut(&mut rows));
        if let Some(masks) = &mut own.desk.storage.masks {
            own.desk.connector.draw_masks(masks.row(0), &mut random);
            let drawn = masks.row(0).to_vec();
            packed.mask_mut().into_iter().for_each(|mask| mask.copy_from_slice(&drawn));
        }
        let wanted = own.compute_actions(&rows, false)?;
        let found = packed.compute_actions(&rows, false)?;
        if !wanted.iter().zip(&found).all(|(wanted, found)| is_same(wanted, found)) {
            let reason = format!(
                "for the same observation it takes {found:?} where the policy takes {wanted:?}: no file was written. The \
                 policy chooses by a rule of its own; share the checkpoint instead"
            );
            return Err(Error::state("the packed policy", reason));
        }
    }
    for copy in 0..copies {
        own.reset(copy)?;
    }
    own.mask_mut().into_iter().for_each(|mask| mask.fill(true));
    Ok(())
}

/// Libtorch rounds otherwise than the engine of the pack, so continuous actions may differ in their last digits.
fn is_same(wanted: &Action, found: &Action) -> bool {
    match (wanted, found) {
        (Action::Float(wanted), Action::Float(found)) => {
            let close = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * (1.0 + a.abs());
            wanted.len() == found.len() && wanted.iter().zip(found).all(close)
        }
        (wanted, found) => wanted == found,
    }
}
