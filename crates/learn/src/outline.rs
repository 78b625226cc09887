//! The outline of a network: its layers and operations in words, without the numbers of its parameters.

use crate::loss::{Cell, Layer};
use crate::recording::{Parameter, RecordedOp, Recording};

impl Recording {
    /// Describes the network, one line for each step: operations, and layers with the names and shapes of their
    /// parameters. Networks that compute the same with the same parameters, written alike, have the same outline.
    pub fn outline(&self) -> Vec<String> {
        let steps = self.steps.iter().zip(&self.columns);
        let lines = steps.enumerate().map(|(at, (step, columns))| format!("{at}: {}", line(step, *columns)));
        let best = self.best.map(|best| format!(", best actions {best}")).unwrap_or_default();
        lines.chain([format!("outputs {}{best}", self.head)]).collect()
    }
}

fn line(step: &RecordedOp, columns: usize) -> String {
    match step {
        RecordedOp::Obs => format!("observations of {columns} numbers"),
        RecordedOp::Mask => format!("masks of {columns} actions"),
        RecordedOp::Number(number) => format!("the number {number}"),
        RecordedOp::Apply(op, operands) => format!("{op:?} of {}", list(operands)),
        RecordedOp::Layer(layer, operands, parameters) => {
            let what = match layer {
                Layer::Dense { activation, .. } => format!("Dense {activation:?}"),
                Layer::Noisy { activation, .. } => format!("Noisy {activation:?}"),
                Layer::Conv2d { input, stride, padding, activation, .. } => {
                    format!("Conv2d {activation:?} of {input:?}, stride {stride:?}, padding {padding:?},")
                }
                Layer::Norm { .. } => "Norm".into(),
                Layer::Recurrent { cell: Cell::Gru, .. } => "Gru".into(),
                Layer::Recurrent { cell: Cell::Lstm, .. } => "Lstm".into(),
                Layer::Free { .. } => "Free".into(),
            };
            let named = |parameter: &Parameter| format!("{} {:?}", parameter.name, parameter.shape);
            let named: Vec<String> = parameters.iter().map(named).collect();
            let of = if operands.is_empty() { String::new() } else { format!(" of {}", list(operands)) };
            format!("{what} {}{of}", named.join(", "))
        }
    }
}

fn list(operands: &[usize]) -> String {
    operands.iter().map(usize::to_string).collect::<Vec<_>>().join(" and ")
}
