//! Runs that are trained, evaluated and exported, and what they print.

use std::path::Path;

use serde_json::Value;

use super::{checkpoints, command, iterations, logged, pavlov, run, scratch, text, train};

#[test]
fn workers_are_processes_where_a_flag_says_so_and_threads_again_after_a_resume() {
    let (_dir, out) = scratch();
    let workers = ["--set", "recreate_failed_workers=true", "--json", "--stop", "training_iteration=2"];
    let mut begun = command(["train", "PPO", "--env", "CartPole-v1", "--workers", "procs:2"]);
    begun.args(["--set", "train_batch_size=64", "--set", "sgd_minibatch_size=32"]).args(workers);
    let ran = run(begun.arg("--out").arg(&out)).ok();
    let results = ran.lines();
    assert_eq!(iterations(&results), [1, 2], "workers print nothing");
    for result in &results {
        assert_eq!(
            (&result["config"]["workers"], &result["config"]["num_workers"]),
            (&"procs".into(), &2.into())
        );
        assert_eq!(result["num_healthy_workers"], 2);
    }
    let resumed =
        pavlov(&["resume", text(&out), "--workers", "threads", "--json", "--stop", "training_iteration=3"]);
    assert_eq!(resumed.ok().lines()[0]["config"]["workers"], "threads");
    pavlov(&["resume", text(&out), "--workers", "threads:3"])
        .refused("[possible values: threads, procs, ray]");
}

#[test]
fn a_command_that_a_run_proposes_can_be_pasted_where_its_path_has_a_space() {
    let (dir, _) = scratch();
    let out = dir.path().join("mes projets").join("l'essai");
    let said = run(&mut train(&out, &["--stop", "training_iteration=1"])).ok().stderr;
    let (_, proposed) = said.split_once("train longer:").expect("a proposal");
    let proposed = proposed.lines().next().expect("a line").trim();
    let proposed = proposed.replacen("pavlov", env!("CARGO_BIN_EXE_pavlov"), 1).replace("VALUE", "2");
    let pasted = run(std::process::Command::new("sh").args(["-c", &proposed]));
    assert!(pasted.ok().stderr.contains("training_iteration is 2"));
    let refused = run(&mut train(&out, &[])).stderr;
    assert!(refused.contains(r"/mes projets/l'\''essai'`, or give"), "{refused}");
}

#[test]
fn json_prints_one_object_per_result_and_nothing_else_and_the_run_is_evaluated_and_extended() {
    let (dir, out) = scratch();
    let stop = ["--json", "--stop", "training_iteration=3", "--checkpoint-freq", "2"];
    let ran = run(&mut train(&out, &stop)).ok();
    assert_eq!(iterations(&ran.lines()), [1, 2, 3]);
    assert_eq!(ran.lines()[2]["timesteps_total"], 192);
    assert_eq!(checkpoints(&out), ["checkpoint_000002", "checkpoint_000003"]);
    for hint in ["done: training_iteration is 3", "pavlov evaluate", "pavlov resume"] {
        assert!(ran.stderr.contains(hint), "no {hint:?} in: {}", ran.stderr);
    }

    let gif = dir.path().join("pole.gif");
    let args = ["evaluate", text(&out), "--episodes", "3", "--seed", "5", "--json", "--render", text(&gif)];
    let evaluated = pavlov(&args).ok();
    let [object] = evaluated.lines().try_into().expect("one object");
    assert_eq!((object["episodes"].as_u64(), object["seed"].as_u64()), (Some(3), Some(5)));
    assert_eq!(object["training_iteration"], 3);
    let returns: Vec<f64> =
        object["episode_rewards"].as_array().expect("a list").iter().filter_map(Value::as_f64).collect();
    assert_eq!(returns.len(), 3);
    // A step of CartPole gives 1: the length of an episode is its return.
    assert_eq!(object["episode_reward_mean"], returns.iter().sum::<f64>() / 3.0);
    assert_eq!(object["episode_len_mean"], object["episode_reward_mean"]);
    assert_eq!(pavlov(&args).ok().stdout, evaluated.stdout, "the same seed plays the same episodes");

    let file = std::fs::File::open(&gif).expect("the GIF");
    let mut decoder = gif::DecodeOptions::new().read_info(file).expect("a GIF");
    assert_eq!((decoder.width(), decoder.height()), (600, 400));
    let mut frames = 0;
    while decoder.next_frame_info().expect("a frame").is_some() {
        frames += 1;
    }
    assert_eq!(frames, returns[0] as u64, "one picture per step of the first episode");

    let short = [&args[..], &["--max-frames", "2"]].concat();
    let said = pavlov(&short).ok().stderr;
    assert!(said.contains("holds the first 2 of the ") && said.contains("--max-frames"), "{said}");

    let met = pavlov(&["resume", text(&out)]).ok();
    assert!(met.stderr.contains("nothing to do: training_iteration is 3"), "{}", met.stderr);
    let more = pavlov(&["resume", text(&out), "--stop", "training_iteration=5", "--json"]).ok();
    assert_eq!(iterations(&more.lines()), [4, 5]);
    assert_eq!(iterations(&logged(&out)), [1, 2, 3, 4, 5]);

    run(&mut train(&out, &stop)).refused("holds a run already; continue it with `pavlov resume");
}

#[test]
fn wrappers_are_set_on_the_command_line_and_in_a_file_and_evaluation_uses_them() {
    let (dir, out) = scratch();
    let file = dir.path().join("wrappers.toml");
    std::fs::write(&file, "wrappers = [\"TimeLimit(5)\", { name = \"FrameStack\", stack_size = 2 }]\n")
        .unwrap();
    run(&mut train(&out, &["--config", text(&file), "--stop", "training_iteration=1"])).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["episode_len_mean"], 5.0);
    let more = pavlov(&["resume", text(&out), "--stop", "training_iteration=2", "--json"]).ok();
    assert_eq!(more.lines()[0]["config"]["wrappers"], serde_json::json!(["TimeLimit(5)", "FrameStack(2)"]));
    let args = ["config", "show", "PPO", "--env", "CartPole-v1", "--set", "wrappers=[\"FrameStak(4)\"]"];
    pavlov(&args).refused("no wrapper \"FrameStak\"; nearest: FrameStack");
}

#[test]
fn workers_in_python_show_a_warning_once_and_a_rendering_keeps_the_environments_rate() {
    let Some(python) = std::env::var_os("PAVLOV_TEST_PYTHON") else {
        return eprintln!("skipped: PAVLOV_TEST_PYTHON names no Python with gymnasium");
    };
    let (dir, out) = scratch();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/envs");
    let mut train = command(["train", "PPO", "--env", "py:tests.py.envs:Careful-v0", "--num-workers", "2"]);
    train.args(["--set", "train_batch_size=64", "--set", "sgd_minibatch_size=32", "--set", "num_sgd_iter=1"]);
    train.args(["--stop", "training_iteration=1", "--quiet", "--out", text(&out)]);
    let ran = run(train.env("PAVLOV_PYTHON", &python).current_dir(folder)).ok();
    assert_eq!(ran.stderr.matches("UserWarning: the tests are careful").count(), 1, "{}", ran.stderr);

    let gif = dir.path().join("careful.gif");
    let mut evaluate =
        command(["evaluate", text(&out), "--episodes", "1", "--trust", "--render", text(&gif)]);
    run(evaluate.env("PAVLOV_PYTHON", &python).current_dir(folder)).ok();
    let mut pictures =
        gif::DecodeOptions::new().read_info(std::fs::File::open(gif).expect("a file")).expect("a GIF");
    let first = pictures.read_next_frame().expect("a picture").expect("a picture");
    // 12 pictures per second.
    assert_eq!(first.delay, 8);
}

#[test]
fn a_run_is_exported_to_a_file_that_acts_and_other_places_are_refused() {
    let (dir, out) = scratch();
    let filter = ["--set", "observation_filter=MeanStdFilter", "--stop", "training_iteration=2"];
    run(&mut train(&out, &filter)).ok();
    let file = dir.path().join("pole.pt");
    let ran = pavlov(&["export", text(&out), "--out", text(&file)]).ok();
    assert!(ran.stdout.contains("pole.pt: the policy of ") && ran.stdout.contains("observations of Box("));
    let module = pavlov::torch::CModule::load(&file).expect("a module");
    let logits = module.forward_ts(&[pavlov::torch::Tensor::from_slice(&[0.1_f32; 8]).view([2, 4])]);
    assert_eq!(logits.expect("logits").size(), [2, 2]);
    let onnx = dir.path().join("pole.onnx");
    // Nothing is written through links that wait beside it.
    let mine = dir.path().join("mine");
    std::fs::write(&mine, "mine").expect("a file");
    for link in ["pole.onnx.unfinished", ".pole.onnx.tmp", "pole.onnx.json"] {
        std::os::unix::fs::symlink(&mine, dir.path().join(link)).expect("a link");
    }
    let ran = pavlov(&["export", text(&out), "--out", text(&onnx), "--sample"]).ok();
    assert!(ran.stdout.contains("written down in "), "{}", ran.stdout);
    let description = std::fs::symlink_metadata(dir.path().join("pole.onnx.json")).expect("a description");
    assert!(onnx.exists() && description.is_file());
    assert_eq!(std::fs::read_to_string(&mine).expect("the file"), "mine");
    let other = dir.path().join("pole.x");
    pavlov(&["export", text(&out), "--out", text(&other)])
        .refused("`.onnx` is ONNX, `.c` is C, `.rs` is Rust, `.pt` (or `.pth`, `.ts`) is TorchScript");
    let place = dir.path().join("none").join("pole.pt");
    pavlov(&["export", text(&out), "--out", text(&place)]).refused("there is no directory");
    pavlov(&["export", text(dir.path()), "--out", text(&file)]).refused("no whole checkpoint");
}

#[test]
fn a_run_that_was_evaluated_beside_training_is_evaluated_too() {
    let (_dir, out) = scratch();
    let beside =
        ["evaluation_parallel_to_training=true", "evaluation_num_workers=1", "evaluation_duration=auto"];
    let sets = beside.iter().flat_map(|set| ["--set", set]);
    let more: Vec<&str> = ["--stop", "training_iteration=1"].into_iter().chain(sets).collect();
    run(&mut train(&out, &more)).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["episodes"], 2);
}

#[test]
fn an_environment_with_several_agents_is_trained_resumed_and_evaluated_by_its_id() {
    let (_dir, out) = scratch();
    let sets = ["env_config.N=2", "num_workers=0", "train_batch_size=50", "sgd_minibatch_size=50"];
    let mut first = command(["train", "PPO", "--env", "simple_spread_v3", "--stop", "training_iteration=1"]);
    first.args(sets.iter().flat_map(|set| ["--set", set])).args(["--json", "--out"]).arg(&out);
    assert_eq!(run(&mut first).ok().lines()[0]["num_agent_steps_sampled"], 100);
    pavlov(&["resume", text(&out), "--stop", "training_iteration=2"]).ok();
    let evaluated = pavlov(&["evaluate", text(&out), "--episodes", "2", "--json"]).ok();
    assert_eq!(evaluated.lines()[0]["training_iteration"], 2);
    assert_eq!(evaluated.lines()[0]["episode_len_mean"], 25.0);
}

#[test]
fn a_misspelt_stop_criterion_is_refused_with_the_nearest_and_leaves_no_run_behind() {
    let (_dir, out) = scratch();
    run(&mut train(&out, &["--stop", "timestep_total=100"]))
        .refused("no `timestep_total`, the stop criterion; nearest: `timesteps_total`");
    assert!(!out.exists());
    run(&mut train(&out, &["--stop", "evaluation.episode_reward_mean=1"]))
        .refused("needs evaluations; ask for them with --set evaluation_interval=N");
    run(&mut train(&out, &["--stop", "training_iteration=many"])).refused("it must be a number");
}

#[test]
fn a_nested_stop_criterion_may_be_written_with_dots_or_slashes() {
    for key in ["info.num_env_steps_trained", "info/num_env_steps_trained"] {
        let (_dir, out) = scratch();
        let ran = run(&mut train(&out, &["--json", "--stop", &format!("{key}=128")])).ok();
        assert_eq!(iterations(&ran.lines()), [1, 2]);
    }
}

#[test]
fn progress_goes_to_standard_error_and_quiet_is_silent() {
    let (_dir, out) = scratch();
    let ran = run(&mut train(&out, &["--stop", "training_iteration=2"])).ok();
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("iteration 2, 128 steps, "), "{}", ran.stderr);
    let (_dir, out) = scratch();
    let ran = run(&mut train(&out, &["--stop", "training_iteration=2", "--quiet"])).ok();
    assert_eq!((ran.stdout.as_str(), ran.stderr.as_str()), ("", ""));
}

#[test]
fn profile_ends_with_a_table_of_phases_and_a_verdict_that_names_the_longest() {
    let (_dir, out) = scratch();
    // A heavy learner: 1,000 passes over each batch.
    let heavy = ["--set", "num_sgd_iter=1000", "--stop", "training_iteration=2"];
    let more = [heavy.as_slice(), &["--profile", "--quiet", "--json"]].concat();
    let ran = run(&mut train(&out, &more)).ok();
    assert_eq!(iterations(&ran.lines()), [1, 2], "standard output holds results only");
    let lines: Vec<&str> = ran.stderr.lines().collect();
    let phases = ["env", "act", "postprocess", "wait", "learn", "sync", "evaluate", "log", "other", "total"];
    assert_eq!(lines.len(), 1 + phases.len() + 1, "{}", ran.stderr);
    let mut seconds = 0.0;
    let mut shares = 0.0;
    for (line, phase) in lines[1..].iter().zip(phases) {
        let [name, time, share, "%"] = line.split_whitespace().collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        assert_eq!(name, phase);
        let time: f64 = time.parse().expect(line);
        let share: f64 = share.parse().expect(line);
        match phase {
            // Nine parts, each rounded to half of the last digit.
            "total" => {
                assert!((seconds - time).abs() < 1e-5 && (shares - share).abs() < 1.0, "{}", ran.stderr)
            }
            _ => {
                seconds += time;
                shares += share;
            }
        }
    }
    assert!(lines[lines.len() - 1].starts_with("learner-bound, "), "{}", ran.stderr);
}

#[test]
fn a_run_is_verified_and_a_changed_weight_reward_or_setting_is_found_in_the_interval_where_it_is() {
    let (_dir, out) = scratch();
    let every = ["--checkpoint-freq", "2", "--stop", "training_iteration=6"];
    run(&mut train(&out, &every)).ok();
    let all = ["verify", text(&out), "--intervals", "9"];
    let lines = |ran: &str| ran.lines().map(str::to_owned).collect::<Vec<_>>();
    let equal = [
        "from the beginning to checkpoint_000002: equal",
        "from checkpoint_000002 to checkpoint_000004: equal",
        "from checkpoint_000004 to checkpoint_000006: equal",
    ];
    assert_eq!(lines(&pavlov(&all).ok().stdout), equal);
    assert_eq!(lines(&pavlov(&["verify", text(&out), "--intervals", "0"]).ok().stdout), equal[2..]);

    let changed = |file: &str, change: &dyn Fn(Vec<u8>) -> Vec<u8>| {
        let (home, again) = scratch();
        std::fs::create_dir_all(&again).expect("a directory");
        std::fs::copy(out.join("run.json"), again.join("run.json")).expect("run.json");
        for name in checkpoints(&out) {
            // Manifests are made anew: a file that does not fit its checksum is refused before it is compared.
            let write = |to: &Path| {
                for entry in std::fs::read_dir(out.join(&name)).expect("a checkpoint") {
                    let path = entry.expect("an entry").path();
                    let of = path.file_name().and_then(|name| name.to_str()).expect("a name");
                    let mut bytes = std::fs::read(&path).expect("a file");
                    if name == "checkpoint_000004" && of == file {
                        bytes = change(bytes);
                    }
                    if of != "manifest.json" {
                        std::fs::write(to.join(of), bytes).expect("a copy");
                    }
                }
                Ok(())
            };
            pavlov::tune::checkpoint::write(&again.join(&name), "PPO", write).expect("a checkpoint");
        }
        (home, again)
    };
    let text_of = |bytes: Vec<u8>| String::from_utf8(bytes).expect("JSON");
    let flip = |mut bytes: Vec<u8>| {
        *bytes.last_mut().expect("a byte") ^= 1;
        bytes
    };
    let reward =
        |bytes: Vec<u8>| text_of(bytes).replacen("\"total_reward\": ", "\"total_reward\": 1", 1).into_bytes();
    let setting =
        |bytes: Vec<u8>| text_of(bytes).replacen("\"gamma\": 0.99", "\"gamma\": 0.98", 1).into_bytes();
    type Change<'a> = &'a dyn Fn(Vec<u8>) -> Vec<u8>;
    let cases: [(&str, Change<'_>, &str); 3] = [
        ("policies.safetensors", &flip, "policies.safetensors differs: the array "),
        ("results.json", &reward, "results.json differs: "),
        ("settings.json", &setting, "settings.json differs: config.gamma is 0.98, trained again 0.99"),
    ];
    for (file, change, difference) in cases {
        let (_home, again) = changed(file, change);
        let ran = pavlov(&["verify", text(&again), "--intervals", "9"]);
        assert_eq!(ran.code, Some(1), "{file}: {}", ran.stderr);
        let found = lines(&ran.stdout);
        assert_eq!(found[0], equal[0], "{file}");
        let wanted = format!("from checkpoint_000002 to checkpoint_000004: {difference}");
        assert!(found[1].starts_with(&wanted), "{file}: {}", found[1]);
        assert!(
            ran.stderr.contains("differs is from checkpoint_000002 to checkpoint_000004"),
            "{}",
            ran.stderr
        );
    }
    flip_in_place(&out.join("checkpoint_000004/policies.safetensors"));
    pavlov(&all).refused("policies.safetensors is damaged");
}

/// Flips the last bit of a file.
fn flip_in_place(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    *bytes.last_mut().expect("a byte") ^= 1;
    std::fs::write(path, bytes).expect("a changed file");
}
