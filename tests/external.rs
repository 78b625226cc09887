//! Episodes that other programs play: the rows that become of them, and what the trainer refuses.

mod http;
mod player;
#[cfg(feature = "cli")]
mod python;

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pavlov::envs::external::{Answer, Ask, Call, Calls, Refused, Reply, Turn};
use pavlov::envs::{EnvCreator, ExternalEnv, Space};
use pavlov::trainer::batch::Column;
use pavlov::trainer::workers::{Reply as Sampled, Request, RolloutWorker};

use crate::support::{numbers, quiet, refused, tiny_dqn, tiny_ppo, tiny_sac, worker_spec};
use player::{Player, played};

/// An environment of this program, and the way to it.
fn channel_env(observation_space: Space, action_space: Space) -> (EnvCreator, std::sync::mpsc::Sender<Call>) {
    let (to, calls) = channel();
    let calls = Arc::new(Mutex::new(Some(calls)));
    let env = EnvCreator::external("Played", move |_| {
        let calls = Arc::clone(&calls);
        let open = move || Ok(Calls::new(calls.lock().expect("a lock").take().expect("opened once"), ()));
        Ok(ExternalEnv::new(observation_space.clone(), action_space.clone(), Duration::from_secs(60), open))
    });
    (env, to)
}

#[test]
fn every_closed_row_is_sampled_once_whatever_the_programs_do() {
    let (env, to) = channel_env(Space::real(&[2]), Space::discrete(3));
    let mut dqn = tiny_dqn();
    dqn.common.num_envs_per_worker = 4;
    dqn.common.rollout_fragment_length = 8;
    let spec = worker_spec(&dqn, env).expect("a spec");
    let mut worker = RolloutWorker::new(spec, 1).expect("a worker");
    let players: Vec<_> = (0..3).map(|client| Player::start(client, to.clone())).collect();
    let mut sampled = BTreeMap::new();
    let mut steps = 0;
    let mut episodes = 0;
    for _ in 0..300 {
        let request = Request::Sample { timestep: steps };
        let Sampled::Sample(fragment) = worker.handle(request).expect("a fragment") else { unreachable!() };
        episodes += fragment.episodes.len();
        let batch = &fragment.batch.policies["default_policy"];
        assert_eq!(batch.rows() as u64, fragment.batch.env_steps);
        steps += fragment.batch.env_steps;
        let obs = numbers(batch, Column::OBS);
        let next = numbers(batch, Column::NEW_OBS);
        let actions = numbers(batch, Column::ACTIONS);
        let rewards = numbers(batch, Column::REWARDS);
        let terminated = numbers(batch, Column::TERMINATED);
        for row in 0..batch.rows() {
            let seen = (obs[2 * row + 1], actions[row], rewards[row], next[2 * row], terminated[row] != 0.0);
            let before = sampled.insert(obs[2 * row] as u64, seen);
            assert_eq!(before, None, "row {} came twice", obs[2 * row]);
        }
    }
    drop(worker);
    let reported: Vec<_> = players.into_iter().map(Player::end).collect();
    let closed: BTreeMap<_, _> = reported.iter().flat_map(|player| player.closed.clone()).collect();
    assert!(
        reported.iter().all(|player| player.died > 3 && player.repeated > 10),
        "the faults did not happen"
    );
    assert!(episodes > 100, "{episodes} episodes");
    for (id, row) in &sampled {
        assert_eq!(closed.get(id), Some(row), "row {id}");
    }
    // What was closed while no fragment was sampled any more: at most a fragment.
    assert!(closed.len() - sampled.len() <= 4 * 8, "{} of {} rows", sampled.len(), closed.len());
}

#[test]
fn an_action_depends_on_the_weights_and_the_episode_alone() {
    // One program that plays two episodes in turn, and one that plays them one after the other.
    let play = |together: bool| {
        let (env, to) = channel_env(Space::real(&[2]), Space::discrete(3));
        let mut ppo = tiny_ppo();
        ppo.common.rollout_fragment_length = 16;
        let spec = worker_spec(&ppo, env).expect("a spec");
        let mut worker = RolloutWorker::new(spec, 1).expect("a worker");
        let player = std::thread::spawn(move || played(&to, together));
        while worker.handle(Request::Sample { timestep: 0 }).is_ok() {}
        player.join().expect("a player")
    };
    let together = play(true);
    assert_eq!(together, play(false));
    assert!(together[0] != together[1], "both episodes drew the same actions: {together:?}");
}

/// The answers to messages of client 1, sent one after the other while a fragment is sampled.
fn answers(
    settings_of: impl FnOnce(EnvCreator) -> RolloutWorker,
    spaces: (Space, Space),
    asks: Vec<Ask>,
) -> Vec<Result<Answer, Refused>> {
    let (env, to) = channel_env(spaces.0, spaces.1);
    let mut worker = settings_of(env);
    let asking = std::thread::spawn(move || asks.into_iter().map(|ask| asked(&to, 1, ask)).collect());
    // It fails when the thread has asked everything and dropped its end of the channel.
    while worker.handle(Request::Sample { timestep: 0 }).is_ok() {}
    asking.join().expect("answers")
}

/// The trainer's answer to a message.
fn asked(to: &std::sync::mpsc::Sender<Call>, client: u64, ask: Ask) -> Result<Answer, Refused> {
    let (answer, answered) = channel();
    let reply = Reply::new(move |result| drop(answer.send(result)));
    to.send(Call { client, ask, reply }).expect("a trainer");
    answered.recv().expect("an answer")
}

fn floats(numbers: &[f32]) -> Vec<u8> {
    bytemuck::cast_slice(numbers).to_vec()
}

fn turn(episode: &str, seq: u64, obs: &[f32], reward: f64) -> Turn {
    Turn { episode: episode.into(), seq: Some(seq), obs: floats(obs), mask: None, reward }
}

fn end(episode: &str, obs: &[f32]) -> Ask {
    Ask::EndEpisode { episode: episode.into(), obs: floats(obs), reward: 1.0, truncated: false, mask: None }
}

#[test]
fn messages_that_do_not_fit_are_refused_and_change_nothing() {
    let start = |name: &str| Ask::StartEpisode { episode: Some(name.into()) };
    let get = |seq, obs: &[f32], reward| Ask::GetAction(turn("a", seq, obs, reward));
    let mut masked = turn("a", 1, &[0.0, 1.0], 0.5);
    masked.mask = Some(vec![true, false, true]);
    let log = |action: &[i64]| Ask::LogAction {
        turn: turn("a", 1, &[0.0, 1.0], 0.5),
        action: bytemuck::cast_slice(action).to_vec(),
        logp: None,
        version: None,
    };
    let asks = vec![
        (start("a"), "started"),
        (start("a"), "started"),
        (end("b", &[0.0, 0.0]), "unknown_episode"),
        (get(0, &[0.0, 0.0], 1.0), "reward"),
        (get(0, &[0.0], 0.0), "width"),
        (get(0, &[0.0, f32::NAN], 0.0), "not_finite"),
        (get(1, &[0.0, 0.0], 0.0), "out_of_order"),
        (get(0, &[0.0, 0.0], 0.0), "action"),
        (get(0, &[0.0, 0.0], 0.0), "action"),
        (start("a"), "episode_taken"),
        (get(2, &[0.0, 0.0], 0.0), "out_of_order"),
        (get(1, &[0.0, 1.0], f64::INFINITY), "not_finite"),
        (Ask::GetAction(masked), "mask"),
        (log(&[3]), "action_refused"),
        (log(&[0, 0]), "action_refused"),
        (log(&[2]), "logged"),
        (start("b"), "started"),
        (start("c"), "no_place"),
        (end("b", &[0.0, 0.0]), "ended"),
        (end("a", &[0.0]), "width"),
        (end("a", &[0.0, 2.0]), "ended"),
        (end("a", &[0.0, 2.0]), "unknown_episode"),
    ];
    let worker =
        |env| RolloutWorker::new(worker_spec(&tiny_dqn(), env).expect("a spec"), 1).expect("a worker");
    let (asks, wanted): (Vec<_>, Vec<_>) = asks.into_iter().unzip();
    let found = answers(worker, (Space::real(&[2]), Space::discrete(3)), asks);
    for (i, (found, wanted)) in found.iter().zip(wanted).enumerate() {
        let kind = match found {
            Ok(Answer::Started { .. }) => "started",
            Ok(Answer::Action { .. }) => "action",
            Ok(Answer::Logged { .. }) => "logged",
            Ok(Answer::Ended { .. }) => "ended",
            Ok(Answer::Policy { .. }) => "policy",
            Err(Refused { code: "action", .. }) => "action_refused",
            Err(refused) => refused.code,
        };
        assert_eq!(kind, wanted, "message {i}: {found:?}");
    }
    assert_eq!(found[7], found[8], "the same message, another answer");
    let ended = Answer::Ended { episode_reward: 1.5, episode_len: 2 };
    assert_eq!(found[20], Ok(ended));
}

#[test]
fn logged_actions_are_learned_from_and_ppo_needs_their_probability() {
    let log = |seq, action: f32, logp| Ask::LogAction {
        turn: turn("a", seq, &[0.0, seq as f32], 0.0),
        action: floats(&[action]),
        logp,
        version: None,
    };
    let spaces = || (Space::real(&[2]), Space::boxed(-2.0, 2.0, &[1]));
    let start = || Ask::StartEpisode { episode: Some("a".into()) };
    let ppo = |env| RolloutWorker::new(worker_spec(&tiny_ppo(), env).expect("a spec"), 1).expect("a worker");
    let asks = vec![
        start(),
        log(0, 1.0, None),
        log(0, 1.0, Some(f32::NAN)),
        log(0, 1.0, Some(-0.7)),
        end("a", &[0.0; 2]),
    ];
    let found = answers(ppo, spaces(), asks);
    let codes: Vec<_> = found.iter().map(|found| found.as_ref().err().map(|refused| refused.code)).collect();
    assert_eq!(codes, [None, Some("logp"), Some("not_finite"), None, None]);

    // Fragments of one row, too: the next action closes the row, and waits for the next fragment.
    for length in [3, 1] {
        let (env, to) = channel_env(spaces().0, spaces().1);
        let mut sac = tiny_sac();
        sac.common.num_envs_per_worker = 1;
        sac.common.rollout_fragment_length = length;
        let mut worker = RolloutWorker::new(worker_spec(&sac, env).expect("a spec"), 1).expect("a worker");
        let asks = [start(), log(0, 1.0, None), log(1, -2.0, None), log(2, 2.0, None), end("a", &[0.0; 2])];
        let asking = to.clone();
        let asking = std::thread::spawn(move || asks.map(|ask| asked(&asking, 1, ask)));
        let mut actions = Vec::new();
        for _ in 0..3 / length {
            let sampled = worker.handle(Request::Sample { timestep: 0 }).expect("a fragment");
            let Sampled::Sample(fragment) = sampled else { unreachable!() };
            actions.extend(numbers(&fragment.batch.policies["default_policy"], Column::ACTIONS));
        }
        assert!(asking.join().expect("answers").iter().all(Result::is_ok));
        // The policy's own form: from -1 to 1.
        assert_eq!(actions, [0.5, -1.0, 1.0]);
    }
}

#[test]
fn a_program_gets_a_copy_of_the_policy_and_an_action_of_an_old_copy_is_refused() {
    let (env, to) = channel_env(Space::real(&[2]), Space::discrete(3));
    let mut ppo = tiny_ppo();
    ppo.common.num_envs_per_worker = 1;
    ppo.common.rollout_fragment_length = 4;
    ppo.common.train_batch_size = 4;
    ppo.sgd_minibatch_size = 4;
    let mut run = quiet(ppo, env).expect("a run");
    let asking = std::thread::spawn(move || {
        let Ok(Answer::Policy { version: first, onnx: Some(onnx) }) =
            asked(&to, 1, Ask::GetPolicy { than: None })
        else {
            panic!("no policy")
        };
        assert!(onnx.windows(4).any(|bytes| bytes == b"logp"), "a copy must say how likely its actions are");
        let again = asked(&to, 1, Ask::GetPolicy { than: Some(first) });
        assert_eq!(again, Ok(Answer::Policy { version: first, onnx: None }));
        drop(asked(&to, 1, Ask::StartEpisode { episode: Some("a".into()) }));
        let log = |seq| Ask::LogAction {
            turn: turn("a", seq, &[0.0, 1.0], 0.0),
            action: bytemuck::cast_slice(&[1_i64]).to_vec(),
            logp: Some(-1.0),
            version: Some(first),
        };
        // Four rows are a fragment; the copy may be one behind.
        let codes: Vec<_> =
            (0..9).map(|seq| asked(&to, 1, log(seq)).err().map(|refused| refused.code)).collect();
        assert_eq!(codes[..8], [None; 8]);
        assert_eq!(codes[8], Some("stale"));
    });
    while run.train().is_ok() {}
    asking.join().expect("what a program expects");
}

#[test]
fn settings_that_cannot_go_with_other_programs_are_refused() {
    let env = || channel_env(Space::real(&[2]), Space::discrete(3)).0;
    let mut ppo = tiny_ppo();
    ppo.common.num_workers = 1;
    refused(quiet(ppo, env()), &["num_workers", "played by other programs", "set it to 0"]);
    let mut ppo = tiny_ppo();
    ppo.common.evaluation_interval = Some(1);
    refused(quiet(ppo, env()), &["evaluation_interval", "leave it out"]);
    let mut ppo = tiny_ppo();
    ppo.common.batch_mode = pavlov::trainer::settings::BatchMode::CompleteEpisodes;
    refused(quiet(ppo, env()), &["batch_mode", "truncate_episodes"]);
    let mut ppo = tiny_ppo();
    ppo.common.wrappers =
        vec![serde_json::from_value(serde_json::json!("FlattenObservation")).expect("a wrapper")];
    refused(quiet(ppo, env()), &["wrap it there"]);
}
