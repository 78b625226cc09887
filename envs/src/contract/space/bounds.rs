//! The JSON form of a box's bounds. Infinities, which JSON lacks, are written `"inf"` and `"-inf"`; many equal bounds, such
//! as those of an image, are written once: `{"each": 255.0, "len": 28224}`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bound {
    Finite(f64),
    Infinite(String),
}

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bounds {
    Each(Vec<Bound>),
    Equal { each: Bound, len: usize },
}

/// Number of bounds up to which equal ones are written one by one; more are written once.
const FEW: usize = 32;

/// Largest number of bounds that a file may ask for with `len`: they take 8 GiB, more than any saved space.
const MOST: usize = 1 << 30;

fn bound(bound: f64) -> Bound {
    if bound.is_finite() { Bound::Finite(bound) } else { Bound::Infinite(bound.to_string()) }
}

pub(super) fn serialize<S: Serializer>(bounds: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    match bounds {
        [first, rest @ ..] if rest.len() >= FEW && rest.iter().all(|bound| bound == first) => {
            Bounds::Equal { each: bound(*first), len: bounds.len() }
        }
        _ => Bounds::Each(bounds.iter().map(|&each| bound(each)).collect()),
    }
    .serialize(serializer)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let number = |bound| match bound {
        Bound::Finite(bound) => Ok(bound),
        Bound::Infinite(text) => match text.as_str() {
            "inf" => Ok(f64::INFINITY),
            "-inf" => Ok(f64::NEG_INFINITY),
            other => Err(D::Error::custom(format!(
                "a bound is {other:?}, but it must be a number, \"inf\" or \"-inf\""
            ))),
        },
    };
    match Bounds::deserialize(deserializer)? {
        Bounds::Each(bounds) => bounds.into_iter().map(number).collect(),
        Bounds::Equal { len, .. } if len > MOST => {
            Err(D::Error::custom(format!("{len} bounds are given, but a space has at most {MOST}")))
        }
        Bounds::Equal { each, len } => Ok(vec![number(each)?; len]),
    }
}
