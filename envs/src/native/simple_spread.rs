//! Simple spread: agents in a plane cover landmarks together and keep off each other.

use super::draw;
use crate::{
    AnyMultiAgentEnv, Element, EnvConfig, Error, Frame, MultiAgentEnv, MultiAgentOut, NpRandom, Result,
    Space,
    env_config::decode_config,
    state::{StateReader, StateWriter},
    vector::invalid_action,
};

mod config;

pub use config::SimpleSpreadConfig;

const ID: &str = "simple_spread_v3";

const AGENT_SIZE: f64 = 0.15;
const LANDMARK_SIZE: f64 = 0.05;
const DT: f64 = 0.1;
const DAMPING: f64 = 0.25;
const SENSITIVITY: f64 = 5.0;
const CONTACT_FORCE: f64 = 100.0;
const CONTACT_MARGIN: f64 = 1e-3;
/// An agent nearer than this covers a landmark.
const CAPTURE_RADIUS: f64 = 0.1;
/// The stage of the curriculum at which collisions cost, its last.
const LAST_STAGE: usize = 1;

type Point = [f64; 2];

/// The environment `simple_spread_v3`, equal to mpe2 1.1.1's.
///
/// | | |
/// |---|---|
/// | observation | own velocity and position, landmarks and other agents relative to it, two zeros per other agent (no agent speaks); `[4 + 2 N + 4 (N - 1)]`, or with numbers of neighbors instead of `N` and `N - 1` |
/// | action of `SimpleSpread<i64>` | 0 nothing, 1 left, 2 right, 3 down, 4 up |
/// | action of `SimpleSpread<f32>` | five numbers, cut to 0..=1: unused, left, right, down, up |
/// | reward | `(1 - local_ratio)` times minus the sum over landmarks of the distance to the nearest agent, plus `local_ratio` times minus the agent's collisions |
/// | start | agents and landmarks uniform in -1..1, at rest |
/// | terminated | with `terminate_on_success`: all agents, when every landmark is covered |
/// | truncated | all agents after `max_cycles` steps |
#[derive(Clone, Debug)]
pub struct SimpleSpread<A: SimpleSpreadAction = i64> {
    config: SimpleSpreadConfig,
    action_space: Space,
    random: NpRandom,
    agents: Vec<Body>,
    landmarks: Vec<Point>,
    /// Steps of the episode; `max_cycles` when it is over.
    step: usize,
    /// Farthest coordinate at the start, for the zoom of pictures.
    start_range: f64,
    curriculum_stage: usize,
    /// Relative positions on their way into an observation.
    scratch: Vec<Point>,
    action: std::marker::PhantomData<A>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Body {
    position: Point,
    velocity: Point,
    force: Point,
}

/// What [`SimpleSpread`] takes as actions: `i64` or `f32`.
pub trait SimpleSpreadAction: Element + private::Push {}

impl SimpleSpreadAction for i64 {}
impl SimpleSpreadAction for f32 {}

mod private {
    use super::{Point, Space};

    pub trait Push: Sized {
        const CONTINUOUS: bool;

        fn space() -> Space;

        /// Direction and strength of an action in the space.
        fn push(action: &[Self]) -> Point;
    }

    impl Push for i64 {
        const CONTINUOUS: bool = false;

        fn space() -> Space {
            Space::discrete(5)
        }

        fn push(action: &[i64]) -> Point {
            [[0.0, 0.0], [-1.0, 0.0], [1.0, 0.0], [0.0, -1.0], [0.0, 1.0]][action[0] as usize]
        }
    }

    impl Push for f32 {
        const CONTINUOUS: bool = true;

        fn space() -> Space {
            Space::boxed(0.0, 1.0, &[5])
        }

        /// The difference is rounded to single precision, as numpy does.
        fn push(action: &[f32]) -> Point {
            let at = |i: usize| action[i].clamp(0.0, 1.0);
            [f64::from(at(2) - at(1)), f64::from(at(4) - at(3))]
        }
    }
}

impl<A: SimpleSpreadAction> SimpleSpread<A> {
    /// Agents that wait for their first reset.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a number is 0 that must not be, if `local_ratio` is outside 0..=1, or if
    /// `continuous_actions` are not those of the type.
    pub fn new(config: SimpleSpreadConfig) -> Result<Self> {
        let SimpleSpreadConfig { n, max_cycles, continuous_actions, .. } = config;
        let rule = if let Some(problem) = config.problem() {
            problem
        } else if continuous_actions != A::CONTINUOUS {
            let (here, other) = if A::CONTINUOUS { ("f32", "i64") } else { ("i64", "f32") };
            format!(
                "`continuous_actions` is {continuous_actions}, but SimpleSpread<{here}> has the other kind; use SimpleSpread<{other}>"
            )
        } else {
            return Ok(Self {
                config,
                action_space: A::space(),
                random: NpRandom::from_entropy(),
                agents: vec![Body::default(); n],
                landmarks: vec![[0.0; 2]; n],
                step: max_cycles,
                start_range: 1.0,
                curriculum_stage: 0,
                scratch: Vec::with_capacity(n),
                action: std::marker::PhantomData,
            });
        };
        Err(Error::Config { env: ID.into(), message: rule })
    }

    /// The stage of the curriculum: 0, where collisions cost nothing, or 1. Without `curriculum` they always cost.
    pub fn curriculum_stage(&self) -> usize {
        self.curriculum_stage
    }

    /// Goes to a stage of the curriculum; the last one for larger numbers.
    pub fn set_curriculum_stage(&mut self, stage: usize) {
        self.curriculum_stage = stage.min(LAST_STAGE);
    }

    fn obs_width(&self) -> usize {
        4 + 2 * self.config.seen_landmarks() + 4 * self.config.seen_agents()
    }

    fn push_apart(&mut self) {
        for a in 0..self.agents.len() {
            for b in a + 1..self.agents.len() {
                let delta = minus(self.agents[a].position, self.agents[b].position);
                let distance = norm(delta);
                let overlap = -(distance - 2.0 * AGENT_SIZE) / CONTACT_MARGIN;
                let penetration = log_add_exp_0(overlap) * CONTACT_MARGIN;
                for (axis, delta) in delta.into_iter().enumerate() {
                    let force = CONTACT_FORCE * delta / distance * penetration;
                    self.agents[a].force[axis] += force;
                    self.agents[b].force[axis] += -force;
                }
            }
        }
    }

    /// Distance of a landmark from the nearest agent.
    fn distance_of(&self, landmark: &Point) -> f64 {
        let distances = self.agents.iter().map(|agent| norm(minus(agent.position, *landmark)));
        distances.fold(f64::INFINITY, f64::min)
    }

    fn write_rewards(&self, rewards: &mut [f64]) {
        let global = self.landmarks.iter().fold(0.0, |sum, landmark| sum - self.distance_of(landmark));
        let local_ratio = self.config.local_ratio;
        let collisions_cost = !self.config.curriculum || self.curriculum_stage == LAST_STAGE;
        for (a, reward) in rewards.iter_mut().enumerate() {
            let hits = |b: usize| {
                collisions_cost
                    && b != a
                    && norm(minus(self.agents[b].position, self.agents[a].position)) < 2.0 * AGENT_SIZE
            };
            let collisions = (0..self.agents.len()).filter(|&b| hits(b)).count();
            *reward = global * (1.0 - local_ratio) + (0.0 - collisions as f64) * local_ratio;
        }
    }

    fn observe(&mut self, obs: &mut [f32]) {
        let SimpleSpreadConfig { num_landmark_neighbors, num_agent_neighbors, .. } = self.config;
        let (landmarks, agents) = (2 * self.config.seen_landmarks(), 2 * self.config.seen_agents());
        for (a, row) in obs.chunks_exact_mut(self.obs_width()).enumerate() {
            let me = &self.agents[a];
            let (own, row) = row.split_at_mut(4);
            write_points(own, &[me.velocity, me.position]);
            let (place, row) = row.split_at_mut(landmarks);
            let relative = &mut self.scratch;
            relative.clear();
            relative.extend(self.landmarks.iter().map(|landmark| minus(*landmark, me.position)));
            sort_if(num_landmark_neighbors.is_some(), relative);
            write_points(place, relative);
            let (place, speech) = row.split_at_mut(agents);
            let others = self.agents.iter().enumerate().filter(|(b, _)| *b != a);
            relative.clear();
            relative.extend(others.map(|(_, other)| minus(other.position, me.position)));
            sort_if(num_agent_neighbors.is_some(), relative);
            write_points(place, relative);
            speech.fill(0.0);
        }
    }

    /// Greatest distance of a body from an axis.
    fn range(&self) -> f64 {
        let points = self.agents.iter().map(|agent| agent.position).chain(self.landmarks.iter().copied());
        points.flatten().fold(0.0, |most, x| x.abs().max(most))
    }
}

impl<A: SimpleSpreadAction> MultiAgentEnv for SimpleSpread<A> {
    type Obs = f32;
    type Act = A;

    fn agents(&self) -> Vec<String> {
        (0..self.config.n).map(|i| format!("agent_{i}")).collect()
    }

    fn observation_space(&self, _agent: usize) -> Space {
        Space::real(&[self.obs_width()])
    }

    fn action_space(&self, _agent: usize) -> Space {
        self.action_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, mut out: MultiAgentOut<'_, f32>) -> Result<()> {
        out.check(self.config.n, self.config.n * self.obs_width())?;
        if let Some(seed) = seed {
            self.random = NpRandom::new(seed);
        }
        let mut point = || [self.random.uniform(-1.0, 1.0), self.random.uniform(-1.0, 1.0)];
        self.agents.iter_mut().for_each(|agent| *agent = Body { position: point(), ..Body::default() });
        self.landmarks.iter_mut().for_each(|landmark| *landmark = point());
        self.step = 0;
        self.start_range = self.range();
        out.reborrow().start();
        self.observe(out.obs);
        Ok(())
    }

    fn step(&mut self, actions: &[A], out: MultiAgentOut<'_, f32>) -> Result<()> {
        let (n, width) = (self.config.n, self.action_space.width());
        out.check(n, n * self.obs_width())?;
        if actions.len() != n * width {
            let found = format_args!("{} long", actions.len());
            return Err(Error::shape("`actions`", found, format_args!("{n} x {width} (agents x width)")));
        }
        if let Some(action) = invalid_action(&self.action_space, actions) {
            return Err(Error::invalid_action(ID, action, &self.action_space));
        }
        if self.step >= self.config.max_cycles {
            return Err(Error::unsupported(ID, "running episode", "call `reset`"));
        }
        for (agent, action) in self.agents.iter_mut().zip(actions.chunks_exact(width)) {
            agent.force = A::push(action).map(|push| push * SENSITIVITY);
        }
        self.push_apart();
        for Body { position, velocity, force } in &mut self.agents {
            for axis in 0..2 {
                position[axis] += velocity[axis] * DT;
                velocity[axis] = velocity[axis] * (1.0 - DAMPING) + force[axis] * DT;
            }
        }
        self.step += 1;
        let cut = self.step >= self.config.max_cycles;
        let covered = |landmark| self.distance_of(landmark) < CAPTURE_RADIUS;
        let done = !cut && self.config.terminate_on_success && self.landmarks.iter().all(covered);
        if done {
            self.step = self.config.max_cycles;
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
        Ok(self.draw())
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        let mut state = StateWriter::new(ID);
        state.random(&self.random);
        state.u64(self.agents.len() as u64);
        let bodies = self.agents.iter().flat_map(|agent| [agent.position, agent.velocity]);
        bodies.chain(self.landmarks.iter().copied()).flatten().for_each(|x| state.f64(x));
        state.u64(self.step as u64);
        state.f64(self.start_range);
        state.u64(self.curriculum_stage as u64);
        Some(state.finish())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let mut state = StateReader::new(ID, state)?;
        let random = state.random()?;
        state.count("agents", self.agents.len())?;
        let mut loaded = self.clone();
        loaded.random = random;
        for agent in &mut loaded.agents {
            agent.position = [state.f64()?, state.f64()?];
            agent.velocity = [state.f64()?, state.f64()?];
        }
        for landmark in &mut loaded.landmarks {
            *landmark = [state.f64()?, state.f64()?];
        }
        loaded.step = state.u64()? as usize;
        loaded.start_range = state.f64()?;
        loaded.set_curriculum_stage(state.u64()? as usize);
        state.finish()?;
        *self = loaded;
        Ok(())
    }
}

impl<A: SimpleSpreadAction> SimpleSpread<A> {
    /// The picture mpe2 draws: 700 x 700, zoomed so that all bodies are seen.
    fn draw(&self) -> Option<Frame> {
        const SIZE: f64 = 700.0;
        const RIM: f32 = 1.0;
        let range = self.range();
        let mut canvas = draw::Canvas::new(700, 700)?;
        let agents = self.agents.iter().map(|agent| (agent.position, AGENT_SIZE, [70, 70, 170]));
        let landmarks = self.landmarks.iter().map(|&landmark| (landmark, LANDMARK_SIZE, [50, 50, 50]));
        for (point, size, color) in agents.chain(landmarks) {
            let [x, y] = point.map(|x| (SIZE / 2.0 + (x / range * SIZE / 2.0) * 0.9) as f32);
            let zoom = if self.config.dynamic_rescaling { 0.9 * self.start_range / range } else { 1.0 };
            let radius = (size * SIZE / 2.0 * zoom) as f32;
            canvas.circle((x, y), radius, draw::BLACK);
            canvas.circle((x, y), (radius - RIM).max(0.0), color);
        }
        Some(canvas.into_frame())
    }
}

/// For the registry.
pub(super) fn make(config: &EnvConfig) -> Result<Box<dyn AnyMultiAgentEnv>> {
    let config: SimpleSpreadConfig = decode_config(ID, config)?;
    Ok(match config.continuous_actions {
        false => Box::new(SimpleSpread::<i64>::new(config)?),
        true => Box::new(SimpleSpread::<f32>::new(config)?),
    })
}

/// Nearest points first.
fn sort_if(wanted: bool, points: &mut [Point]) {
    if wanted {
        points.sort_unstable_by(|a, b| norm(*a).total_cmp(&norm(*b)));
    }
}

/// As many points as there is room for; zeros in what is left over.
fn write_points(place: &mut [f32], points: &[Point]) {
    place.fill(0.0);
    for (place, point) in place.chunks_exact_mut(2).zip(points) {
        place.copy_from_slice(&point.map(|x| x as f32));
    }
}

fn minus(a: Point, b: Point) -> Point {
    [a[0] - b[0], a[1] - b[1]]
}

fn norm([x, y]: Point) -> f64 {
    (x * x + y * y).sqrt()
}

/// numpy's `logaddexp(0, x)`.
fn log_add_exp_0(x: f64) -> f64 {
    if x == 0.0 {
        std::f64::consts::LN_2
    } else if x < 0.0 {
        x.exp().ln_1p()
    } else {
        x + (-x).exp().ln_1p()
    }
}
