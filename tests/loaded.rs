//! Policies that threads share: the bits of a session, in any batch and on any thread.

use std::thread;

use pavlov::envs::{DType, Element, NpRandom, Space};
use pavlov::prelude::*;
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::rng::Stream;
use pavlov::trainer::settings::ObservationFilter;
use pavlov::trainer::{Loaded, Observations, Session};

/// A session of `copies` copies by the weights after one short iteration.
pub(crate) fn session<T: Trainer>(settings: T, env: &str, copies: usize) -> Session {
    let built = settings.builder(env).loggers(LoggerChoice::None).build();
    let mut trainer = built.expect("a trainer");
    trainer.train().expect("an iteration");
    trainer.session(copies).expect("a session")
}

/// PPO that trains in a moment.
pub(crate) fn ppo(change: impl FnOnce(&mut Ppo)) -> Ppo {
    let mut ppo = Ppo { sgd_minibatch_size: 16, num_sgd_iter: 1, ..Ppo::get_default_config() };
    small(&mut ppo.common);
    ppo.common.rollout_fragment_length = 16;
    ppo.common.train_batch_size = 32;
    change(&mut ppo);
    ppo
}

fn small(common: &mut Common) {
    common.num_workers = 0;
    common.num_envs_per_worker = 2;
    common.seed = Some(0);
    common.model.fcnet_hiddens = vec![64, 64];
}

pub(crate) fn dqn() -> Dqn {
    let mut dqn = Dqn { hiddens: vec![16], ..Dqn::get_default_config() };
    small(&mut dqn.common);
    dqn.off_policy.replay_buffer_config.learning_starts = 64;
    dqn.common.min_sample_timesteps_per_reporting = Some(100);
    dqn
}

fn sac() -> Sac {
    let mut sac = Sac::get_default_config();
    sac.common.num_workers = 0;
    sac.common.seed = Some(0);
    sac.off_policy.replay_buffer_config.learning_starts = 64;
    sac.common.min_sample_timesteps_per_reporting = Some(100);
    sac
}

/// A filtered box, a memory of each kind, masks with a memory, a tuple, values, and squashed numbers.
pub(crate) fn kinds(copies: usize) -> Vec<Session> {
    let filtered = |ppo: &mut Ppo| ppo.common.observation_filter = ObservationFilter::MeanStdFilter;
    let lstm = |ppo: &mut Ppo| ppo.common.model.use_lstm = true;
    let masked_gru = |ppo: &mut Ppo| {
        ppo.common.model.use_gru = true;
        ppo.common.mask_actions = true;
    };
    vec![
        session(ppo(filtered), "Pendulum-v1", copies),
        session(ppo(lstm), "Pendulum-v1", copies),
        session(ppo(masked_gru), "Taxi-v4", copies),
        session(ppo(|_| ()), "Blackjack-v1", copies),
        session(dqn(), "CartPole-v1", copies),
        session(sac(), "Pendulum-v1", copies),
    ]
}

/// Random rows of observations.
pub(crate) fn rows<T: Element>(space: &Space, count: usize, seed: u64) -> Vec<T> {
    let mut random = NpRandom::new(seed);
    let mut rows = vec![T::default(); count * space.width()];
    rows.chunks_exact_mut(space.width()).for_each(|row| space.sample(&mut random, row));
    rows
}

/// The bits of the actions of some rows, and of the memory after them.
#[derive(Clone, Debug, Default, PartialEq)]
struct Bits(Vec<u64>, Vec<u32>);

impl Bits {
    fn join(mut self, more: Bits) -> Bits {
        self.0.extend(more.0);
        self.1.extend(more.1);
        self
    }
}

/// Everything that some rows are acted for by.
#[derive(Clone, Debug)]
struct Given<T> {
    obs: Vec<T>,
    mask: Option<Vec<bool>>,
    memory: Vec<f32>,
    /// Seeds of the rows' streams; `None` takes the best actions.
    seeds: Option<Vec<u64>>,
}

impl<T: Element> Given<T> {
    fn random(policy: &Loaded, count: usize, draws: bool) -> Self {
        let mut random = NpRandom::new(7);
        let mask = policy.mask_width().map(|options| {
            let mut mask: Vec<bool> = (0..count * options).map(|_| random.random() < 0.5).collect();
            mask.chunks_exact_mut(options).for_each(|row| row[0] = true);
            mask
        });
        let memory = (0..count * policy.memory_width()).map(|_| random.random() as f32 - 0.5).collect();
        let seeds = draws.then(|| (0..count as u64).collect());
        Self { obs: rows(policy.observation_space(), count, 3), mask, memory, seeds }
    }

    fn rows(&self, policy: &Loaded, from: usize, to: usize) -> Self {
        let cut = |width: usize| from * width..to * width;
        Self {
            obs: self.obs[cut(policy.observation_width())].to_vec(),
            mask: self.mask.as_ref().map(|mask| mask[cut(policy.mask_width().unwrap_or(0))].to_vec()),
            memory: self.memory[cut(policy.memory_width())].to_vec(),
            seeds: self.seeds.as_ref().map(|seeds| seeds[from..to].to_vec()),
        }
    }

    /// Lets the policy act for all rows at once.
    fn act(&self, policy: &Loaded) -> Bits {
        let mut memory = self.memory.clone();
        let streams = self.seeds.iter().flatten().map(|&seed| Stream::new(seed, "a test", 0));
        let mut streams: Vec<Stream> = streams.collect();
        let mut rows = Observations::new(&self.obs).with_memory(&mut memory);
        if let Some(mask) = &self.mask {
            rows = rows.with_mask(mask);
        }
        if self.seeds.is_some() {
            rows = rows.drawn_from(&mut streams);
        }
        let numbers = self.obs.len() / policy.observation_width() * policy.action_width();
        let actions: Vec<u64> = if policy.is_discrete() {
            let mut actions = vec![0; numbers];
            policy.act(rows, ActionRows::Int(&mut actions)).expect("actions");
            actions.into_iter().map(i64::cast_unsigned).collect()
        } else {
            let mut actions = vec![0.0; numbers];
            policy.act(rows, ActionRows::Float(&mut actions)).expect("actions");
            actions.into_iter().map(|x| u64::from(x.to_bits())).collect()
        };
        Bits(actions, memory.into_iter().map(f32::to_bits).collect())
    }

    /// Lets the policy act for batches of `size` rows, one after the other.
    fn act_in_batches(&self, policy: &Loaded, size: usize) -> Bits {
        let count = self.obs.len() / policy.observation_width();
        let batches = (0..count).step_by(size).map(|at| self.rows(policy, at, (at + size).min(count)));
        batches.map(|batch| batch.act(policy)).fold(Bits::default(), Bits::join)
    }
}

fn in_any_batch<T: Element>(policy: &Loaded, draws: bool) {
    let given = Given::<T>::random(policy, 256, draws);
    let alone = given.act_in_batches(policy, 1);
    for size in [3, 17, 256] {
        assert!(
            given.act_in_batches(policy, size) == alone,
            "{size} rows at once, {}",
            policy.observation_space()
        );
    }
}

fn on_any_thread<T: Element>(policy: &Loaded) {
    let given = Given::<T>::random(policy, 1000, true);
    let wanted = given.act(policy);
    thread::scope(|scope| {
        let act = |thread: usize| {
            let (policy, given, wanted) = (policy.clone(), &given, &wanted);
            scope.spawn(move || {
                for size in [1 + thread, 50 + thread, 1000] {
                    assert!(given.act_in_batches(&policy, size) == *wanted, "batches of {size}");
                }
            })
        };
        let threads: Vec<_> = (0..8).map(act).collect();
        threads.into_iter().for_each(|thread| thread.join().expect("equal bits"));
    });
}

#[test]
fn a_row_has_the_same_bits_alone_and_in_batches_of_3_17_and_256() {
    for session in kinds(1) {
        let policy = session.into_loaded().expect("a policy to share");
        for draws in [false, true] {
            match policy.observation_dtype() {
                DType::F32 => in_any_batch::<f32>(&policy, draws),
                DType::I64 => in_any_batch::<i64>(&policy, draws),
                other => panic!("no such policy is here: {other}"),
            }
        }
    }
}

#[test]
fn eight_threads_have_the_bits_of_one() {
    for session in kinds(1) {
        let policy = session.into_loaded().expect("a policy to share");
        match policy.observation_dtype() {
            DType::F32 => on_any_thread::<f32>(&policy),
            DType::I64 => on_any_thread::<i64>(&policy),
            other => panic!("no such policy is here: {other}"),
        }
    }
}

/// Acts step by step with a session and with the shared policy by the same weights.
fn like_its_session<T: Element>(session: &mut Session, policy: &Loaded, copies: usize) {
    let mut memory = vec![0.0; copies * policy.memory_width()];
    for step in 0..10 {
        let obs: Vec<T> = rows(policy.observation_space(), copies, step);
        let wanted = session.compute_actions(&obs, false).expect("actions");
        let rows = Observations::new(&obs).with_memory(&mut memory);
        let found: Vec<Action> = if policy.is_discrete() {
            let mut actions = vec![0; copies * policy.action_width()];
            policy.act(rows, ActionRows::Int(&mut actions)).expect("actions");
            actions.chunks_exact(policy.action_width()).map(|row| Action::Int(row.to_vec())).collect()
        } else {
            let mut actions = vec![0.0; copies * policy.action_width()];
            policy.act(rows, ActionRows::Float(&mut actions)).expect("actions");
            actions.chunks_exact(policy.action_width()).map(|row| Action::Float(row.to_vec())).collect()
        };
        assert_eq!(found, wanted, "step {step} on {}", policy.observation_space());
    }
}

#[test]
fn episodes_are_those_of_a_session() {
    let copies = 5;
    for (mut session, shared) in kinds(copies).into_iter().zip(kinds(1)) {
        let policy = shared.into_loaded().expect("a policy to share");
        match policy.observation_dtype() {
            DType::F32 => like_its_session::<f32>(&mut session, &policy, copies),
            DType::I64 => like_its_session::<i64>(&mut session, &policy, copies),
            other => panic!("no such policy is here: {other}"),
        }
    }
}

#[test]
fn a_checkpoint_is_loaded_to_be_shared() {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = ppo(|_| ()).builder("CartPole-v1").logdir(home.path()).build().expect("a trainer");
    trainer.train().expect("an iteration");
    trainer.save().expect("a checkpoint");
    let policy = pavlov::load_shared(home.path(), None).expect("the policy");
    let row = [0.02_f32, -0.01, 0.03, 0.04];
    let wanted = pavlov::load(home.path()).expect("the policy").act(&row).expect("an action");
    assert_eq!(policy.act_once(&row).expect("an action"), wanted);
}

#[test]
fn an_observation_with_nan_is_refused_at_every_door_as_in_training() {
    let row = [0.02_f32, -0.01, f32::NAN, 0.04];
    let wanted = "an observation: element 2 of row 0 is NaN, so no action can be chosen by it";
    let mut one = session(ppo(|_| ()), "CartPole-v1", 1);
    assert_eq!(one.act(&row).expect_err("NaN").to_string(), wanted);
    assert_eq!(one.compute_actions(&row, true).expect_err("NaN").to_string(), wanted);
    let shared = one.into_loaded().expect("a policy to share");
    assert_eq!(shared.act_once(&row).expect_err("NaN").to_string(), wanted);
}

#[test]
fn what_does_not_fit_is_refused_in_a_sentence() {
    let policy = session(ppo(|_| ()), "CartPole-v1", 1).into_loaded().expect("a policy to share");
    let refused = |rows: Observations<'_, f32>, actions: ActionRows<'_>| {
        policy.act(rows, actions).expect_err("it does not fit").to_string()
    };
    let row = [0.0_f32; 4];
    let mut one = [0];
    let error = refused(Observations::new(&row[..3]), ActionRows::Int(&mut one));
    assert!(error.contains("one row is 4 f32 scalars"), "{error}");
    let error = refused(Observations::new(&row), ActionRows::Int(&mut [0, 0]));
    assert!(error.contains("2 numbers of actions, but 1"), "{error}");
    let error = refused(Observations::new(&row), ActionRows::Float(&mut [0.0]));
    assert!(error.contains("f32 actions"), "{error}");
    let error = refused(Observations::new(&row).with_mask(&[true, true]), ActionRows::Int(&mut one));
    assert!(error.contains("mask_actions"), "{error}");
    let error = refused(Observations::new(&row).with_memory(&mut [0.0]), ActionRows::Int(&mut one));
    assert!(error.contains("1 numbers of memory, but 0"), "{error}");
    policy.act(Observations::<f32>::new(&[]), ActionRows::Int(&mut [])).expect("no rows are fine");

    let masked = ppo(|ppo| ppo.common.mask_actions = true);
    let policy = session(masked, "Taxi-v4", 1).into_loaded().expect("a policy to share");
    let refused = policy.act(Observations::new(&[0_i64]).with_mask(&[false; 6]), ActionRows::Int(&mut one));
    let error = refused.expect_err("no legal action").to_string();
    assert!(error.contains("row 0") && error.contains("none of the 6 actions"), "{error}");
}

/// Libtorch may round a row otherwise in another batch, so this compares equal batches.
#[cfg(feature = "torch")]
#[test]
fn threads_share_a_policy_on_libtorch() {
    for session in [
        session(ppo(|ppo| ppo.common.model.fused = false), "Pendulum-v1", 1),
        session(Dqn { noisy: true, ..dqn() }, "CartPole-v1", 1),
    ] {
        let policy = session.into_loaded().expect("a policy to share");
        let given = Given::<f32>::random(&policy, 100, false);
        let wanted = given.act(&policy);
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| (0..10).for_each(|_| assert!(given.act(&policy) == wanted)));
            }
        });
    }
}
