//! The way from the network's outputs to actions as the environment takes them.

use crate::export::misfit;
use crate::export::onnx::model::{Attribute, ElemType, Model};
use crate::export::onnx::network::{Network, masked};
use crate::sample::{FloatActions, PolicyToEnv};
use pavlov_envs::Space;
use pavlov_learn::Recording;
use pavlov_learn::base::{Error, Result};
use pavlov_learn::distributions::{ActionDist, HALF_LN_TAU, LOG_STD_MAX};

/// How actions are chosen.
pub(super) struct Choosing<'a> {
    pub(super) space: &'a Space,
    pub(super) to_env: &'a PolicyToEnv,
    /// The distribution of actions; `None` if the policy has none.
    pub(super) dist: Option<&'a ActionDist>,
    /// Whether actions are drawn, by the input `noise`, instead of the best being taken.
    pub(super) sample: bool,
}

/// Adds the outputs `action`, `head` and, for drawn actions, `logp`. `mask` is the name of the flags of legal actions.
///
/// # Errors
/// Returns [`Error::State`] if the policy has no distribution to draw from, or outputs that fit no action.
pub(super) fn actions(
    model: &mut Model,
    choosing: &Choosing<'_>,
    recording: &Recording,
    network: &Network,
    mask: Option<&str>,
) -> Result<()> {
    let columns = recording.columns[recording.head];
    let head = &network.values[recording.head];
    if choosing.sample && choosing.dist.is_none() {
        let reason = "it has no distribution to draw actions from; export it without sampling";
        return Err(Error::state("the policy", reason));
    }
    match choosing.to_env {
        PolicyToEnv::Int { start, sizes, .. } => {
            if columns != sizes.iter().sum::<usize>() {
                return Err(misfit(columns, choosing.space));
            }
            let head = mask.map_or_else(|| head.clone(), |mask| masked(model, head, mask));
            discrete(model, choosing, &head, sizes, start);
        }
        PolicyToEnv::Float { low, high, how, .. } => {
            let best = recording.best.map(|best| network.values[best].clone());
            let action = continuous(model, choosing, head, best, columns, low.len())?;
            let action = to_bounds(model, action, low, high, *how);
            let action = model.reshape(&action, &choosing.space.shape());
            let meaning = format!("actions as the environment takes them: {}", choosing.space);
            model.output("action", &action, ElemType::F32, &choosing.space.shape(), &meaning);
            let meaning = if choosing.dist.is_some() {
                "means, then logarithms of standard deviations"
            } else {
                "actions before they are scaled to the bounds"
            };
            model.output("head", head, ElemType::F32, &[columns], meaning);
        }
    }
    Ok(())
}

fn discrete(model: &mut Model, choosing: &Choosing<'_>, head: &str, sizes: &[usize], start: &[i64]) {
    let noise = choosing.sample.then(|| {
        model.input("noise", ElemType::F32, &[sizes.len()], "one uniform number in [0, 1) for each choice")
    });
    let mut choices = Vec::new();
    let mut logp: Option<String> = None;
    let mut first = 0;
    for (i, &n) in sizes.iter().enumerate() {
        let values = if sizes.len() == 1 { head.to_owned() } else { model.columns(head, first, n) };
        first += n;
        let mut choice = model.argmax(&values);
        if let Some(noise) = &noise {
            let number = model.columns(noise, i, 1);
            choice = drawn(model, &values, &choice, &number, n);
            let all = model.op_with("LogSoftmax", &[&values], &[("axis", Attribute::Int(1))]);
            let own = model.op_with("GatherElements", &[&all, &choice], &[("axis", Attribute::Int(1))]);
            logp = Some(logp.map_or(own.clone(), |sum| model.op("Add", &[&sum, &own])));
        }
        if let Some(&start) = start.get(i).filter(|start| **start != 0) {
            let start = model.integers(&[start]);
            choice = model.op("Add", &[&choice, &start]);
        }
        choices.push(choice);
    }
    let action = model.join(&choices);
    let shape =
        if matches!(choosing.space, Space::Discrete { .. }) { vec![] } else { choosing.space.shape() };
    let action = model.reshape(&action, &shape);
    let meaning = format!("actions as the environment takes them: {}", choosing.space);
    model.output("action", &action, ElemType::I64, &shape, &meaning);
    let meaning = match choosing.dist {
        Some(_) => "logits of the actions; -1e9 where an action is illegal",
        None => "values of the actions; -1e9 where an action is illegal",
    };
    model.output("head", head, ElemType::F32, &[sizes.iter().sum()], meaning);
    log_probability(model, logp);
}

/// Adds the choice that a uniform number draws from `n` logits: the first whose cumulated probability is above it.
fn drawn(model: &mut Model, logits: &str, best: &str, number: &str, n: usize) -> String {
    let by_row = [("axes", Attribute::Ints(vec![1])), ("keepdims", Attribute::Int(1))];
    let largest = model.op_with("ReduceMax", &[logits], &by_row);
    let shifted = model.op("Sub", &[logits, &largest]);
    let weights = model.op("Exp", &[&shifted]);
    let axis = model.integer(1);
    let sums = model.op("CumSum", &[&weights, &axis]);
    let total = model.columns(&sums, n - 1, 1);
    let point = model.op("Mul", &[number, &total]);
    let below = model.op("LessOrEqual", &[&sums, &point]);
    let below = model.cast(&below, ElemType::I64);
    let axes = model.integers(&[1]);
    let count = model.op_with("ReduceSum", &[&below, &axes], &by_row[1..]);
    let all = model.integers(&[n as i64]);
    // By rounding, the number may reach the total.
    let is_all = model.op("Equal", &[&count, &all]);
    model.op("Where", &[&is_all, best, &count])
}

/// The action before it is scaled to the bounds.
fn continuous(
    model: &mut Model,
    choosing: &Choosing<'_>,
    head: &str,
    best: Option<String>,
    columns: usize,
    dim: usize,
) -> Result<String> {
    if !choosing.sample {
        return match best {
            Some(best) => Ok(best),
            None if columns == dim => Ok(head.to_owned()),
            None => Err(misfit(columns, choosing.space)),
        };
    }
    let least = match choosing.dist {
        Some(ActionDist::SquashedGaussian { log_std_min, .. }) => Some(*log_std_min),
        _ => None,
    };
    let noise = model.input("noise", ElemType::F32, &[dim], "one standard normal number for each component");
    let mean = model.columns(head, 0, dim);
    let mut log_std = model.columns(head, dim, dim);
    if let Some(least) = least {
        for (bound, operator) in [(least, "Max"), (LOG_STD_MAX, "Min")] {
            let bound = model.number(bound);
            log_std = model.op(operator, &[&log_std, &bound]);
        }
    }
    let std = model.op("Exp", &[&log_std]);
    let moved = model.op("Mul", &[&std, &noise]);
    let before = model.op("Add", &[&mean, &moved]);
    // -noise^2 / 2 - log std - ln sqrt(2 pi), and behind tanh 2 (ln 2 - x - softplus(-2 x)) less.
    let square = model.op("Mul", &[&noise, &noise]);
    let half = model.number(-0.5);
    let density = model.op("Mul", &[&square, &half]);
    let density = model.op("Sub", &[&density, &log_std]);
    let constant = model.number(HALF_LN_TAU as f32);
    let mut density = model.op("Sub", &[&density, &constant]);
    let mut action = before.clone();
    if least.is_some() {
        action = model.op("Tanh", &[&before]);
        let two = model.number(-2.0);
        let inner = model.op("Mul", &[&before, &two]);
        let inner = model.op("Softplus", &[&inner]);
        let sum = model.op("Add", &[&before, &inner]);
        let ln2 = model.number(std::f32::consts::LN_2);
        let log_det = model.op("Sub", &[&ln2, &sum]);
        let log_det = model.op("Mul", &[&log_det, &two]);
        density = model.op("Add", &[&density, &log_det]);
    }
    let axes = model.integers(&[1]);
    let logp = model.op_with("ReduceSum", &[&density, &axes], &[("keepdims", Attribute::Int(1))]);
    log_probability(model, Some(logp));
    Ok(action)
}

fn log_probability(model: &mut Model, logp: Option<String>) {
    if let Some(logp) = logp {
        let logp = model.reshape(&logp, &[]);
        model.output(
            "logp",
            &logp,
            ElemType::F32,
            &[],
            "logarithm of the probability, or density, of the drawn action",
        );
    }
}

/// Scales actions in [-1, 1] to the bounds, or clips them, as training does.
fn to_bounds(model: &mut Model, action: String, low: &[f32], high: &[f32], how: FloatActions) -> String {
    let width = low.len();
    let mut bound = |numbers: Vec<f32>| model.numbers(&[1, width], numbers);
    let [below, above] = [low, high].map(|bounds| bound(bounds.to_vec()));
    let range = bound(low.iter().zip(high).map(|(low, high)| high - low).collect());
    let mut action = action;
    if how == FloatActions::Unsquash {
        let [one, two] = [1.0, 2.0].map(|number| model.number(number));
        action = model.op("Add", &[&action, &one]);
        action = model.op("Mul", &[&action, &range]);
        action = model.op("Div", &[&action, &two]);
        action = model.op("Add", &[&below, &action]);
    }
    if how != FloatActions::Keep {
        action = model.op("Max", &[&action, &below]);
        action = model.op("Min", &[&action, &above]);
    }
    action
}
