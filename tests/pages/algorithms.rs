//! A page for each algorithm, made from its source, from what it can be built with, and from the table of results.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use pavlov::envs::{self, Element, Env, EnvCreator, IntoEnvCreator, Space, Step};
use pavlov::registry::{self, AlgorithmEntry};
use pavlov::tune::{Config, LoggerChoice, RunOptions};
use serde_json::{Value, json};

use super::{defaults, meanings, plain};

/// An environment that has these spaces and does nothing.
struct Probe<O, A> {
    observations: Space,
    actions: Space,
    masks: bool,
    scalars: std::marker::PhantomData<(O, A)>,
}

impl<O: Element, A: Element> Env for Probe<O, A> {
    type Obs = O;
    type Act = A;

    fn observation_space(&self) -> Space {
        self.observations.clone()
    }

    fn action_space(&self) -> Space {
        self.actions.clone()
    }

    fn reset(&mut self, _seed: Option<u64>, obs: &mut [O]) -> envs::Result<()> {
        obs.fill(O::default());
        Ok(())
    }

    fn step(&mut self, _action: &[A], obs: &mut [O]) -> envs::Result<Step> {
        obs.fill(O::default());
        Ok(Step { reward: 0.0, terminated: false, truncated: false })
    }

    fn action_mask(&self, mask: &mut [bool]) -> bool {
        mask.fill(true);
        self.masks
    }

    fn max_episode_steps(&self) -> Option<usize> {
        Some(10)
    }
}

fn probe<O: Element, A: Element>(observations: Space, actions: Space, masks: bool) -> EnvCreator {
    let make = move || Probe::<O, A> {
        observations: observations.clone(),
        actions: actions.clone(),
        masks,
        scalars: std::marker::PhantomData,
    };
    make.into_env_creator()
}

fn reals() -> Space {
    Space::real(&[3])
}

/// What a user asks of an algorithm, and environments with settings of which one at least must be accepted.
fn questions() -> Vec<(&'static str, Vec<(EnvCreator, Value)>)> {
    let discrete = || Space::discrete(3);
    let box_of = || Space::boxed(-1.0, 1.0, &[2]);
    let parts = || Space::dict([("near", reals()), ("far", reals())]);
    let picture = || Space::image(&[42, 42, 1]);
    let with = |observations: Space, actions: Space| {
        let is_picture = matches!(&observations, Space::Box { .. }) && observations.width() > 100;
        match (is_picture, actions == box_of()) {
            (true, true) => probe::<u8, f32>(observations, actions, false),
            (true, false) => probe::<u8, i64>(observations, actions, false),
            (false, true) => probe::<f32, f32>(observations, actions, false),
            (false, false) => probe::<f32, i64>(observations, actions, false),
        }
    };
    let both = |observations: fn() -> Space| {
        [discrete(), box_of()].map(|actions| (with(observations(), actions), json!({}))).to_vec()
    };
    let memory = json!({"model": {"use_gru": true}});
    let team = json!({"multiagent": {"agent_groups": {"*": "team"}}});
    let spread = |config: Value| (EnvCreator::from("simple_spread_v3"), config);
    let continuous = json!({"env_config": {"continuous_actions": true}});
    vec![
        ("actions: `Discrete`", vec![(with(reals(), discrete()), json!({})), spread(team)]),
        ("actions: `MultiDiscrete`", vec![(with(reals(), Space::multi_discrete(&[3, 2])), json!({}))]),
        ("actions: `Box`", vec![(with(reals(), box_of()), json!({}))]),
        (
            "action masks (`mask_actions`)",
            vec![(probe::<f32, i64>(reals(), discrete(), true), json!({"mask_actions": true}))],
        ),
        ("observations of several parts (`Dict`, `Tuple`)", both(parts)),
        ("images (through convolutions)", both(picture)),
        ("memory (`model.use_gru`, `model.use_lstm`)", vec![(with(reals(), discrete()), memory)]),
        ("several agents", vec![spread(json!({})), spread(continuous)]),
    ]
}

/// Whether a run of the algorithm can be made so.
fn can(entry: &AlgorithmEntry, env: &EnvCreator, config: &Value) -> bool {
    let mut config: Config = serde_json::from_value(config.clone()).expect("settings");
    config.insert("num_workers".into(), 0.into());
    config.insert("disable_env_checking".into(), true.into());
    // A small replay buffer, as pictures would take gigabytes.
    if entry.default_config().expect("defaults").contains_key("replay_buffer_config") {
        config.insert("replay_buffer_config".into(), json!({"capacity": 1000, "learning_starts": 500}));
    }
    let folder = tempfile::tempdir().expect("a directory");
    let logdir = Some(folder.path().join("run"));
    let options = RunOptions { logdir, loggers: LoggerChoice::None, ..RunOptions::default() };
    entry.build(env.clone(), config, options).is_ok()
}

/// Lines of the table of results whose preset belongs to this algorithm.
fn results(table: &str, algorithm: &str) -> Vec<String> {
    let of = |line: &&str| {
        let preset = line.strip_prefix("| ").and_then(|line| line.split(' ').next()).unwrap_or_default();
        pavlov::presets::preset(preset).is_ok_and(|preset| preset.algorithm == algorithm)
    };
    table.lines().filter(of).map(str::to_owned).collect()
}

fn page(entry: &AlgorithmEntry, table: &str) -> String {
    let name = entry.name();
    let file = name.to_lowercase();
    let path = format!("algorithms/src/{file}.rs");
    let source = fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).expect("a source");
    let idea: Vec<&str> = source
        .lines()
        .map_while(|line| line.strip_prefix("//!"))
        .map(|line| line.strip_prefix(' ').unwrap_or(line))
        .collect();
    let mut page = format!(
        "# {name}\n\nWhat {name} does, what it can be used with, its own settings, and what it reached. A test writes this page from \
         [its source](../../{path}).\n\n```sh\npavlov train {name} --env {} --preset auto\n```\n\n## The idea\n\n{}\n\n",
        if matches!(name, "QMIX") {
            "simple_spread_v3"
        } else if matches!(name, "TD3" | "DDPG" | "SAC") {
            "Pendulum-v1"
        } else {
            "CartPole-v1"
        },
        plain(idea.join("\n").trim())
    );
    page += "## Can I use it with\n\nA run was made with each; \"no\" is an error that says why.\n\n| | |\n|---|---|\n";
    let mut actions = 0;
    for (question, ways) in questions() {
        let is_so = ways.iter().any(|(env, config)| can(entry, env, config));
        actions += usize::from(is_so && question.starts_with("actions"));
        writeln!(page, "| {question} | {} |", if is_so { "yes" } else { "no" }).expect("written");
    }
    assert!(actions > 0, "{name} takes no actions at all: the runs are refused for another reason");
    page += "\n## Its own settings\n\nBeside those that [all algorithms share](../settings.md):\n\n| setting | default | meaning |\n|---|---|---|\n";
    let meanings = meanings();
    let of_all: BTreeMap<String, Vec<(&str, String)>> = defaults();
    for (key, values) in &of_all {
        let default = values.iter().find(|(algorithm, _)| *algorithm == name);
        let own = meanings.get(key).and_then(|by| by.get(name).or_else(|| by.get("OffPolicy")));
        if let (Some((_, default)), Some(meaning), true) =
            (default, own, values.len() < registry::algorithms().len())
        {
            let anchor = key.replace('.', "");
            let meaning = meaning.replace('|', "\\|");
            writeln!(page, "| [`{key}`](../settings.md#{anchor}) | `{default}` | {meaning} |")
                .expect("written");
        }
    }
    let results = results(table, name);
    page += "\n## Results\n\n";
    if results.is_empty() {
        page += "No preset.\n";
    } else {
        page += "Presets, their marks, and the mean return of greedy episodes of each seed, as `cargo xtask learn` printed them\n\
                 ([tuned settings](../../examples/tuned/README.md)):\n\n| preset | seeds passed | mark | score per seed | steps |\n|---|---|---|---|---|\n";
        page += &(results.join("\n") + "\n");
    }
    page
}

#[test]
fn the_pages_of_algorithms_say_what_the_sources_and_the_results_say() {
    let root = env!("CARGO_MANIFEST_DIR");
    let table = fs::read_to_string(format!("{root}/examples/tuned/README.md")).expect("the table");
    for entry in registry::algorithms() {
        let path = format!("{root}/docs/algorithms/{}.md", entry.name().to_lowercase());
        let wanted = page(&entry, &table);
        if std::env::var_os("PAVLOV_WRITE").is_some() {
            fs::create_dir_all(format!("{root}/docs/algorithms")).expect("a folder");
            fs::write(&path, &wanted).expect("written");
        }
        let found = fs::read_to_string(&path).unwrap_or_default();
        let differs = found.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
        assert!(
            found == wanted,
            "{path} is old, first at {differs:?}: run this test with PAVLOV_WRITE=1, which writes it"
        );
    }
}
