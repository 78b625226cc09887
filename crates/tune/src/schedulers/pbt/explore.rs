//! Explore step of population based training: perturbs or resamples the settings of a good trial.

use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::base::{Error, Result};
use crate::schedulers::draws::Draws;
use crate::search::{Domain, same};

/// Function from a number in `[0, 1)` to a value of a setting; with uniform numbers it samples a distribution.
pub(super) type Sample = Arc<dyn Fn(f64) -> Value + Send + Sync>;

/// The possible changes of one setting.
#[derive(Clone)]
pub(super) enum Mutation {
    /// One of these values; a perturbation moves to a neighbour in the list.
    List(Vec<Value>),
    /// A value sampled by this function; a perturbation multiplies by a factor, and stays in the domain if there is one.
    Sample(Sample, Option<Domain>),
    /// An object whose settings have mutations.
    Nested(Mutations),
}

/// Mutations by the name of the setting, in the given order.
pub(super) type Mutations = Vec<(String, Mutation)>;

impl fmt::Debug for Mutation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Mutation::List(values) => f.debug_tuple("List").field(values).finish(),
            Mutation::Sample(_, domain) => f.debug_tuple("Sample").field(domain).finish(),
            Mutation::Nested(mutations) => f.debug_tuple("Nested").field(mutations).finish(),
        }
    }
}

/// Parses mutations from JSON: lists, domains, and objects that contain them. `path` is their key in error messages. With
/// `keep_in_domain`, the options of a `choice` are treated as a list.
///
/// # Errors
/// Returns [`Error::Config`] if a value is anything else.
pub(super) fn parse(path: &str, tree: &Map<String, Value>, keep_in_domain: bool) -> Result<Mutations> {
    let parse = |(name, value): (&String, &Value)| {
        let path = format!("{path}.{name}");
        let mutation = match value {
            Value::Array(values) if values.is_empty() => {
                return Err(Error::config(path, "[]", "a list must have at least one value to take"));
            }
            Value::Array(values) => Mutation::List(values.clone()),
            Value::Object(inner) => match domain(&path, value, keep_in_domain)? {
                Some(mutation) => mutation,
                None => Mutation::Nested(self::parse(&path, inner, keep_in_domain)?),
            },
            _ => {
                let rule = "it must be a list of values, a domain such as {\"uniform\": [0, 1]}, or an object with such";
                return Err(Error::config(path, value, rule));
            }
        };
        Ok((name.clone(), mutation))
    };
    tree.iter().map(parse).collect()
}

/// Returns the mutation of a domain; `None` if `value` is not a domain.
fn domain(path: &str, value: &Value, keep: bool) -> Result<Option<Mutation>> {
    let list = "a list of the values stands for steps between them";
    match Domain::parse(path, value)? {
        None => Ok(None),
        Some(Domain::GridSearch(_)) => {
            Err(Error::config(path, value, format!("nothing is searched here: {list}")))
        }
        Some(Domain::Choice(options))
            if keep && !options.iter().any(|value| value.is_object() || value.is_array()) =>
        {
            Ok(Some(Mutation::List(options)))
        }
        Some(Domain::Choice(options))
            if !options.iter().all(|value| value.is_number() || value.is_boolean()) =>
        {
            Err(Error::config(
                path,
                value,
                format!("what is drawn here is perturbed by a factor too: {list}"),
            ))
        }
        Some(domain) => {
            let bounds = keep.then(|| domain.clone());
            Ok(Some(Mutation::Sample(Arc::new(move |u| domain.at(u)), bounds)))
        }
    }
}

/// Sets the distribution of the setting at a dotted path, replacing an existing mutation.
pub(super) fn insert(mutations: &mut Mutations, path: &str, sample: Sample) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let index = mutations.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        mutations.push((name.to_string(), Mutation::Nested(Mutations::new())));
        mutations.len() - 1
    });
    let slot = &mut mutations[index].1;
    let Some(rest) = rest else {
        *slot = Mutation::Sample(sample, None);
        return;
    };
    if !matches!(slot, Mutation::Nested(_)) {
        *slot = Mutation::Nested(Mutations::new());
    }
    if let Mutation::Nested(inner) = slot {
        insert(inner, rest, sample);
    }
}

/// Samples the settings that `config` lacks.
pub(super) fn fill(config: &mut Map<String, Value>, mutations: &Mutations, draws: &mut Draws) {
    for (name, mutation) in mutations {
        match mutation {
            Mutation::Nested(inner) => {
                let slot = config.entry(name.as_str()).or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(config) = slot {
                    fill(config, inner, draws);
                }
            }
            _ if config.contains_key(name) => {}
            Mutation::List(values) => {
                config.insert(name.clone(), values[draws.index(values.len())].clone());
            }
            Mutation::Sample(sample, _) => {
                config.insert(name.clone(), draws.value(sample.as_ref()));
            }
        }
    }
}

/// Parameters with which settings are resampled and perturbed.
#[derive(Clone, Debug)]
pub(super) struct Explore {
    pub(super) resample_probability: f64,
    pub(super) perturbation_factors: Vec<f64>,
}

impl Explore {
    /// Returns `config` with every setting that has a mutation changed.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if `config` lacks a setting that has a mutation, and [`Error::Config`] if a setting
    /// cannot be multiplied by a factor.
    pub(super) fn explore(
        &self,
        config: &Map<String, Value>,
        mutations: &Mutations,
        draws: &mut Draws,
    ) -> Result<Map<String, Value>> {
        let mut new = config.clone();
        for (name, mutation) in mutations {
            let rule = "population based training has to change it, so it must not vanish from the settings";
            let old = config.get(name).ok_or_else(|| Error::missing(name, rule))?;
            let value = match mutation {
                Mutation::Nested(inner) => match old {
                    Value::Object(old) => Value::Object(self.explore(old, inner, draws)?),
                    _ => {
                        return Err(Error::config(
                            name,
                            old,
                            "its mutations are an object, so it must be one",
                        ));
                    }
                },
                Mutation::List(values) => self.in_list(old, values, draws),
                Mutation::Sample(sample, domain) => {
                    let value = self.by_factor(name, old, sample, draws)?;
                    domain.as_ref().map_or(value.clone(), |domain| domain.nearest(value))
                }
            };
            new.insert(name.clone(), value);
        }
        Ok(new)
    }

    /// Resamples a value from a list, or moves it to a neighbour.
    fn in_list(&self, old: &Value, values: &[Value], draws: &mut Draws) -> Value {
        let resample = draws.unit() < self.resample_probability;
        match values.iter().position(|value| same(value, old)).filter(|_| !resample) {
            None => values[draws.index(values.len())].clone(),
            Some(index) if draws.index(2) == 0 => values[index.saturating_sub(1)].clone(),
            Some(index) => values[(index + 1).min(values.len() - 1)].clone(),
        }
    }

    /// Resamples a value, or multiplies it by a random factor.
    fn by_factor(&self, name: &str, old: &Value, sample: &Sample, draws: &mut Draws) -> Result<Value> {
        let new = if draws.unit() < self.resample_probability {
            draws.value(sample.as_ref())
        } else {
            let factor = self.perturbation_factors[draws.index(self.perturbation_factors.len())];
            match old {
                Value::Bool(_) => old.clone(),
                _ => {
                    let rule = "it is perturbed by a factor, so it must be a number: give its values as a list instead";
                    let number = old.as_f64().ok_or_else(|| Error::config(name, old, rule))?;
                    Value::from(number * factor)
                }
            }
        };
        // Integers stay integers.
        Ok(match (old, new.as_f64()) {
            (Value::Number(old), Some(number)) if !old.is_f64() => {
                Value::from(number.round_ties_even() as i64)
            }
            (Value::Bool(_), Some(number)) => Value::from(number != 0.0),
            _ => new,
        })
    }
}
