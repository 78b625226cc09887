//! The check of a plan that may come from a stranger: after it nothing that the plan computes can fail.

use crate::export::pack::file::{Tensor, Tensors};
use crate::export::pack::plan::{Plan, Step, op};
use pavlov_learn::loss::{Cell, Layer, Op};
use std::collections::{BTreeMap, BTreeSet};

/// Largest number of steps.
const MAX_STEPS: usize = 10_000;
/// Largest number of columns of all steps together.
pub(super) const MAX_COLUMNS: usize = 1 << 22;

/// A plan that was checked: its layers with indices of weights, and the order of the weights.
#[derive(Clone, Debug)]
pub(super) struct Checked {
    pub(super) nodes: Vec<Node>,
    /// Number of columns of the outputs.
    pub(super) columns: usize,
    /// The names of the weights, in the order in which layers number them.
    pub(super) order: Vec<String>,
    /// Number of scalars of the recurrent state.
    pub(super) memory: usize,
    /// Number of equal parts of that state, as in [`NetBuilder`](pavlov_learn::nets::NetBuilder).
    pub(super) memory_parts: usize,
}

/// A step that was checked.
#[derive(Clone, Debug)]
pub(super) enum Node {
    Obs,
    Mask,
    Apply(Op, Vec<usize>),
    Layer(Layer, Vec<usize>),
}

/// The steps so far.
struct Walk<'a> {
    tensors: &'a Tensors,
    nodes: Vec<Node>,
    columns: Vec<usize>,
    order: Vec<String>,
    used: BTreeSet<&'a str>,
    /// The first weight of each layer, by its name, with the names of the layer's other weights.
    layers: BTreeMap<&'a str, (usize, &'a [String])>,
    memory: usize,
    memory_parts: usize,
}

/// Checks a plan for observations of `obs` columns and masks of `options` flags.
///
/// # Errors
/// Returns a sentence that says what in the plan is refused.
pub(super) fn check(
    plan: &Plan,
    tensors: &Tensors,
    obs: usize,
    options: Option<usize>,
) -> Result<Checked, String> {
    if plan.steps.len() > MAX_STEPS {
        return Err(format!("its plan has {} steps; at most {MAX_STEPS} are taken", plan.steps.len()));
    }
    let mut walk = Walk {
        tensors,
        nodes: Vec::new(),
        columns: Vec::new(),
        order: Vec::new(),
        used: BTreeSet::new(),
        layers: BTreeMap::new(),
        memory: 0,
        memory_parts: 1,
    };
    let mut total = 0;
    for (at, step) in plan.steps.iter().enumerate() {
        let refuse = |why: String| format!("step {at} of its plan is refused: {why}");
        let (node, columns) = walk.step(step, obs, options).map_err(refuse)?;
        total += columns;
        if total > MAX_COLUMNS {
            return Err(refuse(format!("its values have more than {MAX_COLUMNS} columns together")));
        }
        walk.nodes.push(node);
        walk.columns.push(columns);
    }
    let columns = walk.columns.get(plan.head).copied().filter(|&columns| columns > 0);
    let columns = columns.filter(|_| !matches!(walk.nodes[plan.head], Node::Mask));
    let columns = columns.ok_or_else(|| format!("its outputs are step {}, which gives none", plan.head))?;
    if let Some(name) = tensors.keys().find(|name| !walk.used.contains(name.as_str())) {
        return Err(format!("its plan does not name the array {name:?}"));
    }
    let Walk { nodes, order, memory, memory_parts, .. } = walk;
    Ok(Checked { nodes, columns, order, memory, memory_parts })
}

impl<'a> Walk<'a> {
    fn step(&mut self, step: &'a Step, obs: usize, options: Option<usize>) -> Result<(Node, usize), String> {
        match step {
            Step::Obs => Ok((Node::Obs, obs)),
            Step::Mask => Ok((Node::Mask, options.ok_or("the policy takes no masks of legal actions")?)),
            Step::Apply { name, of, with } => {
                let op = op(name, with).ok_or_else(|| {
                    format!("this version of pavlov knows no operation {name:?} with {} numbers", with.len())
                })?;
                let columns = self.apply(op, of)?;
                Ok((Node::Apply(op, of.clone()), columns))
            }
            Step::Dense { of, activation, weights } => {
                let weight = self.weights(weights, false)?;
                let [out, inputs] = self.shape(weights, 0)?;
                self.has_shape(weights, 1, &[out])?;
                self.has_columns(*of, inputs)?;
                let layer = Layer::Dense { weight, inputs, out, activation: *activation };
                Ok((Node::Layer(layer, vec![*of]), out))
            }
            Step::Conv2d { of, input, stride, padding, activation, weights } => {
                let weight = self.weights(weights, false)?;
                let [out, channels, tall, wide] = self.shape(weights, 0)?;
                self.has_shape(weights, 1, &[out])?;
                let [from, height, width] = *input;
                if from != channels || [height, width].iter().chain(padding).any(|&n| n > MAX_COLUMNS) {
                    return Err(format!("weights of {channels} channels do not fit an image of {input:?}"));
                }
                self.has_columns(*of, product(input)?)?;
                let [left, right, top, bottom] = *padding;
                let along = |size: usize, kernel: usize, stride: usize| {
                    (kernel > 0 && stride > 0 && kernel <= size).then(|| (size - kernel) / stride + 1)
                };
                let rows = along(height + top + bottom, tall, stride[0]);
                let columns = along(width + left + right, wide, stride[1]);
                let (Some(rows), Some(columns)) = (rows, columns) else {
                    return Err(format!("a kernel of {tall} x {wide} does not fit an image of {input:?}"));
                };
                let layer = Layer::Conv2d {
                    weight,
                    input: *input,
                    stride: *stride,
                    padding: *padding,
                    activation: *activation,
                };
                Ok((Node::Layer(layer, vec![*of]), product(&[out, rows, columns])?))
            }
            Step::Norm { of, weights } => {
                let weight = self.weights(weights, false)?;
                let [width] = self.shape(weights, 0)?;
                self.has_shape(weights, 1, &[width])?;
                self.has_columns(*of, width)?;
                Ok((Node::Layer(Layer::Norm { weight, width }, vec![*of]), width))
            }
            Step::Gru { of, weights } => self.recurrent(*of, weights, Cell::Gru),
            Step::Lstm { of, weights } => self.recurrent(*of, weights, Cell::Lstm),
            Step::Free { weights } => {
                let parameter = self.weights(weights, false)?;
                let [width] = self.shape(weights, 0)?;
                Ok((Node::Layer(Layer::Free { parameter }, Vec::new()), width))
            }
        }
    }

    fn recurrent(
        &mut self,
        of: usize,
        weights: &'a [String; 4],
        cell: Cell,
    ) -> Result<(Node, usize), String> {
        let weight = self.weights(weights, true)?;
        let [rows, inputs] = self.shape(weights, 0)?;
        let units = rows / cell.gates();
        if units * cell.gates() != rows {
            return Err(format!("{rows} rows of weights are no {} gates", cell.gates()));
        }
        self.has_shape(weights, 1, &[rows])?;
        self.has_shape(weights, 2, &[rows, units])?;
        self.has_shape(weights, 3, &[rows])?;
        self.has_columns(of, inputs)?;
        let memory = self.memory;
        self.memory += cell.memory(units);
        self.memory_parts = if memory == 0 { cell.parts() } else { 1 };
        Ok((Node::Layer(Layer::Recurrent { weight, units, cell, memory }, vec![of]), units))
    }

    /// The number of the first weight of a layer. A layer's weights follow each other, so no two layers share one.
    fn weights(&mut self, names: &'a [String], once: bool) -> Result<usize, String> {
        if let Some((first, others)) = self.layers.get(names[0].as_str()) {
            return if *others == names && !once {
                Ok(*first)
            } else {
                Err(format!("the array {:?} is the weights of another layer", names[0]))
            };
        }
        let first = self.order.len();
        for name in names {
            if !self.tensors.contains_key(name) {
                return Err(format!("the file has no array {name:?}"));
            }
            if !self.used.insert(name) {
                return Err(format!("the array {name:?} is the weights of another layer"));
            }
            self.order.push(name.clone());
        }
        self.layers.insert(&names[0], (first, names));
        Ok(first)
    }

    fn tensor(&self, names: &[String], at: usize) -> Result<&'a Tensor, String> {
        self.tensors.get(&names[at]).ok_or_else(|| format!("the file has no array {:?}", names[at]))
    }

    /// The dimensions of a weight, each at least 1.
    fn shape<const N: usize>(&self, names: &[String], at: usize) -> Result<[usize; N], String> {
        let shape = &self.tensor(names, at)?.shape;
        let found: Option<[usize; N]> = shape.as_slice().try_into().ok();
        found.filter(|shape| !shape.contains(&0)).ok_or_else(|| {
            format!("the array {:?} has the shape {shape:?}, but the layer needs {N} dimensions", names[at])
        })
    }

    fn has_shape(&self, names: &[String], at: usize, wanted: &[usize]) -> Result<(), String> {
        let shape = &self.tensor(names, at)?.shape;
        if shape == wanted {
            return Ok(());
        }
        Err(format!("the array {:?} has the shape {shape:?}, but the layer needs {wanted:?}", names[at]))
    }

    /// Number of columns of an earlier step, which must not be the mask.
    fn value(&self, of: usize) -> Result<usize, String> {
        match self.nodes.get(of) {
            None => Err(format!("it uses step {of}, which does not come before it")),
            Some(Node::Mask) => Err("it uses the mask, which only the operation \"mask\" may".into()),
            Some(_) => Ok(self.columns[of]),
        }
    }

    fn has_columns(&self, of: usize, wanted: usize) -> Result<(), String> {
        let found = self.value(of)?;
        if found == wanted {
            return Ok(());
        }
        Err(format!("it uses step {of}, which has {found} columns, but {wanted} are needed"))
    }

    /// Number of columns of an operation's result.
    fn apply(&self, op: Op, of: &[usize]) -> Result<usize, String> {
        let operands = match op {
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Minimum | Op::Maximum => 2,
            Op::Cat | Op::Mask | Op::Gather(_) => 2,
            _ => 1,
        };
        if of.len() != operands {
            return Err(format!("{op:?} takes {operands} values, but {} are named", of.len()));
        }
        let first = self.value(of[0])?;
        let misfit = || Err(format!("{op:?} does not fit {first} columns"));
        match op {
            Op::Mask => match self.nodes.get(of[1]) {
                Some(Node::Mask) if self.columns[of[1]] == first => Ok(first),
                _ => misfit(),
            },
            Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Minimum | Op::Maximum => {
                let second = self.value(of[1])?;
                if first == second || first == 1 || second == 1 { Ok(first.max(second)) } else { misfit() }
            }
            Op::Cat => Ok(first + self.value(of[1])?),
            Op::Narrow(start, len) => {
                if len > 0 && start + len <= first {
                    Ok(len)
                } else {
                    misfit()
                }
            }
            Op::Gather(width) => {
                // An index that is the place of a largest number is in range.
                let is_place = match self.nodes.get(of[1]) {
                    Some(Node::Apply(Op::Argmax, choices)) => {
                        width.checked_mul(self.columns[choices[0]]) == Some(first)
                    }
                    _ => false,
                };
                if is_place { Ok(width) } else { misfit() }
            }
            Op::Argmax | Op::SumColumns | Op::MeanColumns | Op::LogSumExp | Op::Expectation(..) => Ok(1),
            _ => Ok(first),
        }
    }
}

/// The product of sizes, if it is no more than a plan may have.
fn product(sizes: &[usize]) -> Result<usize, String> {
    let size = sizes.iter().try_fold(1_usize, |size, &n| size.checked_mul(n));
    size.filter(|&size| size <= MAX_COLUMNS).ok_or_else(|| format!("an image of {sizes:?} is too large"))
}
