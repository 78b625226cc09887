//! The place of each parameter in the flat buffer.

use crate::params::ModulePlace;

/// Names, shapes and places of parameters in the flat buffer.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) shapes: Vec<(String, Vec<i64>)>,
    /// Index of each parameter's first number in the flat buffer; the last entry is the end of the last parameter.
    pub(super) starts: Vec<usize>,
    /// The modules in tch whose variables are among the parameters.
    pub(crate) modules: Vec<ModulePlace>,
}

impl Layout {
    pub(crate) fn new(shapes: Vec<(String, Vec<i64>)>) -> Self {
        let mut starts = vec![0];
        for (_, shape) in &shapes {
            starts.push(starts[starts.len() - 1] + shape.iter().product::<i64>() as usize);
        }
        Self { shapes, starts, modules: Vec::new() }
    }

    /// The range in the flat buffer of the parameter that [`ParamsBuilder::add`](crate::params::ParamsBuilder::add)
    /// numbered `i`.
    pub(crate) fn range(&self, i: usize) -> std::ops::Range<usize> {
        self.starts[i]..self.starts[i + 1]
    }

    /// Number of scalars of all parameters together.
    pub(crate) fn size(&self) -> usize {
        self.starts[self.starts.len() - 1]
    }
}
