//! Agents that change their policies from episode to episode by a function, and policies that come and go in training.

use pavlov::prelude::*;
use pavlov::trainer::settings::{PolicyMapping, WorkerTransport};
use pavlov::trainer::state::Weights;
use pavlov::trainer::{Builder, Callbacks, PolicyChange, RunHandle, Trainer, register_policy_mapping_fn};
use serde_json::json;

use super::learning::Split;
use super::settings::{first_and_others, spread, with};
use super::turns::Turns;
use crate::processes::wait_for;
use crate::support::{at, number, quiet, refused, tiny_dqn, tiny_ppo};

type Run<T> = Driver<Algorithm<T>>;

fn train<T: Trainer>(driver: &mut Run<T>, times: usize) -> Metrics {
    (0..times).map(|_| driver.train().expect("a result")).last().expect("at least one")
}

fn weights<T: Trainer>(driver: &Run<T>, id: &str) -> Weights {
    driver.get_weights_of(&[id]).expect("weights")
}

/// Agent `i` acts by `third` only in every third episode.
fn mostly_two() {
    register_policy_mapping_fn("mostly_two", |agent, episode| {
        let place = u64::from(agent.bytes().last().unwrap_or_default());
        if (place + episode.number + episode.env_index).is_multiple_of(3) { "third" } else { "first" }
    });
}

#[test]
fn a_function_that_rotates_policies_gives_the_rows_of_the_setting_that_does() {
    register_policy_mapping_fn("rotation", |agent, episode| {
        let place = ["a", "b", "c"].iter().position(|name| *name == agent).expect("one of the three") as u64;
        if (place + episode.env_index + episode.number).is_multiple_of(3) { "zero" } else { "others" }
    });
    let mut ppo = tiny_ppo();
    ppo.common.rollout_fragment_length = 25;
    ppo.common.train_batch_size = 50;
    let policies = ["zero", "others"];
    let rotated = json!({"policies": policies, "rotate_policies": true, "policy_mapping_fn": {"a": "zero", "*": "others"}});
    let mut wanted = quiet(with(&ppo, rotated).expect("settings"), Turns::creator()).expect("a driver");
    let by_name = json!({"policies": policies, "policy_mapping_fn": "rotation"});
    let by_name = with(&ppo, by_name).expect("settings");
    let mut found = quiet(by_name.clone(), Turns::creator()).expect("a driver");
    let mut on_workers = by_name;
    on_workers.common.num_workers = ppo.common.num_envs_per_worker;
    on_workers.common.num_envs_per_worker = 1;
    let mut on_workers = quiet(on_workers, Turns::creator()).expect("a driver");
    for _ in 0..3 {
        let result = train(&mut wanted, 1);
        assert_eq!(at(&train(&mut found, 1), "policy_reward_mean"), at(&result, "policy_reward_mean"));
        train(&mut on_workers, 1);
        let weights = wanted.get_weights().expect("weights");
        assert_eq!(found.get_weights().expect("weights"), weights);
        assert_eq!(on_workers.get_weights().expect("weights"), weights);
    }
    // In mid-episode, where who acts by which policy is part of the state.
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoint = found.save_to(dir.path()).expect("a checkpoint");
    let mut restored = quiet(found.settings().clone(), Turns::creator()).expect("a driver");
    restored.restore(&checkpoint).expect("it goes on");
    train(&mut found, 2);
    train(&mut restored, 2);
    assert_eq!(restored.get_weights().expect("weights"), found.get_weights().expect("weights"));
    // Evaluations ask the function, too.
    let of = |driver: &mut Run<Ppo>| {
        let episodes = driver.play(3, 1, true, 0).expect("episodes").episodes;
        episodes.iter().map(|episode| episode.agent_rewards.clone()).collect::<Vec<_>>()
    };
    let played = of(&mut found);
    let who = |episode: usize| played[episode].iter().map(|agent| agent.policy.as_str()).collect::<Vec<_>>();
    assert_eq!(who(0), ["zero", "others", "others"]);
    assert_eq!(who(1), ["others", "others", "zero"]);
    assert_eq!(who(2), ["others", "zero", "others"]);
}

#[test]
fn a_function_that_answers_with_what_there_is_not_is_refused() {
    mostly_two();
    let unknown = json!({"policies": ["first", "second"], "policy_mapping_fn": "mostly_two"});
    refused(
        quiet(with(&spread(), unknown).expect("settings"), "simple_spread_v3"),
        &["`multiagent.policy_mapping_fn` is \"third\" for the agent `agent_0`, but there is first, second"],
    );
    // The first episodes, for which it is asked beforehand, are fine; episode 40 of a copy is not.
    register_policy_mapping_fn(
        "wrong_later",
        |_, episode| if episode.number < 40 { "first" } else { "absent" },
    );
    let later = json!({"policies": ["first"], "policy_mapping_fn": "wrong_later"});
    let mut ppo = with(&tiny_ppo(), later).expect("settings");
    ppo.common.rollout_fragment_length = 250;
    ppo.common.train_batch_size = 500;
    let mut driver = quiet(ppo, Turns::creator()).expect("a driver");
    refused(
        driver.train(),
        &[
            "`multiagent.policy_mapping_fn` is \"absent\"",
            "in episode 40 of environment copy 0 it says so of the agent `a`, and there is first",
            "or add the policy to `multiagent.policies`",
        ],
    );
    let settings = json!({"policies": ["first", "third"], "policy_mapping_fn": "mostly_two"});
    let ppo = with(&tiny_ppo(), settings).expect("settings");
    refused(quiet(ppo.clone(), "CartPole-v1"), &["there is one agent, `agent0`; give a table"]);
    let both = ppo.builder("simple_spread_v3").loggers(LoggerChoice::None).policy_mapping_fn(|_| "first");
    refused(
        both.build(),
        &["is \"mostly_two\"", "`Builder::policy_mapping_fn` gives the run another function"],
    );
}

#[test]
fn training_that_waits_for_rows_of_policies_without_seats_ends_with_their_names() {
    register_policy_mapping_fn("fixed_alone", |_, _| "fixed");
    let nobody = json!({
        "policies": ["fixed", "idle"], "policies_to_train": ["idle"], "policy_mapping_fn": "fixed_alone",
        "count_steps_by": "agent_steps"
    });
    let mut driver = quiet(with(&tiny_ppo(), nobody).expect("settings"), Turns::creator()).expect("a driver");
    for _ in 0..2 {
        refused(
            driver.train(),
            &[
                "`multiagent.count_steps_by` is \"agent_steps\"",
                "policies that learn (idle), and no agent has acted by one of them in 50000 steps",
            ],
        );
    }
}

/// What a third policy changes.
fn third() -> PolicyChange {
    let policy_mapping_fn = Some(PolicyMapping::Registered("mostly_two".into()));
    PolicyChange { policy_mapping_fn, ..PolicyChange::default() }
}

#[test]
fn a_policy_that_is_added_learns_beside_the_others_which_go_on_and_checkpoints_know_it() {
    mostly_two();
    let settings = with(&spread(), json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}}));
    let settings = settings.expect("settings");
    let mut driver = quiet(settings.clone(), "simple_spread_v3").expect("a driver");
    let before = train(&mut driver, 2);
    let learned =
        driver.get_policy("first", |policy| policy.get_state()).expect("a policy").expect("a state");
    let config = Config::from_iter([("lr".to_owned(), 0.01.into())]);
    driver.add_policy("third", config, third()).expect("it fits");
    let kept = driver.get_policy("first", |policy| policy.get_state()).expect("a policy").expect("a state");
    assert_eq!(kept, learned);
    let fresh = weights(&driver, "third");
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoint = driver.save_to(dir.path()).expect("a checkpoint");

    let result = train(&mut driver, 1);
    let steps = |result: &Metrics| number(result, "num_env_steps_sampled");
    assert_eq!(steps(&result), 1.5 * steps(&before));
    assert_eq!(number(&result, "info.learner.third.learner_stats.cur_lr"), 0.01);
    assert_ne!(weights(&driver, "third"), fresh);
    // Episodes of the copies go on being counted: none is played twice.
    let episodes = driver.play(3, 1, true, 0).expect("episodes").episodes;
    let third_plays = |episode: &pavlov::trainer::Episode| {
        episode.agent_rewards.iter().filter(|agent| agent.policy == "third").count()
    };
    assert_eq!(episodes.iter().map(third_plays).sum::<usize>(), 3);

    // A run that knows nothing of the change goes on from the checkpoint, bit for bit.
    let mut restored = quiet(settings.clone(), "simple_spread_v3").expect("a driver");
    restored.restore(&checkpoint).expect("it goes on");
    train(&mut restored, 1);
    train(&mut driver, 2);
    train(&mut restored, 2);
    assert_eq!(restored.get_weights().expect("weights"), driver.get_weights().expect("weights"));
    let mut session = pavlov::load_policy(&checkpoint, Some("third"), 1).expect("a session");
    session.act(&[0.0_f32; 18]).expect("an action");

    // It goes as it came, and an older checkpoint brings the policies of its time.
    let back = PolicyChange { policy_mapping_fn: Some([("*", "first")].into()), ..PolicyChange::default() };
    let first = weights(&driver, "first");
    driver.remove_policy("third", back).expect("no agent needs it");
    assert_eq!(weights(&driver, "first"), first);
    refused(driver.get_weights_of(&["third"]), &["no policy `third`; there is first"]);
    let result = train(&mut driver, 1);
    assert!(at(&result, "info.learner").get("third").is_none());
    driver.restore(&checkpoint).expect("it goes on");
    assert_eq!(weights(&driver, "third"), fresh);
}

#[test]
fn a_policy_is_added_alike_whatever_the_number_of_workers() {
    mostly_two();
    let settings = with(&spread(), json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}}));
    let settings = settings.expect("settings");
    let copies = settings.common.num_workers.max(1) * settings.common.num_envs_per_worker;
    let runs = [(0, copies), (copies, 1)].map(|(workers, envs)| {
        let mut ppo = settings.clone();
        ppo.common.num_workers = workers;
        ppo.common.num_envs_per_worker = envs;
        // Fragments that end in the middle of episodes.
        ppo.common.rollout_fragment_length = 8;
        ppo.common.train_batch_size = 8 * copies;
        let mut driver = quiet(ppo, "simple_spread_v3").expect("a driver");
        train(&mut driver, 2);
        driver.add_policy("third", Config::new(), third()).expect("it fits");
        train(&mut driver, 4);
        driver.get_weights().expect("weights")
    });
    assert_eq!(runs[0], runs[1]);
}

/// A run on two workers of this kind, to which [`grow`] adds a policy.
pub(crate) fn growing(transport: WorkerTransport) -> Builder<Ppo> {
    mostly_two();
    let mut ppo = with(&spread(), json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}}))
        .expect("settings");
    ppo.common.num_workers = 2;
    ppo.common.num_envs_per_worker = 1;
    ppo.common.workers.transport = transport;
    ppo.common.rollout_fragment_length = 8;
    ppo.common.train_batch_size = 16;
    ppo.builder("simple_spread_v3").loggers(LoggerChoice::None)
}

pub(crate) fn grow(run: Builder<Ppo>) -> Weights {
    let mut driver = run.build().expect("a driver");
    train(&mut driver, 2);
    driver.add_policy("third", Config::new(), third()).expect("it fits");
    train(&mut driver, 3);
    driver.get_weights().expect("weights")
}

#[test]
fn replay_buffers_of_policies_that_stay_keep_their_rows() {
    mostly_two();
    let mut dqn = with(&tiny_dqn(), json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}}));
    let dqn = dqn.as_mut().expect("settings");
    let before = dqn.off_policy.replay_buffer_config.learning_starts;
    let mut driver = quiet(dqn.clone(), "simple_spread_v3").expect("a driver");
    let mut result = train(&mut driver, 1);
    while number(&result, "num_env_steps_trained") == 0.0 {
        result = train(&mut driver, 1);
    }
    assert!(before > 0);
    driver.add_policy("third", Config::new(), third()).expect("it fits");
    let learned = weights(&driver, "first");
    train(&mut driver, 1);
    assert_ne!(weights(&driver, "first"), learned, "it would wait for {before} steps");
}

#[test]
fn a_policy_is_added_beside_a_learner_thread_and_workers_that_sample_ahead() {
    mostly_two();
    let mut impala = Impala::get_default_config();
    impala.common.seed = Some(0);
    impala.common.num_workers = 1;
    impala.common.rollout_fragment_length = 10;
    impala.common.train_batch_size = 20;
    impala.common.min_sample_timesteps_per_reporting = Some(40);
    impala.common.model.fcnet_hiddens = vec![8];
    let one = json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}});
    let mut driver = quiet(with(&impala, one).expect("settings"), "simple_spread_v3").expect("a driver");
    let before = number(&train(&mut driver, 2), "num_env_steps_sampled");
    driver.add_policy("third", Config::new(), third()).expect("it fits");
    let fresh = ["first", "third"].map(|id| weights(&driver, id));
    let result = train(&mut driver, 3);
    assert!(number(&result, "num_env_steps_sampled") >= before + 120.0);
    assert!(weights(&driver, "first") != fresh[0] && weights(&driver, "third") != fresh[1]);
}

/// Adds `frozen`, a copy of `first` that does not learn, in iteration 2, and counts its calls.
struct Freeze {
    calls: usize,
}

impl Callbacks for Freeze {
    fn on_train_result(&mut self, run: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        self.calls += 1;
        result.insert("calls".into(), self.calls.into());
        if self.calls == 2 {
            let change = PolicyChange {
                policy_mapping_fn: Some([("agent_0", "first"), ("*", "frozen")].into()),
                policies_to_train: Some(vec!["first".into()]),
            };
            run.add_policy("frozen", Config::new(), change);
            let mut weights = pavlov::trainer::state::State::default();
            weights.nest("frozen", run.get_weights(&["first"])?.nested("first")?);
            run.set_weights(weights.into());
        }
        Ok(())
    }
}

#[test]
fn callbacks_add_policies_with_the_weights_of_others_and_live_on() {
    let settings = with(&spread(), json!({"policies": ["first"], "policy_mapping_fn": {"*": "first"}}));
    let builder = settings.expect("settings").builder("simple_spread_v3").loggers(LoggerChoice::None);
    let mut driver = builder.callbacks(|| Freeze { calls: 0 }).build().expect("a driver");
    train(&mut driver, 2);
    let own = |driver: &Run<Ppo>, id| weights(driver, id).nested(id).expect("weights");
    assert_eq!(own(&driver, "frozen"), own(&driver, "first"));
    let frozen = weights(&driver, "frozen");
    let result = train(&mut driver, 1);
    assert_eq!(number(&result, "calls"), 3.0);
    assert_eq!(weights(&driver, "frozen"), frozen);
    assert_ne!(own(&driver, "first"), own(&driver, "frozen"));
}

#[test]
fn changes_of_policies_that_cannot_be_are_refused_and_change_nothing() {
    mostly_two();
    let mut driver =
        quiet(with(&spread(), first_and_others()).expect("settings"), "simple_spread_v3").expect("a driver");
    train(&mut driver, 1);
    let before = driver.get_weights().expect("weights");
    let none = PolicyChange::default;
    refused(
        driver.add_policy("first", Config::new(), none()),
        &["`add_policy` is \"first\"", "first, others"],
    );
    refused(driver.add_policy("a/b", Config::new(), none()), &["\"a/b\"", "letters, digits"]);
    refused(
        driver.add_policy("idle", Config::new(), none()),
        &["`multiagent.policies.idle`", "no agent acts by it"],
    );
    refused(
        driver.remove_policy("third", none()),
        &["`remove_policy` is \"third\"", "there is first, others"],
    );
    refused(
        driver.remove_policy("first", none()),
        &["\"first\" for the agent `agent_0`, but there is others"],
    );
    let wrong = Config::from_iter([("gama".to_owned(), 0.5.into())]);
    refused(driver.add_policy("third", wrong, third()), &["gama"]);
    let unknown = PolicyChange { policies_to_train: Some(vec!["fourth".into()]), ..third() };
    refused(driver.add_policy("third", Config::new(), unknown), &["policies_to_train", "fourth"]);
    assert_eq!(driver.get_weights().expect("weights"), before);
    train(&mut driver, 1);

    let mut alone = quiet(tiny_ppo(), "CartPole-v1").expect("a driver");
    refused(alone.add_policy("second", Config::new(), none()), &["no agent acts by it; there is agent0"]);
    let mut in_code = quiet(Split::new(&["first", "others"]), "simple_spread_v3").expect("a driver");
    refused(in_code.add_policy("third", Config::new(), third()), &["comes from code: `Trainer::policies`"]);
}

#[test]
fn policies_that_wait_on_disk_learn_bit_for_bit_what_they_do_in_memory() {
    let cache = tempfile::tempdir().expect("a directory");
    let folders = || std::fs::read_dir(cache.path()).expect("a directory").count();
    // A process that was killed left it.
    std::fs::create_dir(cache.path().join("pavlov-policies-left")).expect("a folder");
    let limited = |multi: serde_json::Value| {
        let mut multi = multi;
        multi["policy_map_capacity"] = json!(1);
        multi["policy_map_cache"] = json!(cache.path());
        multi
    };
    let mut ppo = spread();
    ppo.common.rollout_fragment_length = 8;
    ppo.common.train_batch_size = 16;
    ppo.common.num_workers = 2;
    ppo.common.num_envs_per_worker = 1;
    let in_memory = with(&ppo, first_and_others()).expect("settings");
    let on_disk = with(&ppo, limited(first_and_others())).expect("settings");
    let mut wanted = quiet(in_memory.clone(), "simple_spread_v3").expect("a driver");
    let mut found = quiet(on_disk.clone(), "simple_spread_v3").expect("a driver");
    // The learner and two workers.
    assert_eq!(folders(), 3);
    for _ in 0..2 {
        assert_eq!(
            at(&train(&mut found, 1), "info.learner.others.learner_stats"),
            at(&train(&mut wanted, 1), "info.learner.others.learner_stats")
        );
    }
    assert_eq!(found.get_weights().expect("weights"), wanted.get_weights().expect("weights"));
    // Checkpoints do not tell where policies were.
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoint = found.save_to(dir.path()).expect("a checkpoint");
    let mut restored = quiet(in_memory, "simple_spread_v3").expect("a driver");
    restored.restore(&checkpoint).expect("it goes on");
    let mut again = quiet(on_disk, "simple_spread_v3").expect("a driver");
    again.restore(&checkpoint).expect("it goes on");
    for driver in [&mut found, &mut wanted, &mut restored, &mut again] {
        train(driver, 2);
    }
    let weights = wanted.get_weights().expect("weights");
    for driver in [&found, &restored, &again] {
        assert_eq!(driver.get_weights().expect("weights"), weights);
    }
    let of = |driver: &mut Run<Ppo>| driver.play(4, 1, false, 0).expect("episodes").episodes;
    assert_eq!(of(&mut found), of(&mut wanted));
    drop((found, again));
    // Threads of workers end behind their run.
    wait_for("folders to be removed", || (folders() == 0).then_some(()));

    let dqn =
        |multi| quiet(with(&tiny_dqn(), multi).expect("settings"), "simple_spread_v3").expect("a driver");
    let mut wanted = dqn(first_and_others());
    let mut found = dqn(limited(first_and_others()));
    train(&mut wanted, 4);
    train(&mut found, 4);
    assert_eq!(found.get_weights().expect("weights"), wanted.get_weights().expect("weights"));
}

#[test]
fn a_capacity_that_cannot_be_is_refused() {
    let build = |capacity: usize, cache: Option<&str>| {
        let mut multi = first_and_others();
        multi["policy_map_capacity"] = json!(capacity);
        multi["policy_map_cache"] = json!(cache);
        with(&spread(), multi).and_then(|ppo| quiet(ppo, "simple_spread_v3"))
    };
    refused(build(0, None), &["`multiagent.policy_map_capacity` is 0", "set it to 1 or more"]);
    refused(
        build(2, Some("there")),
        &["`multiagent.policy_map_cache` is \"there\"", "all policies stay in memory"],
    );
    refused(
        build(1, Some("/dev/null/there")),
        &["`multiagent.policy_map_cache` is \"/dev/null/there\"", "a folder that can be written"],
    );
}
