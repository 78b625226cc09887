//! Export of a policy as one source file, of C99 or Rust, that needs no library and allocates nothing.

mod convolution;
mod functions;
mod interface;
mod network;
mod rust_functions;
mod small;
mod syntax;

use crate::export::c::interface::Interface;
use crate::export::c::network::FunctionBody;
use crate::export::c::small::agreement;
use crate::export::c::syntax::Syntax;
use crate::export::spaces::RawObservations;
use crate::export::{PolicyFormat, Signature, misfit};
use crate::policy::Policy;
use crate::sample::{FloatActions, Inference, PolicyToEnv, Session};
use pavlov_envs::{AnyVectorEnv, Space};
use pavlov_learn::base::{Error, Result};
use pavlov_learn::params::{Encoding, Part};
use pavlov_tune as tune;
use std::path::Path;

pub use small::Agreement;

impl Session {
    pub(super) fn export_c(&mut self, file: &Path) -> Result<Signature> {
        self.export_source(file, Syntax::C)
    }

    pub(super) fn export_rust(&mut self, file: &Path) -> Result<Signature> {
        self.export_source(file, Syntax::Rust)
    }

    fn export_source(&mut self, file: &Path, syntax: Syntax) -> Result<Signature> {
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        crate::export::onnx::check(desk, policy)?;
        let written = text_of(desk, policy, (syntax, false))?;
        self.write_source(file, written)
    }

    /// Writes the policy as a C or Rust file like [`export`](Self::export), with weights of 8 bits: one scale for each output of a
    /// layer, and activations in single precision. The file is a third as large. Actions may differ from the policy's; how
    /// far they do is returned, for 10,000 observations: those that the policy visits in `env`, an environment of one copy
    /// with the policy's spaces, or random ones without it.
    ///
    /// # Errors
    /// Fails like [`export`](Self::export). Returns [`Error::Config`] if the name ends in neither `.c` nor `.rs`, and
    /// [`Error::State`] if the session has several copies, or `env` has other spaces or fails.
    pub fn export_in_8_bits(
        &mut self,
        file: &Path,
        env: Option<&mut dyn AnyVectorEnv>,
    ) -> Result<(Signature, Agreement)> {
        let syntax = match PolicyFormat::of(file)? {
            PolicyFormat::C => Syntax::C,
            PolicyFormat::Rust => Syntax::Rust,
            PolicyFormat::Onnx | PolicyFormat::TorchScript => {
                let rule = "weights of 8 bits are for C and Rust: let the name end in `.c` or `.rs`";
                return Err(Error::config("file", file.display(), rule));
            }
        };
        if self.desk.copies() != 1 {
            let reason = format!("it has {} copies, but 1 is compared", self.desk.copies());
            return Err(Error::state("the session", reason));
        }
        let Self { id, desk, policies, .. } = self;
        let policy = policies.get_mut(id)?.as_mut();
        crate::export::onnx::check(desk, policy)?;
        let written = text_of(desk, policy, (syntax, true))?;
        let agreement = agreement(self, env)?;
        Ok((self.write_source(file, written)?, agreement))
    }

    fn write_source(&self, file: &Path, (text, takes): (String, String)) -> Result<Signature> {
        tune::write_output(file, text.as_bytes())?;
        let space = self.desk.connector.action_space();
        let gives = format!("`action`, the best action as the environment takes it: {space}");
        Ok(Signature { takes, gives })
    }
}

/// The whole file, and how its function is declared.
fn text_of(
    desk: &Inference,
    policy: &dyn Policy,
    (syntax, in_8_bits): (Syntax, bool),
) -> Result<(String, String)> {
    let options = desk.connector.mask_width();
    let recording = policy.recording(options)?;
    let raw = RawObservations::of(desk);
    let mut network = FunctionBody::new(syntax, in_8_bits);
    let obs = observations(&mut network, &raw, &recording.encoding)?;
    let values = network.steps(&recording, &obs)?;
    let head = &values[recording.head];
    let columns = recording.columns[recording.head];
    let (is_discrete, count) = match desk.connector.to_env() {
        PolicyToEnv::Int { start, sizes, .. } => {
            choices(
                &mut network,
                head,
                columns,
                (sizes, start),
                options.is_some(),
                desk.connector.action_space(),
            )?;
            (true, sizes.len())
        }
        PolicyToEnv::Float { low, high, how, .. } => {
            let best = recording.best.map(|best| values[best].clone());
            let from = match best {
                Some(best) => best,
                None if columns == low.len() => head.clone(),
                None => return Err(misfit(columns, desk.connector.action_space())),
            };
            numbers(&mut network, &from, low, high, *how)?;
            (false, low.len())
        }
    };
    let interface = Interface {
        observations: raw.space.clone(),
        actions: desk.connector.action_space().clone(),
        is_discrete,
        count,
        options,
        memory: network.memory_units(),
    };
    Ok((interface.file(&network), interface.signature(syntax)))
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
            let value = network.syntax.float(&format!("{x}[i]"));
            network.for_each(&flat, raw.space.width(), &value);
            x = flat;
        } else {
            x = encode(network, &x, &Encoding::flat(raw.space))?;
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
        let value = network.syntax.float(&format!("{x}[i]"));
        network.for_each(&filtered, width, &format!("({value} - {high}[i] - {low}[i]) / {std}[i]"));
        x = filtered;
    }
    encode(network, &x, encoding)
}

/// Writes the encoding of a raw row: numbers unchanged, integers one-hot, the channels of images first.
fn encode(network: &mut FunctionBody, x: &str, encoding: &Encoding) -> Result<String> {
    let to = network.variable(encoding.width());
    let syntax = network.syntax;
    for part in encoding.parts() {
        match *part {
            Part::Numbers { from, to: first, len } => {
                let value = syntax.float(&format!("{x}[{from} + i]"));
                network.line(&syntax.each('i', len, &format!("{to}[{first} + i] = {value};")));
            }
            Part::OneHot { from, to: first, n, start } => {
                let [one, zero] = ["1.0", "0.0"].map(|digits| syntax.literal(digits));
                let is_it = syntax.is_choice(&format!("{x}[{from}]"), start);
                let value = syntax.pick(&is_it, &one, &zero);
                network.line(&syntax.each('i', n, &format!("{to}[{first} + i] = {value};")));
            }
            Part::Image { from, to: first, pixels, channels, scale } => {
                let scale = syntax.number(scale)?;
                // An image alone begins at 0.
                let [from, first] =
                    [from, first].map(|at| if at == 0 { String::new() } else { format!("{at} + ") });
                let value = syntax.float(&format!("{x}[{from}i * {channels} + j]"));
                let inner = format!("{to}[{first}j * {pixels} + i] = {value} * {scale};");
                network.line(&syntax.each('i', pixels, &syntax.each('j', channels, &inner)));
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
        let syntax = network.syntax;
        let value = syntax.pick("mask[i]", &format!("{head}[i]"), &syntax.literal("-1e9"));
        network.for_each(&legal, columns, &value);
        head = legal;
    }
    let mut first = 0;
    for (i, n) in sizes.iter().enumerate() {
        let start = start.get(i).copied().unwrap_or(0);
        let best = network.syntax.argmax(head.as_str(), first, *n);
        let best = if network.syntax == Syntax::Rust { format!("{best} as i32") } else { best };
        network.line(&format!("action[{i}] = {best} + ({start});"));
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
        network.for_each("action", count, &format!("{from}[i]"));
        return Ok(());
    }
    // C has no number for infinity that every compiler takes: the largest number bounds as well.
    let finite =
        |bounds: &[f32]| -> Vec<f32> { bounds.iter().map(|x| x.clamp(-f32::MAX, f32::MAX)).collect() };
    let [below, above] = [network.array(&finite(low))?, network.array(&finite(high))?];
    let syntax = network.syntax;
    let value = if how == FloatActions::Unsquash {
        let range: Vec<f32> = low.iter().zip(high).map(|(low, high)| high - low).collect();
        let range = network.array(&range)?;
        let [one, two] = ["1.0", "2.0"].map(|digits| syntax.literal(digits));
        format!("{below}[i] + ({from}[i] + {one}) * {range}[i] / {two}")
    } else {
        format!("{from}[i]")
    };
    let inner = syntax.pick(&format!("a > {above}[i]"), &format!("{above}[i]"), "a");
    let bounded = syntax.pick(&format!("a < {below}[i]"), &format!("{below}[i]"), &inner);
    network.line(&syntax.block('i', count));
    network.line(&format!("    {}", syntax.local("a", &value)));
    network.line(&format!("    action[i] = {bounded};"));
    network.line("}");
    Ok(())
}
