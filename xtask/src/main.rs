//! The chores of the checkout: `cargo xtask setup | demo | test | outside | book | wheel | learn | bench | bits | executed`.
//!
//! It is the first thing built on a fresh machine, so it depends on neither tch nor pavlov.

mod bench;
mod bits;
mod book;
mod demo;
mod executed;
mod learn;
mod libtorch;
mod outside;
mod python;
mod setup;
mod steps;
mod test;
mod vector_code;
mod wheel;

use std::path::Path;
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  setup [--cuda]   find libtorch, or provide it, and point .libtorch to it
  setup --mujoco [VERSION]
                   put MuJoCo's library into the user's cache, for HalfCheetah-v5 and its like without Python
  demo [--short]   set up, build, train PPO on CartPole-v1 until it is solved; --short checks the path only
  test [--without ray]
                   everything that CI runs; the step with Ray needs some 630 MB for it and can be left out
  test --quick     format, lints and unit tests: minutes, for the everyday change
  outside          build and run the programs of the pages outside of the checkout, which is a part of test
  book             build the pages as a book of HTML with mdbook
  wheel            build and test the Python package of python/, which is a part of test
  learn [NAME..] [--set KEY=VALUE]
                   train every preset of examples/tuned with every seed, print a table (takes hours)
  bench [NAME..]   run the programs of benches/ that measure
  bits [REV] [OPTION..]
                   train with REV (where this branch left main) and with the checkout; print the hashes that differ;
                   options go to benches/bits: --case TEXT, --skip-column NAME, --skip-stat NAME, --verbose
  bits --widths [OPTION..]
                   train with each kind of vector instructions that the processor has; print the hashes that differ
  bits --light [OPTION..]
                   train with libtorch and in the build without it; print the hashes of the fused engine that differ
  executed [ALGORITHM]
                   count the lines that one iteration of PPO, DQN and SAC executes; of one with its files

example: cargo xtask setup && cargo run --release -- train PPO --env CartPole-v1
";

/// A sentence that says what is wrong and what to do about it.
type Result<T> = std::result::Result<T, String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if executed::is_compiler() {
        return executed::compile(&arguments);
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout");
    let done = match arguments.as_slice() {
        ["setup"] => setup::setup(root, setup::Kind::Cpu),
        ["setup", "--cuda"] => setup::setup(root, setup::Kind::Cuda),
        ["setup", "--mujoco"] => setup::mujoco(None),
        ["setup", "--mujoco", version] => setup::mujoco(Some(version)),
        ["demo"] => demo::demo(root, false),
        ["demo", "--short"] => demo::demo(root, true),
        ["test"] => test::test(root, true),
        ["test", "--without", "ray"] => test::test(root, false),
        ["test", "--quick"] => test::quick(root),
        ["book"] => book::book(root),
        ["wheel"] => python::wheel_python(root)
            .and_then(|python| wheel::wheel(root, &python))
            .and_then(|()| wheel::wheel_in_every_python(root, python::promised_pythons(root))),
        ["outside"] => outside::outside(root, &mut steps::Steps::default()),
        ["learn", names @ .., "--set", change] if are_names(names) => learn::learn(root, names, Some(change)),
        ["learn", names @ ..] if are_names(names) => learn::learn(root, names, None),
        ["bench", names @ ..] if are_names(names) => bench::bench(root, names),
        ["executed"] => executed::executed(root, None),
        ["executed", algorithm] => executed::executed(root, Some(algorithm)),
        ["bits", "--widths", options @ ..] if are_options(options) => bits::bits_of_widths(root, options),
        ["bits", "--light", options @ ..] if are_options(options) => bits::bits_of_light(root, options),
        ["bits", options @ ..] if are_options(options) => bits::bits(root, None, options),
        ["bits", revision, options @ ..] if are_options(options) => bits::bits(root, Some(revision), options),
        [] | ["help" | "-h" | "--help"] => {
            print!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("error: cargo xtask has no command `{}`\n\n{USAGE}", arguments.join(" "));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

fn are_names(arguments: &[&str]) -> bool {
    arguments.iter().all(|argument| !argument.starts_with('-'))
}

/// Nothing, or what begins with a `--word`.
fn are_options(arguments: &[&str]) -> bool {
    arguments.first().is_none_or(|argument| argument.starts_with("--"))
}
