//! The command `pavlov` as a function, [`main`]. A program that registers its own algorithms and environments and then
//! calls it is the same command with those added.
//!
//! Exit codes: 0 done (also after Ctrl-C, because the run was saved and can be resumed), 1 failed, 2 bad usage or input,
//! 130 after a second Ctrl-C. Results go to standard output, everything else to standard error.

mod choice;
mod completions;
mod config;
mod doctor;
mod env;
mod evaluate;
mod exit;
mod explain;
mod export;
mod leaves;
mod line;
mod lines;
mod list;
mod loggers;
mod output;
mod pack;
mod plot;
mod profile;
mod progress;
mod report;
mod resume;
mod returns;
mod run_dir;
mod screen;
mod serve;
mod session;
mod settings;
mod show;
mod signals;
mod state_difference;
mod stretch;
mod suggest;
mod sweep_view;
mod terminal;
mod train;
mod trainable;
mod translate;
mod trust;
mod tune;
mod verify;
mod watch;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

use crate::registry;
use crate::tune::rollout_main;

/// Reinforcement learning: train, continue and evaluate agents.
#[derive(Debug, Parser)]
#[command(
    name = "pavlov",
    version,
    after_help = "Example:\n  pavlov train PPO --env CartPole-v1 --preset ppo-cartpole --out runs/first\n  \
                  pavlov evaluate runs/first --episodes 20 --render pole.gif\n\n\
                  Exit codes: 0 done, 1 failed, 2 bad usage or input. RUST_LOG=info shows more."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Train(train::TrainArgs),
    Resume(resume::ResumeArgs),
    Evaluate(evaluate::EvaluateArgs),
    Verify(verify::VerifyArgs),
    Export(export::ExportArgs),
    Pack(pack::PackArgs),
    Show(show::ShowArgs),
    Serve(serve::ServeArgs),
    Tune(tune::TuneArgs),
    Trial(tune::TrialArgs),
    TuneShim(trainable::TuneShimArgs),
    Trainable(trainable::TrainableArgs),
    List(list::ListArgs),
    Config(config::ConfigArgs),
    Env(env::EnvArgs),
    Doctor(doctor::DoctorArgs),
    Completions(completions::CompletionsArgs),
    Report(report::ReportArgs),
    Plot(plot::PlotArgs),
    Watch(watch::WatchArgs),
}

/// Parses the command line, runs the command and returns its exit code.
///
/// ```no_run
/// # mod mine { pub fn register() -> pavlov::Result<()> { Ok(()) } }
/// fn main() -> std::process::ExitCode {
///     mine::register().expect("names that are free");
///     pavlov::cli::main()
/// }
/// ```
pub fn main() -> ExitCode {
    main_from(std::env::args_os())
}

/// Runs the command with these arguments, the first of them its name, as [`main`] does with those of the process. A
/// program in another language, whose own arguments come before the command's, calls it.
pub fn main_from(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    output::set_program(arguments.first());
    output::log_to_stderr();
    signals::ignore_file_size_limit();
    #[cfg(feature = "storage")]
    pavlov_storage::register();
    crate::external::register();
    // In the process of a rollout worker this call runs the worker and does not return.
    rollout_main(registry::trainable);
    let done = match Cli::parse_from(arguments).command {
        Command::Train(args) => train::train(args),
        Command::Resume(args) => resume::resume(args),
        Command::Evaluate(args) => evaluate::evaluate(args),
        Command::Verify(args) => verify::verify(args),
        Command::Export(args) => export::export(args),
        Command::Pack(args) => pack::pack(&args),
        Command::Show(args) => show::show(&args),
        Command::Serve(args) => serve::serve(args),
        Command::Tune(args) => tune::tune(args),
        Command::Trial(args) => tune::trial(args),
        Command::TuneShim(_) => trainable::tune_shim(),
        Command::Trainable(_) => trainable::trainable(),
        Command::List(args) => list::list(&args),
        Command::Config(args) => config::config(args),
        Command::Env(args) => env::env(args),
        Command::Doctor(args) => doctor::doctor(&args),
        Command::Completions(args) => completions::completions(&args, Cli::command()),
        Command::Report(args) => report::report(&args),
        Command::Plot(args) => plot::plot(&args),
        Command::Watch(args) => watch::watch(&args),
    };
    exit::code(done)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent_and_every_command_shows_an_example() {
        fn check(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            assert!(help.contains("Example:\n  pavlov "), "`{}` --help has no example", command.get_name());
            command.get_subcommands().filter(|c| c.get_name() != "help").for_each(check);
        }
        Cli::command().debug_assert();
        check(&Cli::command());
    }
}
