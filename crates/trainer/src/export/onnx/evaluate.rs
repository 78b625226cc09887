//! Runs a model in double precision, to compare it with the policy before a file is written.
//!
//! This is no runtime: it knows the operators that the writer uses, and how the writer uses them.

use crate::export::onnx::model::{Data, ElemType, Model, Node};
use ndarray::{ArrayD, Axis, Ix2, IxDyn, Slice, Zip, concatenate};
use std::collections::HashMap;

/// Values by name.
pub(in crate::export) type Values = HashMap<String, ArrayD<f64>>;

/// Computes all values of a model from its inputs, in double precision; `None` if an operator is unknown or shapes do not
/// fit.
pub(super) fn evaluate(model: &Model, mut values: Values) -> Option<Values> {
    for (name, constant) in &model.constants {
        let numbers = match &constant.data {
            Data::F32(numbers) => numbers.iter().map(|&x| f64::from(x)).collect(),
            Data::I64(numbers) => numbers.iter().map(|&x| x as f64).collect(),
        };
        values.insert(name.clone(), ArrayD::from_shape_vec(IxDyn(&constant.shape), numbers).ok()?);
    }
    for node in &model.nodes {
        let inputs: Option<Vec<&ArrayD<f64>>> = node.inputs.iter().map(|name| values.get(name)).collect();
        let value = apply(node, &inputs?)?;
        values.insert(node.output.clone(), value);
    }
    Some(values)
}

fn apply(node: &Node, inputs: &[&ArrayD<f64>]) -> Option<ArrayD<f64>> {
    let &x = inputs.first()?;
    let other = || inputs.get(1).copied();
    Some(match node.op {
        "Identity" => x.clone(),
        "Cast" => match node.int("to")? {
            to if to == ElemType::Bool.code() as i64 => x.mapv(|x| f64::from(u8::from(x != 0.0))),
            to if to == ElemType::I64.code() as i64 => x.mapv(f64::trunc),
            _ => x.clone(),
        },
        "Exp" => x.mapv(f64::exp),
        "Log" => x.mapv(f64::ln),
        "Sqrt" => x.mapv(f64::sqrt),
        "Abs" => x.mapv(f64::abs),
        "Sign" => x.mapv(|x| if x == 0.0 { 0.0 } else { x.signum() }),
        "Tanh" => x.mapv(f64::tanh),
        "Sigmoid" => x.mapv(|x| 1.0 / (1.0 + (-x).exp())),
        "Softplus" => x.mapv(|x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
        "Relu" => x.mapv(|x| x.max(0.0)),
        "Elu" => x.mapv(|x| if x > 0.0 { x } else { x.exp_m1() }),
        "Add" => pairs(x, other()?, |a, b| a + b)?,
        "Sub" => pairs(x, other()?, |a, b| a - b)?,
        "Mul" => pairs(x, other()?, |a, b| a * b)?,
        "Div" => pairs(x, other()?, |a, b| a / b)?,
        "Max" => pairs(x, other()?, f64::max)?,
        "Min" => pairs(x, other()?, f64::min)?,
        "Equal" => pairs(x, other()?, |a, b| f64::from(u8::from(a == b)))?,
        "LessOrEqual" => pairs(x, other()?, |a, b| f64::from(u8::from(a <= b)))?,
        "Where" => {
            // Chosen in two steps: each operand may be repeated for the rows or columns of the others.
            let chosen = pairs(x, other()?, |legal, value| if legal != 0.0 { value } else { f64::NAN })?;
            let rest = pairs(x, inputs.get(2)?, |legal, value| if legal != 0.0 { f64::NAN } else { value })?;
            pairs(&chosen, &rest, |a, b| if a.is_nan() { b } else { a })?
        }
        "Gemm" => {
            let x = x.view().into_dimensionality::<Ix2>().ok()?;
            let weight = other()?.view().into_dimensionality::<Ix2>().ok()?;
            pairs(&x.dot(&weight.t()).into_dyn(), inputs.get(2)?, |a, b| a + b)?
        }
        "Conv" => convolution(node, x, other()?, inputs.get(2)?)?,
        "Reshape" => reshape(x, other()?)?,
        "Transpose" => {
            let axes: Vec<usize> = node.ints("perm")?.iter().map(|&axis| axis as usize).collect();
            x.view().permuted_axes(IxDyn(&axes)).as_standard_layout().into_owned()
        }
        "Shape" => {
            ArrayD::from_shape_vec(IxDyn(&[x.ndim()]), x.shape().iter().map(|&n| n as f64).collect()).ok()?
        }
        "Slice" => {
            let number = |at: usize| inputs.get(at).map(|of| of[[0]] as usize);
            let axis = number(3).unwrap_or(0);
            x.slice_axis(Axis(axis), Slice::from(number(1)?..number(2)?)).as_standard_layout().into_owned()
        }
        "Concat" => {
            let parts: Vec<_> = inputs.iter().map(|part| part.view()).collect();
            concatenate(Axis(node.int("axis")? as usize), &parts).ok()?
        }
        "Expand" => {
            let shape: Vec<usize> = other()?.iter().map(|&n| n as usize).collect();
            x.broadcast(IxDyn(&shape))?.to_owned()
        }
        "ReduceSum" => by_row(x, |row| row.iter().sum()),
        "ReduceMean" => by_row(x, |row| row.iter().sum::<f64>() / row.len() as f64),
        "ReduceMax" => by_row(x, largest),
        "ReduceLogSumExp" => by_row(x, log_sum),
        "ArgMax" => by_row(x, |row| {
            // The first of equal ones.
            (0..row.len()).rev().max_by(|&a, &b| row[a].total_cmp(&row[b])).unwrap_or_default() as f64
        }),
        "LogSoftmax" => pairs(x, &by_row(x, log_sum), |a, b| a - b)?,
        "CumSum" => {
            let mut sums = x.clone();
            sums.accumulate_axis_inplace(Axis(1), |&before, now| *now += before);
            sums
        }
        "GatherElements" => {
            let index = other()?;
            let x = x.view().into_dimensionality::<Ix2>().ok()?;
            let index = index.view().into_dimensionality::<Ix2>().ok()?;
            Zip::indexed(&index).map_collect(|(row, _), &column| x[[row, column as usize]]).into_dyn()
        }
        _ => return None,
    })
}

/// Combines the elements of two values; dimensions of 1 are repeated, missing ones are added in front.
fn pairs(a: &ArrayD<f64>, b: &ArrayD<f64>, f: impl Fn(f64, f64) -> f64) -> Option<ArrayD<f64>> {
    let dims = a.ndim().max(b.ndim());
    let size = |of: &ArrayD<f64>, i: usize| (i + of.ndim()).checked_sub(dims).map_or(1, |at| of.shape()[at]);
    let shape: Vec<usize> = (0..dims).map(|i| size(a, i).max(size(b, i))).collect();
    let [a, b] = [a.broadcast(IxDyn(&shape))?, b.broadcast(IxDyn(&shape))?];
    Some(Zip::from(&a).and(&b).map_collect(|&a, &b| f(a, b)))
}

fn largest(row: &[f64]) -> f64 {
    row.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn log_sum(row: &[f64]) -> f64 {
    let largest = largest(row);
    largest + row.iter().map(|x| (x - largest).exp()).sum::<f64>().ln()
}

/// One number per row of a matrix, `[rows, 1]`.
fn by_row(x: &ArrayD<f64>, f: impl Fn(&[f64]) -> f64) -> ArrayD<f64> {
    x.map_axis(Axis(1), |row| f(&row.to_vec())).insert_axis(Axis(1))
}

fn reshape(x: &ArrayD<f64>, shape: &ArrayD<f64>) -> Option<ArrayD<f64>> {
    let known: usize = shape.iter().filter(|&&n| n >= 0.0).map(|&n| n as usize).product();
    let size = |&n: &f64| if n < 0.0 { x.len() / known.max(1) } else { n as usize };
    let shape: Vec<usize> = shape.iter().map(size).collect();
    ArrayD::from_shape_vec(IxDyn(&shape), x.iter().copied().collect()).ok()
}

/// A convolution over `[rows, channels, height, width]`.
fn convolution(
    node: &Node,
    x: &ArrayD<f64>,
    weight: &ArrayD<f64>,
    bias: &ArrayD<f64>,
) -> Option<ArrayD<f64>> {
    let [strides, pads] = [node.ints("strides")?, node.ints("pads")?];
    let &[rows, channels, height, width] = x.shape() else { return None };
    let &[out, _, high, wide] = weight.shape() else { return None };
    let along = |size: usize, pads: i64, kernel: usize, stride: i64| {
        (size + pads as usize - kernel) / stride as usize + 1
    };
    let down = along(height, pads[0] + pads[2], high, strides[0]);
    let across = along(width, pads[1] + pads[3], wide, strides[1]);
    let mut y = ArrayD::zeros(IxDyn(&[rows, out, down, across]));
    for ((row, to, i, j), y) in ndarray::indices((rows, out, down, across)).into_iter().zip(y.iter_mut()) {
        let mut sum = bias[[to]];
        for (channel, a, b) in ndarray::indices((channels, high, wide)) {
            let at = |i: usize, stride: i64, offset: usize, pad: i64, size: usize| {
                (i * stride as usize + offset).checked_sub(pad as usize).filter(|at| *at < size)
            };
            let (Some(r), Some(c)) =
                (at(i, strides[0], a, pads[0], height), at(j, strides[1], b, pads[1], width))
            else {
                continue;
            };
            sum += x[[row, channel, r, c]] * weight[[to, channel, a, b]];
        }
        *y = sum;
    }
    Some(y)
}
