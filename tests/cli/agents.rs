//! Environments with several agents on the command line, with one policy and with several.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::{pavlov, text};

/// Two policies for the three agents of simple spread, and tiny settings.
const SPREAD: &str = r#"
env = "simple_spread_v3"
num_workers = 0
num_envs_per_worker = 2
rollout_fragment_length = 25
train_batch_size = 50
sgd_minibatch_size = 25
num_sgd_iter = 1
seed = 0

[model]
fcnet_hiddens = [8]

[multiagent.policies]
first = { lr = 1e-3 }
others = {}

[multiagent.policy_mapping_fn]
agent_0 = "first"
"agent_*" = "others"
"#;

fn file(folder: &TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("mine.toml");
    fs::write(&path, text).expect("a file");
    path
}

/// Trains two iterations and continues for a third.
#[track_caller]
fn trained(config: &Path, out: &Path) {
    pavlov(&["train", "PPO", "--config", text(config), "--stop", "training_iteration=2", "--out", text(out)])
        .ok();
    pavlov(&["resume", text(out), "--stop", "training_iteration=3"]).ok();
}

#[test]
fn policies_of_a_settings_file_are_trained_resumed_evaluated_and_exported() {
    let folder = tempfile::tempdir().expect("a directory");
    let config = file(&folder, SPREAD);
    let out = folder.path().join("run");
    let shown = pavlov(&["config", "show", "PPO", "--config", text(&config)]).ok().stdout;
    assert!(
        shown.ends_with("\npolicy first acts for agent_0\npolicy others acts for agent_1, agent_2\n"),
        "{shown}"
    );
    assert!(shown.contains("multiagent.policies.first.lr"), "{shown}");
    let frozen = ["config", "show", "PPO", "--config", text(&config), "--json", "--set"];
    let frozen = pavlov(&[&frozen[..], &["multiagent.policies_to_train=[\"first\"]"]].concat()).ok();
    let [frozen] = frozen.lines().try_into().expect("one object");
    assert_eq!(frozen["agents"], json!({"agent_0": "first", "agent_1": "others", "agent_2": "others"}));
    assert_eq!(frozen["policies_that_do_not_learn"], json!(["others"]));

    trained(&config, &out);
    let header = fs::read_to_string(out.join("progress.csv")).expect("a log");
    let header = header.lines().next().expect("a header");
    for column in
        ["policy_reward_mean/first", "policy_reward_max/others", "info/learner/others/learner_stats/kl"]
    {
        assert!(header.contains(column), "no {column} in {header}");
    }
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "3"]).ok().stdout;
    assert!(evaluated.contains("\nagent agent_0 (policy first)  mean -"), "{evaluated}");
    assert!(evaluated.contains("\nagent agent_2 (policy others)  mean -"), "{evaluated}");
    assert!(!evaluated.contains("games"), "{evaluated}");
    let json = pavlov(&["evaluate", text(&out), "--episodes", "3", "--json"]).ok();
    let agents = &json.lines()[0]["agents"];
    assert_eq!(agents[1]["policy"], "others");
    let sum: f64 = (0..3).map(|i| agents[i]["reward_mean"].as_f64().expect("a number")).sum();
    let whole = json.lines()[0]["episode_reward_mean"].as_f64().expect("a number");
    assert!((sum - whole).abs() < 1e-9 * whole.abs(), "{agents}, {whole}");

    let model = folder.path().join("first.pt");
    let unnamed = pavlov(&["export", text(&out), "--out", text(&model)]);
    assert_eq!(unnamed.code, Some(1));
    assert!(unnamed.stderr.contains("several policies (first, others)"), "{}", unnamed.stderr);
    assert!(unnamed.stderr.contains("`--policy ID`"), "{}", unnamed.stderr);
    pavlov(&["export", text(&out), "--out", text(&model), "--policy", "first"]).ok();
    assert!(model.is_file());
}

#[test]
fn a_board_game_is_trained_by_two_policies_and_its_games_are_counted() {
    let folder = tempfile::tempdir().expect("a directory");
    let game = SPREAD
        .replace("simple_spread_v3", "tictactoe_v3\"\nmask_actions = true\nbatch_mode = \"truncate_episodes")
        .replace("agent_0 = ", "player_1 = ")
        .replace("agent_*", "player_*");
    let config = file(&folder, &game);
    let out = folder.path().join("run");
    trained(&config, &out);
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "20", "--explore"]).ok().stdout;
    let games = evaluated.lines().find(|line| line.starts_with("games ")).expect("a line of games");
    let number = |word: &str| -> u32 {
        let words: Vec<&str> = games.split([' ', ',']).filter(|word| !word.is_empty()).collect();
        let at = words.iter().position(|found| *found == word).expect("the word");
        // `player_1 won 3`, `4 drawn`
        let at = if word == "drawn" { at - 1 } else { at + 2 };
        words[at].parse().expect("a number")
    };
    assert_eq!(number("player_1") + number("player_2") + number("drawn"), 20, "{games}");
}

#[test]
fn every_game_and_every_algorithm_for_it_starts_by_its_id() {
    for (algorithm, env) in [("PPO", "connect_four_v3"), ("DQN", "tictactoe_v3"), ("IMPALA", "tictactoe_v3")]
    {
        let folder = tempfile::tempdir().expect("a directory");
        let out = folder.path().join("run");
        let train = [
            "train",
            algorithm,
            "--env",
            env,
            "--num-workers",
            "0",
            "--seed",
            "0",
            "--set",
            "mask_actions=true",
            "--set",
            "train_batch_size=64",
            "--set",
            "rollout_fragment_length=32",
            "--set",
            "model.fcnet_hiddens=[8]",
            "--stop",
            "training_iteration=1",
            "--out",
            text(&out),
        ];
        let small: &[&str] = match algorithm {
            "PPO" => &["--set", "sgd_minibatch_size=32", "--set", "num_sgd_iter=1"],
            "DQN" => &["--set", "replay_buffer_config.learning_starts=64"],
            _ => &["--set", "min_sample_timesteps_per_reporting=64"],
        };
        pavlov(&[&train[..], small].concat()).ok();
    }
}

#[test]
fn what_a_settings_file_says_of_policies_is_refused_with_its_line() {
    let folder = tempfile::tempdir().expect("a directory");
    for (from, to, text_of_error) in [
        ("lr = 1e-3", "lr = -1", "mine.toml, line 15: `multiagent.policies.first.lr` is -1"),
        (
            "\"agent_*\"",
            "\"agnt_*\"",
            "mine.toml, line 20: `multiagent.policy_mapping_fn.agnt_*` is \"others\"",
        ),
        (
            "\"agent_*\" = \"others\"",
            "",
            "`multiagent.policy_mapping_fn` is \"default_policy\" for the agent `agent_1`",
        ),
        (
            "\"agent_*\" = \"others\"",
            "\"*\" = \"first\"",
            "mine.toml, line 16: `multiagent.policies.others` is a policy, but no agent acts by it",
        ),
    ] {
        let config = file(&folder, &SPREAD.replace(from, to));
        let out = folder.path().join("run");
        pavlov(&["train", "PPO", "--config", text(&config), "--out", text(&out)]).refused(text_of_error);
        pavlov(&["config", "show", "PPO", "--config", text(&config)]).refused(text_of_error);
    }
}
