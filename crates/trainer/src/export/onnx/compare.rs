//! Comparison of a model with the policy that it was made of, on random observations.

use crate::export::onnx::evaluate::Values;
use crate::export::onnx::model::{Model, Port};
use crate::export::spaces::{draw, tame};
use crate::policy::Policy;
use crate::sample::Inference;
use ndarray::{ArrayD, Axis, IxDyn, concatenate};
use pavlov_envs::{DType, NpRandom};
use pavlov_learn::base::{Error, Result};

/// Number of steps in which the model and the policy act side by side; a recurrent state goes from each to the next.
const STEPS: usize = 64;

/// Largest difference of a number, relative to 1 and the largest number of its row.
const TOLERANCE: f64 = 1e-5;

/// Function from the inputs of an exported model to its outputs; `None` if the model cannot be run.
pub(in crate::export) type Run<'a> = dyn Fn(Values) -> Option<Values> + 'a;

/// Returns an error if the outputs of the model, which `run` computes, differ from the policy's on random observations,
/// masks and recurrent states. Recurrent states and masks are afterwards what they were before.
pub(in crate::export) fn compare(
    model: &Model,
    desk: &mut Inference,
    policy: &mut dyn Policy,
    sample: bool,
    run: &Run<'_>,
) -> Result<()> {
    let before = desk.connector.running();
    let masks = desk.storage.masks.as_mut().map(|masks| masks.row(0).to_vec());
    (0..desk.copies()).for_each(|copy| desk.connector.begin(copy, None));
    let compared = act_side_by_side(model, desk, policy, sample, run);
    desk.connector.set_running(before);
    if let (Some(own), Some(before)) = (&mut desk.storage.masks, masks) {
        own.row(0).copy_from_slice(&before);
    }
    compared
}

fn act_side_by_side(
    model: &Model,
    desk: &mut Inference,
    policy: &mut dyn Policy,
    sample: bool,
    run: &Run<'_>,
) -> Result<()> {
    let mut random = NpRandom::new(0);
    let tame = tame(&desk.space);
    for _ in 0..STEPS {
        draw(&tame, &mut random, desk.connector.first(&mut desk.storage));
        if let Some(masks) = &mut desk.storage.masks {
            desk.connector.draw_masks(masks.row(0), &mut random);
        }
        let inputs = inputs(model, desk, &mut random);
        let values = run(inputs).ok_or_else(|| differs("it cannot be run"))?;
        desk.connector.observe(&mut desk.storage, 0, false)?;
        let (head, memory) = desk.connector.outputs(policy, &mut desk.storage)?;
        same_numbers(
            "head",
            &values["head"],
            &head,
            desk.storage.masks.as_mut().map(|masks| &*masks.row(0)),
        )?;
        let next: Vec<_> =
            model.outputs.iter().filter(|port| is_next(port)).map(|port| values[&port.name].view()).collect();
        if !next.is_empty() {
            let next =
                concatenate(Axis(1), &next).map_err(|_| differs("its recurrent states differ in rows"))?;
            same_numbers("recurrent state", &next, &memory, None)?;
        }
        desk.connector.act(policy, &mut desk.storage, 0, false, u64::MAX)?;
        let discrete = desk.connector.is_discrete();
        let taken = desk.connector.exchange(&mut desk.storage, 0).0;
        if sample {
            continue;
        }
        if discrete {
            same_choices(&values, bytemuck::cast_slice(taken))?;
        } else {
            same_numbers("action", &values["action"], bytemuck::cast_slice(taken), None)?;
        }
    }
    Ok(())
}

/// Whether an output is a recurrent state.
fn is_next(port: &Port) -> bool {
    port.name.ends_with("_next")
}

/// The model's inputs: those of the policy's next step, and random noise.
fn inputs(model: &Model, desk: &mut Inference, random: &mut NpRandom) -> Values {
    let mut values = Values::new();
    let memory: Vec<f64> = desk.connector.memories().iter().map(|&x| f64::from(x)).collect();
    let width: usize = model.outputs.iter().filter(|port| is_next(port)).map(Port::width).sum();
    let mut used = 0;
    for port in &model.inputs {
        let numbers: Vec<f64> = match port.name.as_str() {
            "obs" => {
                let dtype = desk.space.dtype();
                numbers(desk.connector.first(&mut desk.storage), dtype)
            }
            "mask" => {
                let masks =
                    desk.storage.masks.as_mut().map(|masks| masks.row(0).to_vec()).unwrap_or_default();
                masks.into_iter().map(|legal| f64::from(u8::from(legal))).collect()
            }
            "noise" => (0..desk.copies() * port.width()).map(|_| random.random()).collect(),
            _ => {
                let own = used..used + port.width();
                used = own.end;
                memory.chunks_exact(width).flat_map(|row| row[own.clone()].to_vec()).collect()
            }
        };
        if let Some(array) = shaped(port, numbers) {
            values.insert(port.name.clone(), array);
        }
    }
    values
}

fn shaped(port: &Port, numbers: Vec<f64>) -> Option<ArrayD<f64>> {
    let rows = numbers.len() / port.width();
    let shape: Vec<usize> = std::iter::once(rows).chain(port.shape.iter().copied()).collect();
    ArrayD::from_shape_vec(IxDyn(&shape), numbers).ok()
}

fn numbers(bytes: &[u8], dtype: DType) -> Vec<f64> {
    match dtype {
        DType::U8 => bytes.iter().map(|&x| f64::from(x)).collect(),
        DType::I64 => bytemuck::cast_slice::<_, i64>(bytes).iter().map(|&x| x as f64).collect(),
        DType::F32 => bytemuck::cast_slice::<_, f32>(bytes).iter().map(|&x| f64::from(x)).collect(),
        DType::F64 => bytemuck::cast_slice::<_, f64>(bytes).to_vec(),
    }
}

/// Numbers of illegal actions count for nothing: the policy may leave them as they are.
fn same_numbers(what: &str, found: &ArrayD<f64>, wanted: &[f32], legal: Option<&[bool]>) -> Result<()> {
    if found.len() != wanted.len() {
        return Err(differs(&format!(
            "its `{what}` has {} numbers instead of {}",
            found.len(),
            wanted.len()
        )));
    }
    let counts = |i: usize| legal.is_none_or(|legal| legal[i]);
    let size = wanted.iter().enumerate().filter(|(i, _)| counts(*i)).map(|(_, x)| f64::from(x.abs()));
    let tolerance = TOLERANCE * (1.0 + size.fold(0.0, f64::max));
    for (i, (&found, &wanted)) in found.iter().zip(wanted).enumerate().filter(|(i, _)| counts(*i)) {
        let is_same = (found - f64::from(wanted)).abs() <= tolerance || (found.is_nan() && wanted.is_nan());
        if !is_same {
            return Err(differs(&format!(
                "number {i} of its `{what}` is {found} where the policy's is {wanted}"
            )));
        }
    }
    Ok(())
}

/// Choices are equal, or their values nearly are.
fn same_choices(values: &Values, wanted: &[i64]) -> Result<()> {
    let found = &values["action"];
    if found.iter().map(|&choice| choice as i64).eq(wanted.iter().copied()) {
        return Ok(());
    }
    let head: Vec<f64> = values["head"].iter().copied().collect();
    let mut sorted = head.clone();
    sorted.sort_by(f64::total_cmp);
    let is_close = sorted.windows(2).any(|pair| pair[1] - pair[0] <= TOLERANCE * (1.0 + pair[1].abs()));
    if is_close {
        return Ok(());
    }
    Err(differs(&format!("its action is {found} where the policy's is {wanted:?}, by {head:?}")))
}

fn differs(how: &str) -> Error {
    let reason = format!(
        "{how}: no file was written. The policy may choose its actions by a rule of its own; act with `pavlov::load` instead"
    );
    Error::state("the exported policy", reason)
}
