//! The way from observations as the environment writes them to the network's numbers: flattening, filter, encoding.

use crate::export::onnx::model::{Attribute, ElemType, Model};
use crate::export::spaces::RawObservations;
use pavlov_envs::Space;
use pavlov_learn::params::{Encoding, Part};

/// Adds the input `obs` and what turns it into encoded observations; returns their name.
pub(super) fn observations(model: &mut Model, raw: &RawObservations<'_>, encoding: &Encoding) -> String {
    let kind = raw.kind();
    let meaning = format!("observations as the environment writes them: {}", raw.space);
    let mut x = model.input("obs", kind, &raw.shape(), &meaning);
    if raw.is_flattened {
        let rows = Encoding::flat(raw.space);
        x = if matches!(raw.space, Space::Box { .. }) {
            let flat = model.reshape(&x, &[raw.space.width()]);
            model.cast(&flat, ElemType::F32)
        } else {
            encode(model, &x, kind, &rows)
        };
    }
    if let Some((mean, std)) = &raw.filter {
        x = filter(model, &x, mean, std);
    }
    let stored = if raw.is_flattened || raw.filter.is_some() { ElemType::F32 } else { kind };
    encode(model, &x, stored, encoding)
}

/// Subtracts the mean and divides by the deviation, as the observation filter does. The mean is a number of double
/// precision, given as the sum of two of single precision, so that no digit of a large mean is lost.
fn filter(model: &mut Model, x: &str, mean: &[f64], std: &[f64]) -> String {
    let width = mean.len();
    let high: Vec<f32> = mean.iter().map(|&mean| mean as f32).collect();
    let low = mean.iter().zip(&high).map(|(&mean, &high)| (mean - f64::from(high)) as f32).collect();
    let high = model.numbers(&[1, width], high);
    let low = model.numbers(&[1, width], low);
    let std = model.numbers(&[1, width], std.iter().map(|&std| std as f32).collect());
    let x = model.cast(x, ElemType::F32);
    let x = model.reshape(&x, &[width]);
    let x = model.op("Sub", &[&x, &high]);
    let x = model.op("Sub", &[&x, &low]);
    model.op("Div", &[&x, &std])
}

/// Encodes raw rows: numbers unchanged, integers one-hot, the channels of images first.
fn encode(model: &mut Model, x: &str, kind: ElemType, encoding: &Encoding) -> String {
    match *encoding.parts() {
        [] => return model.cast(x, ElemType::F32),
        [part @ Part::Image { .. }] => return image(model, x, part),
        _ => {}
    }
    let flat = model.reshape(x, &[encoding.raw_width()]);
    let mut parts = Vec::new();
    for part in encoding.parts() {
        match *part {
            Part::Numbers { from, len, .. } => {
                let columns =
                    if len == encoding.raw_width() { flat.clone() } else { model.columns(&flat, from, len) };
                parts.push(if kind == ElemType::F32 { columns } else { model.cast(&columns, ElemType::F32) });
            }
            Part::OneHot { from, n, start, .. } => {
                let index = model.columns(&flat, from, 1);
                let index = if kind == ElemType::I64 { index } else { model.cast(&index, ElemType::I64) };
                let options: Vec<i64> = (start..start + n as i64).collect();
                let options = model.integers(&options);
                let hot = model.op("Equal", &[&index, &options]);
                parts.push(model.cast(&hot, ElemType::F32));
            }
            Part::Image { from, pixels, channels, .. } => {
                let columns = model.columns(&flat, from, pixels * channels);
                parts.push(image(model, &columns, *part));
            }
        }
    }
    model.join(&parts)
}

/// Encodes the pixels of an image.
fn image(model: &mut Model, x: &str, part: Part) -> String {
    let Part::Image { pixels, channels, scale, .. } = part else { return x.to_owned() };
    let x = model.cast(x, ElemType::F32);
    let x = model.reshape(&x, &[pixels, channels]);
    let x = model.op_with("Transpose", &[&x], &[("perm", Attribute::Ints(vec![0, 2, 1]))]);
    let x = model.reshape(&x, &[pixels * channels]);
    let scale = model.number(scale);
    model.op("Mul", &[&x, &scale])
}
