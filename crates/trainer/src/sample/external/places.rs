//! [`Places`]: the episodes that other programs play, each at a place of its own.

use crate::sample::agents::{AgentStep, Agents};
use pavlov_envs::external::{Answer, Refused, Reply, Turn};
use pavlov_envs::{DType, Element, Space};
use std::collections::HashMap;
use std::time::Instant;

/// The episodes that other programs play. A place takes one episode after another.
#[derive(Debug)]
pub(super) struct Places {
    observation_space: Space,
    act_dtype: DType,
    /// The name of the only agent.
    names: Vec<String>,
    /// Observations, one row per place, in words of eight bytes, so that rows are aligned for every scalar type.
    obs: Vec<u64>,
    /// Number of bytes of an observation.
    obs_bytes: usize,
    /// Actions, one row per place, in words of eight bytes.
    actions: Vec<u64>,
    /// Number of bytes of an action.
    action_bytes: usize,
    /// Flags of legal actions, one row per place; `None` if masks are not taken.
    masks: Option<Vec<bool>>,
    steps: Vec<AgentStep>,
    episodes: Vec<Option<Playing>>,
    /// The place of each episode.
    by_name: HashMap<String, usize>,
}

/// An episode that is being played.
#[derive(Debug)]
pub(super) struct Playing {
    pub(super) name: String,
    /// Number of the program that plays it.
    client: u64,
    /// Number of episodes that began before this one in the run.
    pub(super) number: u64,
    /// Number of actions that were asked for or logged.
    pub(super) turns: u64,
    /// Whether the observation of the next turn was taken already, while its action is held until the next fragment.
    pub(super) is_seen: bool,
    /// When the program last spoke of this episode.
    pub(super) heard: Instant,
    /// Whether a fragment is ended without this episode, because its program was silent while others waited.
    pub(super) is_silent: bool,
    /// The answer to the last turn; `None` while it is owed.
    pub(super) answered: Option<Answer>,
    /// The programs to which the answer to the last turn is owed: several if the message came twice.
    pub(super) waiting: Vec<Reply>,
}

/// The place of the episode that a message is about, and whether the message is new.
#[derive(Debug)]
pub(super) enum Place {
    /// It is the next turn of the episode at this place.
    Next(usize),
    /// It is the turn before, which comes again.
    Again(usize),
}

impl Places {
    pub(super) fn new(spaces: (&Space, &Space), masked: bool, places: usize) -> Self {
        let (observation_space, action_space) = spaces;
        let bytes = |space: &Space| space.width() * space.dtype().size();
        let words = |bytes: usize| vec![0; bytes.div_ceil(8) * places];
        let obs_bytes = bytes(observation_space);
        let action_bytes = bytes(action_space);
        Self {
            observation_space: observation_space.clone(),
            act_dtype: action_space.dtype(),
            names: vec!["agent0".into()],
            obs: words(obs_bytes),
            obs_bytes,
            actions: words(action_bytes),
            action_bytes,
            masks: masked.then(|| vec![true; action_space.flat_width() * places]),
            steps: vec![AgentStep::default(); places],
            episodes: (0..places).map(|_| None).collect(),
            by_name: HashMap::new(),
        }
    }

    /// The episode at a place.
    pub(super) fn at(&self, place: usize) -> Option<&Playing> {
        self.episodes[place].as_ref()
    }

    /// The episode at a place, to be changed.
    pub(super) fn at_mut(&mut self, place: usize) -> Option<&mut Playing> {
        self.episodes[place].as_mut()
    }

    /// The places whose episodes a program plays.
    pub(super) fn of_client(&self, client: u64) -> Vec<usize> {
        let is_of = |place: &usize| self.at(*place).is_some_and(|playing| playing.client == client);
        (0..self.len()).filter(is_of).collect()
    }

    /// Whether an episode is being played.
    pub(super) fn is_any_playing(&self) -> bool {
        !self.by_name.is_empty()
    }

    /// Begins an episode at a free place; returns its name. Without a name the number of the episode is its name.
    pub(super) fn start(
        &mut self,
        client: u64,
        name: Option<String>,
        number: u64,
    ) -> Result<String, Refused> {
        let name = name.unwrap_or_else(|| number.to_string());
        if let Some(&place) = self.by_name.get(&name) {
            let is_own = self.at(place).is_some_and(|playing| playing.client == client && playing.turns == 0);
            // The message came twice.
            if is_own {
                return Ok(name);
            }
            return Err(refused(
                "episode_taken",
                format!("the episode {name:?} is being played: choose another name"),
            ));
        }
        let Some(place) = self.episodes.iter().position(Option::is_none) else {
            let places = self.len();
            let message = format!(
                "{places} episodes are being played, as many as `num_envs_per_worker` has places: end one, or raise the \
                 setting"
            );
            return Err(refused("no_place", message));
        };
        self.by_name.insert(name.clone(), place);
        self.episodes[place] = Some(Playing {
            name: name.clone(),
            client,
            number,
            turns: 0,
            is_seen: false,
            heard: Instant::now(),
            is_silent: false,
            answered: None,
            waiting: Vec::new(),
        });
        Ok(name)
    }

    /// Ends the episode at a place, and returns it.
    pub(super) fn free(&mut self, place: usize) -> Option<Playing> {
        let playing = self.episodes[place].take()?;
        self.by_name.remove(&playing.name);
        Some(playing)
    }

    /// The place of an episode that a program plays.
    pub(super) fn place_of(&mut self, client: u64, episode: &str) -> Result<usize, Refused> {
        let place = self.by_name.get(episode).copied();
        let own = place.filter(|&place| self.at(place).is_some_and(|playing| playing.client == client));
        let Some(place) = own else {
            let message = format!(
                "this program plays no episode {episode:?}; it may have been cut after a silence, or by a restart of the \
                 run: start a new one"
            );
            return Err(refused("unknown_episode", message));
        };
        if let Some(playing) = self.at_mut(place) {
            playing.heard = Instant::now();
            playing.is_silent = false;
        }
        Ok(place)
    }

    /// The place of the episode that a message is about, and whether the message is new.
    pub(super) fn place_of_turn(&mut self, client: u64, turn: &Turn) -> Result<Place, Refused> {
        let place = self.place_of(client, &turn.episode)?;
        let Some(Playing { turns, waiting, .. }) = self.at(place) else { return Ok(Place::Next(place)) };
        let turns = *turns;
        let is_owed = !waiting.is_empty();
        match turn.seq {
            Some(seq) if seq + 1 == turns => Ok(Place::Again(place)),
            Some(seq) if seq != turns => {
                let message =
                    format!("`seq` is {seq}, but the episode has {turns} actions so far: send them in order");
                Err(refused("out_of_order", message))
            }
            _ if is_owed => {
                let message = "the action before is not chosen yet: wait for its answer";
                Err(refused("out_of_order", message.into()))
            }
            _ => Ok(Place::Next(place)),
        }
    }

    /// Stores what a program saw, for the step that [`Agents::agent`] then returns. Refuses numbers that are not finite,
    /// rows of another length, and values outside of a space of integers.
    pub(super) fn see(
        &mut self,
        place: usize,
        obs: &[u8],
        mask: Option<&[bool]>,
        step: AgentStep,
    ) -> Result<(), Refused> {
        if !step.reward.is_finite() {
            let message = format!("the reward is {}: rewards must be finite", step.reward);
            return Err(refused("not_finite", message));
        }
        if obs.len() != self.obs_bytes {
            let found = obs.len() / self.observation_space.dtype().size();
            let width = self.observation_space.width();
            let message = format!(
                "the observation has {found} numbers, but it must have {width}: {}",
                self.observation_space
            );
            return Err(refused("width", message));
        }
        let words = self.obs_bytes.div_ceil(8);
        let row: &mut [u8] = bytemuck::cast_slice_mut(&mut self.obs[place * words..][..words]);
        let row = &mut row[..obs.len()];
        row.copy_from_slice(obs);
        match self.observation_space.dtype() {
            DType::U8 => check::<u8>(&self.observation_space, row, |_| true),
            DType::I64 => check::<i64>(&self.observation_space, row, |_| true),
            DType::F32 => check::<f32>(&self.observation_space, row, |x| x.is_finite()),
            DType::F64 => check::<f64>(&self.observation_space, row, |x| x.is_finite()),
        }?;
        self.see_mask(place, mask)?;
        self.steps[place] = step;
        Ok(())
    }

    /// Stores what a program saw at the end of its episode, as [`see`](Self::see) does. Without a mask it is not known which
    /// actions are legal there.
    pub(super) fn see_end(
        &mut self,
        place: usize,
        obs: &[u8],
        mask: Option<&[bool]>,
        step: AgentStep,
    ) -> Result<(), Refused> {
        self.see(place, obs, mask, step)?;
        let places = self.len();
        if let (Some(all), None) = (&mut self.masks, mask) {
            let options = all.len() / places;
            all[place * options..][..options].fill(false);
        }
        Ok(())
    }

    fn see_mask(&mut self, place: usize, mask: Option<&[bool]>) -> Result<(), Refused> {
        let places = self.len();
        match (&mut self.masks, mask) {
            (None, None) => Ok(()),
            (None, Some(_)) => {
                let message = "masks are not taken: set `mask_actions` and `env_config.action_masks`, or leave `mask` out";
                Err(refused("mask", message.into()))
            }
            (Some(all), mask) => {
                let options = all.len() / places;
                let own = &mut all[place * options..][..options];
                let Some(mask) = mask else {
                    own.fill(true);
                    return Ok(());
                };
                if mask.len() != options || !mask.contains(&true) {
                    let legal = mask.iter().filter(|&&flag| flag).count();
                    let message = format!(
                        "the mask has {} flags, {legal} of them true, but it must have {options}, one of them true at least",
                        mask.len()
                    );
                    return Err(refused("mask", message));
                }
                own.copy_from_slice(mask);
                Ok(())
            }
        }
    }

    /// The bytes of the action that was chosen at a place.
    pub(super) fn action(&self, place: usize) -> &[u8] {
        let words = self.action_bytes.div_ceil(8);
        &bytemuck::cast_slice(&self.actions[place * words..][..words])[..self.action_bytes]
    }
}

/// Refuses a row whose numbers do not pass `is_good`, and integers outside of the space. A real number may lie outside of
/// its bounds, as in every environment.
fn check<T: Element>(space: &Space, row: &[u8], is_good: impl Fn(&T) -> bool) -> Result<(), Refused> {
    let row: &[T] = bytemuck::cast_slice(row);
    if let Some(at) = row.iter().position(|x| !is_good(x)) {
        let message = format!("number {at} of the observation is {:?}: observations must be finite", row[at]);
        return Err(refused("not_finite", message));
    }
    if matches!(space, Space::Box { .. }) {
        return Ok(());
    }
    space
        .violation(row)
        .map_or(Ok(()), |why| Err(refused("obs", format!("the observation is not of the space: {why}"))))
}

pub(super) fn refused(code: &'static str, message: String) -> Refused {
    Refused { code, message }
}

impl Agents for Places {
    fn len(&self) -> usize {
        self.episodes.len()
    }

    fn names(&self) -> &[String] {
        &self.names
    }

    fn act_dtype(&self) -> DType {
        self.act_dtype
    }

    fn obs(&self, copy: usize, _: usize) -> &[u8] {
        let words = self.obs_bytes.div_ceil(8);
        &bytemuck::cast_slice(&self.obs[copy * words..][..words])[..self.obs_bytes]
    }

    fn agent(&self, copy: usize, _: usize) -> AgentStep {
        self.steps[copy]
    }

    fn read_mask(&self, copy: usize, _: usize, mask: &mut [bool]) -> bool {
        let Some(all) = &self.masks else { return false };
        mask.copy_from_slice(&all[copy * mask.len()..][..mask.len()]);
        true
    }

    fn action_mut(&mut self, copy: usize, _: usize) -> &mut [u8] {
        let words = self.action_bytes.div_ceil(8);
        let row = bytemuck::cast_slice_mut(&mut self.actions[copy * words..][..words]);
        &mut row[..self.action_bytes]
    }
}
