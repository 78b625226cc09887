//! Spaces from their texts, as Gymnasium and pavlov print them.

use std::str::FromStr;

use super::Space;
use crate::{DType, Error, Result};

impl FromStr for Space {
    type Err = Error;

    /// Reads `Box(-1.0, 1.0, (4,), float32)` (with a list for bounds that differ), `Discrete(2)`, `Discrete(3, start=1)`,
    /// `MultiDiscrete([3, 2])` or `MultiBinary(5)`.
    fn from_str(text: &str) -> Result<Self> {
        let refuse = || {
            let expected = "like `Box(-1.0, 1.0, (4,), float32)`, `Discrete(2)`, `MultiDiscrete([3, 2])` or `MultiBinary(5)`";
            Error::shape("the text of a space", format_args!("{text:?}"), expected)
        };
        let (name, rest) = text.trim().split_once('(').ok_or_else(refuse)?;
        let arguments = arguments(rest.strip_suffix(')').ok_or_else(refuse)?);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let space = match (name, &arguments[..]) {
            ("Box", [low, high, shape, dtype]) => boxed(low, high, shape, dtype),
            ("Discrete", [n]) => numbers(n).and_then(only).map(Self::discrete),
            ("Discrete", [n, start]) => numbers(n)
                .and_then(only)
                .and_then(|n| Some(Self::Discrete { n, start: start.strip_prefix("start=")?.parse().ok()? })),
            ("MultiDiscrete", [nvec]) => numbers(nvec).map(|nvec: Vec<i64>| Self::multi_discrete(&nvec)),
            ("MultiBinary", [shape]) => numbers(shape).map(|shape: Vec<usize>| Self::multi_binary(&shape)),
            _ => None,
        };
        let space = space.ok_or_else(refuse)?;
        space.validate()?;
        Ok(space)
    }
}

/// Splits at the commas that stand in no brackets.
fn arguments(text: &str) -> Vec<String> {
    let mut depth = 0;
    let mut all = vec![String::new()];
    for c in text.chars() {
        match c {
            '(' | '[' => depth += 1,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        match (c, depth, all.last_mut()) {
            (',', 0, _) => all.push(String::new()),
            (c, _, Some(last)) => last.push(c),
            (_, _, None) => {}
        }
    }
    all.iter().map(|argument| argument.trim().to_owned()).collect()
}

/// A number, or a list of numbers between commas or spaces.
fn numbers<T: FromStr>(text: &str) -> Option<Vec<T>> {
    let inside = text.trim_matches(['(', ')', '[', ']', ' ']);
    let parts = inside.split([',', ' ', '\n']).filter(|part| !part.is_empty());
    parts.map(|part| part.parse().ok()).collect()
}

fn only<T: Copy>(numbers: Vec<T>) -> Option<T> {
    if let [number] = numbers[..] { Some(number) } else { None }
}

fn boxed(low: &str, high: &str, shape: &str, dtype: &str) -> Option<Space> {
    let shape: Vec<usize> = numbers(shape)?;
    let dtype = match dtype {
        "float32" | "f32" => DType::F32,
        "float64" | "f64" => DType::F64,
        "uint8" | "u8" => DType::U8,
        "int64" | "i64" => DType::I64,
        _ => return None,
    };
    let size =
        shape.iter().try_fold(1_usize, |size, &n| size.checked_mul(n)).filter(|&size| size <= 1 << 30)?;
    let bounds = |text| {
        let bounds: Vec<f64> = numbers(text)?;
        match bounds[..] {
            [bound] => Some(vec![bound; size]),
            _ => (bounds.len() == size).then_some(bounds),
        }
    };
    Some(Space::Box { low: bounds(low)?, high: bounds(high)?, shape, dtype })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_texts_of_gymnasium_are_read_and_what_is_printed_is_read_back() {
        let cart_pole = "Box([-4.8 -inf -0.41887903 -inf], [4.8 inf 0.41887903 inf], (4,), float32)";
        let space: Space = cart_pole.parse().expect("a box");
        assert_eq!((space.width(), space.dtype()), (4, DType::F32));
        let spaces = [
            Space::real(&[3]),
            Space::image(&[84, 84, 4]),
            Space::bounded(&[-1.0, 0.0], &[1.0, f64::INFINITY]).expect("bounds"),
            Space::discrete(6),
            Space::Discrete { n: 3, start: -1 },
            Space::multi_discrete(&[3, 2]),
            Space::multi_binary(&[5]),
        ];
        for space in spaces {
            assert_eq!(space.to_string().parse::<Space>().ok().as_ref(), Some(&space), "{space}");
        }
        for text in [
            "",
            "Box",
            "Box(1)",
            "Discrete(0)",
            "Discrete(x)",
            "Box(1, 0, (2,), float32)",
            "Dict(a: Discrete(2))",
        ] {
            assert!(text.parse::<Space>().is_err(), "{text}");
        }
        assert!("Box(0, 1, (99999999999, 99999999999), uint8)".parse::<Space>().is_err());
    }
}
