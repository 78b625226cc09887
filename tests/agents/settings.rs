//! Policies that settings name: who acts by which, which learn, and what each has of its own.

use pavlov::prelude::*;
use pavlov::trainer::agents::Agent;
use pavlov::trainer::batch::Column;
use pavlov::trainer::policies_of;
use pavlov::trainer::settings::CountStepsBy;
use pavlov::trainer::{resolve, to_config};
use serde_json::{Value, json};

use super::learning::Split;
use super::turns::{Turns, workers};
use crate::support::{at, number, numbers, quiet, refused, tiny_dqn, tiny_ppo};

/// The settings with these of `multiagent`, as a file would give them.
pub(crate) fn with<T: Trainer>(base: &T, multiagent: Value) -> Result<T> {
    let config = json!({"multiagent": multiagent}).as_object().expect("an object").clone().into();
    Ok(resolve(base, &config, &"simple_spread_v3".into())?.0)
}

/// Tiny settings for simple spread, whose episodes take 25 steps.
pub(crate) fn spread() -> Ppo {
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 25;
    ppo.common.train_batch_size = 50;
    ppo
}

/// A policy for `agent_0` and one for the others.
pub(crate) fn first_and_others() -> Value {
    json!({
        "policies": ["first", "others"],
        "policy_mapping_fn": {"agent_0": "first", "agent_*": "others"},
    })
}

#[test]
fn policies_of_settings_learn_what_those_of_a_trainer_in_code_do() {
    let mut in_code = quiet(Split::new(&["first", "others"]), "simple_spread_v3").expect("a driver");
    let settings = with(&spread(), first_and_others()).expect("settings");
    let mut by_settings = quiet(settings, "simple_spread_v3").expect("a driver");
    let ids = with(&spread(), json!({"policies": ["first", "others"]})).expect("settings");
    let by = |agent: &str| if agent == "agent_0" { "first" } else { "others" };
    let builder = ids.builder("simple_spread_v3").loggers(LoggerChoice::None).policy_mapping_fn(by);
    let mut by_function = builder.build().expect("a driver");
    for _ in 0..2 {
        in_code.train().expect("a result");
        for driver in [&mut by_settings, &mut by_function] {
            driver.train().expect("a result");
            assert_eq!(driver.get_weights().expect("weights"), in_code.get_weights().expect("weights"));
        }
    }
    let written = &by_function.settings().common.multiagent.policy_mapping_fn;
    assert_eq!(json!(written), json!({"agent_0": "first", "agent_1": "others", "agent_2": "others"}));
}

#[test]
fn without_settings_all_agents_share_the_default_policy() {
    let mut driver = quiet(spread(), "simple_spread_v3").expect("a driver");
    let result = driver.train().expect("a result");
    assert_eq!(at(&result, "info.learner").as_object().expect("policies").len(), 1);
    assert_eq!(number(&result, "info.learner.default_policy.num_agent_steps_trained"), 150.0);
    assert!(at(&result, "policy_reward_mean.default_policy").is_number());
}

#[test]
fn a_policy_has_settings_of_its_own_and_the_runs_otherwise() {
    let mut multi = first_and_others();
    multi["policies"] = json!({"first": {"lr": 1e-3, "model": {"fcnet_hiddens": [4]}}, "others": {}});
    let mut driver = quiet(with(&spread(), multi).expect("settings"), "simple_spread_v3").expect("a driver");
    let result = driver.train().expect("a result");
    let lr = |id: &str| number(&result, &format!("info.learner.{id}.learner_stats.cur_lr"));
    assert_eq!((lr("first"), lr("others")), (1e-3, 5e-5));
    let shape = |id: &str| {
        let weights = driver.get_policy(id, |policy| policy.get_weights()).expect("a policy");
        let name = weights.array_names().find(|name| name.contains("out")).expect("an output").to_owned();
        weights.array(&name).expect("the array").shape().to_vec()
    };
    assert!(shape("first").contains(&4) && shape("others").contains(&8), "{:?}", shape("first"));
}

#[test]
fn a_discount_of_a_policy_reaches_its_rows() {
    let multi = json!({
        "policies": {"ac": {"gamma": 0.5}, "b": {}}, "policy_mapping_fn": {"b": "b", "*": "ac"},
    });
    let dqn = with(&tiny_dqn(), multi).expect("settings");
    let agents = Agent::of(&Turns::creator().make(&Config::new(), 1).expect("a copy"));
    let policies = policies_of(&dqn, &agents).expect("policies");
    let batch =
        workers(&dqn.common, policies, &Turns::creator()).and_then(|w| w.sample()).expect("a fragment");
    let discounts = |id: &str| {
        let mut all = numbers(&batch.policies[id], Column::DISCOUNTS);
        all.sort_by(f64::total_cmp);
        all.dedup();
        all
    };
    assert_eq!(discounts("ac"), [0.5]);
    assert_eq!(discounts("b"), [f64::from(0.99_f32)]);
}

#[test]
fn steps_of_agents_are_counted_where_settings_say_so() {
    let mut multi = first_and_others();
    multi["count_steps_by"] = json!("agent_steps");
    let mut ppo = with(&spread(), multi).expect("settings");
    ppo.common.min_sample_timesteps_per_reporting = Some(300);
    let mut driver = quiet(ppo.clone(), "simple_spread_v3").expect("a driver");
    assert_eq!(driver.settings().common.multiagent.count_steps_by, CountStepsBy::AgentSteps);
    let result = driver.train().expect("a result");
    // A fragment of two copies has 150 steps of agents, so each is a batch of at least 50; two of them make 300.
    assert_eq!(number(&result, "num_env_steps_sampled"), 100.0);
    assert_eq!(number(&result, "num_agent_steps_sampled"), 300.0);
    assert_eq!(number(&result, "num_agent_steps_sampled_this_iter"), 300.0);
    assert_eq!(number(&result, "num_agent_steps_trained_this_iter"), 300.0);
    ppo.common.multiagent.count_steps_by = CountStepsBy::EnvSteps;
    let result = quiet(ppo, "simple_spread_v3").expect("a driver").train().expect("a result");
    assert_eq!(number(&result, "num_env_steps_sampled"), 300.0);
}

#[test]
fn what_cannot_be_mapped_is_refused_in_a_sentence() {
    let run = |multi: Value| with(&spread(), multi).and_then(|ppo| quiet(ppo, "simple_spread_v3"));
    let change = |key: &str, value: Value| {
        let mut multi = first_and_others();
        multi[key] = value;
        run(multi)
    };
    refused(
        change("policy_mapping_fn", json!({"agent_0": "first", "agent_1": "others"})),
        &[
            "`multiagent.policy_mapping_fn` is \"default_policy\" for the agent `agent_2`, but there is first, others",
            "name the agent there",
        ],
    );
    refused(
        change("policy_mapping_fn", json!({"agent_*": "frist"})),
        &["`multiagent.policy_mapping_fn` is \"frist\" for the agent `agent_0`, but there is first, others"],
    );
    refused(
        change("policy_mapping_fn", json!({"agent_*": "first"})),
        &[
            "`multiagent.policies.others` is a policy, but no agent acts by it; there is agent_0, agent_1, agent_2",
        ],
    );
    refused(
        change("policy_mapping_fn", json!({"*": "first", "agent_0": "others", "wolf_*": "first"})),
        &["`multiagent.policy_mapping_fn.wolf_*` is \"first\"", "no agent of this environment is named so"],
    );
    refused(
        change("policies_to_train", json!(["frist"])),
        &["`multiagent.policies_to_train` is \"frist\", but there is first, others"],
    );
    refused(
        change("policies_to_train", json!([])),
        &["`multiagent.policies_to_train` is []", "at least one policy must learn"],
    );
    refused(
        change("policies", json!({"first": [null, null, null, {}]})),
        &["`multiagent.policies` is ", "it must be a table of ids with settings, such as { first"],
    );
    refused(
        change("count_steps_by", json!("steps")),
        &["`multiagent.count_steps_by` is \"steps\"", "env_steps"],
    );
    refused(change("polices", json!({})), &["unknown setting `multiagent.polices`", "`multiagent.policies`"]);
    refused(change("observation_fn", json!("mine")), &["`multiagent.observation_fn` is \"mine\""]);
    refused(change("replay_mode", json!("locked")), &["`multiagent.replay_mode` is \"locked\"", "lockstep"]);
    refused(
        change("replay_mode", json!("lockstep")),
        &["`multiagent.replay_mode` is \"lockstep\"", "learn from replay buffers"],
    );

    let own = |settings: Value| change("policies", json!({"first": settings, "others": {}}));
    refused(own(json!({"lr": -1.0})), &["`multiagent.policies.first.lr` is -1, but it must be above 0"]);
    refused(own(json!({"lrr": 1.0})), &["unknown setting `multiagent.policies.first.lrr`", "`lr`"]);
    refused(own(json!({"lr": "much"})), &["`multiagent.policies.first.lr` is \"much\""]);
    for (key, value) in [("num_workers", json!(1)), ("num_sgd_iter", json!(3)), ("seed", json!(3))] {
        let name =
            format!("`multiagent.policies.first.{key}` is {value}, but it is a setting of the whole run");
        refused(own(json!({key: value})), &[&name]);
    }
    refused(own(json!({"policy_class": "mine"})), &["`multiagent.policies.first.policy_class`"]);
    let both = refused(own(json!({"lr": -1.0, "clip_param": 0.0})), &["`multiagent.policies.first.lr`"]);
    assert!(both.contains("`multiagent.policies.first.clip_param`"), "{both}");
    refused(
        with(&tiny_dqn(), json!({"policies": {"a": {"training_intensity": 2.0}}}))
            .and_then(|dqn| quiet(dqn, "simple_spread_v3")),
        &["`multiagent.policies.a.training_intensity`", "a setting of the whole run"],
    );

    let alone = with(&spread(), json!({"policies": ["a", "b"], "policy_mapping_fn": {"*": "a"}}));
    refused(
        alone.and_then(|ppo| quiet(ppo, "CartPole-v1")),
        &["`multiagent.policies.b` is a policy, but no agent acts by it; there is agent0"],
    );
}

#[test]
fn settings_of_policies_survive_being_written_and_read() {
    let mut multi = first_and_others();
    multi["policies"] = json!({"first": {"lr": 1e-3}, "others": {}});
    multi["policies_to_train"] = json!(["others"]);
    let ppo = with(&spread(), multi).expect("settings");
    let config = to_config(&ppo).expect("an object");
    let read = resolve(&Ppo::get_default_config(), &config, &"simple_spread_v3".into()).expect("settings");
    assert_eq!(read.0, ppo);
    // Ray's own default.
    with(&spread(), json!({"policies": {}, "policy_mapping_fn": null, "policies_to_train": null}))
        .expect("settings");
}
