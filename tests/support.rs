//! What several modules need: comparison within a tolerance, small policies and worker sets, environments whose every
//! number is known.

use std::sync::Arc;

use pavlov::envs::{self, Env, EnvCreator, IntoEnvCreator, Space, Step};
use pavlov::prelude::*;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::Device;
use pavlov::trainer::WorkerSet;
use pavlov::trainer::agents::{EnvInfo, Policies};
use pavlov::trainer::batch::{Column, SampleBatch};
use pavlov::trainer::learner::Value;
use pavlov::trainer::learner::{Learner, Rows};
use pavlov::trainer::models::{NetBuilder, Rule};
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::policy::{Act, Fragment, Learned, Policy, PolicyClass, PolicySpec, Seen, Spaces};
use pavlov::trainer::replay::OffPolicy;
use pavlov::trainer::settings::ExplorationConfig;
use pavlov::trainer::state::{Array, State, Weights};
use pavlov::trainer::workers::{Code, WorkerNames, WorkerSpec};
use pavlov::tune::Config;
use serde_json::Value as Json;

/// The numbers of a tensor of any shape and kind.
pub(crate) fn floats(numbers: &(impl Floats + ?Sized)) -> Vec<f64> {
    numbers.floats()
}

/// Numbers that [`floats`] copies.
pub(crate) trait Floats {
    fn floats(&self) -> Vec<f64>;
}

impl Floats for Tensor {
    fn floats(&self) -> Vec<f64> {
        Vec::try_from(self.detach().to_kind(Kind::Double).reshape([-1])).expect("a flat tensor of doubles")
    }
}

impl Floats for Array {
    fn floats(&self) -> Vec<f64> {
        self.to_vec()
    }
}

impl Floats for [f32] {
    fn floats(&self) -> Vec<f64> {
        self.iter().map(|&x| f64::from(x)).collect()
    }
}

#[track_caller]
pub(crate) fn assert_close(found: &[f64], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len(), "{found:?} against {wanted:?}");
    let close = found.iter().zip(wanted).all(|(f, w)| (f - w).abs() <= tolerance);
    assert!(close, "found {found:?}, wanted {wanted:?} within {tolerance}");
}

/// The share of draws for which `hit` holds lies within four standard deviations of `p`.
#[track_caller]
pub(crate) fn assert_frequency(draws: usize, hits: usize, p: f64) {
    let found = hits as f64 / draws as f64;
    let sigma = (p * (1.0 - p) / draws as f64).sqrt();
    assert!((found - p).abs() <= 4.0 * sigma, "found {found}, wanted {p} within {}", 4.0 * sigma);
}

/// One row per inner slice.
pub(crate) fn rows<R: AsRef<[f32]>>(values: &[R]) -> Tensor {
    let flat: Vec<f32> = values.iter().flat_map(|row| row.as_ref()).copied().collect();
    Tensor::from_slice(&flat).view([values.len() as i64, -1])
}

pub(crate) fn column(values: &[f32]) -> Tensor {
    Tensor::from_slice(values)
}

/// `width` real observations, `actions` discrete actions.
pub(crate) fn discrete_spaces(width: usize, actions: i64) -> Spaces {
    Spaces { observation_space: Space::real(&[width]), action_space: Space::discrete(actions) }
}

/// A learner's policy with initial weights of seed 0.
pub(crate) fn policy<T: Trainer>(settings: &T, spaces: &Spaces) -> Box<dyn Policy> {
    let spec = spec(spaces, settings.common().model.fused);
    settings.get_default_policy_class(spaces).and_then(|class| class.build(&spec)).expect("a policy")
}

/// What a learner's policy is built for, with initial weights of seed 0.
pub(crate) fn spec(spaces: &Spaces, fused: bool) -> PolicySpec {
    PolicySpec {
        spaces: spaces.clone(),
        own_obs: None,
        seed: 0,
        device: Device::Cpu,
        fused,
        custom_model: None,
        worker_index: 0,
        num_workers: 0,
    }
}

/// A network of one group that learns by `rule`, on observations of `width` numbers, and the layers that `lay_out` names.
pub(crate) fn learner<T>(
    width: usize,
    fused: bool,
    rule: Rule,
    lay_out: impl FnOnce(&mut NetBuilder<'_>) -> T,
) -> (Learner, T) {
    let spec = spec(&discrete_spaces(width, 2), fused);
    let mut net = NetBuilder::new(&spec);
    let (_, layers) = net.group("all", rule, |net| Ok(lay_out(net))).expect("a group");
    (net.finish().expect("a learner"), layers)
}

/// Calls `f` in a rayon pool of so many threads.
pub(crate) fn on_threads<T: Send>(threads: usize, f: impl FnOnce() -> T + Send) -> T {
    rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool").install(f)
}

/// One number per row of `batch`, computed by libtorch and by the fused engine.
pub(crate) fn on_both_engines<F>(batch: &SampleBatch, f: F) -> [Vec<f64>; 2]
where
    F: for<'t> Fn(&Rows<'t>) -> pavlov::trainer::Result<Value<'t>> + Sync,
{
    [false, true].map(|fused| {
        let (mut learner, ()) = learner(1, fused, Rule::adam(1e-3, 1e-8), |_| ());
        learner.per_row(batch, &f).expect("a number per row").iter().map(|&x| f64::from(x)).collect()
    })
}

pub(crate) fn weights(named: &[(&str, Tensor)]) -> Weights {
    let mut state = State::default();
    named.iter().for_each(|(name, tensor)| state.set_tensor(name, tensor));
    Arc::new(state)
}

/// A statistic that a learning step reported.
#[track_caller]
pub(crate) fn stat(learned: &Learned, name: &str) -> f64 {
    learned.stats.read(name).unwrap_or_else(|| panic!("no {name} in {:?}", learned.stats.names()))
}

/// Workers of an algorithm, with equal initial weights and nothing sampled yet.
pub(crate) fn worker_set<T: Trainer>(settings: &T, env: impl IntoEnvCreator) -> Result<WorkerSet> {
    WorkerSet::new(&worker_spec(settings, env)?, Device::Cpu)
}

/// What its workers are made from.
pub(crate) fn worker_spec<T: Trainer>(settings: &T, env: impl IntoEnvCreator) -> Result<WorkerSpec> {
    let env = env.into_env_creator();
    let policies = settings.policies(&env_info(settings.common(), &env)?.agents)?;
    spec_with(settings.common(), policies, env)
}

/// Workers that act by a policy of a test's own.
pub(crate) fn workers_with(
    common: &Common,
    policy_class: PolicyClass,
    env: impl IntoEnvCreator,
) -> Result<WorkerSet> {
    WorkerSet::new(&spec_with(common, policy_class.into(), env.into_env_creator())?, Device::Cpu)
}

/// What workers of these policies are made from.
pub(crate) fn spec_with(common: &Common, policies: Policies, env: EnvCreator) -> Result<WorkerSpec> {
    let names = WorkerNames {
        trainable: None,
        settings: Config::new(),
        common: common.clone(),
        env: env.name().to_owned(),
        env_info: env_info(common, &env)?,
        sampling: true,
    };
    Ok(WorkerSpec { names, env, policies, code: Code::default() })
}

fn env_info(common: &Common, env: &EnvCreator) -> Result<EnvInfo> {
    Ok(EnvInfo::of(&common.wrap_env(env).make(&common.env_config, 1)?))
}

/// The bytes of a column.
#[track_caller]
pub(crate) fn bytes(batch: &SampleBatch, column: Column) -> Array {
    batch.get(column).expect("the column").clone()
}

#[track_caller]
pub(crate) fn numbers(batch: &SampleBatch, column: Column) -> Vec<f64> {
    floats(batch.get(column).expect("the column"))
}

/// PPO whose iterations take milliseconds: 2 copies, 32 rows, one pass, 8 hidden units.
pub(crate) fn tiny_ppo() -> Ppo {
    let mut ppo = Ppo { sgd_minibatch_size: 16, num_sgd_iter: 1, ..Ppo::get_default_config() };
    ppo.common.num_workers = 0;
    ppo.common.num_envs_per_worker = 2;
    ppo.common.rollout_fragment_length = 16;
    ppo.common.train_batch_size = 32;
    ppo.common.model.fcnet_hiddens = vec![8];
    ppo.common.seed = Some(0);
    ppo
}

/// DQN whose iterations take milliseconds: 2 copies, 16 steps, batches of 8, 8 hidden units.
pub(crate) fn tiny_dqn() -> Dqn {
    let mut dqn = Dqn { hiddens: vec![8], ..Dqn::get_default_config() };
    dqn.common.num_envs_per_worker = 2;
    dqn.common.train_batch_size = 8;
    dqn.common.min_sample_timesteps_per_reporting = Some(16);
    dqn.common.model.fcnet_hiddens = vec![8];
    dqn.common.seed = Some(0);
    dqn.off_policy.replay_buffer_config.capacity = 64;
    dqn.off_policy.replay_buffer_config.learning_starts = 16;
    dqn
}

/// The same, learning from replay in another way.
pub(crate) fn with_off_policy(change: impl FnOnce(&mut OffPolicy)) -> Dqn {
    let mut dqn = tiny_dqn();
    change(&mut dqn.off_policy);
    dqn
}

/// Settings of learning from replay with which iterations take milliseconds: 2 copies, 16 steps, batches of 8.
fn tiny_replay(common: &mut Common, off_policy: &mut OffPolicy) {
    common.num_envs_per_worker = 2;
    common.train_batch_size = 8;
    common.min_sample_timesteps_per_reporting = Some(16);
    common.seed = Some(0);
    off_policy.replay_buffer_config.capacity = 64;
    off_policy.replay_buffer_config.learning_starts = 16;
}

/// SAC with such iterations, and layers of 8 units.
pub(crate) fn tiny_sac() -> Sac {
    let mut sac = Sac::get_default_config();
    tiny_replay(&mut sac.common, &mut sac.off_policy);
    sac.policy_model_config.fcnet_hiddens = vec![8];
    sac.q_model_config.fcnet_hiddens = vec![8];
    sac
}

/// DDPG with such iterations, layers of 8 units, and noise that drifts from the first step on.
pub(crate) fn tiny_ddpg() -> Ddpg {
    let mut ddpg = Ddpg::get_default_config();
    tiny_replay(&mut ddpg.common, &mut ddpg.off_policy);
    ddpg.actor_hiddens = vec![8];
    ddpg.critic_hiddens = vec![8];
    if let ExplorationConfig::OrnsteinUhlenbeckNoise { random_timesteps, .. } =
        &mut ddpg.common.exploration_config
    {
        *random_timesteps = 0;
    }
    ddpg
}

/// TD3 with such iterations, layers of 8 units, and noise from the first step on.
pub(crate) fn tiny_td3() -> Td3 {
    let mut td3 = Td3::get_default_config();
    tiny_replay(&mut td3.0.common, &mut td3.0.off_policy);
    td3.actor_hiddens = vec![8];
    td3.critic_hiddens = vec![8];
    if let ExplorationConfig::GaussianNoise { random_timesteps, .. } = &mut td3.0.common.exploration_config {
        *random_timesteps = 0;
    }
    td3
}

/// The Python to test with, if there is one that has `module`.
pub(crate) fn python_with(module: &str) -> Option<std::ffi::OsString> {
    let python = std::env::var_os("PAVLOV_TEST_PYTHON").filter(|python| {
        let probe =
            format!("import importlib.util, sys; sys.exit(importlib.util.find_spec('{module}') is None)");
        let probed = std::process::Command::new(python).args(["-c", &probe]).status();
        probed.is_ok_and(|status| status.success())
    });
    if python.is_none() {
        // Not `eprintln!`: the test harness would swallow it.
        let note = format!("skipped: set PAVLOV_TEST_PYTHON to a Python that has {module}\n");
        std::io::Write::write_all(&mut std::io::stderr(), note.as_bytes()).expect("standard error");
    }
    python
}

/// A driver that writes nothing.
pub(crate) fn quiet<T: Trainer>(settings: T, env: impl IntoEnvCreator) -> Result<Driver<Algorithm<T>>> {
    settings.builder(env).loggers(LoggerChoice::None).build()
}

/// The value under dotted keys; panics with the result when there is none.
#[track_caller]
pub(crate) fn at<'a>(result: &'a serde_json::Map<String, Json>, path: &str) -> &'a Json {
    let mut keys = path.split('.');
    let first = keys.next().and_then(|key| result.get(key));
    let found = keys.fold(first, |value, key| value?.get(key));
    found.unwrap_or_else(|| panic!("no {path} in {result:?}"))
}

#[track_caller]
pub(crate) fn number(result: &Metrics, path: &str) -> f64 {
    at(result, path).as_f64().unwrap_or_else(|| panic!("{path} is {}", at(result, path)))
}

/// The message of an error that must be one, with every one of `parts` in it.
#[track_caller]
pub(crate) fn refused<T, E: std::fmt::Display>(result: Result<T, E>, parts: &[&str]) -> String {
    let Err(error) = result else { panic!("it was accepted; {parts:?} was expected in an error") };
    let text = error.to_string();
    for part in parts {
        assert!(text.contains(part), "no {part:?} in: {text}");
    }
    text
}

/// What a [`Clockwork`] observes at step `t` of the episode with this seed.
pub(crate) fn clockwork_obs(seed: u64, t: usize) -> [f32; 2] {
    [(seed % 1000) as f32, t as f32]
}

/// Observations `(seed mod 1000, t)`, reward `t`; every episode takes `length` steps whatever is done.
#[derive(Clone, Debug)]
pub(crate) struct Clockwork {
    length: usize,
    truncates: bool,
    seed: u64,
    t: usize,
}

impl Clockwork {
    /// Episodes that reach an end of their task.
    pub(crate) fn terminating(length: usize) -> Self {
        Self { length, truncates: false, seed: 0, t: 0 }
    }

    /// Episodes that are cut.
    pub(crate) fn truncating(length: usize) -> Self {
        Self { truncates: true, ..Self::terminating(length) }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    pub(crate) fn t(&self) -> usize {
        self.t
    }
}

impl Env for Clockwork {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[2])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.seed = seed.unwrap_or_default();
        self.t = 0;
        obs.copy_from_slice(&clockwork_obs(self.seed, 0));
        Ok(())
    }

    fn step(&mut self, _action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        self.t += 1;
        obs.copy_from_slice(&clockwork_obs(self.seed, self.t));
        let over = self.t == self.length;
        Ok(Step {
            reward: self.t as f64,
            terminated: over && !self.truncates,
            truncated: over && self.truncates,
        })
    }
}

/// What one copy does in its constructor, on reset and on a step, for environments that a test writes in place.
pub(crate) struct Scripted<A, F> {
    pub(crate) observation_space: Space,
    pub(crate) action_space: Space,
    pub(crate) reset_obs: Vec<f32>,
    pub(crate) step: F,
    pub(crate) seed: Option<u64>,
    pub(crate) t: usize,
    pub(crate) action: std::marker::PhantomData<A>,
}

/// Real observations `[0]` at the start; `step(seed, t, action, obs)` does the rest.
pub(crate) fn scripted<A, F>(action_space: Space, step: F) -> Scripted<A, F>
where
    F: FnMut(u64, usize, &[A], &mut [f32]) -> envs::Result<Step>,
{
    Scripted {
        observation_space: Space::real(&[1]),
        action_space,
        reset_obs: vec![0.0],
        step,
        seed: None,
        t: 0,
        action: std::marker::PhantomData,
    }
}

impl<A, F> Env for Scripted<A, F>
where
    A: envs::Element,
    F: FnMut(u64, usize, &[A], &mut [f32]) -> envs::Result<Step> + Send + 'static,
{
    type Obs = f32;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.observation_space.clone()
    }

    fn action_space(&self) -> Space {
        self.action_space.clone()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.seed = seed;
        self.t = 0;
        obs.copy_from_slice(&self.reset_obs);
        Ok(())
    }

    fn step(&mut self, action: &[A], obs: &mut [f32]) -> envs::Result<Step> {
        self.t += 1;
        (self.step)(self.seed.unwrap_or_default(), self.t, action, obs)
    }
}

/// Actions 0 to 3, of which `t % 4` and the next are legal at step `t`; observes `t`.
#[derive(Clone, Debug)]
pub(crate) struct Doors {
    length: usize,
    truncates: bool,
    closed_at: Option<usize>,
    t: usize,
}

impl Doors {
    /// Episodes of so many steps.
    pub(crate) fn new(length: usize, truncates: bool) -> Self {
        Self { length, truncates, closed_at: None, t: 0 }
    }

    /// The same, but at step `t` nothing is legal.
    pub(crate) fn closed_at(self, t: usize) -> Self {
        Self { closed_at: Some(t), ..self }
    }

    /// What is legal at step `t`.
    pub(crate) fn mask(t: usize) -> [bool; 4] {
        [0, 1, 2, 3].map(|action| action == t % 4 || action == (t + 1) % 4)
    }
}

impl Env for Doors {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::real(&[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(4)
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> envs::Result<()> {
        self.t = 0;
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> envs::Result<Step> {
        let legal = Self::mask(self.t)[action[0] as usize];
        self.t += 1;
        obs[0] = self.t as f32;
        let over = self.t == self.length;
        let terminated = over && !self.truncates;
        let truncated = over && self.truncates;
        Ok(Step { reward: f64::from(u8::from(legal)), terminated, truncated })
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let Ok(mask) = <&mut [bool; 4]>::try_from(mask) else { return false };
        *mask = if self.closed_at == Some(self.t) { [false; 4] } else { Self::mask(self.t) };
        true
    }
}

/// What a [`Rememberer`] remembered when it acted, and whether an episode began.
pub(crate) const REMEMBERED: Column = Column::new("remembered");
pub(crate) const BEGAN: Column = Column::new("began");

/// Counts the steps of each copy's episode in its memory, and takes that number, modulo `actions`, as its action.
#[derive(Debug)]
pub(crate) struct Rememberer(pub(crate) i64);

impl Rememberer {
    pub(crate) fn class(actions: i64) -> PolicyClass {
        PolicyClass::new("Rememberer", move |_| Ok(Self(actions)))
    }
}

impl Policy for Rememberer {
    fn step_columns(&self) -> Vec<(Column, usize)> {
        vec![(REMEMBERED, 2), (BEGAN, 1)]
    }

    fn memory_width(&self) -> usize {
        2
    }

    fn compute_actions(&mut self, seen: Seen<'_>, mut act: Act<'_>) -> Result<()> {
        act.column(REMEMBERED).expect("it was named").copy_from_slice(seen.memory);
        let began = act.column(BEGAN).expect("it was named");
        began.iter_mut().zip(seen.resets).for_each(|(to, &reset)| *to = f32::from(reset));
        let ActionRows::Int(actions) = act.actions else { panic!("discrete actions") };
        for (action, memory) in actions.iter_mut().zip(seen.memory.chunks_exact_mut(2)) {
            *action = memory[0] as i64 % self.0;
            memory[0] += 1.0;
            memory[1] -= 2.0;
        }
        Ok(())
    }

    fn postprocess_trajectory(&mut self, fragment: Fragment<'_>) -> Result<SampleBatch> {
        Ok(fragment.rows())
    }
}

/// A step that goes on.
pub(crate) fn going_on(reward: f64) -> Step {
    Step { reward, terminated: false, truncated: false }
}

/// The recipe of a [`Clockwork`].
pub(crate) fn clockwork(env: Clockwork) -> EnvCreator {
    (move || env.clone()).into_env_creator()
}
