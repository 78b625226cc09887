//! Export of a policy as one file of C99 that needs no library and allocates nothing.

mod functions;
mod network;

use crate::base::Result;
use crate::export::c::functions::FUNCTIONS;
use crate::export::c::network::FunctionBody;
use crate::export::spaces::RawObservations;
use crate::export::{Signature, misfit, write_whole};
use crate::learn::params::{Encoding, Part};
use crate::policy::Policy;
use crate::sample::{FloatActions, Inference, PolicyToEnv, Session};
use pavlov_envs::{DType, Space};
use pavlov_tune as tune;
use std::fmt::Write;
use std::fs;
use std::path::Path;

impl Session {
    pub(super) fn export_c(&mut self, file: &Path) -> Result<Signature> {
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        crate::export::onnx::check(desk, policy)?;
        let (text, takes) = text_of(desk, policy)?;
        write_whole(file, |path| Ok(fs::write(path, text).map_err(tune::Error::io("write", path))?))?;
        let gives =
            format!("`action`, the best action as the environment takes it: {}", desk.pilot.action_space());
        Ok(Signature { takes, gives, left_out: None })
    }
}

/// The whole file, and how its function is declared.
fn text_of(desk: &Inference, policy: &dyn Policy) -> Result<(String, String)> {
    let options = desk.pilot.mask_width();
    let recording = policy.recording(options)?;
    let raw = RawObservations::of(desk);
    let mut network = FunctionBody::default();
    let obs = observations(&mut network, &raw, &recording.encoding)?;
    let values = network.steps(&recording, &obs)?;
    let head = &values[recording.head];
    let columns = recording.columns[recording.head];
    let actions = match desk.pilot.to_env() {
        PolicyToEnv::Int { start, sizes, .. } => {
            choices(
                &mut network,
                head,
                columns,
                (sizes, start),
                options.is_some(),
                desk.pilot.action_space(),
            )?;
            ("int", sizes.len())
        }
        PolicyToEnv::Float { low, high, how, .. } => {
            let best = recording.best.map(|best| values[best].clone());
            let from = match best {
                Some(best) => best,
                None if columns == low.len() => head.clone(),
                None => return Err(misfit(columns, desk.pilot.action_space())),
            };
            numbers(&mut network, &from, low, high, *how)?;
            ("float", low.len())
        }
    };
    let element = match raw.space.dtype() {
        DType::U8 => "unsigned char",
        DType::I64 => "int",
        DType::F32 | DType::F64 => "float",
    };
    let interface = Interface {
        observation: (element, raw.space.width()),
        actions,
        options,
        memory: network.memory_units(),
    };
    Ok((interface.file(&network, desk.pilot.action_space(), raw.space), interface.signature()))
}

/// What the function takes and gives.
struct Interface {
    /// Type of the scalars of an observation, and their number.
    observation: (&'static str, usize),
    actions: (&'static str, usize),
    /// Number of flags of legal actions.
    options: Option<usize>,
    /// Number of scalars of recurrent state, which the caller keeps from one step to the next; 0 without memory.
    memory: usize,
}

impl Interface {
    fn signature(&self) -> String {
        let (element, width) = self.observation;
        let (action, count) = self.actions;
        let mut parameters = Vec::new();
        if self.memory > 0 {
            parameters.push("policy_state *state".to_owned());
        }
        parameters.push(format!("const {element} obs[{width}]"));
        if let Some(options) = self.options {
            parameters.push(format!("const unsigned char mask[{options}]"));
        }
        parameters.push(format!("{action} action[{count}]"));
        format!("void policy_act({})", parameters.join(", "))
    }

    fn file(&self, network: &FunctionBody, actions: &Space, observations: &Space) -> String {
        let mut text = format!(
            "/* A policy, written by pavlov {}. C99; no library, no allocation, no global state that changes.\n \
             *\n \
             * obs:    {observations}, as the environment writes it\n \
             * action: {actions}, the best action as the environment takes it\n",
            env!("CARGO_PKG_VERSION")
        );
        if self.options.is_some() {
            text.push_str(" * mask:   1 where an action is legal, else 0\n");
        }
        let _ = write!(
            text,
            " *\n * policy_act needs {} bytes of stack. With -std=c99 it gives the same bits at every level of\n \
             * optimisation; with contracted multiply-adds (gnu99) or -ffast-math it may not.\n */\n",
            4 * network.scalars
        );
        let _ = writeln!(
            text,
            "#define POLICY_OBS {}\n#define POLICY_ACTIONS {}",
            self.observation.1, self.actions.1
        );
        let signature = self.signature();
        if self.memory > 0 {
            let _ = writeln!(text, "\ntypedef struct {{ float memory[{}]; }} policy_state;", self.memory);
            text.push_str(
                "\n/* To be called where an episode begins. */\nvoid policy_reset(policy_state *state);",
            );
        }
        let _ = writeln!(text, "\n{signature};\n");
        text.push_str(&network.constants);
        for (name, function) in FUNCTIONS {
            if network.uses(name) {
                text.push_str(function);
                text.push('\n');
            }
        }
        if self.memory > 0 {
            let _ = writeln!(
                text,
                "void policy_reset(policy_state *state)\n{{\n    int i;\n    for (i = 0; i < {}; i++) state->memory[i] = 0.0f;\n}}\n",
                self.memory
            );
        }
        let indices = if network.body.contains("(j = 0") { "i, j" } else { "i" };
        let _ =
            write!(text, "{signature}\n{{\n    int {indices};\n{}\n{}}}\n", network.variables, network.body);
        text
    }
}

/// Writes what turns the argument `obs` into encoded observations; returns their variable.
fn observations(
    network: &mut FunctionBody,
    raw: &RawObservations<'_>,
    encoding: &Encoding,
) -> Result<String> {
    let mut x = "obs".to_owned();
    if raw.is_flattened {
        if matches!(raw.space, Space::Box { .. }) {
            let flat = network.variable(raw.space.width());
            network.for_each(&flat, raw.space.width(), &format!("(float){x}[i]"));
            x = flat;
        } else {
            x = encode(network, &x, &Encoding::of(raw.space))?;
        }
    }
    if let Some((mean, std)) = &raw.filter {
        let width = mean.len();
        let high: Vec<f32> = mean.iter().map(|&mean| mean as f32).collect();
        let low: Vec<f32> =
            mean.iter().zip(&high).map(|(&mean, &high)| (mean - f64::from(high)) as f32).collect();
        let std: Vec<f32> = std.iter().map(|&std| std as f32).collect();
        let [high, low, std] = [network.array(&high)?, network.array(&low)?, network.array(&std)?];
        let filtered = network.variable(width);
        network.for_each(&filtered, width, &format!("((float){x}[i] - {high}[i] - {low}[i]) / {std}[i]"));
        x = filtered;
    }
    encode(network, &x, encoding)
}

/// Writes the encoding of a raw row: numbers unchanged, integers one-hot, the channels of images first.
fn encode(network: &mut FunctionBody, x: &str, encoding: &Encoding) -> Result<String> {
    let to = network.variable(encoding.width());
    for part in &encoding.parts {
        match *part {
            Part::Numbers { from, to: first, len } => {
                network.line(&format!(
                    "for (i = 0; i < {len}; i++) {to}[{first} + i] = (float){x}[{from} + i];"
                ));
            }
            Part::OneHot { from, to: first, n, start } => {
                network.line(&format!(
                    "for (i = 0; i < {n}; i++) {to}[{first} + i] = (int){x}[{from}] - ({start}) == i ? 1.0f : 0.0f;"
                ));
            }
            Part::Image { pixels, channels, scale } => {
                let scale = network::number(scale)?;
                network.line(&format!(
                    "for (i = 0; i < {pixels}; i++) for (j = 0; j < {channels}; j++) \
                     {to}[j * {pixels} + i] = (float){x}[i * {channels} + j] * {scale};"
                ));
            }
        }
    }
    Ok(to)
}

/// Writes the choice of the legal action with the largest number, for each choice.
fn choices(
    network: &mut FunctionBody,
    head: &str,
    columns: usize,
    (sizes, start): (&[usize], &[i64]),
    masked: bool,
    space: &Space,
) -> Result<()> {
    if columns != sizes.iter().sum::<usize>() {
        return Err(misfit(columns, space));
    }
    let mut head = head.to_owned();
    if masked {
        let legal = network.variable(columns);
        network.for_each(&legal, columns, &format!("mask[i] ? {head}[i] : -1e9f"));
        head = legal;
    }
    let mut first = 0;
    for (i, n) in sizes.iter().enumerate() {
        let start = start.get(i).copied().unwrap_or(0);
        network.line(&format!("action[{i}] = policy_argmax({head} + {first}, {n}) + ({start});"));
        first += n;
    }
    Ok(())
}

/// Writes continuous actions, scaled or clipped to the bounds as training does.
fn numbers(
    network: &mut FunctionBody,
    from: &str,
    low: &[f32],
    high: &[f32],
    how: FloatActions,
) -> Result<()> {
    let count = low.len();
    if how == FloatActions::Keep {
        network.line(&format!("for (i = 0; i < {count}; i++) action[i] = {from}[i];"));
        return Ok(());
    }
    // C has no number for infinity that every compiler takes: the largest number bounds as well.
    let finite =
        |bounds: &[f32]| -> Vec<f32> { bounds.iter().map(|x| x.clamp(-f32::MAX, f32::MAX)).collect() };
    let [below, above] = [network.array(&finite(low))?, network.array(&finite(high))?];
    let value = if how == FloatActions::Unsquash {
        let range: Vec<f32> = low.iter().zip(high).map(|(low, high)| high - low).collect();
        let range = network.array(&range)?;
        format!("{below}[i] + ({from}[i] + 1.0f) * {range}[i] / 2.0f")
    } else {
        format!("{from}[i]")
    };
    network.line(&format!("for (i = 0; i < {count}; i++) {{"));
    network.line(&format!("    float a = {value};"));
    network.line(&format!("    action[i] = a < {below}[i] ? {below}[i] : a > {above}[i] ? {above}[i] : a;"));
    network.line("}");
    Ok(())
}
