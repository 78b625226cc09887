//! Groups of agents that act as one (`multiagent.agent_groups`), and what QMIX and VDN learn of them.

use pavlov::algorithms::qmix::Mixing;
use pavlov::prelude::*;
use pavlov::trainer::settings::ExplorationConfig;
use serde_json::json;

use super::settings::{spread, with};
use crate::support::{at, number, quiet, refused};

/// QMIX for the two-step game, as in its paper with random actions throughout: what it sees does not depend on what it
/// thinks.
fn two_steps(mixer: Mixing, seed: u64) -> Qmix {
    let mut qmix = Qmix { mixer: Some(mixer), lr: 5e-3, ..Qmix::get_default_config() };
    let common = &mut qmix.common;
    common.num_envs_per_worker = 8;
    common.seed = Some(seed);
    common.exploration_config = ExplorationConfig::Random {};
    common.model.fcnet_hiddens = vec![16];
    common.min_sample_timesteps_per_reporting = Some(4000);
    qmix.off_policy.training_intensity = Some(8.0);
    qmix.off_policy.target_network_update_freq = 200;
    qmix.off_policy.replay_buffer_config.learning_starts = 200;
    qmix
}

/// The return of a greedy episode of the two-step game.
fn learned(mixer: Mixing, seed: u64) -> f64 {
    let mut driver = quiet(two_steps(mixer, seed), "two_step_game").expect("a driver");
    for _ in 0..3 {
        driver.train().expect("a result");
    }
    driver.play(1, 0, false, 0).expect("an episode").episodes[0].total_reward
}

#[test]
fn qmix_finds_the_8_of_the_two_step_game_and_vdn_stays_at_7() {
    // Rashid et al. 2018, section 5: a sum cannot say that both must dare. Five seeds each.
    for seed in 0..5 {
        assert_eq!(learned(Mixing::Qmix, seed), 8.0, "QMIX, seed {seed}");
        assert_eq!(learned(Mixing::Vdn, seed), 7.0, "VDN, seed {seed}");
    }
}

#[test]
fn a_group_is_one_agent_in_results_and_for_the_mapping() {
    let groups = json!({
        "agent_groups": {"agent_*": "pair", "agent_1": "single"},
        "policies": ["of_the_pair", "of_the_single"],
        "policy_mapping_fn": {"pair": "of_the_pair", "single": "of_the_single"},
    });
    let mut driver = quiet(with(&spread(), groups).expect("settings"), "simple_spread_v3").expect("a driver");
    let result = driver.train().expect("a result");
    assert_eq!(at(&result, "info.learner").as_object().expect("policies").len(), 2);
    // Two agents per step now, where three were.
    assert_eq!(number(&result, "num_agent_steps_sampled"), 2.0 * number(&result, "num_env_steps_sampled"));
    let rewards = ["of_the_pair", "of_the_single"]
        .map(|id| number(&result, &format!("policy_reward_mean.{id}")))
        .iter()
        .sum::<f64>();
    let whole = number(&result, "episode_reward_mean");
    assert!((rewards - whole).abs() < 1e-9 * whole.abs(), "{rewards}, {whole}");
    let played = driver.play(1, 0, false, 0).expect("an episode");
    let agents: Vec<&str> =
        played.episodes[0].agent_rewards.iter().map(|agent| agent.agent.as_str()).collect();
    assert_eq!(agents, ["pair", "single"]);
}

#[test]
fn two_teams_of_qmix_learn_with_policies_of_their_own() {
    let mut qmix = Qmix::get_default_config();
    qmix.common.train_batch_size = 8;
    qmix.common.seed = Some(0);
    qmix.common.min_sample_timesteps_per_reporting = Some(16);
    qmix.common.env_config = json!({"N": 4}).as_object().expect("an object").clone().into();
    qmix.off_policy.replay_buffer_config.learning_starts = 16;
    let groups = json!({
        "agent_groups": {"agent_0": "a", "agent_1": "a", "*": "b"},
        "policies": {"first": {"mixer": "vdn"}, "second": {}},
        "policy_mapping_fn": {"a": "first", "b": "second"},
    });
    let mut driver = quiet(with(&qmix, groups).expect("settings"), "simple_spread_v3").expect("a driver");
    let has_mixer = |driver: &Driver<Algorithm<Qmix>>, id: &str| {
        let weights = driver.get_policy(id, |policy| policy.get_weights()).expect("a policy");
        weights.array_names().any(|name| name.starts_with("mixer."))
    };
    assert_eq!(["first", "second"].map(|id| has_mixer(&driver, id)), [false, true]);
    let before = driver.get_weights().expect("weights");
    (0..2).for_each(|_| drop(driver.train().expect("a result")));
    let after = driver.get_weights().expect("weights");
    for id in ["first", "second"] {
        let of = |weights: &pavlov::trainer::state::Weights| weights.nested(id).expect("a policy's weights");
        assert!(of(&before) != of(&after), "{id} has learned");
    }
}

#[test]
fn what_is_no_team_is_refused_in_a_sentence() {
    let run = |change: &dyn Fn(&mut Qmix), env: &str| {
        let mut qmix = Qmix::get_default_config();
        change(&mut qmix);
        quiet(qmix, env)
    };
    refused(run(&|_| {}, "CartPole-v1"), &["CartPole-v1", "group of agents", "it has one agent"]);
    refused(
        run(&|qmix| qmix.common.multiagent.agent_groups.clear(), "simple_spread_v3"),
        &["QMIX needs groups (`multiagent.agent_groups`) of agents with equal observations"],
    );
    let continuous = |qmix: &mut Qmix| {
        qmix.common.env_config =
            json!({"continuous_actions": true}).as_object().expect("an object").clone().into();
    };
    refused(run(&continuous, "simple_spread_v3"), &["members of a group need Discrete actions"]);
    refused(
        run(
            &|qmix| {
                let seen = json!({"observation_fn": "global_state"});
                *qmix = with(qmix, seen).expect("settings");
            },
            "simple_spread_v3",
        ),
        &["`multiagent.observation_fn` is \"global_state\"", "the mixer sees what all members see anyway"],
    );
    refused(
        run(&|qmix| qmix.common.model.use_gru = true, "simple_spread_v3"),
        &["`model.use_gru` is true", "rows, not sequences"],
    );
    refused(
        run(&|qmix| qmix.mixing_embed_dim = 0, "simple_spread_v3"),
        &["`mixing_embed_dim` is 0, but it must be at least 1"],
    );
    let wolves =
        |qmix: &mut Qmix| drop(qmix.common.multiagent.agent_groups.insert("wolf_*".into(), "w".into()));
    refused(
        run(&wolves, "simple_spread_v3"),
        &[
            "`multiagent.agent_groups.wolf_*` is \"w\", but no agent of this environment is named so",
            "there is agent_0, agent_1, agent_2",
        ],
    );
    refused(with(&Qmix::get_default_config(), json!({"agent_group": {}})), &["`multiagent.agent_group`"]);
}
