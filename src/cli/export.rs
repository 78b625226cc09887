//! `pavlov export`: writes a saved policy as a file that other programs can run.

use std::path::PathBuf;

use clap::Args;
use pavlov_trainer::PolicyFormat;

use super::exit::usage;
use super::output::print;
use super::run_dir::find_checkpoint;
use crate::load_policy;

/// Write a saved policy as ONNX, C or TorchScript, for other programs
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov export runs/first --out pole.onnx\n\n\
                        The end of the file's name says the format. ONNX (.onnx): from observations as the environment writes \
                        them, a batch of rows, to the actions that it takes; masks and recurrent state are inputs, too. \
                        C (.c): one \
                        function without libraries, from an observation to the action. TorchScript (.pt): to the network's outputs \
                        (Q-values, logits of the actions, or means and logarithms of deviations), of SAC on a box, TD3 and \
                        DDPG to actions. One-hot coding and the observation filter are part of the file. FILE.json says what \
                        goes in and comes out. The file is compared with the policy before it is written.")]
pub(super) struct ExportArgs {
    /// A checkpoint or a run directory (its newest checkpoint), or the URL of one
    #[arg(value_name = "DIR|URL")]
    checkpoint: PathBuf,
    /// The file to write, whose name ends in .onnx, .c, .pt, .pth or .ts; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Id of the policy, if the run has several
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// Draw actions from the policy's distribution by an input of random numbers, instead of taking the best (ONNX only)
    #[arg(long)]
    sample: bool,
}

pub(super) fn export(args: ExportArgs) -> anyhow::Result<()> {
    let shown = args.out.display();
    match args.out.parent() {
        Some(dir) if !dir.as_os_str().is_empty() && !dir.is_dir() => {
            return Err(usage(format!("--out is {shown}, but there is no directory {}", dir.display())));
        }
        _ if args.out.is_dir() => return Err(usage(format!("--out is {shown}, but that is a directory"))),
        _ => {}
    }
    let format = PolicyFormat::of(&args.out).map_err(|error| usage(error.to_string()))?;
    let checkpoint = find_checkpoint(&args.checkpoint)?;
    let mut policy = load_policy(&checkpoint, args.policy.as_deref(), 1)?;
    let signature = if args.sample { policy.export_drawing(&args.out)? } else { policy.export(&args.out)? };
    let mut lines = vec![
        format!("{shown}: the policy of {} as {format}", checkpoint.display()),
        format!("takes:     {}", signature.takes),
        format!("gives:     {}", signature.gives),
    ];
    lines.extend(signature.left_out.map(|what| format!("left out:  {what}")));
    lines.push(match format {
        PolicyFormat::C => "its first lines say how it is called".into(),
        _ => format!("written down in {shown}.json"),
    });
    print(&lines.join("\n")).map(drop)
}
