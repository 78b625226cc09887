//! Policies that take turns in all seats (`multiagent.rotate_policies`), and a league of snapshots as opponents.

use std::collections::BTreeSet;

use pavlov::prelude::*;
use pavlov::trainer::agents::Policies;
use pavlov::trainer::batch::Column;
use pavlov::trainer::policy::{Act, ActionRows, Policy, PolicyClass, Seen};
use pavlov::{League, LeagueConfig};
use serde_json::{Value, json};

use super::settings::with;
use super::turns::{Turns, workers};
use crate::support::{at, number, numbers, quiet, refused, tiny_ppo};

/// Does always the same.
#[derive(Debug)]
struct Always(i64);

impl Policy for Always {
    fn compute_actions(&mut self, _: Seen<'_>, act: Act<'_>) -> Result<()> {
        let ActionRows::Int(actions) = act.actions else { panic!("discrete actions") };
        actions.fill(self.0);
        Ok(())
    }
}

/// `zero` for the first agent and `one` for the others, in turn.
fn taking_turns() -> Policies {
    let always = |n: i64| PolicyClass::new("Always", move |_| Ok(Always(n)));
    let by = |agent: &str| if ["a", "agent_0"].contains(&agent) { "zero" } else { "one" };
    Policies::new([("zero", always(0)), ("one", always(1))], by).rotating(true)
}

#[test]
fn policies_take_turns_in_the_seats_of_all_agents_and_learn_from_each() {
    let mut common = tiny_ppo().common;
    common.num_envs_per_worker = 1;
    common.rollout_fragment_length = 15;
    let batch = workers(&common, taking_turns(), &Turns::creator()).and_then(|w| w.sample()).expect("rows");
    // Three episodes of five steps, in which `a` and `c` act at even times until they end, and `b` at odd ones.
    let seen = |id: &str| {
        let rows = &batch.policies[id];
        let obs = numbers(rows, Column::OBS);
        let actions = numbers(rows, Column::ACTIONS);
        let ends: Vec<bool> = numbers(rows, Column::TERMINATED).iter().map(|&end| end == 1.0).collect();
        let rows: Vec<(f64, f64, f64)> = obs.chunks(3).map(|obs| (obs[0], obs[1], obs[2])).collect();
        assert_eq!(rows.len(), actions.len());
        (rows, actions, ends)
    };
    let (zero, zeros, _) = seen("zero");
    let (one, ones, _) = seen("one");
    assert!(zeros.iter().all(|&action| action == 0.0) && ones.iter().all(|&action| action == 1.0));
    // `a` acts at 0 and 2, `b` at 1 and 3, `c` at 0, 2 and 4: `zero` is `a`, then `c`, then `b`.
    let agents: Vec<f64> = zero.iter().map(|(_, agent, _)| *agent).collect();
    let mut sorted = agents.clone();
    sorted.sort_by(f64::total_cmp);
    assert_eq!(sorted, [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    assert_eq!((zero.len(), one.len()), (7, 14));
    // In each episode it has one seat only, and `one` the two others.
    let seats = |rows: &[(f64, f64, f64)]| -> BTreeSet<(u64, u64)> {
        rows.iter().map(|(seed, agent, _)| (*seed as u64, *agent as u64)).collect()
    };
    assert_eq!((seats(&zero).len(), seats(&one).len()), (3, 6));
    assert!(seats(&zero).is_disjoint(&seats(&one)));
}

#[test]
fn episodes_tell_which_policy_each_agent_had() {
    let mut ppo = with(
        &tiny_ppo(),
        json!({
            "policies": ["main", "other"], "policy_mapping_fn": {"player_1": "main", "player_2": "other"},
            "rotate_policies": true,
        }),
    )
    .expect("settings");
    ppo.common.mask_actions = true;
    let mut driver = quiet(ppo.clone(), "tictactoe_v3").expect("a driver");
    let played = driver.play(4, 7, true, 0).expect("episodes");
    for (number, episode) in played.episodes.iter().enumerate() {
        let ids: Vec<&str> = episode.agent_rewards.iter().map(|agent| agent.policy.as_str()).collect();
        assert_eq!(ids, if number % 2 == 0 { ["main", "other"] } else { ["other", "main"] });
    }
    let dir = tempfile::tempdir().expect("a directory");
    let checkpoint = driver.save_to(dir.path()).expect("a checkpoint");
    ppo.common.multiagent.rotate_policies = false;
    let mut other = quiet(ppo, "tictactoe_v3").expect("a driver");
    refused(other.restore(&checkpoint), &["`multiagent.rotate_policies` is false, but it was true"]);

    // What one wins the other loses, whoever begins.
    let result = driver.train().expect("a result");
    let of = |id: &str| number(&result, &format!("policy_reward_mean.{id}"));
    assert_eq!(of("main"), -of("other"));

    let unequal = json!({"policies": ["one", "two"], "rotate_policies": true,
                         "agent_groups": {"agent_0": "pair", "agent_1": "pair"},
                         "policy_mapping_fn": {"pair": "one", "agent_2": "two"}});
    refused(
        with(&tiny_ppo(), unequal).and_then(|ppo| quiet(ppo, "simple_spread_v3")),
        &["`multiagent.rotate_policies` is true", "`pair` and `agent_2` have other spaces"],
    );
}

/// Tic-tac-toe against a league; iterations end in the middle of games.
fn settings() -> Ppo {
    let mut ppo = with(
        &tiny_ppo(),
        json!({
            "policies": ["main", "opponent"], "policies_to_train": ["main"], "rotate_policies": true,
            "policy_mapping_fn": {"player_1": "main", "player_2": "opponent"},
        }),
    )
    .expect("settings");
    ppo.common.mask_actions = true;
    ppo
}

fn driver(config: LeagueConfig) -> Driver<Algorithm<Ppo>> {
    let builder = settings().builder("tictactoe_v3").loggers(LoggerChoice::None);
    builder.callbacks(move || League::new(config.clone())).build().expect("a driver")
}

fn of_policy(driver: &Driver<Algorithm<Ppo>>, id: &str) -> pavlov::trainer::state::Weights {
    driver.get_policy(id, |policy| policy.get_weights()).expect("a policy")
}

#[test]
fn snapshots_join_the_league_and_play_as_the_opponent() {
    let config =
        LeagueConfig { self_play: 0.0, snapshot_interval: 2, capacity: 3, ..LeagueConfig::default() };
    let mut driver = driver(config);
    let mut snapshots = vec![of_policy(&driver, "opponent")];
    let mut sizes = Vec::new();
    for iteration in 1..=8 {
        let result = driver.train().expect("a result");
        let members = at(&result, "league.members").as_array().expect("members").clone();
        sizes.push(members.len());
        if iteration % 2 == 0 {
            snapshots.push(of_policy(&driver, "main"));
            assert_eq!(members.last().and_then(|last| last["iteration"].as_u64()), Some(iteration));
        }
        // Whoever plays next is one of them, and no one else.
        let next = of_policy(&driver, "opponent");
        assert!(snapshots.contains(&next), "iteration {iteration}");
        // Points only change hands: new members come with the points of `main`.
        assert!(
            members.iter().all(|member| (0.0..=1.0).contains(&member["win_rate"].as_f64().unwrap_or(2.0)))
        );
        assert!(at(&result, "league.elo").is_number() && at(&result, "league.opponent").is_u64());
    }
    assert_eq!(sizes, [1, 2, 2, 3, 3, 3, 3, 3]);
}

/// A player as the test keeps its books: when it was frozen, its rating, games, and what `main` got of them.
#[derive(Clone, Copy)]
struct Player {
    iteration: u64,
    elo: f64,
    games: f64,
    score: f64,
}

impl Player {
    fn win_rate(&self) -> f64 {
        (self.score + 0.5) / (self.games + 1.0)
    }
}

/// Elo (1978): a rating moves by k times what was won beyond what was expected, 1 / (1 + 10^(difference / 400)), and what one
/// wins the other loses. Of earlier games four fifths count. Who loses most often to `main` leaves a full league.
#[test]
fn ratings_and_win_rates_are_those_of_the_games() {
    let config = LeagueConfig {
        self_play: 0.25,
        snapshot_interval: 3,
        capacity: 3,
        elo_k: 20.0,
        ..LeagueConfig::default()
    };
    let mut driver = driver(config);
    let mut main = 1000.0;
    let mut players = vec![Player { iteration: 0, elo: 1000.0, games: 0.0, score: 0.0 }];
    let mut counted = 0;
    let mut left = 0;
    for iteration in 1..=30 {
        let result = driver.train().expect("a result");
        let ended = number(&result, "episodes_this_iter") as usize;
        let rewards = at(&result, "hist_stats.policy_main_reward").as_array().expect("rewards");
        let rewards: Vec<f64> = rewards.iter().filter_map(Value::as_f64).collect();
        let last = &rewards[rewards.len() - ended..];
        let score: f64 =
            last.iter().map(|&reward| 0.5 + 0.5 * reward.signum() * f64::from(reward != 0.0)).sum();
        let opponent = at(&result, "league.opponent").as_u64();
        if let Some(player) = players.iter_mut().find(|player| Some(player.iteration) == opponent) {
            let expected = 1.0 / (1.0 + 10_f64.powf((player.elo - main) / 400.0));
            let moved = 20.0 * (score / ended as f64 - expected);
            main += moved;
            player.elo -= moved;
            player.games = 0.8 * player.games + ended as f64;
            player.score = 0.8 * player.score + score;
            counted += 1;
        }
        if iteration % 3 == 0 {
            if players.len() == 3 {
                let rates: Vec<f64> = players.iter().map(Player::win_rate).collect();
                let most = rates.iter().copied().fold(0.0, f64::max);
                let weakest: Vec<usize> = (0..3).filter(|&i| rates[i] == most).collect();
                // Of equal ones any may leave, so the result says which.
                let stays = |player: &Player| {
                    let members = at(&result, "league.members").as_array().expect("members");
                    members.iter().any(|member| member["iteration"].as_u64() == Some(player.iteration))
                };
                let leaves =
                    weakest.into_iter().find(|&i| !stays(&players[i])).expect("one of the weakest leaves");
                players.remove(leaves);
                left += 1;
            }
            players.push(Player { iteration, elo: main, games: 0.0, score: 0.0 });
        }
        let near = |a: f64, b: &Value| (a - b.as_f64().expect("a number")).abs() < 1e-9;
        assert!(near(main, at(&result, "league.elo")), "iteration {iteration}");
        let members = at(&result, "league.members").as_array().expect("members");
        assert_eq!(members.len(), players.len());
        for (player, member) in players.iter().zip(members) {
            assert_eq!(Some(player.iteration), member["iteration"].as_u64());
            assert!(near(player.elo, &member["elo"]), "iteration {iteration}: {member}");
            assert!(near(player.win_rate(), &member["win_rate"]), "iteration {iteration}: {member}");
        }
    }
    assert!(counted > 10 && left > 5, "{counted} iterations against members, {left} left");
}

#[test]
fn a_policy_that_plays_against_itself_moves_no_rating() {
    let mut driver = driver(LeagueConfig { self_play: 1.0, ..LeagueConfig::default() });
    driver.train().expect("a result");
    for _ in 0..4 {
        let elo = at(&driver.train().expect("a result"), "league.elo").clone();
        let result = driver.train().expect("a result");
        assert_eq!((at(&result, "league.elo"), at(&result, "league.opponent")), (&elo, &Value::Null));
        assert_eq!(of_policy(&driver, "opponent"), of_policy(&driver, "main"));
    }
    // About half of the iterations, and the others against members.
    let mut driver = self::driver(LeagueConfig { self_play: 0.5, ..LeagueConfig::default() });
    let is_itself = |result: &Metrics| at(result, "league.opponent").is_null();
    let itself = (0..20).filter(|_| is_itself(&driver.train().expect("a result"))).count();
    assert!((4..=16).contains(&itself), "{itself} of 20");
    let mut driver = self::driver(LeagueConfig { self_play: 1.5, ..LeagueConfig::default() });
    refused(driver.train(), &["`LeagueConfig.self_play` is 1.5", "from 0 to 1"]);
}

#[test]
fn a_run_with_a_league_goes_on_bit_for_bit_in_the_middle_of_games() {
    let config = || LeagueConfig { self_play: 0.5, snapshot_interval: 1, ..LeagueConfig::default() };
    let dir = tempfile::tempdir().expect("a directory");
    let mut straight = driver(config());
    (0..3).for_each(|_| drop(straight.train().expect("a result")));
    let checkpoint = straight.save_to(dir.path()).expect("a checkpoint");
    let mut second = driver(config());
    second.restore(&checkpoint).expect("it goes on");
    for _ in 0..4 {
        let results = [straight.train().expect("a result"), second.train().expect("a result")];
        let [a, b] = results.each_ref().map(|result| -> &Value { at(result, "league") });
        assert_eq!(a, b);
        for id in ["main", "opponent"] {
            assert_eq!(of_policy(&straight, id), of_policy(&second, id), "{id}");
        }
    }
}

#[test]
fn a_league_of_policies_that_are_not_there_says_so() {
    let mut driver = driver(LeagueConfig { opponent: "oponent".into(), ..LeagueConfig::default() });
    refused(driver.train(), &["no policy `oponent`; there is main, opponent"]);
}
