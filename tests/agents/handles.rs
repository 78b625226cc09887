//! What a program does with one of several policies: act, export, read and write weights, save and go on.

use std::sync::Mutex;

use pavlov::prelude::*;
use pavlov::torch::{CModule, Tensor};
use pavlov::trainer::{Callbacks, Episode, PolicyFormat};
use serde_json::json;

use super::settings::{first_and_others, spread, with};
use crate::support::{number, quiet, refused};

fn two() -> Ppo {
    with(&spread(), first_and_others()).expect("settings")
}

#[test]
fn each_policy_acts_and_is_exported_by_its_id() {
    let mut driver = quiet(two(), "simple_spread_v3").expect("a driver");
    driver.train().expect("a result");
    let obs: Vec<f32> = (0..54).map(|i| (i as f32).sin()).collect();
    let actions = |driver: &mut Driver<Algorithm<Ppo>>, id: &str| {
        driver.compute_actions_of(id, &obs, false).expect("three actions")
    };
    for id in ["first", "others"] {
        let acted = actions(&mut driver, id);
        let mut session = driver.session_of(id, 3).expect("a session");
        assert_eq!(session.compute_actions(&obs, false).expect("three actions"), acted, "{id}");
        let dir = tempfile::tempdir().expect("a directory");
        let file = driver.export_policy_model_of(id, dir.path(), PolicyFormat::TorchScript).expect("a file");
        let module = CModule::load(file).expect("a module");
        let logits = module.forward_ts(&[Tensor::from_slice(&obs).view([3, 18])]).expect("logits");
        let best = Vec::<i64>::try_from(logits.argmax(-1, false)).expect("three numbers");
        let acted: Vec<i64> = acted.iter().map(|action| action.discrete().expect("a choice")).collect();
        assert_eq!(best, acted, "{id}");
    }
    refused(driver.compute_actions(&obs, false), &["several policies (first, others)"]);
    refused(driver.compute_actions_of("third", &obs, false), &["no policy `third`; there is first, others"]);
    let dir = tempfile::tempdir().expect("a directory");
    refused(
        driver.export_policy_model(dir.path(), PolicyFormat::Onnx),
        &["several policies (first, others)"],
    );
    refused(driver.export_policy_model_of("third", dir.path(), PolicyFormat::Onnx), &["no policy `third`"]);
}

#[test]
fn weights_of_some_policies_are_read_and_written_alone() {
    let mut driver = quiet(two(), "simple_spread_v3").expect("a driver");
    let before = driver.get_weights_of(&["first"]).expect("weights");
    driver.train().expect("a result");
    let others = driver.get_weights_of(&["others"]).expect("weights");
    assert_ne!(driver.get_weights_of(&["first"]).expect("weights"), before);
    driver.set_weights(&before).expect("they fit");
    assert_eq!(driver.get_weights_of(&["first"]).expect("weights"), before);
    assert_eq!(driver.get_weights_of(&["others"]).expect("weights"), others);
    refused(driver.get_weights_of(&["third"]), &["no policy `third`; there is first, others"]);
    let own = driver.get_policy("first", |policy| policy.get_weights()).expect("a policy");
    refused(driver.set_weights(&own), &["they are of no policy", "nested by id"]);
}

#[test]
fn a_run_of_several_policies_goes_on_in_mid_episode_bit_for_bit() {
    let mut ppo = two();
    // Fragments that end in the middle of episodes.
    ppo.common.rollout_fragment_length = 8;
    ppo.common.train_batch_size = 16;
    let mut straight = quiet(ppo.clone(), "simple_spread_v3").expect("a driver");
    let dir = tempfile::tempdir().expect("a directory");
    let saved = || ppo.clone().builder("simple_spread_v3").logdir(dir.path()).loggers(LoggerChoice::None);
    let checkpoint = {
        let mut first = saved().build().expect("a driver");
        (0..2).for_each(|_| drop(first.train().expect("a result")));
        first.save().expect("a checkpoint")
    };
    (0..2).for_each(|_| drop(straight.train().expect("a result")));
    let mut second = quiet(ppo.clone(), "simple_spread_v3").expect("a driver");
    second.restore(&checkpoint).expect("it goes on");
    for _ in 0..3 {
        let of_straight = straight.train().expect("a result");
        let of_second = second.train().expect("a result");
        assert_eq!(second.get_weights().expect("weights"), straight.get_weights().expect("weights"));
        for key in ["episode_reward_mean", "policy_reward_mean", "info.learner.first.learner_stats"] {
            let at = |result| crate::support::at(result, key).clone();
            assert_eq!(at(&of_second), at(&of_straight), "{key}");
        }
    }

    // A policy of it acts without the run, and a run with another mapping has no place for it.
    let mut session = pavlov::load_policy(&checkpoint, Some("others"), 1).expect("a session");
    session.act(&[0.0_f32; 18]).expect("an action");
    refused(pavlov::load(&checkpoint), &["several policies (first, others)"]);
    let mut multi = first_and_others();
    multi["policy_mapping_fn"] = json!({"agent_1": "first", "agent_*": "others"});
    let mut other = quiet(with(&ppo, multi).expect("settings"), "simple_spread_v3").expect("a driver");
    refused(other.restore(&checkpoint), &["agents and their policies", "agent_0 by first"]);
}

#[test]
fn a_mapping_given_as_a_function_is_known_to_its_checkpoints() {
    let settings = with(&spread(), json!({"policies": ["first", "others"]})).expect("settings");
    let by = |agent: &str| if agent == "agent_2" { "first" } else { "others" };
    let dir = tempfile::tempdir().expect("a directory");
    let builder = settings.builder("simple_spread_v3").logdir(dir.path()).loggers(LoggerChoice::None);
    let mut driver = builder.policy_mapping_fn(by).build().expect("a driver");
    driver.train().expect("a result");
    let checkpoint = driver.save().expect("a checkpoint");
    let obs = [0.5_f32; 18];
    let mut session = pavlov::load_policy(&checkpoint, Some("first"), 1).expect("a session");
    let acted = driver.compute_actions_of("first", &obs, false).expect("an action");
    assert_eq!(vec![session.act(&obs).expect("an action")], acted);
}

/// What the agents of ended episodes had, seen by a callback.
static ENDED: Mutex<Vec<Vec<(String, String, f64)>>> = Mutex::new(Vec::new());

struct Watch;

impl Callbacks for Watch {
    fn on_episode_end(&mut self, episode: &mut Episode) -> Result<()> {
        let agents = episode.agent_rewards.iter();
        let agents = agents.map(|agent| (agent.agent.clone(), agent.policy.clone(), agent.reward));
        ENDED.lock().expect("no panic").push(agents.collect());
        Ok(())
    }
}

#[test]
fn callbacks_see_the_agents_of_an_episode_with_their_policies_and_rewards() {
    let builder = two().builder("simple_spread_v3").loggers(LoggerChoice::None).callbacks(|| Watch);
    let result = builder.build().expect("a driver").train().expect("a result");
    let ended = ENDED.lock().expect("no panic");
    assert_eq!(ended.len(), 2);
    let names = |episode: &[(String, String, f64)]| {
        episode.iter().map(|(agent, policy, _)| format!("{agent} {policy}")).collect::<Vec<_>>()
    };
    assert_eq!(names(&ended[0]), ["agent_0 first", "agent_1 others", "agent_2 others"]);
    let mean = ended.iter().map(|episode| episode[0].2).sum::<f64>() / 2.0;
    assert!((number(&result, "policy_reward_mean.first") - mean).abs() < 1e-9);
}
