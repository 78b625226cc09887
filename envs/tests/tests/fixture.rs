//! Reads what `record_gymnasium.py` wrote.

use std::path::Path;

use serde_json::Value;

/// A recorded file: the header and its rows.
pub(crate) struct Fixture {
    header: Value,
    pub(crate) rows: Vec<Value>,
}

impl Fixture {
    pub(crate) fn open(name: &str) -> Self {
        Self::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name))
    }

    pub(crate) fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).unwrap();
        let mut rows: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let header = rows.remove(0);
        assert!(!rows.is_empty(), "{} has no rows", path.display());
        Self { header, rows }
    }

    /// Whether recorded bits must come out: the C library is the recording one's, or `PAVLOV_STRICT` is set.
    pub(crate) fn is_exact(&self) -> bool {
        std::env::var_os("PAVLOV_STRICT").is_some() || self.same_libm()
    }

    /// Whether this machine's sine and cosine have the bits of the recording machine's. Where they
    /// have not (another C library, a processor without FMA), the last digits of states differ.
    fn same_libm(&self) -> bool {
        let angles = self.header["angles"].as_array().unwrap().iter().map(|angle| angle.as_f64().unwrap());
        let (sin, cos): (Vec<f64>, Vec<f64>) = angles.map(f64::sin_cos).unzip();
        bits(&sin) == bits(&f64s(&self.header["sin"])) && bits(&cos) == bits(&f64s(&self.header["cos"]))
    }
}

pub(crate) fn f64s(hex: &Value) -> Vec<f64> {
    chunks(hex, 16).map(|digits| f64::from_bits(u64::from_str_radix(digits, 16).unwrap())).collect()
}

pub(crate) fn f32s(hex: &Value) -> Vec<f32> {
    chunks(hex, 8).map(|digits| f32::from_bits(u32::from_str_radix(digits, 16).unwrap())).collect()
}

fn chunks(hex: &Value, size: usize) -> impl Iterator<Item = &str> {
    let text = hex.as_str().unwrap();
    (0..text.len() / size).map(move |i| &text[i * size..][..size])
}

pub(crate) fn bits(values: &[f64]) -> Vec<u64> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// What differs, if anything does: bits when `exact`, otherwise more than `tolerance`.
pub(crate) fn differ(found: &[f64], expected: &[f64], exact: bool, tolerance: f64) -> Option<String> {
    let near =
        |(a, b): (&f64, &f64)| if exact { a.to_bits() == b.to_bits() } else { (a - b).abs() <= tolerance };
    let equal = found.len() == expected.len() && found.iter().zip(expected).all(near);
    (!equal).then(|| format!("{found:?} against {expected:?}"))
}
