//! Copies of an environment with several agents, stepped together: by one thread, or shared by several.

use pavlov_envs::{
    AnyMultiAgentEnv, EnvConfig, EnvCopies, EnvCreator, Error, MultiAgentEnv, MultiAgentOut, MultiAgentRows,
    MultiAgentVector, NpRandom, Result, Space,
};

use crate::multi_agent::{Fault, Relay};

fn made(env: &EnvCreator, num_threads: usize, num_envs: usize) -> Result<MultiAgentVector> {
    let config = EnvConfig::from_iter([("num_threads".into(), num_threads.into())]);
    match env.make(&config, num_envs)? {
        EnvCopies::MultiAgent(vector) => Ok(vector),
        _ => panic!("it has several agents"),
    }
}

/// The results of 60 steps of all copies, whose agents take legal actions at random.
fn played(vector: &mut MultiAgentVector, from: u64) -> Vec<(Vec<u8>, Vec<f64>, Vec<bool>)> {
    let mut results = Vec::new();
    let mut random = NpRandom::new(from);
    for step in 0..60 {
        for copy in 0..vector.num_envs() {
            if !vector.alive(copy).contains(&true) {
                vector.reset(copy, from + step * 100 + copy as u64).unwrap();
            }
            for agent in 0..vector.agents().len() {
                let width = vector.action_space(agent).flat_width();
                let mut mask = vec![true; width];
                vector.action_mask(copy, agent, &mut mask);
                let legal: Vec<i64> = (0..width as i64).filter(|&action| mask[action as usize]).collect();
                let at = random.integers(0, legal.len().max(1) as i64) as usize;
                let action = legal.get(at).copied().unwrap_or_default();
                vector.action_mut(copy, agent).copy_from_slice(&action.to_ne_bytes());
            }
        }
        vector.step().unwrap();
        for copy in 0..vector.num_envs() {
            let flags =
                [vector.terminated(copy), vector.truncated(copy), vector.alive(copy), vector.acting(copy)];
            let obs = (0..vector.agents().len()).flat_map(|agent| vector.obs(copy, agent).to_vec()).collect();
            results.push((obs, vector.rewards(copy).to_vec(), flags.concat()));
        }
    }
    results
}

#[test]
fn threads_share_copies_of_several_agents_with_the_results_of_one() {
    let team = EnvCreator::from("simple_spread_v3")
        .with_agent_groups(|name| (name != "agent_1").then(|| "two".into()));
    assert_eq!(made(&team, 2, 2).unwrap().agents(), ["two", "agent_1"]);
    for env in
        ["simple_spread_v3".into(), "tictactoe_v3".into(), EnvCreator::from("go_v5").with_global_state()]
    {
        let mut one = made(&env, 1, 7).unwrap();
        let expected = played(&mut one, 5);
        for num_threads in [2, 3, 7, 50] {
            let mut vector = made(&env, num_threads, 7).unwrap();
            assert!(played(&mut vector, 5) == expected, "{num_threads} threads, {}", env.name());
            // Saved states do not depend on the number of threads.
            let states = one.save_states().unwrap();
            assert!(vector.save_states().unwrap() == states, "{num_threads} threads, {}", env.name());
        }
    }
}

/// A task of one agent whose every step calls a function.
struct Calling<F>(F);

impl<F: FnMut() -> Result<()> + Send + 'static> MultiAgentEnv for Calling<F> {
    type Obs = f32;
    type Act = i64;

    fn agents(&self) -> Vec<String> {
        vec!["a".into()]
    }

    fn observation_space(&self, _: usize) -> Space {
        Space::boxed(0.0, 1.0, &[1])
    }

    fn action_space(&self, _: usize) -> Space {
        Space::discrete(2)
    }

    fn reset(&mut self, _: Option<u64>, out: MultiAgentOut<'_, f32>) -> Result<()> {
        out.start();
        Ok(())
    }

    fn step(&mut self, _: &[i64], out: MultiAgentOut<'_, f32>) -> Result<()> {
        out.start();
        self.0()
    }

    fn info(&self, _: usize, key: &str) -> Option<f64> {
        (key == "told").then_some(0.5)
    }
}

#[test]
fn copies_of_several_agents_step_at_the_same_time() {
    static BOTH: std::sync::Barrier = std::sync::Barrier::new(2);
    let meeting = || {
        Calling(|| {
            BOTH.wait();
            Ok(())
        })
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
    let mut vector = made(&EnvCreator::multi_agent(meeting), 2, 2).unwrap();
    // Each step waits for that of the other copy: one after the other they would wait for ever.
    pool.install(|| {
        (0..2).for_each(|copy| vector.reset(copy, 0).unwrap());
        (0..3).for_each(|_| vector.step().unwrap());
    });
}

#[test]
fn masks_pictures_and_the_state_of_all_agents_are_those_of_the_copies() {
    let mut games = made(&"tictactoe_v3".into(), 1, 2).unwrap();
    (0..2).for_each(|copy| games.reset(copy, 0).unwrap());
    games.action_mut(1, 0).copy_from_slice(&4_i64.to_ne_bytes());
    games.step().unwrap();
    let mut mask = [false; 9];
    assert!(games.action_mask(1, 1, &mut mask));
    assert_eq!(mask, std::array::from_fn(|square| square != 4));
    assert!(!games.action_mask(1, 1, &mut [false; 8]), "a mask of another length");
    assert!(games.render(0).unwrap().is_some() && games.render(0).unwrap() != games.render(1).unwrap());
    assert_eq!(made(&"simple_spread_v3".into(), 1, 1).unwrap().render_fps(), Some(10.0));

    let spread = EnvCreator::from("simple_spread_v3");
    let [mut own, mut with_state] =
        [spread.clone(), spread.with_global_state()].map(|env| made(&env, 1, 1).unwrap());
    own.reset(0, 3).unwrap();
    with_state.reset(0, 3).unwrap();
    for _ in 0..3 {
        own.step().unwrap();
        with_state.step().unwrap();
        let all: Vec<u8> = (0..3).flat_map(|agent| own.obs(0, agent).to_vec()).collect();
        for agent in 0..3 {
            assert_eq!(with_state.obs(0, agent), [own.obs(0, agent), &all].concat());
        }
        assert_eq!(with_state.rewards(0), own.rewards(0));
    }
}

#[test]
fn an_agent_that_is_to_act_after_its_end_is_named() {
    let mut vector = made(&EnvCreator::multi_agent(|| Relay::new(Fault::DeadActs)), 1, 2).unwrap();
    for copy in 0..2 {
        vector.reset(copy, 0).unwrap();
        // Action 1 is in the spaces of all runners.
        (0..3).for_each(|agent| vector.action_mut(copy, agent).copy_from_slice(&1_i64.to_ne_bytes()));
    }
    let error = (0..20).find_map(|_| vector.step().err()).expect("it is noticed").to_string();
    assert!(error.contains("copy 0: ") && error.contains("is to act, but it is not alive"), "{error}");
}

#[test]
fn rows_of_another_length_are_refused_by_groups_and_by_the_state_of_all_agents() {
    let tictactoe = EnvCreator::from("tictactoe_v3");
    for (env, obs) in
        [(tictactoe.with_agent_groups(|_| Some("both".into())), 54), (tictactoe.with_global_state(), 162)]
    {
        let mut game = made(&env, 1, 1).unwrap().into_envs().remove(0);
        let mut rows =
            MultiAgentRows::<u8>::with_widths(vec![obs / game.agents().len(); game.agents().len()]);
        game.reset(Some(0), rows.out()).unwrap();
        let short = MultiAgentOut { obs: &mut [0], ..rows.out() };
        let error = game.step(bytemuck::cast_slice(&[0_i64; 2]), short).unwrap_err().to_string();
        assert_eq!(error, format!("`obs` is 1 bytes, but it must be {obs} bytes"), "{}", env.name());
        let error = game.step(&[0; 8], rows.out()).unwrap_err().to_string();
        assert!(error.starts_with("`actions` is "), "{error}");
    }
}

#[test]
fn an_agent_without_a_group_keeps_its_info() {
    let told = |group_of: fn(&str) -> Option<String>| {
        let env = EnvCreator::multi_agent(|| Calling(|| Ok(()))).with_agent_groups(group_of);
        made(&env, 1, 1).unwrap().into_envs()[0].info(0, "told")
    };
    assert_eq!(told(|_| None), Some(0.5));
    assert_eq!(told(|_| Some("team".into())), None);
}

#[test]
fn the_error_of_the_first_copy_that_fails_is_returned() {
    let copies = (0..6).map(|copy| -> Box<dyn AnyMultiAgentEnv> {
        Box::new(Calling(
            move || if copy < 2 { Ok(()) } else { Err(Error::other(format!("copy {copy} fails"))) },
        ))
    });
    let mut vector = MultiAgentVector::new(copies.collect()).unwrap().with_threads(6);
    (0..6).for_each(|copy| vector.reset(copy, 0).unwrap());
    for _ in 0..50 {
        assert_eq!(vector.step().unwrap_err().to_string(), "copy 2 fails");
    }
}

#[test]
fn copies_that_do_not_fit_together_are_refused() {
    let error = |error: Error| error.to_string();
    assert_eq!(
        error(MultiAgentVector::new(Vec::new()).unwrap_err()),
        "`num_envs` is 0, but it must be at least 1"
    );
    let copy = |id: &str| pavlov_envs::make_multi_agent(id, &EnvConfig::new()).unwrap();
    assert_eq!(
        error(MultiAgentVector::new(vec![copy("tictactoe_v3"), copy("go_v5")]).unwrap_err()),
        "the agents of a copy is black_0, white_0, but it must be player_1, player_2, as in the first"
    );
    let mut vector = MultiAgentVector::new(vec![copy("tictactoe_v3"), copy("tictactoe_v3")]).unwrap();
    let states = vector.save_states().unwrap();
    assert_eq!(
        error(vector.load_states(&[&states[0]]).unwrap_err()),
        "environment state: it holds 1 copies, but there are 2 here; load it with the same number"
    );
    let zero = made(&"tictactoe_v3".into(), 0, 2).unwrap_err();
    assert_eq!(
        zero.to_string(),
        "env_config of tictactoe_v3: `num_threads` is 0, but it must be a whole number of threads, at least 1"
    );
}
