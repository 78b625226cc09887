//! Bounds in JSON, which has no infinities: they are written `"inf"` and `"-inf"`.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Bound {
    Finite(f64),
    Infinite(String),
}

pub(super) fn serialize<S: Serializer>(bounds: &[f64], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(bounds.iter().map(|&bound| {
        if bound.is_finite() { Bound::Finite(bound) } else { Bound::Infinite(bound.to_string()) }
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
    let bounds = Vec::<Bound>::deserialize(deserializer)?;
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
    bounds.into_iter().map(number).collect()
}
