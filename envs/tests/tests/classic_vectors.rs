//! Vectors of classic control: equal to their single copies, and what they save and refuse.

use pavlov_envs::{
    Element, NpRandom, StepOut, SyncVectorEnv, VectorEnv,
    native::{
        Acrobot, AcrobotConfig, AcrobotVector, CartPole, CartPoleConfig, CartPoleVector, MountainCar,
        MountainCarConfig, MountainCarContinuous, MountainCarContinuousConfig, Pendulum, PendulumConfig,
    },
    wrappers::TimeLimit,
};

use crate::{classic_control::Recorded, states::edited};

#[test]
fn vectors_equal_their_single_copies_bit_for_bit() {
    compare_vector::<CartPole>(CartPoleConfig::default);
    compare_vector::<MountainCar>(MountainCarConfig::default);
    compare_vector::<MountainCarContinuous>(MountainCarContinuousConfig::default);
    compare_vector::<Pendulum>(PendulumConfig::default);
    compare_vector::<Acrobot>(AcrobotConfig::default);
}

/// More copies than are moved together.
const COPIES: usize = 150;

/// Random play for twice the limit, with seeds for half of it, then the same from a saved state.
fn compare_vector<E: Recorded>(config: impl Fn() -> E::Config) {
    const LIMIT: usize = 60;
    let mut sync = SyncVectorEnv::new(COPIES, || Ok(TimeLimit::new(E::new(config()), LIMIT))).unwrap();
    let mut vector = E::vector(COPIES, LIMIT, config());
    let name = std::any::type_name::<E>();
    let singles = play(&mut sync, 5);
    assert!(singles.iter().any(|moment| moment.ended.contains(&true)), "{name}: no episode ended");
    assert!(singles == play(&mut vector, 5), "{name}: rows differ");

    let state = vector.save_state().unwrap().unwrap();
    let mut other = E::vector(COPIES, LIMIT, config());
    other.load_state(&state).unwrap();
    assert_eq!(other.save_state().unwrap().unwrap(), state, "{name}");
    assert!(go_on(&mut vector, 9) == go_on(&mut other, 9), "{name}: after `load_state`");
}

/// What one vector step gave, in bits.
#[derive(PartialEq)]
struct Moment {
    obs: Vec<u32>,
    final_obs: Vec<u32>,
    rewards: Vec<u32>,
    ended: Vec<bool>,
}

fn play<V: VectorEnv<Obs = f32>>(env: &mut V, seed: u64) -> Vec<Moment> {
    let mut obs = vec![0.0; COPIES * env.observation_space().width()];
    let seeds: Vec<u64> = (0..COPIES as u64).collect();
    env.reset(Some(&seeds), &mut obs).unwrap();
    go_on(env, seed)
}

fn go_on<V: VectorEnv<Obs = f32>>(env: &mut V, seed: u64) -> Vec<Moment> {
    let space = env.action_space().clone();
    let width = env.observation_space().width();
    let mut random = NpRandom::new(seed);
    let mut obs = vec![0.0; COPIES * width];
    let mut final_obs = vec![0.0; COPIES * width];
    let mut rewards = vec![0.0; COPIES];
    let mut terminated = vec![false; COPIES];
    let mut truncated = vec![false; COPIES];
    let bits = |row: &[f32]| row.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    let step = |t: usize| {
        let mut actions = vec![V::Act::default(); COPIES];
        for action in actions.chunks_mut(1) {
            space.sample(&mut random, action);
            if V::Act::DTYPE == pavlov_envs::DType::F32 {
                // Beyond the bounds now and then.
                action[0] = V::Act::from_f64(action[0].to_f64() * 1.5);
            }
        }
        let seeds: Vec<u64> = (0..COPIES).map(|_| random.next_u64()).collect();
        let out = StepOut {
            obs: &mut obs,
            final_obs: &mut final_obs,
            rewards: &mut rewards,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(&actions, (t < 60).then_some(&seeds[..]), out).unwrap();
        Moment {
            obs: bits(&obs),
            final_obs: bits(&final_obs),
            rewards: bits(&rewards),
            ended: [&terminated[..], &truncated].concat(),
        }
    };
    (0..125).map(step).collect()
}

/// The fields of a saved vector: the numbers, the random stream and the step of each copy, and whether `reset` was called.
type Copies = (Vec<(Vec<f64>, NpRandom, u32)>, bool);

#[test]
fn a_state_from_which_no_episode_goes_on_is_refused() {
    let mut vector = AcrobotVector::new(1, 500, AcrobotConfig::default());
    let state = vector.save_state().unwrap().unwrap();
    let damaged = edited(&state, |(copies, _): &mut Copies| copies[0].0[0] = 1e300);
    let message = vector.load_state(&damaged).unwrap_err().to_string();
    assert!(
        message.contains("copy 0 is at [1e300, 0.0, 0.0, 0.0], from where no episode goes on"),
        "{message}"
    );
    vector.load_state(&state).unwrap();
}

#[test]
fn a_step_before_the_first_reset_says_to_reset() {
    let vector = || CartPoleVector::new(1, 500, CartPoleConfig::default());
    let mut obs = [0.0; 4];
    let mut final_obs = [0.0; 4];
    let mut step = |env: &mut CartPoleVector| {
        let out = StepOut {
            obs: &mut obs,
            final_obs: &mut final_obs,
            rewards: &mut [0.0],
            terminated: &mut [false],
            truncated: &mut [false],
        };
        env.step(&[0], None, out).map_err(|error| error.to_string())
    };
    let refused = Err("CartPole was stepped before an episode; call `reset` first".to_owned());
    let mut fresh = vector();
    let mut reset = vector();
    let before = fresh.save_state().unwrap().unwrap();
    assert_eq!(step(&mut fresh), refused);
    reset.reset(Some(&[1]), &mut [0.0; 4]).unwrap();
    // A state is of a running episode or of none, as the vector was when it was saved.
    fresh.load_state(&reset.save_state().unwrap().unwrap()).unwrap();
    assert_eq!(step(&mut fresh), Ok(()));
    reset.load_state(&before).unwrap();
    assert_eq!(step(&mut reset), refused);
}

#[test]
fn a_state_beyond_the_time_limit_is_refused() {
    let mut vector = AcrobotVector::new(1, 500, AcrobotConfig::default());
    let state = vector.save_state().unwrap().unwrap();
    let with = |steps: u32| edited(&state, |(copies, _): &mut Copies| copies[0].2 = steps);
    vector.load_state(&with(499)).unwrap();
    for steps in [500, u32::MAX] {
        let message = vector.load_state(&with(steps)).unwrap_err().to_string();
        let expected = format!("copy 0 is at step {steps}, but episodes end at step 500 here");
        assert!(message.contains(&expected), "{message}");
    }
}
