//! `pavlov export`: writes a saved policy as a TorchScript file that other programs can run.

use std::path::PathBuf;

use clap::Args;

use super::exit::usage;
use super::output::print;
use super::run_dir::find_checkpoint;
use crate::load_policy;

/// Write a saved policy as TorchScript, for Python and C++
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov export runs/first --out pole.pt\n\n\
                        The file holds one function, from observations as the environment writes them, one row each, to \
                        the network's outputs: Q-values, logits of the actions, or means and logarithms of deviations; \
                        of SAC on a box, TD3 and DDPG the best actions as the environment takes them. One-hot coding and \
                        the observation filter are inside of it, and action masks are not. What it takes and gives is \
                        printed and stored in FILE.json. It is compared with the policy before it is there.\nIn Python: torch.jit.load(\"pole.pt\")(observations).")]
pub(super) struct ExportArgs {
    /// A checkpoint or a run directory (its newest checkpoint), or the URL of one
    #[arg(value_name = "DIR|URL")]
    checkpoint: PathBuf,
    /// The file to write, named .pt, .pth or .ts; an existing file is replaced
    #[arg(long, value_name = "FILE.pt")]
    out: PathBuf,
    /// Id of the policy, if the run has several
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
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
    let checkpoint = find_checkpoint(&args.checkpoint)?;
    let signature = load_policy(&checkpoint, args.policy.as_deref(), 1)?.export(&args.out)?;
    let mut lines = vec![
        format!("{shown}: the policy of {} as TorchScript", checkpoint.display()),
        format!("takes:     {}", signature.takes),
        format!("gives:     {}", signature.gives),
    ];
    lines.extend(signature.left_out.map(|what| format!("left out:  {what}")));
    lines.push(format!("written down in {shown}.json"));
    print(&lines.join("\n")).map(drop)
}
