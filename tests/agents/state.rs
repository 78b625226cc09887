//! Critics that see what all agents see (`multiagent.observation_fn = "global_state"`), beside actors that do not.

use pavlov::envs::{EnvCopies, check_any_multi_agent_env};
use pavlov::prelude::*;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::agents::Policies;
use pavlov::trainer::batch::Column;
use serde_json::json;

use super::settings::{spread, with};
use super::turns::{AtRandom, Turns, workers};
use crate::support::{at, floats, number, numbers, quiet, refused, tiny_dqn};

/// Numbers that an agent of simple spread observes, and that all three do.
const OWN: i64 = 18;
const ALL: i64 = 3 * OWN;

fn central() -> Ppo {
    with(&spread(), json!({"observation_fn": "global_state"})).expect("settings")
}

#[test]
fn behind_an_agents_observation_stand_those_of_all_and_zeros_for_one_that_has_ended() {
    let mut common = spread().common;
    common.num_envs_per_worker = 1;
    common.rollout_fragment_length = 5;
    common.multiagent =
        with(&spread(), json!({"observation_fn": "global_state"})).expect("settings").common.multiagent;
    let workers = workers(&common, Policies::from(AtRandom::class(2)), &Turns::creator());
    let rows = workers.and_then(|workers| workers.sample()?.single()).expect("a fragment");
    for column in [Column::OBS, Column::NEW_OBS] {
        let all = numbers(&rows, column);
        for row in all.chunks(12) {
            let own = &row[..3];
            let t = row[2];
            let agent = own[1] as usize;
            assert_eq!(&row[3 + 3 * agent..][..3], own);
            for (other, end) in [3.0, 5.0, 5.0].into_iter().enumerate() {
                // `b` alone is truncated, at 5, where `c` terminates: an agent that has ended is absent for the others.
                let seen =
                    if t < end || other == agent { vec![own[0], other as f64, t] } else { vec![0.0; 3] };
                assert_eq!(row[3 + 3 * other..][..3], seen, "{other} at {t}");
            }
        }
    }
    for env in [Turns::creator(), "simple_spread_v3".into(), "tictactoe_v3".into()] {
        let copies = env.with_global_state().make(&Config::new(), 1).expect("a copy");
        let EnvCopies::MultiAgent(copies) = copies else { panic!("several agents") };
        check_any_multi_agent_env(copies.into_envs().remove(0)).expect("it keeps the contract");
    }
}

#[test]
fn actions_follow_from_what_an_agent_sees_and_values_from_what_all_see() {
    for fused in [true, false] {
        let mut ppo = central();
        ppo.common.model.fused = fused;
        let mut driver = quiet(ppo, "simple_spread_v3").expect("a driver");
        let result = driver.train().expect("a result");
        assert!(number(&result, "info.learner.default_policy.learner_stats.vf_loss").is_finite());
        let head = |obs: &Tensor| {
            let head = driver.get_policy("default_policy", |policy| policy.forward(obs)).expect("a policy");
            floats(&head.expect("logits"))
        };
        let obs = Tensor::arange(OWN + ALL, (Kind::Float, pavlov::torch::Device::Cpu)).view([1, -1]) / 72.0;
        let other_state = obs.copy();
        let _ = other_state.narrow(1, OWN, ALL).fill_(7.0);
        let other_own = obs.copy();
        let _ = other_own.narrow(1, 0, 1).fill_(7.0);
        assert_eq!(head(&other_state), head(&obs), "fused: {fused}");
        assert_ne!(head(&other_own), head(&obs));
        let weights = driver.get_policy("default_policy", |policy| policy.get_weights()).expect("a policy");
        let inputs = |name: &str| weights.array(name).expect("the array").shape()[1];
        assert_eq!((inputs("actor.0.weight"), inputs("critic.0.weight")), (OWN, OWN + ALL));
    }
}

#[test]
fn both_engines_learn_the_same_with_a_central_critic() {
    let stats = [true, false].map(|fused| {
        let mut ppo = central();
        ppo.common.model.fused = fused;
        let mut driver = quiet(ppo, "simple_spread_v3").expect("a driver");
        let result = (0..2).map(|_| driver.train().expect("a result")).last().expect("two results");
        let stats = at(&result, "info.learner.default_policy.learner_stats").clone();
        ["policy_loss", "vf_loss", "kl", "entropy"].map(|key| stats[key].as_f64().expect("a number"))
    });
    for (fused, torch) in stats[0].iter().zip(&stats[1]) {
        assert!((fused - torch).abs() <= 1e-4 * (1.0 + torch.abs()), "{stats:?}");
    }
}

#[test]
fn a_central_critic_is_refused_where_nothing_has_one() {
    let run = |change: &dyn Fn(&mut Ppo)| {
        let mut ppo = central();
        change(&mut ppo);
        quiet(ppo, "simple_spread_v3")
    };
    refused(
        run(&|ppo| ppo.common.model.vf_share_layers = true),
        &["`model.vf_share_layers` is true", "set it to false"],
    );
    refused(
        run(&|ppo| ppo.common.model.use_gru = true),
        &["`model.use_gru` is true", "multiagent.observation_fn"],
    );
    refused(quiet(central(), "CartPole-v1"), &["CartPole-v1", "global state", "one agent"]);
    let dqn = with(&tiny_dqn(), json!({"observation_fn": "global_state"})).expect("settings");
    refused(
        quiet(dqn, "simple_spread_v3"),
        &["`multiagent.observation_fn` is \"global_state\"", "no critic beside its actor"],
    );
}

#[test]
fn a_run_with_a_central_critic_goes_on_bit_for_bit_and_its_policy_acts_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let builder = central().builder("simple_spread_v3").logdir(dir.path()).loggers(LoggerChoice::None);
    let mut straight = builder.build().expect("a driver");
    straight.train().expect("a result");
    let checkpoint = straight.save().expect("a checkpoint");
    let mut second = quiet(central(), "simple_spread_v3").expect("a driver");
    second.restore(&checkpoint).expect("it goes on");
    straight.train().expect("a result");
    second.train().expect("a result");
    assert_eq!(second.get_weights().expect("weights"), straight.get_weights().expect("weights"));
    let mut session = pavlov::load(&checkpoint).expect("a session");
    session.act(&[0.0_f32; (OWN + ALL) as usize]).expect("an action");
}
