//! Policies exported as one C file: what the compiled function does is what the policy does.

use std::fmt::Write as _;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use pavlov::envs::{DType, IntoEnvCreator, NpRandom, Space};
use pavlov::prelude::*;
use pavlov::trainer::Session;
use pavlov::trainer::settings::ObservationFilter;

use crate::support::{assert_close, quiet, refused, tiny_ddpg, tiny_dqn, tiny_ppo, tiny_sac, tiny_td3};

/// Number of observations, which a recurrent policy remembers.
const STEPS: usize = 200;

/// Reads observations and flags of legal actions, and prints actions.
fn caller(space: &Space, masks: usize, remembers: bool) -> String {
    let element = match space.dtype() {
        DType::I64 => "int",
        _ => "float",
    };
    let state = if remembers { "&state, " } else { "" };
    let mask = if masks > 0 { "mask, " } else { "" };
    let mut text = String::from("#include <stdio.h>\n#include \"policy.c\"\nint main(void)\n{\n");
    if remembers {
        text.push_str("    policy_state state;\n");
    }
    let _ = write!(
        text,
        "    {element} obs[POLICY_OBS];\n    double x;\n    int i, n;\n    ACTION action[POLICY_ACTIONS];\n"
    );
    if masks > 0 {
        let _ = writeln!(text, "    unsigned char mask[{masks}];");
    }
    if remembers {
        text.push_str("    policy_reset(&state);\n");
    }
    let _ = write!(
        text,
        "    for (n = 0; n < {STEPS}; n++) {{\n\
         \x20       for (i = 0; i < POLICY_OBS; i++) {{ if (scanf(\"%lf\", &x) != 1) return 1; obs[i] = ({element})x; }}\n"
    );
    if masks > 0 {
        let _ = writeln!(
            text,
            "        for (i = 0; i < {masks}; i++) {{ if (scanf(\"%lf\", &x) != 1) return 1; mask[i] = (unsigned char)x; }}"
        );
    }
    let _ = write!(
        text,
        "        policy_act({state}obs, {mask}action);\n\
         \x20       for (i = 0; i < POLICY_ACTIONS; i++) printf(\"%.9g \", (double)action[i]);\n    }}\n    return 0;\n}}\n"
    );
    text
}

/// Compiles the exported file with all warnings as errors.
fn compiled(home: &Path, caller: &str, is_discrete: bool) -> PathBuf {
    fs::write(home.join("main.c"), caller).expect("a file");
    let program = home.join("policy");
    let action = format!("-DACTION={}", if is_discrete { "int" } else { "float" });
    let flags = ["-std=c99", "-O2", "-Wall", "-Wextra", "-Werror", "-pedantic", &action, "-o"];
    let output = Command::new("cc").args(flags).arg(&program).arg(home.join("main.c")).output().expect("cc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    program
}

/// Draws observations and masks, and lets the session act on them: the program's input, and the actions.
fn acted(session: &mut Session) -> (String, Vec<f64>) {
    let space = session.observation_space().clone();
    let mut random = NpRandom::new(3);
    let mut input = String::new();
    let mut wanted = Vec::new();
    for _ in 0..STEPS {
        let mut row = vec![0.0; space.width()];
        let action = match space.dtype() {
            DType::I64 => {
                let mut obs = vec![0_i64; space.width()];
                space.sample(&mut random, &mut obs);
                row = obs.iter().map(|&x| x as f64).collect();
                mask(session, &mut random, &mut row);
                session.act(&obs)
            }
            _ => {
                let mut obs = vec![0_f32; space.width()];
                space.sample(&mut random, &mut obs);
                obs.iter().zip(&mut row).for_each(|(&x, to)| *to = f64::from(x));
                mask(session, &mut random, &mut row);
                session.act(&obs)
            }
        };
        input.extend(row.iter().map(|x| format!("{x} ")));
        match action.expect("an action") {
            Action::Int(choices) => wanted.extend(choices.iter().map(|&choice| choice as f64)),
            Action::Float(numbers) => wanted.extend(numbers.iter().map(|&x| f64::from(x))),
        }
    }
    (input, wanted)
}

/// Draws flags of legal actions and puts them behind the observation.
fn mask(session: &mut Session, random: &mut NpRandom, row: &mut Vec<f64>) {
    if let Some(mask) = session.mask_mut() {
        mask.fill_with(|| random.random() < 0.5);
        mask[0] = true;
        row.extend(mask.iter().map(|&legal| f64::from(u8::from(legal))));
    }
}

/// Trains, exports, compiles, and compares 200 actions.
#[track_caller]
fn acts_alike<T: Trainer>(settings: T, env: impl IntoEnvCreator, remembers: bool) {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(settings, env).expect("a trainer");
    (0..2).for_each(|_| drop(trainer.train().expect("a result")));
    let mut session = trainer.session(1).expect("a session");
    session.export(&home.path().join("policy.c")).expect("an export");
    let masks = session.mask_mut().map_or(0, |mask| mask.len());
    let caller = caller(&session.observation_space().clone(), masks, remembers);
    let (input, wanted) = acted(&mut session);
    let is_discrete = wanted.iter().all(|x| x.fract() == 0.0);
    let program = compiled(home.path(), &caller, is_discrete);
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("observations");
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success());
    let found = String::from_utf8(output.stdout).expect("text");
    let found: Vec<f64> = found.split_whitespace().map(|x| x.parse().expect("a number")).collect();
    if is_discrete {
        assert_eq!(found, wanted);
    } else {
        assert_close(&found, &wanted, 2e-6);
    }
}

#[test]
fn fully_connected_policies() {
    acts_alike(tiny_ppo(), "CartPole-v1", false);
    let mut filtered = tiny_ppo();
    filtered.common.observation_filter = ObservationFilter::MeanStdFilter;
    acts_alike(filtered, "Pendulum-v1", false);
    acts_alike(tiny_dqn(), "CartPole-v1", false);
    acts_alike(tiny_sac(), "Pendulum-v1", false);
    acts_alike(tiny_td3(), "Pendulum-v1", false);
    acts_alike(tiny_ddpg(), "Pendulum-v1", false);
}

#[test]
fn masks_integers_and_composite_observations() {
    let mut masked = tiny_ppo();
    masked.common.mask_actions = true;
    acts_alike(masked, "Taxi-v4", false);
    acts_alike(tiny_ppo(), "Blackjack-v1", false);
}

#[test]
fn recurrent_policies() {
    let mut lstm = tiny_ppo();
    lstm.common.model.use_lstm = true;
    acts_alike(lstm, "CartPole-v1", true);
    let mut gru = tiny_ppo();
    gru.common.model.use_gru = true;
    acts_alike(gru, "Pendulum-v1", true);
}

#[test]
fn convolutions_are_refused_by_name_and_leave_no_file() {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(tiny_ppo(), crate::images::Catch::new).expect("a trainer");
    let mut session = trainer.session(1).expect("a session");
    refused(session.export(&home.path().join("policy.c")), &["convolutions", "ONNX"]);
    assert_eq!(fs::read_dir(home.path()).expect("the directory").count(), 0);
}
