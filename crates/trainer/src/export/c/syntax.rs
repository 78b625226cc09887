//! The two languages of an exported source file: how each writes what the other writes otherwise.

use pavlov_learn::base::{Error, Result};

/// The language that a policy is written in: C or Rust.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Syntax {
    #[default]
    C,
    Rust,
}

impl Syntax {
    /// The text of a number, the shortest that reads back equal.
    ///
    /// # Errors
    /// Returns [`Error::State`] if the number is not finite.
    pub(super) fn number(self, x: f32) -> Result<String> {
        if x.is_finite() {
            return Ok(self.literal(&format!("{x:?}")));
        }
        let reason = format!(
            "a weight is {x}, which a source file cannot hold; train again with a smaller learning rate"
        );
        Err(Error::state("the policy's network", reason))
    }

    /// A number in single precision, from its digits.
    pub(super) fn literal(self, digits: &str) -> String {
        match self {
            Self::C => format!("{digits}f"),
            Self::Rust => format!("{digits}_f32"),
        }
    }

    /// One of two values, by a condition.
    pub(super) fn pick(self, condition: &str, yes: &str, no: &str) -> String {
        match self {
            Self::C => format!("({condition} ? {yes} : {no})"),
            Self::Rust => format!("(if {condition} {{ {yes} }} else {{ {no} }})"),
        }
    }

    /// A value of another type in single precision.
    pub(super) fn float(self, value: &str) -> String {
        match self {
            Self::C => format!("(float){value}"),
            Self::Rust => format!("({value} as f32)"),
        }
    }

    /// A value as an index of an array.
    pub(super) fn index(self, value: &str) -> String {
        match self {
            Self::C => format!("(int){value}"),
            Self::Rust => format!("({value} as usize)"),
        }
    }

    /// Whether a whole number of an observation is `i` numbers above `start`.
    pub(super) fn is_choice(self, value: &str, start: i64) -> String {
        match self {
            Self::C => format!("(int){value} - ({start}) == i"),
            Self::Rust => format!("{value} as i64 - ({start}) == i as i64"),
        }
    }

    /// The place of the largest of `n` numbers of an array, from the number `first` on.
    pub(super) fn argmax(self, of: &str, first: usize, n: usize) -> String {
        match self {
            Self::C => format!("policy_argmax({of} + {first}, {n})"),
            Self::Rust => format!("policy_argmax(&{of}[{first}..{}])", first + n),
        }
    }

    /// A loop in one line: `index` counts from 0 to below `count`.
    pub(super) fn each(self, index: char, count: usize, statement: &str) -> String {
        match self {
            Self::C => format!("for ({index} = 0; {index} < {count}; {index}++) {statement}"),
            Self::Rust => format!("for {index} in 0..{count} {{ {statement} }}"),
        }
    }

    /// A number of the recurrent state.
    pub(super) fn memory(self, at: &str) -> String {
        match self {
            Self::C => format!("state->memory[{at}]"),
            Self::Rust => format!("state.memory[{at}]"),
        }
    }

    /// A constant inside a block.
    pub(super) fn local(self, name: &str, value: &str) -> String {
        match self {
            Self::C => format!("const float {name} = {value};"),
            Self::Rust => format!("let {name}: f32 = {value};"),
        }
    }

    /// The first line of a loop over several lines, which `}` ends.
    pub(super) fn block(self, index: char, count: usize) -> String {
        match self {
            Self::C => format!("for ({index} = 0; {index} < {count}; {index}++) {{"),
            Self::Rust => format!("for {index} in 0..{count} {{"),
        }
    }

    /// The declaration of an array of the function, of zeros in Rust.
    pub(super) fn variable(self, name: &str, scalars: usize) -> String {
        match self {
            Self::C => format!("float {name}[{scalars}];"),
            Self::Rust => format!("let mut {name} = [0.0_f32; {scalars}];"),
        }
    }

    /// The name, the beginning and the end of an array of constants.
    pub(super) fn array(self, place: usize, kind: Kind, count: usize) -> (String, String, &'static str) {
        match self {
            Self::C => {
                let kind = if kind == Kind::Float { "float" } else { "signed char" };
                (format!("c{place}"), format!("static const {kind} c{place}[{count}] = {{"), "};")
            }
            Self::Rust => {
                let kind = if kind == Kind::Float { "f32" } else { "i8" };
                (format!("C{place}"), format!("static C{place}: [{kind}; {count}] = ["), "];")
            }
        }
    }
}

/// The type of the numbers of a constant array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Float,
    /// Whole numbers of 8 bits.
    Byte,
}
