//! `list`, `env`, `doctor` and `completions`.

use std::process::Command;

use super::pavlov;

/// What Bash offers for the last of these words, by the script of `pavlov completions bash`.
fn completed(words: &str) -> String {
    let script = pavlov(&["completions", "bash"]).ok().stdout;
    let words: Vec<&str> = words.split(' ').collect();
    let last = words.len() - 1;
    let ask = format!(
        "{script}\nCOMP_WORDS=({}); COMP_CWORD={last}; _pavlov pavlov '{}' '{}'; echo \"${{COMPREPLY[@]}}\"",
        words.join(" "),
        words[last],
        words[last - 1],
    );
    let bash = Command::new("bash").args(["-c", &ask]).output().expect("Bash");
    String::from_utf8(bash.stdout).expect("text").trim().to_owned()
}

#[test]
fn bash_completes_commands_and_the_names_of_algorithms_environments_and_presets() {
    assert_eq!(completed("pavlov comp"), "completions");
    assert_eq!(completed("pavlov train TD"), "TD3");
    assert_eq!(completed("pavlov train PPO --env CartPole-v"), "CartPole-v0 CartPole-v1");
    assert!(completed("pavlov train PPO --preset ppo-cart").contains("ppo-cartpole"));
    assert_eq!(completed("pavlov env check Taxi"), "Taxi-v4");
}

#[test]
fn the_list_of_environments_tells_spaces_limits_and_thresholds() {
    let [list] = pavlov(&["list", "envs", "--json"]).ok().lines().try_into().expect("one list");
    let row =
        list.as_array().expect("a list").iter().find(|row| row["id"] == "CartPole-v1").expect("CartPole");
    assert_eq!(row["action_space"], "Discrete(2)");
    assert!(row["observation_space"].as_str().expect("a space").starts_with("Box("), "{row}");
    assert_eq!((&row["max_episode_steps"], &row["reward_threshold"]), (&500.into(), &475.0.into()));
    let agents = list.as_array().expect("a list").iter().find(|row| row["id"] == "tictactoe_v3").expect("it");
    assert_eq!(agents["action_space"], "Discrete(9)");
    let table = pavlov(&["list", "envs"]).ok().stdout;
    let python = table.lines().find(|line| line.starts_with("py:ENV_ID ")).expect("the bridge");
    assert!(python.contains("any environment"), "{python}");
    let cheetah = table.lines().find(|line| line.starts_with("HalfCheetah-v5 ")).expect("MuJoCo");
    assert!(cheetah.contains("17 numbers") && cheetah.contains("6 numbers"), "{cheetah}");
    let widest = table.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(100), "{widest:?}");
}

#[test]
fn an_environment_is_checked_by_its_id_and_settings() {
    assert_eq!(pavlov(&["env", "check", "CartPole-v1"]).ok().stdout, "CartPole-v1 keeps the contract\n");
    let [checked] = pavlov(&["env", "check", "Pendulum-v1", "--set", "g=9.81", "--json"])
        .ok()
        .lines()
        .try_into()
        .expect("one object");
    assert_eq!(checked, serde_json::json!({"env": "Pendulum-v1", "ok": true}));
    assert_eq!(pavlov(&["env", "check", "tictactoe_v3"]).ok().stdout, "tictactoe_v3 keeps the contract\n");
    pavlov(&["env", "check", "CartPol-v1"]).refused("nearest: CartPole-v1");
    pavlov(&["env", "check", "ALE/Pong-v5"]).refused("those in Python begin with `py:`");
    pavlov(&["env", "check", "Pendulum-v1", "--set", "gravity=9"]).refused("no setting `gravity`; it has g");
}

#[test]
fn the_bench_of_an_environment_counts_steps_and_episodes() {
    let bench = ["env", "bench", "CartPole-v1", "--num-envs", "4", "--seconds", "0.01"];
    let [object] = pavlov(&[&bench[..], &["--json"]].concat()).ok().lines().try_into().expect("one object");
    let number = |key: &str| object[key].as_f64().expect(key);
    assert!(number("steps") % 4.0 == 0.0 && number("steps") > number("episodes"), "{object}");
    assert!(number("episodes") > 0.0 && number("seconds") >= 0.01, "{object}");
    assert_eq!(number("steps_per_second"), number("steps") / number("seconds"));
    assert!(pavlov(&bench).ok().stdout.starts_with("CartPole-v1, 4 copies: "));
    pavlov(&["env", "bench", "CartPole-v1", "--seconds", "0"])
        .refused("--seconds is 0, but it must be above 0");
}

#[test]
fn lists_hold_what_can_be_trained() {
    for (what, key, name) in
        [("algorithms", "name", "PPO"), ("envs", "id", "CartPole-v1"), ("presets", "name", "ppo-cartpole")]
    {
        let table = pavlov(&["list", what]).ok().stdout;
        assert!(table.lines().any(|line| line.starts_with(&format!("{name} "))), "{table}");
        let [list] = pavlov(&["list", what, "--json"]).ok().lines().try_into().expect("one list");
        assert!(list.as_array().expect("a list").iter().any(|row| row[key] == name), "{list}");
    }
}

#[test]
fn presets_are_listed_by_algorithm() {
    let table = pavlov(&["list", "presets", "ppo"]).ok().stdout;
    assert!(table.contains("ppo-cartpole ") && !table.contains("dqn-cartpole "), "{table}");
    pavlov(&["list", "presets", "PPOO"]).refused("no algorithm \"PPOO\"; nearest: PPO");
    pavlov(&["list", "envs", "PPO"]).refused("`PPO` selects presets: `pavlov list presets PPO`");
}

#[test]
fn a_setting_is_explained_and_an_unknown_one_answered_with_few_names() {
    let said = pavlov(&["config", "explain", "PPO", "lr"]).ok().stdout;
    assert!(
        said.starts_with("lr: Step size of Adam") && said.contains("elsewhere:   learning_rate"),
        "{said}"
    );
    let all = pavlov(&["config", "explain", "SAC"]).ok().stdout;
    assert!(all.lines().any(|line| line.starts_with("optimization.actor_learning_rate ")), "{all}");
    pavlov(&["config", "explain", "PPO", "gama"]).refused("PPO has no setting `gama`; nearest: gamma");
    let train = ["train", "PPO", "--env", "CartPole-v1", "--set", "learner_rate=1e-3"];
    pavlov(&train).refused("`learning_rate` may be meant, and its name here is `lr`");
    let train = ["train", "PPO", "--env", "CartPole-v1", "--set", "banana=1"];
    pavlov(&train).refused("no name there is like it; `pavlov config explain ALGORITHM` describes all");
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("mine.toml");
    std::fs::write(&file, "algorithm = \"PPO\"\nenv = \"CartPole-v1\"\n[confg]\nlr = 1e-3\n")
        .expect("written");
    let path = file.to_str().expect("text");
    pavlov(&["train", "PPO", "--config", path]).refused("unknown field `confg`, expected one of");
}

#[test]
fn doctor_names_the_libtorch_that_is_loaded() {
    let [lines] = pavlov(&["doctor", "--json"]).ok().lines().try_into().expect("one list");
    let line = |what: &str| {
        let found = lines.as_array().expect("a list").iter().find(|line| line["what"] == what);
        found.unwrap_or_else(|| panic!("no {what}")).clone()
    };
    assert!(line("libtorch")["found"].as_str().expect("text").contains("libtorch_cpu.so"));
    assert_eq!(line("gradients")["status"], "ok");
    for what in ["Rust", "C++ compiler", "PyTorch", "CUDA", "cores", "threads"] {
        assert!(line(what)["found"].is_string());
    }
    assert!(pavlov(&["doctor"]).ok().stdout.contains("libtorch_cpu.so"));
}
