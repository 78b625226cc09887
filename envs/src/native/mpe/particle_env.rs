//! The environment type that runs any particle scenario.

use std::marker::PhantomData;

use serde::{Deserialize, Serialize};

use super::{
    action::ParticleAction,
    observation::Observation,
    picture,
    scenario::{Scenario, at_least_1},
    world::{Body, MAX_WORDS, Point, World},
};
use crate::{
    Error, Frame, MultiAgentEnv, MultiAgentOut, NpRandom, Result, Space, contract::state,
    contract::vector::invalid_action,
};

/// A multi-agent particle environment: agents in a plane move, push each other and talk. Its scenario is one of
/// [`Simple`](super::Simple), [`SimpleAdversary`](super::SimpleAdversary), [`SimpleCrypto`](super::SimpleCrypto),
/// [`SimplePush`](super::SimplePush), [`SimpleReference`](super::SimpleReference),
/// [`SimpleSpeakerListener`](super::SimpleSpeakerListener), [`SimpleSpread`](super::SimpleSpread),
/// [`SimpleTag`](super::SimpleTag) and [`SimpleWorldComm`](super::SimpleWorldComm).
///
/// All scenarios are bit for bit equal to mpe2 1.1.1, with all settings but `benchmark_data`. One difference remains:
/// numpy's exponential function, which mpe2 uses, can differ from the C library's in the last bit on processors with
/// AVX-512; this crate uses the C library's. It affects only the rewards of good agents outside -1..1 in simple tag and
/// simple world comm.
///
/// | | |
/// |---|---|
/// | action with `A = i64` | agents that move: 0 nothing, 1 left, 2 right, 3 down, 4 up; agents that talk: the word; agents that do both: `5 * word + push` |
/// | action with `A = f32` | numbers that are clipped to 0..=1: five for agents that move (unused, left, right, down, up), then one per word for agents that talk |
/// | truncated | all agents after `max_cycles` steps |
#[derive(Clone, Debug)]
pub struct ParticleEnv<S: Scenario, A: ParticleAction = i64> {
    scenario: S,
    action_spaces: Vec<Space>,
    /// Number of scalars of all agents' actions together.
    action_width: usize,
    obs_widths: Vec<usize>,
    random: NpRandom,
    world: World,
    /// Steps taken in the episode; `max_cycles` if it is over.
    step: usize,
    /// Largest absolute coordinate at the start of the episode, for the zoom of pictures.
    start_range: f64,
    obs: Observation,
    action: PhantomData<A>,
}

impl<S: Scenario, A: ParticleAction> ParticleEnv<S, A> {
    /// Creates an environment; call `reset` before the first step.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting is outside its range.
    pub fn new(config: S) -> Result<Self> {
        let refuse = |message: String| Err(Error::Config { env: S::ID.into(), message });
        let common = config.common();
        if let Some(problem) = config.problem() {
            return refuse(problem);
        }
        if common.max_cycles == 0 {
            return refuse(at_least_1("max_cycles"));
        }
        let world = config.world();
        let action_space = |agent: &Body| A::space(agent.movable, if agent.silent { 0 } else { world.words });
        let action_spaces: Vec<Space> = world.agents.iter().map(action_space).collect();
        let mut obs = Observation::default();
        let obs_widths = (0..world.agents.len())
            .map(|agent| {
                let before = obs.numbers.len();
                config.observe(&world, agent, &mut obs);
                obs.numbers.len() - before
            })
            .collect();
        Ok(Self {
            action_width: action_spaces.iter().map(Space::width).sum(),
            action_spaces,
            obs_widths,
            random: NpRandom::from_entropy(),
            world,
            step: common.max_cycles,
            start_range: 1.0,
            obs,
            scenario: config,
            action: PhantomData,
        })
    }

    fn check(&self, out: &MultiAgentOut<'_, f32>) -> Result<()> {
        out.check(self.obs_widths.len(), self.obs.numbers.len())
    }

    fn observe(&mut self, obs: &mut [f32]) {
        self.obs.numbers.clear();
        for agent in 0..self.world.agents.len() {
            self.scenario.observe(&self.world, agent, &mut self.obs);
        }
        obs.copy_from_slice(&self.obs.numbers);
    }

    fn write_rewards(&self, rewards: &mut [f64]) {
        let scenario = &self.scenario;
        let world = &self.world;
        let own =
            rewards.iter_mut().enumerate().map(|(agent, reward)| (reward, scenario.reward(world, agent)));
        match scenario.local_ratio() {
            None => own.for_each(|(reward, own)| *reward = own),
            Some(local_ratio) => {
                let global = scenario.global_reward(world);
                own.for_each(|(reward, own)| *reward = global * (1.0 - local_ratio) + own * local_ratio);
            }
        }
    }

    pub(super) fn stage(&self) -> usize {
        self.world.curriculum_stage
    }

    pub(super) fn set_stage(&mut self, stage: usize) {
        self.world.curriculum_stage = stage.min(S::LAST_STAGE);
    }
}

impl<S: Scenario, A: ParticleAction> MultiAgentEnv for ParticleEnv<S, A> {
    type Obs = f32;
    type Act = A;

    fn agents(&self) -> Vec<String> {
        self.world.names.clone()
    }

    fn observation_space(&self, agent: usize) -> Space {
        Space::real(&[self.obs_widths[agent]])
    }

    fn action_space(&self, agent: usize) -> Space {
        self.action_spaces[agent].clone()
    }

    fn reset(&mut self, seed: Option<u64>, mut out: MultiAgentOut<'_, f32>) -> Result<()> {
        self.check(&out)?;
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        self.scenario.reset(&mut self.world, &mut self.random);
        self.scenario.paint(&mut self.world);
        self.step = 0;
        self.start_range = self.world.range();
        out.reborrow().start();
        self.observe(out.obs);
        Ok(())
    }

    fn step(&mut self, actions: &[A], out: MultiAgentOut<'_, f32>) -> Result<()> {
        self.check(&out)?;
        if actions.len() != self.action_width {
            let found = format_args!("{} long", actions.len());
            let expected = format_args!("{} long (the agents' actions)", self.action_width);
            return Err(Error::shape("`actions`", found, expected));
        }
        let mut rest = actions;
        for space in &self.action_spaces {
            let (action, others) = rest.split_at(space.width());
            if let Some(action) = invalid_action(space, action) {
                return Err(Error::invalid_action(S::ID, action, space));
            }
            rest = others;
        }
        let max_cycles = self.scenario.common().max_cycles;
        if self.step >= max_cycles {
            return Err(Error::unsupported(S::ID, "running episode", "call `reset`"));
        }
        let mut rest = actions;
        for (agent, space) in self.world.agents.iter_mut().zip(&self.action_spaces) {
            let (action, others) = rest.split_at(space.width());
            A::act(action, self.world.words, agent);
            rest = others;
        }
        self.world.step();
        self.step += 1;
        let cut = self.step >= max_cycles;
        let done = !cut && self.scenario.is_success(&self.world);
        if done {
            self.step = max_cycles;
        }
        let over = cut || done;
        self.observe(out.obs);
        self.write_rewards(out.rewards);
        out.terminated.fill(done);
        out.truncated.fill(cut);
        out.alive.fill(!over);
        out.acting.fill(!over);
        Ok(())
    }

    fn render_fps(&self) -> Option<f64> {
        Some(10.0)
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        let zoom = if self.scenario.common().dynamic_rescaling {
            0.9 * self.start_range / self.world.range()
        } else {
            1.0
        };
        Ok(picture::draw(&self.world, zoom))
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let World { agents, landmarks, goals, curriculum_stage, .. } = &self.world;
        let moving: Vec<SavedAgent> = agents.iter().map(SavedAgent::from).collect();
        let still: Vec<Point> = landmarks.iter().map(|landmark| landmark.position).collect();
        let fields = (&self.random, goals, moving, still, self.step, self.start_range, curriculum_stage);
        Some(state::save(S::ID, &fields))
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (random, goals, moving, still, step, start_range, stage): (
            NpRandom,
            [usize; 2],
            Vec<SavedAgent>,
            Vec<Point>,
            usize,
            f64,
            usize,
        ) = state::load(S::ID, state)?;
        let World { agents, landmarks, .. } = &mut self.world;
        state::check_count("agents", moving.len(), agents.len())?;
        state::check_count("landmarks", still.len(), landmarks.len())?;
        if let Some(goal) = goals.iter().find(|&&goal| goal > 0 && goal >= landmarks.len()) {
            return Err(Error::state(format!("landmark {goal} is a goal, but there is none; it is damaged")));
        }
        agents.iter_mut().zip(moving).for_each(|(agent, saved)| saved.restore(agent));
        landmarks.iter_mut().zip(still).for_each(|(landmark, position)| landmark.position = position);
        self.world.goals = goals;
        self.random = random;
        self.step = step;
        self.start_range = start_range;
        self.set_stage(stage);
        self.scenario.paint(&mut self.world);
        Ok(())
    }
}

/// What a saved state holds of each agent; the rest follows from the settings.
#[derive(Serialize, Deserialize)]
struct SavedAgent {
    position: Point,
    velocity: Point,
    accel: f64,
    max_speed: f64,
    speech: [f64; MAX_WORDS],
}

impl From<&Body> for SavedAgent {
    fn from(agent: &Body) -> Self {
        let Body { position, velocity, accel, max_speed, speech, .. } = *agent;
        Self { position, velocity, accel, max_speed, speech }
    }
}

impl SavedAgent {
    fn restore(self, agent: &mut Body) {
        let Self { position, velocity, accel, max_speed, speech } = self;
        *agent = Body { position, velocity, accel, max_speed, speech, ..*agent };
    }
}
