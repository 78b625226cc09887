//! A wrapper changes one thing and passes on the rest.

use pavlov_envs::{
    DType, Element, Env, EnvConfig, IntoEnvCreator, Result, Space, Step, StepOut, SyncVectorEnv,
    TypedVectorEnv, VectorEnv, Wrapped, WrappedVector, Wrapper, WrapperSpec, check_env, check_vector_env,
    wrappers::{
        ActionMask, AtariConfig, AtariPreprocessing, ClipAction, ClipReward, FlattenObservation, FrameStack,
        NormalizeObservation, NormalizeReward, OrderEnforcing, Padding, RecordEpisodeStatistics,
        RescaleAction, TimeLimit, TransformObservation, TransformReward,
    },
};

use crate::{rows::Rows, teller::Teller};

type Boxed = Teller<f32, f32>;
type Chooser = Teller<f32, i64>;

/// Everything that no wrapper changes, after one reset with seed 5 and `steps` steps of the inner environment.
fn assert_told<E: Env>(env: &mut E, steps: u8) {
    let mask = |env: &E| {
        let mut mask = [true; 3];
        assert!(env.action_mask(&mut mask));
        mask
    };
    let expected: [bool; 3] = std::array::from_fn(|i| i != usize::from(steps) % 3);
    assert_eq!(mask(env), expected);
    assert_eq!((env.info("told"), env.info("untold")), (Some(f64::from(steps)), None));
    assert_eq!(env.render().unwrap().unwrap().rgb, [5, steps, 3]);
    assert_eq!(env.render_ansi().unwrap(), Some(format!("seed 5, step {steps}")));
    assert_eq!(env.render_fps(), Some(31.0));
}

/// Plays two steps of `per_step` inner steps, saves, goes elsewhere and comes back.
fn check<E: Env>(mut env: E, inner_actions: Space, changes: &[&str], per_step: u8) {
    let name = std::any::type_name::<E>();
    let keeps = |what: &str| !changes.contains(&what);
    if keeps("observation_space") {
        assert_eq!(env.observation_space(), Boxed::new().observation_space(), "{name}");
    }
    if keeps("action_space") {
        assert_eq!(env.action_space(), inner_actions, "{name}");
    }
    if keeps("max_episode_steps") {
        assert_eq!(env.max_episode_steps(), Some(77), "{name}");
    }
    let mut obs = vec![E::Obs::default(); env.observation_space().width()];
    let action = vec![E::Act::default(); env.action_space().width()];
    env.reset(Some(5), &mut obs).unwrap();
    assert_told(&mut env, 0);
    env.step(&action, &mut obs).unwrap();
    let step = env.step(&action, &mut obs).unwrap();
    if keeps("reward") {
        assert_eq!(step, Step { reward: -2.5 * f64::from(per_step), ..Step::default() }, "{name}");
    }
    assert_told(&mut env, 2 * per_step);
    let state = env.save_state().expect("a state");
    env.reset(Some(9), &mut obs).unwrap();
    assert!(env.step(&action, &mut obs).unwrap().truncated, "{name}");
    env.load_state(&state).unwrap();
    assert_told(&mut env, 2 * per_step);
    assert!(
        state.len() == 2 || env.load_state(&state[..state.len() - 1]).is_err(),
        "{name}: a cut state was taken"
    );
    check_env(&mut env).unwrap_or_else(|error| panic!("{name}: {error}"));
}

#[test]
fn wrappers_pass_on_what_they_do_not_change_and_keep_the_contract() {
    let reals = Boxed::new().action_space();
    let choices = Chooser::new().action_space();
    check(Boxed::new(), reals.clone(), &[], 1);
    check(TimeLimit::new(Boxed::new(), 100), reals.clone(), &[], 1);
    check(OrderEnforcing::new(Boxed::new()), reals.clone(), &[], 1);
    check(RecordEpisodeStatistics::new(Boxed::new(), 5), reals.clone(), &[], 1);
    check(TransformReward::new(Boxed::new(), |r| -r), reals.clone(), &["reward"], 1);
    check(ClipReward::new(Boxed::new(), -1.0, 1.0).unwrap(), reals.clone(), &["reward"], 1);
    let halve = |obs: &[f32], out: &mut [f32]| out[0] = obs[1] / 2.0;
    let env = TransformObservation::new(Boxed::new(), Space::boxed(0.0, 20.0, &[1]), halve).unwrap();
    check(env, reals.clone(), &["observation_space"], 1);
    check(FlattenObservation::new(Boxed::new()).unwrap(), reals.clone(), &[], 1);
    let env = FrameStack::new(Boxed::new(), 3, Padding::Zero).unwrap();
    check(env, reals.clone(), &["observation_space"], 1);
    check(ClipAction::new(Boxed::new()).unwrap(), reals.clone(), &["action_space"], 1);
    check(RescaleAction::new(Boxed::new(), 0.0, 9.0).unwrap(), reals, &["action_space"], 1);
    check(ActionMask::new(Chooser::new()).unwrap(), choices.clone(), &["observation_space"], 1);
    let config = AtariConfig { noop_max: 0, frame_skip: 2, screen_size: 2, ..AtariConfig::default() };
    let env = AtariPreprocessing::new(Teller::<u8, i64>::new(), config).unwrap();
    check(env, choices, &["observation_space", "max_episode_steps"], 2);
}

/// Changes nothing.
#[derive(Debug)]
struct Nothing;

impl<O: Element, A: Element> Wrapper<O, A> for Nothing {
    type Obs = O;
    type Act = A;
}

/// Shows and takes double precision.
#[derive(Debug)]
struct Precise;

impl Wrapper<f32, f32> for Precise {
    type Obs = f64;
    type Act = f64;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone().with_dtype(DType::F64))
    }

    fn action_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone().with_dtype(DType::F64))
    }
}

#[test]
fn a_wrapper_that_changes_nothing_passes_everything_on() {
    check(Wrapped::with(Boxed::new(), Nothing).unwrap(), Boxed::new().action_space(), &[], 1);
    let copies = || SyncVectorEnv::new(2, || Ok(Boxed::new())).unwrap();
    let vector = || WrappedVector::new(copies(), || Ok(Nothing)).unwrap();
    check_vector(vector(), 1);
    check_vector_env(&mut vector()).unwrap();
    let mut vector = vector();
    let mut obs = [0.0; 4];
    let mut final_obs = [0.0; 4];
    let mut rewards = [0.0; 2];
    let mut terminated = [false; 2];
    let mut truncated = [false; 2];
    assert!(vector.set_autoreset(false));
    vector.reset(Some(&[9, 1]), &mut obs).unwrap();
    let out = StepOut {
        obs: &mut obs,
        final_obs: &mut final_obs,
        rewards: &mut rewards,
        terminated: &mut terminated,
        truncated: &mut truncated,
    };
    vector.step(&[0.0; 6], Some(&[5, 6]), out).unwrap();
    assert_eq!(
        (truncated, obs[..2].to_vec(), final_obs[..2].to_vec()),
        ([true, false], vec![9.0, 1.0], vec![9.0, 1.0])
    );
}

#[test]
fn a_wrapper_may_change_the_scalar_types() {
    let mut env = Wrapped::with(Boxed::new(), Precise).unwrap();
    check_env(&mut env).unwrap();
    let mut obs = [0.0_f64; 2];
    env.reset(Some(5), &mut obs).unwrap();
    assert_eq!(obs, [5.0, 0.0]);
    let wrong = Wrapped::with(Teller::<f64, f32>::new(), WrongSpace).unwrap_err().to_string();
    assert!(wrong.contains("the observation space of the wrapper is"), "{wrong}");
}

/// Says that it shows `f32`, but its space has `f64`.
#[derive(Debug)]
struct WrongSpace;

impl Wrapper<f64, f32> for WrongSpace {
    type Obs = f32;
    type Act = f32;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        Ok(inner.clone().with_dtype(DType::F64))
    }
}

/// Everything that no vector wrapper changes, if a step is `per_step` steps of the inner environment.
fn check_vector<V: VectorEnv<Obs = f32, Act = f32>>(mut env: V, per_step: u8) {
    let name = std::any::type_name::<V>();
    assert_eq!((env.num_envs(), env.observation_space().width()), (2, 2), "{name}");
    assert_eq!(*env.action_space(), Boxed::new().action_space(), "{name}");
    let mut obs = [0.0; 4];
    let mut final_obs = [0.0; 4];
    let mut rewards = [0.0; 2];
    let mut terminated = [true; 2];
    let mut truncated = [true; 2];
    let mut step = |env: &mut V| {
        let out = StepOut {
            obs: &mut obs,
            final_obs: &mut final_obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(&[0.0; 6], Some(&[5, 6]), out).unwrap();
        rewards[0]
    };
    let told = |env: &mut V, steps: u8| {
        assert_eq!(env.info("told"), Some(&[f64::from(steps); 2][..]), "{name}");
        assert_eq!(env.info("untold"), None, "{name}");
        let mut masks = [false; 6];
        assert!(env.action_masks(&mut masks), "{name}");
        assert_eq!(masks, std::array::from_fn(|i| i % 3 != usize::from(steps) % 3), "{name}");
        assert_eq!(env.render(1).unwrap().unwrap().rgb, [6, steps, 3], "{name}");
        assert_eq!(env.render_ansi(1).unwrap(), Some(format!("seed 6, step {steps}")), "{name}");
        assert_eq!(env.render_fps(), Some(31.0), "{name}");
    };
    let mut first = [0.0; 4];
    env.reset(Some(&[5, 6]), &mut first).unwrap();
    told(&mut env, 0);
    step(&mut env);
    let state = env.save_state().unwrap().expect("a state");
    let went = step(&mut env);
    told(&mut env, 2 * per_step);
    env.reset(Some(&[1, 2]), &mut first).unwrap();
    step(&mut env);
    env.load_state(&state).unwrap();
    told(&mut env, per_step);
    assert_eq!(step(&mut env).to_bits(), went.to_bits(), "{name}: the reward after `load_state`");
    assert!(env.load_state(&state[..state.len() - 1]).is_err(), "{name}: a cut state was taken");
}

#[test]
fn copies_that_are_wrapped_one_by_one_tell_what_they_told() {
    let wrappers: Vec<WrapperSpec> = serde_json::from_str(r#"["MaxAndSkipObservation(2)"]"#).unwrap();
    let copies = Boxed::new.into_env_creator().wrapped(&wrappers).make_vec(&EnvConfig::new(), 2).unwrap();
    check_vector(TypedVectorEnv::<f32, f32>::new(copies).unwrap(), 2);
}

#[test]
fn vector_wrappers_pass_on_what_they_do_not_change() {
    let copies = || SyncVectorEnv::new(2, || Ok(Boxed::new())).unwrap();
    check_vector(copies(), 1);
    check_vector(TransformReward::new(copies(), |r| -r), 1);
    let mut env = TransformReward::new(copies(), |r| -r);
    let mut rows = Rows::filled(2, 2, 0.0);
    env.reset(Some(&[5, 6]), &mut rows.obs).unwrap();
    env.step(&[0.0; 6], Some(&[5, 6]), rows.out()).unwrap();
    assert_eq!(rows.rewards, [2.5, 2.5]);
    check_vector(ClipReward::new(copies(), -1.0, 1.0).unwrap(), 1);
    check_vector(NormalizeObservation::new(copies(), 1e-8).unwrap(), 1);
    check_vector(NormalizeReward::new(copies(), 0.99, 1e-8).unwrap(), 1);
    let erased = || TypedVectorEnv::<f32, f32>::new(Box::new(copies())).unwrap();
    check_vector(erased(), 1);
    check_vector(ClipReward::new(erased(), -1.0, 1.0).unwrap(), 1);
    check_vector_env(&mut TransformReward::new(copies(), |r| -r)).unwrap();
    check_vector_env(&mut ClipReward::new(copies(), -1.0, 1.0).unwrap()).unwrap();
}

#[test]
fn normalizing_wrappers_keep_the_contract_while_their_statistics_rest() {
    let copies = || SyncVectorEnv::new(3, || Ok(Boxed::new())).unwrap();
    let mut observations = NormalizeObservation::new(copies(), 1e-8).unwrap();
    assert!(check_vector_env(&mut observations).is_err(), "copies share statistics");
    observations.set_update_running_mean(false);
    check_vector_env(&mut observations).unwrap();
    let mut rewards = NormalizeReward::new(copies(), 0.99, 1e-8).unwrap();
    assert!(check_vector_env(&mut rewards).is_err(), "copies share statistics");
    rewards.set_update_running_mean(false);
    check_vector_env(&mut rewards).unwrap();
}

#[test]
fn statistics_travel_with_the_saved_state() {
    let make =
        || NormalizeObservation::new(SyncVectorEnv::new(1, || Ok(Boxed::new())).unwrap(), 1e-8).unwrap();
    let mut env = make();
    let mut other = make();
    let mut obs = [0.0; 2];
    for seed in 10..20 {
        env.reset(Some(&[seed]), &mut obs).unwrap();
    }
    other.load_state(&env.save_state().unwrap().unwrap()).unwrap();
    let mut a = [0.0; 2];
    let mut b = [0.0; 2];
    let mut fresh = [0.0; 2];
    env.reset(Some(&[3]), &mut a).unwrap();
    other.reset(Some(&[3]), &mut b).unwrap();
    make().reset(Some(&[3]), &mut fresh).unwrap();
    assert_eq!(a, b);
    assert_ne!(a, fresh);
}

#[test]
fn an_action_mask_stands_before_the_observation() {
    let mut env = ActionMask::new(Chooser::new()).unwrap();
    let space = env.observation_space();
    assert_eq!(space.to_string(), "Dict(action_mask: MultiBinary(3), observation: Box(0, 255, [2], f32))");
    let mut obs = [9.0; 5];
    env.reset(Some(5), &mut obs).unwrap();
    assert_eq!(obs, [0.0, 1.0, 1.0, 5.0, 0.0]);
    env.step(&[1], &mut obs).unwrap();
    assert_eq!(obs, [1.0, 0.0, 1.0, 5.0, 1.0]);
}

#[test]
fn no_step_goes_before_the_first_reset() {
    let mut env = OrderEnforcing::new(Boxed::new());
    let message = env.step(&[0.0; 3], &mut [0.0; 2]).unwrap_err().to_string();
    assert_eq!(message, "`step` before the first `reset`; call `reset` first");
    assert!(env.render().unwrap_err().to_string().starts_with("`render` before"));
    env.reset(Some(1), &mut [0.0; 2]).unwrap();
    env.step(&[0.0; 3], &mut [0.0; 2]).unwrap();
}

#[test]
fn statistics_of_an_episode_that_the_vector_cut_stay_until_its_next_step() {
    let make = || Ok(RecordEpisodeStatistics::new(Short(Boxed::new()), 5));
    let mut env = SyncVectorEnv::new(1, make).unwrap();
    let mut obs = [0.0; 2];
    let mut final_obs = [0.0; 2];
    let mut rewards = [0.0];
    let mut terminated = [false];
    let mut truncated = [false];
    env.reset(Some(&[5]), &mut obs).unwrap();
    let mut found = vec![];
    for _ in 0..5 {
        let out = StepOut {
            obs: &mut obs,
            final_obs: &mut final_obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(&[0.0; 3], Some(&[5]), out).unwrap();
        found.push(env.info("episode/l").map_or(f64::NAN, |row| row[0]));
    }
    assert!(found[0].is_nan() && found[2].is_nan() && found[4].is_nan(), "{found:?}");
    assert_eq!((found[1], found[3]), (2.0, 2.0));
    assert_eq!(env.envs().next().unwrap().return_queue(), &[-5.0, -5.0]);
}

/// Two steps long, as its vector counts them.
struct Short(Boxed);

impl Env for Short {
    type Obs = f32;
    type Act = f32;

    fn observation_space(&self) -> Space {
        self.0.observation_space()
    }

    fn action_space(&self) -> Space {
        self.0.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.0.reset(seed, obs)
    }

    fn step(&mut self, action: &[f32], obs: &mut [f32]) -> Result<Step> {
        self.0.step(action, obs)
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(2)
    }
}

#[test]
fn wrappers_refuse_what_they_cannot_wrap() {
    fn message<T>(made: Result<T>) -> String {
        made.err().expect("an error").to_string()
    }
    assert_eq!(
        message(ClipReward::new(Boxed::new(), 1.0, -1.0)),
        "`min_reward` is 1, but it must be at most -1 (`max_reward`)"
    );
    assert!(message(ClipAction::new(Chooser::new())).contains("Discrete(3), but it must be a box of floats"));
    assert!(message(RescaleAction::new(Boxed::new(), 1.0, 1.0)).contains("`min_action` is 1"));
    assert!(message(ActionMask::new(Boxed::new())).contains("must be discrete or multi-discrete"));
    assert_eq!(
        message(FrameStack::new(Boxed::new(), 0, Padding::Reset)),
        "`stack_size` is 0, but it must be at least 1"
    );
    let outside = FrameStack::new(Boxed::new(), 2, Padding::Custom(vec![-1.0, 0.0]));
    assert!(message(outside).contains("element 0 is -1.0, outside 0..=255"));
    let masked = ActionMask::new(Chooser::new()).unwrap();
    assert!(message(FrameStack::new(masked, 2, Padding::Reset)).contains("`FlattenObservation`"));
    let copies = || SyncVectorEnv::new(1, || Ok(Boxed::new())).unwrap();
    assert_eq!(
        message(TypedVectorEnv::<f32, i64>::new(Box::new(copies()))),
        "the scalar type of actions is f32, but it must be i64, as the type parameter says"
    );
    assert_eq!(message(NormalizeObservation::new(copies(), 0.0)), "`epsilon` is 0, but it must be above 0");
    assert_eq!(message(NormalizeReward::new(copies(), 1.5, 1e-8)), "`gamma` is 1.5, but it must be in 0..=1");
}
