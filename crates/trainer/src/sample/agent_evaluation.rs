//! Evaluation of policies in a multi-agent environment: plays whole episodes for their returns.

use crate::agents::{Agent, Policies};
use crate::base::Episode;
use crate::policy::PolicyMap;
use crate::sample::agents::ended;
use crate::sample::episode_schedule::EpisodeSchedule;
use crate::sample::filter::FilterStats;
use crate::sample::seats;
use crate::sample::seats::Seats;
use crate::settings::Common;
use pavlov_envs::{Frame, MultiAgentVector};
use pavlov_learn::base::Result;

/// The circumstances under which policies act in an evaluation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acting {
    pub(crate) explore: bool,
    pub(crate) timestep: u64,
    /// Index of the worker that plays the episodes.
    pub(crate) worker: usize,
    /// Number of pictures of the first episode to keep, at most.
    pub(crate) frames: usize,
}

/// Plays the episodes of `roster` in the environments `copies`. Returns the episodes and the pictures of the first
/// one.
pub(crate) fn play_agents(
    copies: &mut MultiAgentVector,
    common: &Common,
    (agents, policies): (&[Agent], &Policies),
    map: &mut PolicyMap,
    filters: &FilterStats,
    mut roster: EpisodeSchedule<'_>,
    Acting { explore, timestep, worker, frames: most_frames }: Acting,
) -> Result<(Vec<Episode>, Vec<Frame>)> {
    let mut teams = Vec::new();
    for (id, _) in policies.classes() {
        let own = policies.agents_of(id, agents)?;
        // No agent acts by this policy in evaluations.
        if own.is_empty() {
            continue;
        }
        let slots = (0..copies.num_envs()).flat_map(|copy| own.iter().map(move |agent| (copy, *agent)));
        let rngs = slots.map(|(copy, agent)| roster.stream(copy, agent)).collect();
        let spaces = policies.spaces(id, agents)?;
        let policy = &**map.get_mut(id)?;
        let settings = policies.settings(id, common);
        let seats = Seats::new((id.clone(), policy), (own, spaces), copies, (settings, worker), rngs, 1)?;
        teams.push(seats.filtered_by(filters.get(id))?);
    }
    for (copy, seed) in roster.seeds().into_iter().enumerate() {
        copies.reset(copy, seed)?;
        seats::begin(&mut teams, |seats| seats, copies, (copy, roster.running(copy)), &|_| None)?;
    }
    let mut frames = Vec::new();
    while roster.goes_on() {
        if roster.at_first() && frames.len() < most_frames {
            frames.extend(copies.render(0)?);
        }
        for seats in &mut teams {
            let policy = map.get_mut(seats.id())?.as_mut();
            seats.act(policy, copies, explore, timestep)?;
        }
        copies.step()?;
        for seats in &mut teams {
            seats.settle(copies)?;
            seats.carry();
        }
        for copy in 0..copies.num_envs() {
            let rewards = copies.rewards(copy);
            roster.count(copy, rewards.iter().sum(), rewards)?;
            if ended(copies, copy).0 {
                roster.follow(copy);
                let episode = roster.running(copy);
                copies.reset(copy, episode.seed)?;
                let stream = |agent| Some(roster.stream(copy, agent));
                seats::begin(&mut teams, |seats| seats, copies, (copy, episode), &stream)?;
            }
        }
    }
    Ok((roster.into_episodes(), frames))
}
