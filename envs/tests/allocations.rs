//! No allocation per step. A program of its own, because it replaces the allocator.

mod counting;

use counting::allocations_of_thread;
use pavlov_envs::{
    AnyVectorEnv, Env, EnvConfig, EnvCopies, EnvCreator, MultiAgentEnv, MultiAgentRows, NpRandom, Result,
    Space, Step, StepOut, SyncVectorEnv, ThreadVectorEnv, TypedMultiAgentEnv, WrapperSpec, ids, make_vec,
    native::{
        Acrobot, BoardGame, CartPole, CartPoleConfig, Go, GoConfig, MountainCar, MountainCarContinuous,
        Pendulum, PendulumConfig, SimpleCrypto, SimpleSpread, SimpleSpreadConfig, SimpleTag, SimpleTagConfig,
        SimpleWorldComm, TwoStepGame,
    },
    spec,
    wrappers::{
        ClipAction, ClipReward, FlattenObservation, FrameStack, NormalizeObservation, NormalizeReward,
        OrderEnforcing, Padding, RecordEpisodeStatistics, RescaleAction, TimeLimit, TransformReward,
    },
};

/// CartPole as most users would write it: without a saved state, so that its actions are kept.
struct Plain(CartPole);

impl Env for Plain {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }

    fn action_space(&self) -> Space {
        self.0.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
        self.0.step(action, obs)
    }
}

#[test]
fn steps_and_resets_of_every_native_vector_allocate_nothing() {
    for id in ids() {
        // MuJoCo's have a test below.
        if spec(&id).unwrap().summary.ends_with("(MuJoCo)") {
            continue;
        }
        let mut env = make_vec(&id, &EnvConfig::new(), 4).unwrap();
        assert!(env.limit_episodes(100));
        assert_eq!(allocations(&mut *env), 0, "{id}");
    }
}

#[test]
fn steps_and_resets_of_single_copies_allocate_nothing() {
    check_single("Plain", || Plain(CartPole::new(CartPoleConfig::default())));
    check_single("CartPole", || CartPole::new(Default::default()));
    check_single("MountainCar", || TimeLimit::new(MountainCar::new(Default::default()), 20));
    check_single("MountainCarContinuous", || {
        TimeLimit::new(MountainCarContinuous::new(Default::default()), 20)
    });
    check_single("Pendulum", || TimeLimit::new(Pendulum::new(Default::default()), 20));
    check_single("Acrobot", || TimeLimit::new(Acrobot::new(Default::default()), 20));
}

fn check_single<E: Env>(name: &str, make: impl Fn() -> E) {
    let mut env = SyncVectorEnv::new(16, || Ok(make())).unwrap();
    assert_eq!(allocations(&mut env), 0, "SyncVectorEnv of {name}");
}

#[test]
fn steps_through_wrappers_allocate_nothing() {
    let pendulum =
        || Ok::<_, pavlov_envs::Error>(TimeLimit::new(Pendulum::new(PendulumConfig::default()), 20));
    let wrapped = || {
        let env = RescaleAction::new(ClipReward::new(pendulum()?, -1.0, 1.0)?, -0.5, 0.5)?;
        let env = FrameStack::new(FlattenObservation::new(OrderEnforcing::new(env))?, 2, Padding::Reset)?;
        Ok(RecordEpisodeStatistics::new(TransformReward::new(ClipAction::new(env)?, |r| 2.0 * r), 10))
    };
    let env = NormalizeObservation::new(SyncVectorEnv::new(16, wrapped).unwrap(), 1e-8).unwrap();
    let mut env = NormalizeReward::new(env, 0.99, 1e-8).unwrap();
    assert_eq!(allocations(&mut env), 0, "wrappers");
    let by_name = ["FrameStack(4)", "FlattenObservation", "ClipReward(-1, 1)"];
    let by_name = by_name.map(|text| WrapperSpec::try_from(serde_json::Value::from(text)).unwrap());
    let mut env = EnvCreator::from("CartPole-v1").wrapped(&by_name).make_vec(&EnvConfig::new(), 64).unwrap();
    assert_eq!(allocations(&mut *env), 0, "wrappers around a native vector");
}

/// The queue of rayon (crossbeam-deque 0.8) grows by blocks of 63 jobs; each step is one.
#[test]
fn steps_by_threads_allocate_for_the_queue_of_rayon_only() {
    let copy = || Ok(CartPole::new(CartPoleConfig::default()));
    let mut env = ThreadVectorEnv::of_env(16, 2, copy).unwrap();
    let counted = allocations(&mut env);
    assert!(counted <= 2000 / 63 + 1, "{counted} allocations in 2,000 steps");
}

#[test]
fn steps_and_resets_of_multi_agent_environments_allocate_nothing() {
    let config = SimpleSpreadConfig { n: 5, ..SimpleSpreadConfig::default() };
    assert_eq!(multi_agent_allocations(&mut SimpleSpread::<i64>::new(config).unwrap(), 5), 0, "SimpleSpread");
    // Five actions are in the space of every agent that moves.
    let tag = SimpleTagConfig { num_agent_neighbors: Some(2), ..SimpleTagConfig::default() };
    assert_eq!(multi_agent_allocations(&mut SimpleTag::<i64>::new(tag).unwrap(), 5), 0, "SimpleTag");
    let mut world = SimpleWorldComm::<i64>::new(Default::default()).unwrap();
    assert_eq!(multi_agent_allocations(&mut world, 5), 0, "SimpleWorldComm");
    let mut crypto = SimpleCrypto::<i64>::new(Default::default()).unwrap();
    assert_eq!(multi_agent_allocations(&mut crypto, 4), 0, "SimpleCrypto");
    let go = GoConfig { board_size: 5, ..GoConfig::default() };
    assert_eq!(multi_agent_allocations(&mut Go::new(go).unwrap(), 26), 0, "Go");
    assert_eq!(multi_agent_allocations(&mut BoardGame::tictactoe(), 9), 0, "tictactoe");
    assert_eq!(multi_agent_allocations(&mut BoardGame::connect_four(), 7), 0, "connect_four");
    assert_eq!(multi_agent_allocations(&mut TwoStepGame::new(), 2), 0, "two_step_game");
    let team = EnvCreator::from("simple_spread_v3").with_agent_groups(|_| Some("team".into()));
    let EnvCopies::MultiAgent(copies) = team.make(&EnvConfig::new(), 1).unwrap() else { unreachable!() };
    let mut team = TypedMultiAgentEnv::<f32, i64>::new(copies.into_envs().remove(0)).unwrap();
    assert_eq!(multi_agent_allocations(&mut team, 5), 0, "a group of agents");
}

/// Allocations in 2,000 steps of random play with `n` actions, illegal ones included.
fn multi_agent_allocations<E: MultiAgentEnv<Act = i64>>(env: &mut E, n: i64) -> u64 {
    let mut rows = MultiAgentRows::new(env);
    let mut random = NpRandom::new(1);
    let width = (0..rows.rewards.len()).map(|agent| env.action_space(agent).width()).sum();
    let mut actions = vec![0; width];
    let mut mask = vec![false; n as usize];
    let mut ended = 0;
    let before = allocations_of_thread();
    for step in 0..2000 {
        if rows.is_over() {
            env.reset(Some(step), rows.out()).unwrap();
            ended += 1;
        }
        actions.iter_mut().for_each(|action| *action = random.integers(0, n));
        env.step(&actions, rows.out()).unwrap();
        env.action_mask(0, &mut mask);
    }
    let counted = allocations_of_thread() - before;
    assert!(ended > 50, "only {ended} episodes ended");
    counted
}

/// Allocations in 2,000 vector steps of random play through the erased form.
fn allocations(env: &mut dyn AnyVectorEnv) -> u64 {
    let n = env.num_envs();
    let space = env.action_space().clone();
    let mut random = NpRandom::new(1);
    let mut row = vec![0.0_f64; space.width()];
    let mut words = vec![0_u64; n * space.width()];
    let size = env.act_dtype().size();
    let act_bytes = size * row.len() * n;
    // Words, so that rows of any scalar are aligned.
    let obs_bytes = n * env.observation_space().width() * env.obs_dtype().size();
    let mut obs = vec![0_u64; obs_bytes.div_ceil(8)];
    let mut final_obs = vec![0_u64; obs_bytes.div_ceil(8)];
    let obs = &mut bytemuck::cast_slice_mut(&mut obs)[..obs_bytes];
    let final_obs = &mut bytemuck::cast_slice_mut(&mut final_obs)[..obs_bytes];
    let mut rewards = vec![0.0; n];
    let mut terminated = vec![false; n];
    let mut truncated = vec![false; n];
    let seeds: Vec<u64> = (0..n as u64).collect();
    env.reset(Some(&seeds), obs).unwrap();
    let mut ended = 0;
    let before = allocations_of_thread();
    for _ in 0..2000 {
        let actions = &mut bytemuck::cast_slice_mut::<u64, u8>(&mut words)[..act_bytes];
        for action in actions.chunks_exact_mut(act_bytes / n) {
            space.sample(&mut random, &mut row);
            for (scalar, &value) in action.chunks_exact_mut(size).zip(&row) {
                match size {
                    4 => scalar.copy_from_slice(&(value as f32).to_ne_bytes()),
                    _ => scalar.copy_from_slice(&(value as i64).to_ne_bytes()),
                }
            }
        }
        let out = StepOut {
            obs: &mut *obs,
            final_obs: &mut *final_obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(actions, Some(&seeds), out).unwrap();
        ended += terminated.iter().zip(&truncated).filter(|(a, b)| **a || **b).count();
    }
    let counted = allocations_of_thread() - before;
    assert!(ended > 5, "only {ended} episodes ended");
    counted
}

mod python {
    use pavlov_envs::{EnvConfig, StepOut, TypedVectorEnv, VectorEnv, make_vec, python::PyVec};
    use serde_json::json;

    use super::allocations_of_thread;

    fn interpreter() -> String {
        std::env::var("PAVLOV_TEST_PYTHON")
            .expect("PAVLOV_TEST_PYTHON names a Python with `.ci/requirements.txt`")
    }

    #[test]
    #[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
    fn steps_and_resets_of_mujoco_environments_allocate_nothing() {
        let python = interpreter();
        const N: usize = 4;
        for id in
            ["HalfCheetah-v5", "Hopper-v5", "Ant-v5", "Humanoid-v5", "InvertedDoublePendulum-v5", "Pusher-v5"]
        {
            let config = EnvConfig::from_iter([("python".to_owned(), python.as_str().into())]);
            let mut env = TypedVectorEnv::<f64, f32>::new(make_vec(id, &config, N).unwrap()).unwrap();
            assert!(env.limit_episodes(15));
            let width = env.observation_space().width();
            let actions = vec![0.3; N * env.action_space().width()];
            let mut obs = vec![0.0; N * width];
            let mut final_obs = vec![0.0; N * width];
            let mut rewards = [0.0; N];
            let mut terminated = [false; N];
            let mut truncated = [false; N];
            env.reset(Some(&[0, 1, 2, 3]), &mut obs).unwrap();
            assert_eq!(env.info("no such number"), None);
            let before = allocations_of_thread();
            let mut ended = 0;
            for step in 0..50 {
                let out = StepOut {
                    obs: &mut obs,
                    final_obs: &mut final_obs,
                    rewards: &mut rewards,
                    terminated: &mut terminated,
                    truncated: &mut truncated,
                };
                env.step(&actions, (step % 2 == 0).then_some(&[4, 5, 6, 7]), out).unwrap();
                env.info("x_velocity");
                ended += terminated.iter().zip(&truncated).filter(|(a, b)| **a || **b).count();
            }
            assert_eq!(allocations_of_thread() - before, 0, "{id}");
            assert!(ended >= 3 * N, "only {ended} episodes of {id} ended");
        }
    }

    #[test]
    #[ignore = "needs Python: set PAVLOV_TEST_PYTHON and run with `-- --ignored`"]
    fn steps_and_autoresets_of_python_environments_allocate_nothing_here() {
        let python = interpreter();
        const N: usize = 4;
        let config = json!({"python": python, "num_workers": 2, "info_keys": ["none"]});
        let config: EnvConfig = serde_json::from_value(config).unwrap();
        let mut env = PyVec::<f32, i64>::new("py:CartPole-v1", &config, N).unwrap();
        let mut obs = [0.0; 4 * N];
        let mut final_obs = [0.0; 4 * N];
        let mut rewards = [0.0; N];
        let mut terminated = [false; N];
        let mut truncated = [false; N];
        env.reset(Some(&[0, 1, 2, 3]), &mut obs).unwrap();
        let mut ended = 0;
        let before = allocations_of_thread();
        for step in 0..500 {
            let out = StepOut {
                obs: &mut obs,
                final_obs: &mut final_obs,
                rewards: &mut rewards,
                terminated: &mut terminated,
                truncated: &mut truncated,
            };
            env.step(&[0, 1, step / 2 % 2, 1], Some(&[4, 5, 6, 7]), out).unwrap();
            ended += terminated.iter().filter(|ended| **ended).count();
        }
        assert_eq!(allocations_of_thread() - before, 0);
        assert!(ended > 100, "only {ended} episodes ended");
    }
}
