//! The wrapper that selects parts of dict observations.

use std::ops::Range;

use super::{Wrapped, Wrapper};
use crate::{Element, Env, Error, Result, Space};

/// Observes only those parts of a dict whose names are in `filter_keys`.
pub type FilterObservation<E> = Wrapped<E, Filter>;

/// The [`Wrapper`] that implements [`FilterObservation`].
#[derive(Clone, Debug)]
pub struct Filter {
    filter_keys: Vec<String>,
    /// Ranges of the selected parts in a row of the inner environment.
    kept: Vec<Range<usize>>,
}

impl<E: Env> Wrapped<E, Filter> {
    /// Wraps `env`.
    ///
    /// # Errors
    /// Returns [`Error::Shape`] if the observation space is not a dict with all of these names, or if `filter_keys` is
    /// empty.
    pub fn new(env: E, filter_keys: &[&str]) -> Result<Self> {
        Self::with(env, Filter::new(filter_keys.iter().map(|key| (*key).to_owned()).collect()))
    }
}

impl Filter {
    pub(super) fn new(filter_keys: Vec<String>) -> Self {
        Self { filter_keys, kept: Vec::new() }
    }
}

impl<O: Element, A: Element> Wrapper<O, A> for Filter {
    type Obs = O;
    type Act = A;

    fn observation_space(&mut self, inner: &Space) -> Result<Space> {
        let Space::Dict(parts) = inner else {
            return Err(Error::shape("the observation space", inner, "a dict, whose parts have names"));
        };
        let has = |key: &String| parts.iter().any(|(name, _)| name == key);
        if let Some(missing) = self.filter_keys.iter().find(|key| !has(key)) {
            let names: Vec<&str> = parts.iter().map(|(name, _)| name.as_str()).collect();
            let expected = format_args!("a part of the observation: {}", names.join(", "));
            return Err(Error::shape("a name in `filter_keys`", format_args!("{missing:?}"), expected));
        }
        let mut end = 0;
        let mut space = Vec::new();
        for (name, part) in parts {
            end += part.width();
            if self.filter_keys.contains(name) {
                self.kept.push(end - part.width()..end);
                space.push((name.clone(), part.clone()));
            }
        }
        if space.is_empty() {
            return Err(Error::shape("`filter_keys`", "empty", "at least one name"));
        }
        Ok(Space::Dict(space))
    }

    fn observation(&mut self, inner: &[O], obs: &mut [O]) -> Result<()> {
        let mut rest = obs;
        for kept in &self.kept {
            let (part, behind) = rest.split_at_mut(kept.len());
            part.copy_from_slice(&inner[kept.clone()]);
            rest = behind;
        }
        Ok(())
    }
}
