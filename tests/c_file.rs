//! Policies exported as one C or Rust file: what the compiled function does is what the policy does.

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
        DType::U8 => "unsigned char",
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
            DType::U8 => {
                let mut obs = vec![0_u8; space.width()];
                space.sample(&mut random, &mut obs);
                row = obs.iter().map(|&x| f64::from(x)).collect();
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
            other => panic!("{other:?} is another kind of action"),
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

/// The Rust program that does the same.
fn rust_caller(session: &mut Session, remembers: bool) -> String {
    let space = session.observation_space().clone();
    let element = match space.dtype() {
        DType::I64 => "i64",
        DType::U8 => "u8",
        _ => "f32",
    };
    let masks = session.mask_mut().map_or(0, |mask| mask.len());
    let state = if remembers { "&mut state, " } else { "" };
    let mask = if masks > 0 { ", &mask" } else { "" };
    let make = if remembers { "let mut state = policy::State::new();" } else { "" };
    let width = space.width();
    format!(
        "#[path = \"policy.rs\"]\n#[allow(unused_attributes)]\nmod policy;\n\
         use std::io::Read;\n\
         trait Shown {{ fn show(self); }}\n\
         impl Shown for i32 {{ fn show(self) {{ print!(\"{{self}} \"); }} }}\n\
         impl Shown for f32 {{ fn show(self) {{ print!(\"{{self}} \"); }} }}\n\
         impl<T: Shown, const N: usize> Shown for [T; N] {{ fn show(self) {{ self.into_iter().for_each(T::show); }} }}\n\
         fn main() {{\n    let mut text = String::new();\n    std::io::stdin().read_to_string(&mut text).unwrap();\n    \
         let mut numbers = text.split_whitespace().map(|x| x.parse::<f64>().unwrap());\n    {make}\n    \
         for _ in 0..{STEPS} {{\n        let obs: [{element}; {width}] = std::array::from_fn(|_| numbers.next().unwrap() as {element});\n        \
         let mask: [bool; {masks}] = std::array::from_fn(|_| numbers.next().unwrap() != 0.0);\n        let _ = &mask;\n        \
         policy::act({state}&obs{mask}).show();\n    }}\n}}\n"
    )
}

/// Compiles the exported file with all warnings as errors: alone as a library, then in a program.
fn compiled_rust(home: &Path, caller: &str) -> PathBuf {
    fs::write(home.join("main.rs"), caller).expect("a file");
    let program = home.join("rust");
    let compile = |file: &str, more: &[&str], out: &Path| {
        let mut rustc = Command::new(std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
        rustc.args(["--edition", "2021", "-O", "-D", "warnings"]).args(more).arg("-o").arg(out);
        let output = rustc.arg(home.join(file)).output().expect("rustc");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    compile("policy.rs", &["--crate-type", "lib", "--emit", "metadata"], &home.join("policy.rmeta"));
    compile("main.rs", &["-A", "unused_attributes"], &program);
    program
}

/// The actions of a program for observations.
fn run(program: &Path, input: &str) -> Vec<f64> {
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program");
    child.stdin.take().expect("its input").write_all(input.as_bytes()).expect("observations");
    let output = child.wait_with_output().expect("its output");
    assert!(output.status.success());
    let found = String::from_utf8(output.stdout).expect("text");
    found.split_whitespace().map(|x| x.parse().expect("a number")).collect()
}

/// Trains, exports, compiles, and compares 200 actions.
#[track_caller]
fn acts_alike<T: Trainer>(settings: T, env: impl IntoEnvCreator, remembers: bool) {
    let home = tempfile::tempdir().expect("a directory");
    let mut trainer = quiet(settings, env).expect("a trainer");
    (0..2).for_each(|_| drop(trainer.train().expect("a result")));
    let mut session = trainer.session(1).expect("a session");
    session.export(&home.path().join("policy.c")).expect("an export");
    session.export(&home.path().join("policy.rs")).expect("an export");
    let masks = session.mask_mut().map_or(0, |mask| mask.len());
    let caller = caller(&session.observation_space().clone(), masks, remembers);
    let rust_caller = rust_caller(&mut session, remembers);
    let (input, wanted) = acted(&mut session);
    let is_discrete = wanted.iter().all(|x| x.fract() == 0.0);
    let programs = [compiled(home.path(), &caller, is_discrete), compiled_rust(home.path(), &rust_caller)];
    for program in programs {
        let found = run(&program, &input);
        if is_discrete {
            assert_eq!(found, wanted);
        } else {
            assert_close(&found, &wanted, 2e-6);
        }
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
fn convolutions() {
    use crate::images::{Catch, Shows, camera, two};
    acts_alike(tiny_ppo(), Catch::new, false);
    acts_alike(tiny_ppo(), Shows::<u8, f32>::of(Space::image(&[4, 4, 16]), two()), false);
    acts_alike(tiny_sac(), Shows::<u8, f32>::of(Space::image(&[8, 9, 3]), two()), false);
    acts_alike(tiny_td3(), Shows::<f32, f32>::of(camera(&[20, 20, 3]), two()), false);
}

#[test]
fn weights_of_8_bits_act_nearly_as_the_policy_and_say_how_nearly() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("policy.c");
    let mut ppo = tiny_ppo();
    ppo.common.train_batch_size = 1024;
    ppo.common.model.fcnet_hiddens = vec![64, 64];
    let mut trainer = quiet(ppo, "CartPole-v1").expect("a trainer");
    (0..10).for_each(|_| drop(trainer.train().expect("a result")));
    let mut session = trainer.session(1).expect("a session");
    session.export(&file).expect("an export");
    let whole = fs::metadata(&file).expect("the file").len();
    let mut env = pavlov::envs::make_vec("CartPole-v1", &Config::new(), 1).expect("an environment");
    let (_, agreement) = session.export_in_8_bits(&file, Some(env.as_mut())).expect("an export");
    assert!(fs::metadata(&file).expect("the file").len() < whole / 2, "the file is smaller");
    assert!(agreement.are_visited && agreement.observations == 10_000, "{agreement}");
    assert!(agreement.equal.is_some_and(|equal| equal >= 0.99), "{agreement}");
    // What the agreement was computed with is what the compiled file does.
    session.export_in_8_bits(&home.path().join("policy.rs"), None).expect("an export");
    let caller = caller(&session.observation_space().clone(), 0, false);
    let rust_caller = rust_caller(&mut session, false);
    let (input, wanted) = acted(&mut session);
    let c = run(&compiled(home.path(), &caller, true), &input);
    let equal = c.iter().zip(&wanted).filter(|(a, b)| a == b).count();
    assert!(equal * 100 >= wanted.len() * 97, "{equal} of {} random observations", wanted.len());
    assert_eq!(run(&compiled_rust(home.path(), &rust_caller), &input), c);
}

#[test]
fn weights_of_8_bits_serve_memory_convolutions_and_numbers() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("policy.c");
    let mut gru = tiny_ppo();
    gru.common.model.use_gru = true;
    let mut session = quiet(gru, "Pendulum-v1").expect("a trainer").session(1).expect("a session");
    let (_, agreement) = session.export_in_8_bits(&file, None).expect("an export");
    assert!(agreement.largest.is_some_and(|most| most > 0.0 && most < 0.05), "{agreement}");
    let mut session =
        quiet(tiny_ppo(), crate::images::Catch::new).expect("a trainer").session(1).expect("one");
    let (_, agreement) = session.export_in_8_bits(&file, None).expect("an export");
    assert!(agreement.equal.is_some() && !agreement.are_visited, "{agreement}");
    let caller = caller(&session.observation_space().clone(), 0, false);
    assert!(run(&compiled(home.path(), &caller, true), &acted(&mut session).0).len() == STEPS);
    refused(session.export_in_8_bits(&home.path().join("policy.onnx"), None), &["8 bits are for C and Rust"]);
}
