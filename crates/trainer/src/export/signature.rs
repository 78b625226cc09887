//! What an exported function takes and gives, in words, for those who call it.

use pavlov_envs::{DType, Space};
use serde::Serialize;
use serde_json::json;

/// What an exported function takes and gives.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Signature {
    /// The rows that the function takes.
    pub takes: String,
    /// The rows that it gives, and how an action is made of them.
    pub gives: String,
}

/// What is to be known of a policy for its [`Signature`].
#[derive(Debug)]
pub(crate) struct Outputs<'a> {
    pub(crate) observation_space: &'a Space,
    pub(crate) action_space: &'a Space,
    /// Number of columns of the outputs.
    pub(crate) columns: usize,
    /// Whether the outputs are actions as the environment takes them.
    pub(crate) are_actions: bool,
}

impl Signature {
    pub(crate) fn of(outputs: &Outputs<'_>) -> Signature {
        let Outputs { observation_space, action_space, columns, are_actions } = outputs;
        let shape = match observation_space {
            Space::Box { shape, .. } => shape.clone(),
            other => vec![other.width()],
        };
        let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
        let takes = format!(
            "{} [rows, {}], observations of {observation_space} as the environment writes them",
            match observation_space.dtype() {
                DType::U8 => "uint8",
                DType::I64 => "int64",
                DType::F32 => "float32",
                DType::F64 => "float64",
            },
            shape.join(", ")
        );
        let meaning = match action_space {
            _ if *are_actions => "actions, as the environment takes them".to_owned(),
            Space::Discrete { start, .. } => {
                format!(
                    "a logit or a Q-value of each action: the highest is the best, and the first is action {start}"
                )
            }
            Space::MultiDiscrete { nvec, .. } => {
                format!(
                    "logits or Q-values of {nvec:?} options, choice after choice: the highest of each choice is the best"
                )
            }
            other => format!(
                "the mean of each component, then the logarithms of the deviations: the means, clamped to [-1, 1] and \
                 stretched to the bounds of {other}, are the best action"
            ),
        };
        Signature { takes, gives: format!("float32 [rows, {columns}], {meaning}") }
    }

    /// The text of the file that stands beside an exported function.
    pub(crate) fn to_json(&self, outputs: &Outputs<'_>) -> String {
        let Outputs { observation_space, action_space, columns, .. } = outputs;
        let all = json!({
            "takes": self.takes,
            "gives": self.gives,
            "observation_space": observation_space.to_string(),
            "action_space": action_space.to_string(),
            "columns": columns,
        });
        format!("{all:#}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(action_space: &Space, columns: usize, are_actions: bool) -> Signature {
        let observation_space = &Space::real(&[4]);
        Signature::of(&Outputs { observation_space, action_space, columns, are_actions })
    }

    #[test]
    fn each_kind_of_policy_says_what_its_columns_are() {
        let choices = of(&Space::discrete(2), 2, false);
        assert!(choices.takes.starts_with("float32 [rows, 4], observations of Box("), "{}", choices.takes);
        assert!(
            choices.gives.starts_with("float32 [rows, 2], a logit or a Q-value of each action"),
            "{}",
            choices.gives
        );
        let torques = Space::boxed(-2.0, 2.0, &[1]);
        assert!(of(&torques, 2, false).gives.contains("the mean of each component, then the logarithms"));
        assert!(of(&torques, 1, true).gives.ends_with("actions, as the environment takes them"));
    }
}
