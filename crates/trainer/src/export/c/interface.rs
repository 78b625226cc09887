//! What the function of a source file takes and gives, and the file around it.

use crate::export::c::functions::FUNCTIONS;
use crate::export::c::network::FunctionBody;
use crate::export::c::rust_functions::RUST_FUNCTIONS;
use crate::export::c::syntax::Syntax;
use pavlov_envs::{DType, Space};
use std::fmt::Write;

/// What the function takes and gives.
pub(super) struct Interface {
    pub(super) observations: Space,
    pub(super) actions: Space,
    /// Whether actions are whole numbers; otherwise they are in single precision.
    pub(super) is_discrete: bool,
    /// Number of components of an action.
    pub(super) count: usize,
    /// Number of flags of legal actions.
    pub(super) options: Option<usize>,
    /// Number of scalars of recurrent state, which the caller keeps from one step to the next; 0 without memory.
    pub(super) memory: usize,
}

impl Interface {
    /// The declaration of the function.
    pub(super) fn signature(&self, syntax: Syntax) -> String {
        match syntax {
            Syntax::C => self.c_signature(),
            Syntax::Rust => self.rust_signature(),
        }
    }

    /// The whole file.
    pub(super) fn file(&self, network: &FunctionBody) -> String {
        match network.syntax {
            Syntax::C => self.c_file(network),
            Syntax::Rust => self.rust_file(network),
        }
    }

    fn c_signature(&self) -> String {
        let element = match self.observations.dtype() {
            DType::U8 => "unsigned char",
            DType::I64 => "int",
            DType::F32 | DType::F64 => "float",
        };
        let mut parameters = Vec::new();
        if self.memory > 0 {
            parameters.push("policy_state *state".to_owned());
        }
        parameters.push(format!("const {element} obs[{}]", self.observations.width()));
        if let Some(options) = self.options {
            parameters.push(format!("const unsigned char mask[{options}]"));
        }
        let action = if self.is_discrete { "int" } else { "float" };
        parameters.push(format!("{action} action[{}]", self.count));
        format!("void policy_act({})", parameters.join(", "))
    }

    fn c_file(&self, network: &FunctionBody) -> String {
        let mut text = format!(
            "/* A policy, written by pavlov {}. C99; no library, no allocation, no global state that changes.\n \
             *\n \
             * obs:    {}, as the environment writes it\n \
             * action: {}, the best action as the environment takes it\n",
            env!("CARGO_PKG_VERSION"),
            self.observations,
            self.actions
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
            self.observations.width(),
            self.count
        );
        let signature = self.c_signature();
        if self.memory > 0 {
            let _ = writeln!(text, "\ntypedef struct {{ float memory[{}]; }} policy_state;", self.memory);
            text.push_str(
                "\n/* To be called where an episode begins. */\nvoid policy_reset(policy_state *state);",
            );
        }
        let _ = writeln!(text, "\n{signature};\n");
        text.push_str(&network.constants);
        push_functions(&mut text, network, FUNCTIONS);
        if self.memory > 0 {
            let _ = writeln!(
                text,
                "void policy_reset(policy_state *state)\n{{\n    int i;\n    for (i = 0; i < {}; i++) state->memory[i] = 0.0f;\n}}\n",
                self.memory
            );
        }
        let _ = write!(text, "{signature}\n{{\n");
        let used = ["i", "j"].into_iter().filter(|index| network.body.contains(&format!("({index} = 0")));
        let used: Vec<&str> = used.collect();
        if !used.is_empty() {
            let _ = writeln!(text, "    int {};", used.join(", "));
        }
        let _ = write!(text, "{}\n{}}}\n", network.variables, network.body);
        text
    }

    fn action(&self) -> (&'static str, String) {
        let kind = if self.is_discrete { "i32" } else { "f32" };
        (kind, if self.count == 1 { kind.to_owned() } else { format!("[{kind}; {}]", self.count) })
    }

    fn rust_signature(&self) -> String {
        let element = match self.observations.dtype() {
            DType::U8 => "u8",
            DType::I64 => "i64",
            DType::F32 | DType::F64 => "f32",
        };
        let mut parameters = Vec::new();
        if self.memory > 0 {
            parameters.push("state: &mut State".to_owned());
        }
        parameters.push(format!("obs: &[{element}; {}]", self.observations.width()));
        if let Some(options) = self.options {
            parameters.push(format!("mask: &[bool; {options}]"));
        }
        format!("pub fn act({}) -> {}", parameters.join(", "), self.action().1)
    }

    fn rust_file(&self, network: &FunctionBody) -> String {
        let mut text = format!(
            "//! A policy, written by pavlov {}. It needs no library, allocates nothing, and has no global state.\n\
             //!\n\
             //! * `obs`: {}, as the environment writes it\n\
             //! * the result: {}, the best action as the environment takes it\n",
            env!("CARGO_PKG_VERSION"),
            self.observations,
            self.actions
        );
        if self.options.is_some() {
            text.push_str("//! * `mask`: which actions are legal; at least one must be\n");
        }
        let _ = write!(
            text,
            "//!\n//! `act` needs {} bytes of stack.\n\n#![no_std]\n#![forbid(unsafe_code)]\n\
             #![allow(clippy::all, unused_attributes, unused_comparisons, unused_parens)]\n\n",
            4 * network.scalars
        );
        if self.memory > 0 {
            let _ = write!(
                text,
                "/// The recurrent state of one episode.\n#[derive(Clone, Debug)]\npub struct State {{\n    memory: [f32; {0}],\n}}\n\n\
                 impl State {{\n    /// The state where an episode begins.\n    pub const fn new() -> Self {{\n        \
                 Self {{ memory: [0.0; {0}] }}\n    }}\n}}\n\n",
                self.memory
            );
        }
        let (kind, _) = self.action();
        let zero = if self.is_discrete { "0" } else { "0.0" };
        let result = if self.count == 1 { "action[0]" } else { "action" };
        let _ = write!(
            text,
            "/// The best action for an observation.\n{} {{\n    let mut action = [{zero}_{kind}; {}];\n{}\n{}    {result}\n}}\n\n",
            self.rust_signature(),
            self.count,
            network.variables,
            network.body
        );
        push_functions(&mut text, network, RUST_FUNCTIONS);
        text.push_str(network.constants.trim_end());
        text.push('\n');
        text
    }
}

/// Adds the functions that the network calls.
fn push_functions(text: &mut String, network: &FunctionBody, functions: &[(&str, &str)]) {
    for (_, function) in functions.iter().filter(|(name, _)| network.uses(name)) {
        text.push_str(function);
        text.push('\n');
    }
}
