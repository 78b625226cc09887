//! Groups of agents that are one agent.

use pavlov_envs::{
    EnvConfig, EnvCopies, EnvCreator, MultiAgentEnv, MultiAgentRows, Space, TypedMultiAgentEnv,
    check_any_multi_agent_env,
    native::{SimpleSpread, SimpleSpreadConfig},
};

use crate::multi_agent::{Fault, Relay};

/// One copy, in which these agents are the group `team`.
fn grouped(env: EnvCreator, members: &'static [&str]) -> Box<dyn pavlov_envs::AnyMultiAgentEnv> {
    let group_of = |agent: &str| members.contains(&agent).then(|| "team".to_owned());
    match env.with_agent_groups(group_of).make(&EnvConfig::new(), 1).unwrap() {
        EnvCopies::MultiAgent(copies) => copies.into_envs().remove(0),
        EnvCopies::Vector(_) | EnvCopies::External(_) => unreachable!("it has several agents"),
    }
}

#[test]
fn environments_with_groups_of_agents_keep_the_contract() {
    let relay = || EnvCreator::multi_agent(|| Relay::new(Fault::None));
    check_any_multi_agent_env(grouped(relay(), &["first", "third"])).unwrap();
    check_any_multi_agent_env(grouped(relay(), &["second", "third"])).unwrap();
    check_any_multi_agent_env(grouped(relay(), &["first", "second", "third"])).unwrap();
    check_any_multi_agent_env(grouped(relay(), &[])).unwrap();
    check_any_multi_agent_env(grouped("tictactoe_v3".into(), &["player_1", "player_2"])).unwrap();
    check_any_multi_agent_env(grouped("two_step_game".into(), &["agent_0", "agent_1"])).unwrap();
    check_any_multi_agent_env(grouped("simple_spread_v3".into(), &["agent_0", "agent_2"])).unwrap();
}

#[test]
fn a_group_sees_what_its_members_see_acts_for_each_and_gets_all_they_get() {
    let mut alone = SimpleSpread::<i64>::new(SimpleSpreadConfig::default()).unwrap();
    let mut of_alone = MultiAgentRows::new(&alone);
    let team = grouped("simple_spread_v3".into(), &["agent_0", "agent_2"]);
    let mut team = TypedMultiAgentEnv::<f32, i64>::new(team).unwrap();
    let mut rows = MultiAgentRows::new(&team);
    assert_eq!(team.agents(), ["team", "agent_1"]);
    assert_eq!(team.action_space(0), Space::multi_discrete(&[5, 5]));
    alone.reset(Some(3), of_alone.out()).unwrap();
    team.reset(Some(3), rows.out()).unwrap();
    for [first, second, third] in [[1, 2, 3], [4, 0, 1], [2, 2, 4]] {
        alone.step(&[first, second, third], of_alone.out()).unwrap();
        team.step(&[first, third, second], rows.out()).unwrap();
        assert_eq!(rows.obs(0), [of_alone.obs(0), of_alone.obs(2)].concat());
        assert_eq!(rows.obs(1), of_alone.obs(1));
        let paid = &of_alone.rewards;
        assert_eq!(rows.rewards, [paid[0] + paid[2], paid[1]]);
    }
}

#[test]
fn a_group_acts_by_the_members_that_may_and_ends_with_the_last_of_them() {
    let both = grouped("tictactoe_v3".into(), &["player_1", "player_2"]);
    let mut both = TypedMultiAgentEnv::<u8, i64>::new(both).unwrap();
    let mut rows = MultiAgentRows::new(&both);
    both.reset(None, rows.out()).unwrap();
    both.step(&[4, 0], rows.out()).unwrap();
    let mut mask = [false; 18];
    assert!(both.action_mask(0, &mut mask));
    // The first player waits: whatever it chooses is not read. The second may not take the middle.
    assert_eq!(mask[..9], [true; 9]);
    assert_eq!(mask[9..], [true, true, true, true, false, true, true, true, true]);

    let mut race = TypedMultiAgentEnv::<f32, i64>::new(grouped(
        EnvCreator::multi_agent(|| Relay::new(Fault::None)),
        &["second", "third"],
    ))
    .unwrap();
    let mut rows = MultiAgentRows::new(&race);
    race.reset(Some(0), rows.out()).unwrap();
    // Two legs of the first runner, with whom the third is cut; then two of the second, whose actions begin at 1.
    for (leg, action) in [(1, 0), (2, 0), (3, 0), (4, 1)] {
        race.step(&[0, action, 0], rows.out()).unwrap();
        assert_eq!(rows.terminated, [leg == 2, leg == 4], "leg {leg}");
        assert_eq!((rows.truncated[1], rows.alive[1]), (false, leg < 4), "leg {leg}");
    }
}

#[test]
fn groups_that_cannot_be_are_refused_with_the_way_out() {
    let make = |env: EnvCreator| {
        let grouped = env.with_agent_groups(|_| Some("team".into()));
        grouped.make(&EnvConfig::from_iter([("continuous_actions".into(), true.into())]), 1)
    };
    let error = make("simple_spread_v3".into()).unwrap_err().to_string();
    assert!(error.contains("members of a group need Discrete actions"), "{error}");
    let error = EnvCreator::from("CartPole-v1").with_agent_groups(|_| None).make(&EnvConfig::new(), 1);
    let error = error.unwrap_err().to_string();
    assert!(error.contains("it has one agent"), "{error}");
}
