//! `pavlov export`: writes a saved policy as a file that other programs can run.

use std::path::{Path, PathBuf};

use clap::Args;
use pavlov_trainer::{Common, Pack, PolicyFormat};
use serde_json::Value;

use super::exit::usage;
use super::output::print;
use super::run_dir::find_policy;
use super::trust::{self, TrustArgs};
use crate::envs::{AnyVectorEnv, EnvCreator, python::is_python_id};
use crate::load::is_pack;
use crate::load_policy;
use crate::tune::{Config, checkpoint, config::decode};

/// Write a saved policy as ONNX, C, Rust or TorchScript, for other programs
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov export runs/first --out pole.onnx\n\n\
                        The end of the file's name says the format. ONNX (.onnx): from observations as the environment writes \
                        them, a batch of rows, to the actions that it takes; masks and recurrent state are inputs, too. \
                        C (.c): one \
                        function without libraries, from an observation to the action. Rust (.rs): the same without the standard library. TorchScript (.pt): to the network's outputs \
                        (Q-values, logits of the actions, or means and logarithms of deviations), of SAC on a box, TD3 and \
                        DDPG to actions; with masks or recurrent layers it takes and gives what ONNX does. One-hot coding and the observation filter are part of the file. FILE.json says what \
                        goes in and comes out. The file is compared with the policy before it is written.")]
pub(super) struct ExportArgs {
    /// A checkpoint or a run directory (its newest checkpoint), the URL of one, or a packed model
    #[arg(value_name = "DIR|URL|FILE.pavlov")]
    checkpoint: PathBuf,
    /// The file to write, whose name ends in .onnx, .c, .rs, .pt, .pth or .ts; an existing file is replaced
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// Id of the policy, if the run has several
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// Draw actions from the policy's distribution by an input of random numbers, instead of taking the best (ONNX and TorchScript)
    #[arg(long)]
    sample: bool,
    /// Bits of a weight in a C or Rust file: 32, or 8 for a smaller file that acts nearly as the policy does
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = bits)]
    bits: u32,
    #[command(flatten)]
    trust: TrustArgs,
}

fn bits(text: &str) -> Result<u32, String> {
    match text {
        "8" => Ok(8),
        "32" => Ok(32),
        _ => Err("it must be 8 or 32".into()),
    }
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
    if args.bits == 8 && !matches!(format, PolicyFormat::C | PolicyFormat::Rust) {
        return Err(usage(format!(
            "--bits 8 is for C and Rust, but --out is {shown}: let its name end in .c or .rs"
        )));
    }
    if args.bits == 8 && args.sample {
        return Err(usage(
            "--sample is for ONNX and TorchScript, --bits 8 for C and Rust: leave one of them out",
        ));
    }
    let checkpoint = find_policy(&args.checkpoint)?;
    let mut policy = load_policy(&checkpoint, args.policy.as_deref(), 1)?;
    let mut agreement = None;
    let signature = if args.sample {
        policy.export_drawing(&args.out)?
    } else if args.bits == 8 {
        let mut env = native_env(&checkpoint, &args.trust)?;
        let env = env.as_mut().map(|env| env.as_mut() as &mut dyn AnyVectorEnv);
        let (signature, agrees) = policy.export_in_8_bits(&args.out, env)?;
        agreement = Some(agrees);
        signature
    } else {
        policy.export(&args.out)?
    };
    let mut lines = vec![
        format!("{shown}: the policy of {} as {format}", checkpoint.display()),
        format!("takes:     {}", signature.takes),
        format!("gives:     {}", signature.gives),
    ];
    lines.extend(agreement.map(|agreement| format!("8 bits:    {agreement}")));
    lines.push(match format {
        PolicyFormat::C | PolicyFormat::Rust => "its first lines say how it is called".into(),
        _ => format!("written down in {shown}.json"),
    });
    print(&lines.join("\n")).map(drop)
}

/// One copy of the environment that the policy was trained in, to see what it visits there; `None` if a Python interpreter
/// makes the environment, or it cannot be made from what lies with the policy.
fn native_env(path: &Path, trust: &TrustArgs) -> anyhow::Result<Option<Box<dyn AnyVectorEnv>>> {
    let settings = if is_pack(path) {
        Pack::read(path)?.facts().settings.clone()
    } else {
        checkpoint::metadata(path)?.config
    };
    let Some(env) = settings.get("env").and_then(Value::as_str) else { return Ok(None) };
    if is_python_id(env) {
        return Ok(None);
    }
    let kept = ["env_config", "wrappers"].into_iter();
    let kept: Config = kept.filter_map(|key| Some((key.to_owned(), settings.get(key)?.clone()))).collect();
    trust.check(path, &trust::named(&kept))?;
    let Ok(common) = decode::<Common>(&kept) else { return Ok(None) };
    Ok(common.wrap_env(&EnvCreator::from(env)).make_vec(&common.env_config, 1).ok())
}
