//! `pavlov completions`: prints the script by which a shell completes the command's own words.

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::{Shell, generate};

use super::output;
use crate::{envs, presets, registry};

/// Print the script that completes commands, options and names in a shell
#[derive(Args, Debug)]
#[command(
    after_help = "Example:\n  pavlov completions bash > ~/.local/share/bash-completion/completions/pavlov\n  \
    pavlov completions zsh > ~/.zfunc/_pavlov    # with ~/.zfunc in $fpath\n  \
    pavlov completions fish > ~/.config/fish/completions/pavlov.fish"
)]
pub(super) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs, command: Command) -> anyhow::Result<()> {
    // Into memory first: clap panics where a pipe is closed.
    let mut script = Vec::new();
    generate(args.shell, &mut with_names(command), "pavlov", &mut script);
    output::print(&String::from_utf8(script)?).map(drop)
}

/// The command with the names of algorithms, environments and presets as the only values of their arguments. The command itself
/// takes more, such as `py:` ids and files.
fn with_names(command: Command) -> Command {
    let names = |argument: &str| -> Option<Vec<String>> {
        match argument {
            "algorithm" => Some(registry::algorithms().iter().map(|entry| entry.name().to_owned()).collect()),
            "env" | "id" => Some([envs::ids(), envs::multi_agent_ids()].concat()),
            "preset" => Some(presets::names().map(str::to_owned).collect()),
            _ => None,
        }
    };
    let command = command.mut_args(|argument| match names(argument.get_id().as_str()) {
        Some(names) => argument.value_parser(PossibleValuesParser::new(names)),
        None => argument,
    });
    command.mut_subcommands(with_names)
}
