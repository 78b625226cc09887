//! Every conformance rule catches an environment that breaks it, and no sound one.

use std::time::Duration;

use pavlov_envs::{
    Env, Error, Frame, Result, Space, Step, StepOut, SyncVectorEnv, VectorEnv, check_env, check_vector_env,
    check_vector_env_within, seems_endless, wrappers::TimeLimit,
};

/// What a [`Walk`] does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    None,
    ContradictoryBounds,
    OtherScalarType,
    ChangesSpace,
    Deafness,
    LeavesElement,
    LeavesSpace,
    NanReward,
    ForgetsInState,
}

/// A walk from the middle of `-3..=3` to an end; the seed says how long a detour is.
#[derive(Clone)]
struct Walk {
    fault: Fault,
    place: f32,
    seed: u64,
    calls: u64,
    saves: bool,
}

impl Walk {
    fn new(fault: Fault) -> Self {
        Self { fault, place: 0.0, seed: 0, calls: 0, saves: true }
    }

    fn show(&self, obs: &mut [f32]) {
        obs[0] = self.place;
        if self.fault != Fault::LeavesElement || self.place == 0.0 {
            obs[1] = (self.seed % 11) as f32;
        }
        if self.fault == Fault::Deafness {
            obs[1] = (self.calls % 7) as f32;
        }
    }
}

impl Env for Walk {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        match self.fault {
            Fault::ContradictoryBounds => Space::boxed(1.0, -1.0, &[2]),
            Fault::OtherScalarType => Space::image(&[2]),
            Fault::ChangesSpace if self.calls > 0 => Space::real(&[2]),
            Fault::LeavesSpace => Space::boxed(-2.0, 10.0, &[2]),
            _ => Space::boxed(-3.0, 10.0, &[2]),
        }
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.calls += 1;
        self.place = 0.0;
        self.seed = seed.unwrap_or(self.seed + 1);
        self.show(obs);
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
        self.calls += 1;
        self.place += 2.0 * action[0] as f32 - 1.0;
        self.show(obs);
        let terminated = self.place.abs() >= 3.0;
        Ok(Step {
            reward: if self.fault == Fault::NanReward { f64::NAN } else { -1.0 },
            terminated,
            truncated: false,
        })
    }

    fn render(&mut self) -> Result<Option<Frame>> {
        Ok(None)
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        self.saves.then(|| {
            let mut state = self.place.to_le_bytes().to_vec();
            state.extend_from_slice(&self.seed.to_le_bytes());
            state
        })
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let (place, seed) = state.split_at(4);
        self.place = f32::from_le_bytes(place.try_into().map_err(Error::other)?);
        if self.fault != Fault::ForgetsInState {
            self.seed = u64::from_le_bytes(seed.try_into().map_err(Error::other)?);
        }
        Ok(())
    }
}

#[track_caller]
fn assert_broken(result: Result<()>, rule: &str, part: &str) {
    match result {
        Err(Error::Contract { check, message }) => {
            assert_eq!(check, rule, "{message}");
            assert!(message.contains(part), "{message:?} does not contain {part:?}");
        }
        other => panic!("expected `{rule}` to be broken, got {other:?}"),
    }
}

#[test]
fn check_env_accepts_a_sound_environment() {
    check_env(&mut Walk::new(Fault::None)).unwrap();
}

#[test]
fn check_env_catches_each_fault_by_its_rule() {
    for (fault, rule, part) in [
        (Fault::ContradictoryBounds, "spaces", "`low` of a box is 1 in element 0"),
        (Fault::OtherScalarType, "spaces", "scalars of u8, the type says f32"),
        (Fault::ChangesSpace, "spaces", "became"),
        (Fault::Deafness, "deterministic", "seed 0, step 0: element 1"),
        (Fault::LeavesElement, "writes_every_element", "seed 0, step 1: element 1"),
        (Fault::LeavesSpace, "observation_in_space", "outside -2..=10"),
        (Fault::NanReward, "finite_reward", "seed 0, step 1: the reward is NaN"),
        (Fault::ForgetsInState, "state", "element 1 of the observation"),
    ] {
        assert_broken(check_env(&mut Walk::new(fault)), rule, part);
    }
}

/// What a [`BrokenVector`] does to the rows of sound copies.
#[derive(Clone, Copy, Debug, PartialEq)]
enum VectorFault {
    None,
    Deafness,
    LeavesElement,
    LeavesSpace,
    NanReward,
    ListensToNeighbours,
    IgnoresResetSeeds,
    ShowsLastInsteadOfFirst,
    LeavesFinalObs,
    WritesFinalObsAlways,
    TakesInvalidActions,
    MovesBeforeRefusing,
    ForgetsInState,
    TakesShortSeeds,
    TakesShortMasks,
}

struct BrokenVector {
    inner: SyncVectorEnv<Walk>,
    fault: VectorFault,
    /// Steps of all runs.
    calls: u64,
}

const COPIES: usize = 3;

impl VectorEnv for BrokenVector {
    type Obs = f32;
    type Act = i64;

    fn num_envs(&self) -> usize {
        COPIES
    }

    fn observation_space(&self) -> &Space {
        self.inner.observation_space()
    }

    fn action_space(&self) -> &Space {
        self.inner.action_space()
    }

    fn reset(&mut self, seeds: Option<&[u64]>, obs: &mut [f32]) -> Result<()> {
        self.inner.reset(seeds, obs)
    }

    fn step(&mut self, actions: &[i64], reset_seeds: Option<&[u64]>, out: StepOut<'_, f32>) -> Result<()> {
        use VectorFault as F;
        self.calls += 1;
        let mut actions = actions.to_vec();
        match self.fault {
            F::TakesInvalidActions => actions.iter_mut().for_each(|action| *action &= 1),
            F::MovesBeforeRefusing if actions.iter().any(|&action| action > 1) => {
                let valid: Vec<i64> = actions.iter().map(|action| action & 1).collect();
                let mut out = out;
                self.inner.step(&valid, reset_seeds, out.reborrow())?;
                return self.inner.step(&actions, reset_seeds, out);
            }
            _ => {}
        }
        let same = [1; COPIES];
        let seeds = match self.fault {
            F::IgnoresResetSeeds => Some(&same[..]),
            F::TakesShortSeeds => reset_seeds.filter(|seeds| seeds.len() == COPIES),
            _ => reset_seeds,
        };
        let kept = out.obs.to_vec();
        let kept_final = out.final_obs.to_vec();
        let StepOut { obs, final_obs, rewards, terminated, truncated } = out;
        let all = StepOut {
            obs: &mut *obs,
            final_obs: &mut *final_obs,
            rewards: &mut *rewards,
            terminated: &mut *terminated,
            truncated: &mut *truncated,
        };
        self.inner.step(&actions, seeds, all)?;
        match self.fault {
            F::Deafness => obs[1] = (self.calls % 7) as f32,
            F::LeavesElement => obs[3] = kept[3],
            F::LeavesSpace => obs[2] = 50.0,
            F::NanReward => rewards[1] = f32::NAN,
            F::ListensToNeighbours => rewards[0] += obs[2],
            F::ShowsLastInsteadOfFirst if terminated[1] => obs[2..4].copy_from_slice(&final_obs[2..4]),
            F::LeavesFinalObs => final_obs.copy_from_slice(&kept_final),
            F::WritesFinalObsAlways => final_obs[..2].copy_from_slice(&obs[..2]),
            _ => {}
        }
        Ok(())
    }

    fn action_masks(&self, masks: &mut [bool]) -> bool {
        match self.fault {
            VectorFault::TakesShortMasks => masks.len() < 2 * COPIES,
            _ => false,
        }
    }

    fn save_state(&self) -> Result<Option<Vec<u8>>> {
        self.inner.save_state()
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        if self.fault == VectorFault::ForgetsInState {
            return Ok(());
        }
        self.inner.load_state(state)
    }
}

impl BrokenVector {
    fn new(fault: VectorFault) -> Self {
        let inner = SyncVectorEnv::new(COPIES, || Ok(Walk::new(Fault::None))).unwrap();
        Self { inner, fault, calls: 0 }
    }
}

#[test]
fn check_vector_env_accepts_a_sound_vector() {
    check_vector_env(&mut BrokenVector::new(VectorFault::None)).unwrap();
}

#[test]
fn a_check_without_time_plays_two_steps_and_still_looks_at_them() {
    let mut sound = BrokenVector::new(VectorFault::None);
    assert_eq!(check_vector_env_within(&mut sound, Duration::MAX).unwrap(), 300);
    assert_eq!(check_vector_env_within(&mut sound, Duration::ZERO).unwrap(), 2);
    let mut broken = BrokenVector::new(VectorFault::NanReward);
    let checked = check_vector_env_within(&mut broken, Duration::ZERO).map(drop);
    assert_broken(checked, "finite_reward", "copy 1, step 1: the reward is NaN");
}

#[test]
fn check_vector_env_catches_each_fault_by_its_rule() {
    use VectorFault as F;
    for (fault, rule, part) in [
        (F::Deafness, "deterministic", "copy 0, step "),
        (F::LeavesElement, "writes_every_element", "copy 1, step 1"),
        (F::LeavesSpace, "observation_in_space", "copy 1, step 1: element 0 is 50.0"),
        (F::NanReward, "finite_reward", "copy 1, step 1: the reward is NaN"),
        (F::ListensToNeighbours, "independent_copies", "copy 0, step 1"),
        (F::IgnoresResetSeeds, "autoreset", "the next episode has seed"),
        (F::ShowsLastInsteadOfFirst, "independent_copies", "copy "),
        (F::LeavesFinalObs, "final_obs", "step "),
        (F::WritesFinalObsAlways, "final_obs", "no episode ended, but the row was written"),
        (F::TakesInvalidActions, "refuses_invalid_actions", "copy 2: action [2.0] of Discrete(2) was taken"),
        (F::MovesBeforeRefusing, "refuses_invalid_actions", "after another copy's action was refused"),
        (F::ForgetsInState, "state", "after `load_state`"),
        (F::TakesShortSeeds, "refuses_wrong_lengths", "reset seeds for one copy too few"),
        (F::TakesShortMasks, "refuses_wrong_lengths", "action masks for one copy too few"),
    ] {
        assert_broken(check_vector_env(&mut BrokenVector::new(fault)), rule, part);
    }
}

#[test]
fn a_vector_of_broken_copies_is_caught_too() {
    for (fault, rule) in [
        (Fault::LeavesElement, "writes_every_element"),
        (Fault::LeavesSpace, "final_obs"),
        (Fault::NanReward, "finite_reward"),
        (Fault::ForgetsInState, "state"),
    ] {
        let mut env = SyncVectorEnv::new(COPIES, || Ok(Walk::new(fault))).unwrap();
        assert_broken(check_vector_env(&mut env), rule, "copy ");
    }
}

#[test]
fn a_walk_without_save_state_comes_back_by_replay() {
    let make = || Ok(Walk { saves: false, ..Walk::new(Fault::None) });
    check_vector_env(&mut SyncVectorEnv::new(COPIES, make).unwrap()).unwrap();
}

#[test]
fn the_scalar_environments_keep_the_contract() {
    check_env(&mut pavlov_envs::native::CartPole::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::wrappers::TimeLimit::new(
        pavlov_envs::native::CartPole::new(Default::default()),
        15,
    ))
    .unwrap();
    check_env(&mut pavlov_envs::native::MountainCar::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::native::MountainCarContinuous::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::native::Pendulum::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::native::Acrobot::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::native::FrozenLake::new(Default::default()).unwrap()).unwrap();
    check_env(&mut pavlov_envs::native::Taxi::new(Default::default()).unwrap()).unwrap();
    check_env(&mut pavlov_envs::native::CliffWalking::new(Default::default())).unwrap();
    check_env(&mut pavlov_envs::native::Blackjack::new(Default::default())).unwrap();
}

/// Errs when it is given an action that its mask forbids: the step decides which of three is legal.
struct Guarded(i64);

impl Env for Guarded {
    type Obs = i64;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::discrete(10)
    }

    fn action_space(&self) -> Space {
        Space::Discrete { n: 3, start: 1 }
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [i64]) -> Result<()> {
        self.0 = 0;
        obs[0] = 0;
        Ok(())
    }

    fn step(&mut self, action: &[i64], obs: &mut [i64]) -> Result<Step> {
        if action[0] != 1 + self.0 % 3 {
            return Err(Error::other(format!("action {} is illegal in step {}", action[0], self.0)));
        }
        self.0 += 1;
        obs[0] = self.0;
        Ok(Step { reward: 0.0, terminated: self.0 == 9, truncated: false })
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        let fits = mask.len() == 3;
        if fits {
            mask.iter_mut().enumerate().for_each(|(i, legal)| *legal = i as i64 == self.0 % 3);
        }
        fits
    }
}

#[test]
fn check_env_takes_only_actions_that_the_mask_allows() {
    check_env(&mut Guarded(0)).unwrap();
}

/// Never ends by itself, and names no limit.
#[derive(Clone)]
struct Endless;

impl Env for Endless {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Space::boxed(0.0, 1.0, &[1])
    }

    fn action_space(&self) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        obs[0] = 0.0;
        Ok(())
    }

    fn step(&mut self, _action: &[i64], obs: &mut [f32]) -> Result<Step> {
        obs[0] = 1.0;
        Ok(Step { reward: 0.0, terminated: false, truncated: false })
    }
}

#[test]
fn an_environment_seems_endless_if_it_names_no_limit_and_no_episode_ends() {
    let mut endless = SyncVectorEnv::new(1, || Ok(Endless)).unwrap();
    assert!(seems_endless(&mut endless).unwrap());
    let mut limited = SyncVectorEnv::new(1, || Ok(TimeLimit::new(Endless, 100_000))).unwrap();
    assert!(!seems_endless(&mut limited).unwrap(), "its limit is beyond the 300 steps that are played");
    let mut walk = SyncVectorEnv::new(1, || Ok(Walk::new(Fault::None))).unwrap();
    assert!(!seems_endless(&mut walk).unwrap());
    let mut cut = SyncVectorEnv::new(1, || Ok(Cut(0))).unwrap();
    assert!(!seems_endless(&mut cut).unwrap(), "its episodes are truncated");
}

/// Truncates its episodes itself, after ten steps, and names no limit.
#[derive(Clone)]
struct Cut(u32);

impl Env for Cut {
    type Obs = f32;
    type Act = i64;

    fn observation_space(&self) -> Space {
        Endless.observation_space()
    }

    fn action_space(&self) -> Space {
        Endless.action_space()
    }

    fn reset(&mut self, seed: Option<u64>, obs: &mut [f32]) -> Result<()> {
        self.0 = 0;
        Endless.reset(seed, obs)
    }

    fn step(&mut self, action: &[i64], obs: &mut [f32]) -> Result<Step> {
        self.0 += 1;
        Ok(Step { truncated: self.0 == 10, ..Endless.step(action, obs)? })
    }
}
