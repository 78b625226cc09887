//! The contract of multi-agent environments: each rule catches what breaks it, and no sound environment.

use pavlov_envs::{
    EnvConfig, EnvCopies, EnvCreator, EnvSpec, Error, MultiAgentEnv, MultiAgentOut, MultiAgentRows, Result,
    Space, TypedMultiAgentEnv, check_any_multi_agent_env, check_any_multi_agent_env_within,
    check_multi_agent_env, make_multi_agent, multi_agent_ids, multi_agent_spec,
    native::{BoardGame, SimpleSpread, SimpleSpreadConfig, TwoStepGame},
    register, register_multi_agent,
};

/// What a [`Relay`] does wrong.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Fault {
    None,
    TwoOfOneName,
    ContradictoryBounds,
    OtherScalarType,
    ChangesSpace,
    Deafness,
    LeavesElement,
    LeavesReward,
    LeavesFlag,
    ReadsWaiting,
    LeavesSpace,
    ShowsTheDead,
    NanReward,
    BothFlags,
    EndsTwice,
    Revives,
    VanishesWithoutEnd,
    DeadActs,
    NoneActs,
    EmptyMask,
    MaskOfWaiting,
    TakesInvalidActions,
    ForgetsInState,
}

/// Three runners with different spaces: the first runs `seed % 4 + 2` legs while the second waits, then the second runs
/// as many; the third joins after the first step and is cut when the first ends.
#[derive(Clone)]
pub(crate) struct Relay {
    fault: Fault,
    leg: u64,
    legs: u64,
    ran: f32,
    calls: u64,
}

impl Relay {
    pub(crate) fn new(fault: Fault) -> Self {
        Self { fault, leg: 0, legs: 0, ran: 0.0, calls: 0 }
    }

    fn runner(&self) -> Option<usize> {
        (self.leg < 2 * self.legs).then_some(usize::from(self.leg >= self.legs))
    }

    fn write(&self, gained: f64, out: MultiAgentOut<'_, f32>) {
        let is = |fault| self.fault == fault;
        let first_ends = self.leg == self.legs;
        let second_ends = self.leg == 2 * self.legs;
        let here = [self.leg <= self.legs, true, self.leg >= 1 && self.leg <= self.legs];
        let obs = out.obs;
        let leaves = is(Fault::LeavesElement) && self.leg == 2;
        if !leaves {
            obs[0] = self.ran;
        }
        obs[1] = if is(Fault::Deafness) { (self.calls % 7) as f32 } else { self.leg as f32 };
        obs[2] = if is(Fault::LeavesSpace) { 99.0 } else { self.leg as f32 };
        obs[3] = 1.0;
        if !here[0] {
            obs[0] = 0.0;
            obs[1] = 0.0;
        }
        if !here[2] && !is(Fault::ShowsTheDead) {
            obs[3] = 0.0;
        }
        if !is(Fault::LeavesReward) {
            out.rewards.copy_from_slice(&[if here[0] { gained } else { 0.0 }, -1.0, 0.0]);
        }
        if is(Fault::NanReward) {
            out.rewards[1] = f64::NAN;
        }
        let ended_again = is(Fault::EndsTwice) && self.leg == self.legs + 1;
        out.terminated.copy_from_slice(&[first_ends || ended_again, second_ends, false]);
        if is(Fault::VanishesWithoutEnd) {
            out.terminated[0] = false;
        }
        if !is(Fault::LeavesFlag) {
            out.truncated.copy_from_slice(&[first_ends && is(Fault::BothFlags), false, first_ends]);
        }
        let revives = is(Fault::Revives) && self.leg == self.legs + 1;
        out.alive.copy_from_slice(&[
            self.leg < self.legs || revives,
            !second_ends,
            self.leg >= 1 && self.leg < self.legs,
        ]);
        out.acting.fill(false);
        if let Some(runner) = self.runner().filter(|_| !is(Fault::NoneActs)) {
            out.acting[runner] = true;
        }
        if is(Fault::DeadActs) && self.leg > self.legs {
            out.acting[0] = true;
        }
    }
}

impl MultiAgentEnv for Relay {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        let second = if self.fault == Fault::TwoOfOneName { "first" } else { "second" };
        vec!["first".into(), second.into(), "third".into()]
    }

    fn observation_space(&self, agent: usize) -> Space {
        match (self.fault, agent) {
            (Fault::ContradictoryBounds, 1) => Space::boxed(1.0, -1.0, &[1]),
            (Fault::OtherScalarType, 1) => Space::image(&[1]),
            (Fault::ChangesSpace, 1) if self.calls > 0 => Space::real(&[1]),
            (_, 0) => Space::real(&[2]),
            (_, 1) => Space::boxed(0.0, 10.0, &[1]),
            _ => Space::boxed(0.0, 1.0, &[1]),
        }
    }

    fn action_space(&self, agent: usize) -> Space {
        Space::Discrete { n: 3, start: agent as i64 }
    }

    fn reset(&mut self, seed: Option<u64>, out: MultiAgentOut<'_, f32>) -> Result<()> {
        out.check(3, 4)?;
        self.calls += 1;
        self.legs = seed.unwrap_or(0) % 4 + 2;
        self.leg = 0;
        self.ran = 0.0;
        self.write(0.0, out);
        Ok(())
    }

    fn step(&mut self, actions: &[i64], out: MultiAgentOut<'_, f32>) -> Result<()> {
        out.check(3, 4)?;
        let Some(runner) = self.runner() else { return Err(Error::other("the race is over; call `reset`")) };
        if self.fault != Fault::TakesInvalidActions {
            self.check_action(runner, &actions[runner..=runner])?;
        }
        self.calls += 1;
        let read = if self.fault == Fault::ReadsWaiting { 1 - runner } else { runner };
        self.ran += (actions[read] % 5) as f32;
        self.leg += 1;
        self.write(actions[read] as f64, out);
        Ok(())
    }

    fn action_mask(&self, agent: usize, mask: &mut [bool]) -> bool {
        let acting = self.runner() == Some(agent);
        mask.fill(acting && self.fault != Fault::EmptyMask);
        // The last action is never legal.
        mask[2] = self.fault == Fault::MaskOfWaiting && agent == 1;
        true
    }

    fn save_state(&self) -> Option<Vec<u8>> {
        Some([self.leg as u8, self.legs as u8, self.ran as u8].into())
    }

    fn load_state(&mut self, state: &[u8]) -> Result<()> {
        let &[leg, legs, ran] = state else { return Err(Error::other("three bytes were saved")) };
        self.leg = leg.into();
        self.legs = legs.into();
        if self.fault != Fault::ForgetsInState {
            self.ran = ran.into();
        }
        Ok(())
    }
}

#[test]
fn the_check_accepts_a_sound_environment() {
    check_multi_agent_env(&mut Relay::new(Fault::None)).unwrap();
    // Both flags at an end are none, as in PettingZoo.
    check_multi_agent_env(&mut Relay::new(Fault::BothFlags)).unwrap();
}

#[test]
fn an_environment_of_unknown_scalar_types_is_checked_by_the_same_rules() {
    check_any_multi_agent_env(Box::new(Relay::new(Fault::None))).unwrap();
    let message = check_any_multi_agent_env(Box::new(Relay::new(Fault::NanReward))).unwrap_err().to_string();
    assert!(message.contains("second has a reward of NaN"), "{message}");
    // Without time for the whole check, what was played is looked at.
    let at_once = |fault: Fault| {
        check_any_multi_agent_env_within(Box::new(Relay::new(fault)), std::time::Duration::ZERO)
    };
    at_once(Fault::None).unwrap();
    let message = at_once(Fault::NanReward).unwrap_err().to_string();
    assert!(message.contains("second has a reward of NaN"), "{message}");
}

#[test]
fn the_check_catches_each_fault_by_its_rule() {
    use Fault as F;
    for (fault, rule, part) in [
        (F::TwoOfOneName, "agents", "two are named \"first\""),
        (F::ContradictoryBounds, "spaces", "observation of second: space: `low` of a box is 1"),
        (F::OtherScalarType, "spaces", "scalars of u8, the type says f32"),
        (F::ChangesSpace, "spaces", "changed"),
        (F::Deafness, "deterministic", "seed 0, step 0: observation of first"),
        (F::LeavesElement, "writes_every_element", "seed 0, step 2: observation of first"),
        (F::LeavesReward, "writes_every_element", "seed 0, step 0: reward of first"),
        (F::LeavesFlag, "writes_every_element", "`truncated` of first was false"),
        (F::ReadsWaiting, "reads_acting_agents_only", "seed 0, step 1"),
        (F::LeavesSpace, "observation_in_space", "step 0: second sees what it cannot: element 0 is 99"),
        (F::ShowsTheDead, "absent_agents", "seed 0, step 0: third is not there"),
        (F::NanReward, "finite_reward", "step 0: second has a reward of NaN"),
        (F::EndsTwice, "ends_once", "seed 0, step 3: first ends, but it was not alive"),
        (F::Revives, "ends_once", "seed 0, step 3: first is alive after its end"),
        (F::VanishesWithoutEnd, "ends_once", "seed 0, step 2: first is gone"),
        (F::DeadActs, "turn", "first is acting, but not alive"),
        (F::NoneActs, "turn", "but none acts"),
        (F::EmptyMask, "action_mask", "first is acting, but its action mask leaves nothing"),
        (F::MaskOfWaiting, "action_mask", "second has legal actions, but is not acting"),
        (F::TakesInvalidActions, "refuses_invalid_actions", "-1 of Discrete(3) was taken from first"),
        (F::ForgetsInState, "state", "observation of first"),
    ] {
        match check_multi_agent_env(&mut Relay::new(fault)) {
            Err(Error::Contract { check, message }) => {
                assert_eq!(check, rule, "{fault:?}: {message}");
                assert!(message.contains(part), "{fault:?}: {message:?} does not contain {part:?}");
            }
            other => panic!("expected {fault:?} to break `{rule}`, got {other:?}"),
        }
    }
}

#[test]
fn the_native_environments_keep_the_contract() {
    check_multi_agent_env(&mut BoardGame::tictactoe()).unwrap();
    check_multi_agent_env(&mut BoardGame::connect_four()).unwrap();
    check_multi_agent_env(&mut TwoStepGame::new()).unwrap();
    let config = SimpleSpreadConfig::default();
    check_multi_agent_env(&mut SimpleSpread::<i64>::new(config).unwrap()).unwrap();
    let continuous = SimpleSpreadConfig { n: 1, ..config };
    check_multi_agent_env(&mut SimpleSpread::<f32>::new(continuous).unwrap()).unwrap();
}

#[test]
fn registered_environments_are_made_by_id_and_play_as_bytes() {
    for id in ["connect_four_v3", "go_v5", "simple_spread_v3", "tictactoe_v3", "two_step_game"] {
        assert!(multi_agent_ids().iter().any(|known| known == id), "{id}");
        assert_eq!(multi_agent_spec(id).unwrap().id, id);
    }
    let mut env = make_multi_agent("simple_spread_v3", &EnvConfig::new()).unwrap();
    let mut typed = SimpleSpread::<i64>::new(SimpleSpreadConfig::default()).unwrap();
    let mut expected = MultiAgentRows::new(&typed);
    let mut obs = [0_f32; 3 * 18];
    let mut rows = MultiAgentRows::<u8>::with_widths([0; 3]);
    let actions = [1_i64, 2, 4];
    typed.reset(Some(5), expected.out()).unwrap();
    env.reset(Some(5), MultiAgentOut { obs: bytemuck::cast_slice_mut(&mut obs), ..rows.out() }).unwrap();
    assert_eq!(obs[..], expected.obs[..]);
    typed.step(&actions, expected.out()).unwrap();
    let out = MultiAgentOut { obs: bytemuck::cast_slice_mut(&mut obs), ..rows.out() };
    env.step(bytemuck::cast_slice(&actions), out).unwrap();
    assert_eq!((&obs[..], &rows.rewards), (&expected.obs[..], &expected.rewards));

    let error = env.step(&[0; 3], rows.out()).unwrap_err().to_string();
    assert!(error.starts_with("`actions` is 3 bytes"), "{error}");
}

#[test]
fn an_id_is_registered_once() {
    let spec = EnvSpec {
        id: "relay_v0".into(),
        summary: "a relay race".into(),
        max_episode_steps: None,
        reward_threshold: None,
    };
    register_multi_agent(spec.clone(), |_| Ok(Box::new(Relay::new(Fault::None)))).unwrap();
    let agents = make_multi_agent("relay_v0", &EnvConfig::new()).unwrap().agents();
    assert_eq!(agents, ["first", "second", "third"]);
    let again = |spec| register_multi_agent(spec, |_| Ok(Box::new(Relay::new(Fault::None)))).unwrap_err();
    let error = again(spec.clone());
    assert!(matches!(error, Error::AlreadyRegistered { .. }), "{error}");
    assert_eq!(
        again(EnvSpec { id: "pz:relay_v0".into(), ..spec }).to_string(),
        "the id is \"pz:relay_v0\", but it must be one without `pz:`, which stands for environments in Python"
    );
}

#[test]
fn registered_agents_are_truncated_at_the_limit_of_the_spec() {
    let spec = |id: &str| EnvSpec {
        id: id.into(),
        summary: "a short relay race".into(),
        max_episode_steps: Some(3),
        reward_threshold: None,
    };
    register_multi_agent(spec("short_relay_v0"), |_| Ok(Box::new(Relay::new(Fault::None)))).unwrap();
    register(spec("short_relay_v1"), EnvCreator::multi_agent(|| Relay::new(Fault::None))).unwrap();
    for id in ["short_relay_v0", "short_relay_v1"] {
        let one = || match EnvCreator::from(id).make(&EnvConfig::new(), 1).unwrap() {
            EnvCopies::MultiAgent(copies) => copies.into_envs().remove(0),
            _ => panic!("it has several agents"),
        };
        check_any_multi_agent_env(one()).unwrap();
        let mut env = TypedMultiAgentEnv::<f32, i64>::new(one()).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        let mut step = |env: &mut TypedMultiAgentEnv<f32, i64>| {
            env.step(&[0; 3], rows.out()).map(|()| (rows.truncated.clone(), rows.terminated.clone()))
        };
        // With seed 1 the first runner ends in the third step, and the second has not begun to run.
        let mut first = MultiAgentRows::new(&env);
        env.reset(Some(1), first.out()).unwrap();
        for _ in 0..2 {
            assert_eq!(step(&mut env).unwrap(), (vec![false; 3], vec![false; 3]), "{id}");
        }
        let saved = env.save_state().unwrap();
        let end = step(&mut env).unwrap();
        assert_eq!(end, (vec![true; 3], vec![true, false, false]), "{id}: both flags for the one that ended");
        assert!(step(&mut env).unwrap_err().to_string().contains("cut after 3 steps; call `reset`"), "{id}");
        env.load_state(&saved).unwrap();
        assert_eq!(step(&mut env).unwrap(), end, "{id}: a saved state has the count");
        assert_eq!((rows.alive, rows.acting), (vec![false; 3], vec![false; 3]), "{id}");
    }
    register_multi_agent(spec("short_tictactoe_v0"), |_| Ok(Box::new(BoardGame::tictactoe()))).unwrap();
    let game = make_multi_agent("short_tictactoe_v0", &EnvConfig::new()).unwrap();
    let mut game = TypedMultiAgentEnv::<u8, i64>::new(game).unwrap();
    let mut rows = MultiAgentRows::new(&game);
    game.reset(None, rows.out()).unwrap();
    // The third move is the last; its mask stays, because the value of the last observation is that of legal actions.
    for (move_number, legal) in [(1, 8), (2, 7), (3, 6)] {
        game.step(&[move_number - 1; 2], rows.out()).unwrap();
        let mut mask = [true; 9];
        assert!(game.action_mask(move_number as usize % 2, &mut mask));
        assert_eq!(mask.iter().filter(|&&legal| legal).count(), legal, "after move {move_number}");
    }
    let none = EnvSpec { max_episode_steps: Some(0), ..spec("no_relay_v0") };
    let error =
        register_multi_agent(none, |_| Ok(Box::new(Relay::new(Fault::None)))).unwrap_err().to_string();
    assert!(error.contains("`max_episode_steps` is 0, but it must be at least 1"), "{error}");
}

#[test]
fn wrong_ids_settings_and_calls_are_refused_with_the_way_out() {
    let make = |id: &str, key: &str, value: serde_json::Value| {
        make_multi_agent(id, &EnvConfig::from_iter([(key.into(), value)])).unwrap_err().to_string()
    };
    assert_eq!(
        make_multi_agent("tictactoe_v2", &EnvConfig::new()).unwrap_err().to_string(),
        "no environment \"tictactoe_v2\"; nearest: tictactoe_v3; `pavlov list envs` shows all; those in Python begin with `py:`, `ma:` (Gymnasium) or `pz:` (PettingZoo)"
    );
    assert_eq!(
        make("simple_spread_v3", "max_cycle", 3.into()),
        "env_config of simple_spread_v3: no setting `max_cycle`; nearest: `max_cycles`"
    );
    assert_eq!(
        make("simple_spread_v3", "num_agent_neighbors", 0.into()),
        "env_config of simple_spread_v3: `num_agent_neighbors` is 0, but it must be at least 1"
    );
    assert_eq!(
        make("simple_spread_v3", "local_ratio", 1.5.into()),
        "env_config of simple_spread_v3: `local_ratio` is 1.5, but it must be in 0..=1"
    );
    assert_eq!(
        make("connect_four_v3", "size", 5.into()),
        "env_config of connect_four_v3: no setting `size`; it has none"
    );
    assert_eq!(
        make("simple_spread_v3", "continuous_action", true.into()),
        "env_config of simple_spread_v3: no setting `continuous_action`; nearest: `continuous_actions`"
    );

    let mut env = BoardGame::tictactoe();
    let mut rows = MultiAgentRows::new(&env);
    let error = env.step(&[0, 0], rows.out()).unwrap_err().to_string();
    assert_eq!(error, "tictactoe has no running episode; call `reset`");
    env.reset(None, rows.out()).unwrap();
    let error = env.step(&[9, 0], rows.out()).unwrap_err().to_string();
    assert_eq!(error, "action 9 is not in Discrete(9) of tictactoe");
    let short = MultiAgentOut { rewards: &mut [0.0], ..rows.out() };
    let error = env.step(&[0, 0], short).unwrap_err().to_string();
    assert_eq!(error, "`rewards` is 1 long, but it must be 2 long for 2 agents");
    let error = env.load_state(&BoardGame::connect_four().save_state().unwrap()).unwrap_err().to_string();
    assert!(error.contains("it was saved by \"connect_four\", but this is \"tictactoe\""), "{error}");
}

#[test]
fn unseeded_environments_begin_with_streams_of_their_own() {
    let first = || {
        let mut env = SimpleSpread::<i64>::new(SimpleSpreadConfig::default()).unwrap();
        let mut rows = MultiAgentRows::new(&env);
        env.reset(None, rows.out()).unwrap();
        rows.obs
    };
    assert!(first() != first());
}

#[test]
fn a_mask_of_a_wrong_length_is_refused_and_stays_as_it_is() {
    for (mut env, actions) in [(BoardGame::tictactoe(), 9), (BoardGame::connect_four(), 7)] {
        let mut rows = MultiAgentRows::new(&env);
        env.reset(None, rows.out()).unwrap();
        for len in [0, actions - 1, actions + 1, 100] {
            let mut mask = vec![false; len];
            assert!(!env.action_mask(0, &mut mask), "{len} flags for {actions} actions");
            assert!(mask.iter().all(|&flag| !flag));
        }
        let mut mask = vec![false; actions];
        assert!(env.action_mask(0, &mut mask) && mask.iter().all(|&flag| flag));
    }
}

#[test]
fn a_continuous_push_that_is_not_finite_is_refused() {
    let config = SimpleSpreadConfig { n: 1, ..SimpleSpreadConfig::default() };
    let mut env = SimpleSpread::<f32>::new(config).unwrap();
    let mut rows = MultiAgentRows::new(&env);
    env.reset(Some(0), rows.out()).unwrap();
    let error = env.step(&[0.0, 0.0, f32::NAN, 0.0, 0.0], rows.out()).unwrap_err();
    assert!(matches!(error, Error::InvalidAction { .. }), "{error}");
}
