//! The walk through a template that draws the values of one trial.

use serde_json::{Map, Value};

use super::domain::same;
use super::space::{dotted, escape};
use super::template_node::{Node, fits};
use crate::base::config::nearest;
use crate::base::{Error, Result};

/// One traversal of a template, which fills in the values of one trial.
pub(super) struct TemplateWalk<'a> {
    pub(super) quantile: &'a mut dyn FnMut(usize) -> f64,
    /// Index of the option of each grid, by [`Grid::id`](super::template::Grid::id).
    pub(super) options: Vec<usize>,
    pub(super) quantiles: Vec<f64>,
    /// JSON pointers of the drawn values.
    pub(super) drawn: Vec<String>,
    /// JSON pointers and numbers of the closures to call.
    pub(super) functions: Vec<(String, usize)>,
}

impl TemplateWalk<'_> {
    pub(super) fn fill(&mut self, node: &Node, at: &str, over: Option<&Value>) -> Result<Value> {
        Ok(match (node, over) {
            (Node::Object(entries), None) => self.object(entries, at, &Map::new())?,
            (Node::Object(entries), Some(Value::Object(over))) => self.object(entries, at, over)?,
            (Node::List(items), Some(Value::Array(over))) if over.len() == items.len() => {
                self.list(items, at, |index| over.get(index))?
            }
            (Node::List(items), None) => self.list(items, at, |_| None)?,
            (Node::Constant(value), None) => value.clone(),
            (Node::Number { id, domain }, over) => {
                self.drawn.push(at.to_owned());
                match over {
                    None => {
                        self.quantiles[*id] = (self.quantile)(*id);
                        domain.at(self.quantiles[*id])
                    }
                    Some(over) => {
                        if !domain.is_valid(over) {
                            warn_outside(at, over);
                        }
                        self.quantiles[*id] = over.as_f64().map_or(f64::NAN, |over| domain.quantile_of(over));
                        over.clone()
                    }
                }
            }
            (Node::Choice { id, options }, None) => {
                self.drawn.push(at.to_owned());
                let u = (self.quantile)(*id);
                let chosen = option_at(u, options.len());
                self.quantiles[*id] = middle(chosen, options.len());
                self.fill(&options[chosen], at, None)?
            }
            (Node::Choice { id, options }, Some(over)) => {
                self.drawn.push(at.to_owned());
                match options.iter().position(|option| fits(option, over)) {
                    Some(chosen) => {
                        self.quantiles[*id] = middle(chosen, options.len());
                        self.fill(&options[chosen], at, Some(over))?
                    }
                    None => {
                        warn_outside(at, over);
                        over.clone()
                    }
                }
            }
            (Node::Grid { id, options }, over) => {
                self.drawn.push(at.to_owned());
                match over.map(|over| (over, options.iter().find(|option| fits(option, over)))) {
                    None => self.fill(&options[self.options[*id]], at, None)?,
                    Some((over, Some(option))) => self.fill(option, at, Some(over))?,
                    Some((over, None)) => {
                        warn_outside(at, over);
                        over.clone()
                    }
                }
            }
            (Node::Function(id), None) => {
                self.drawn.push(at.to_owned());
                self.functions.push((at.to_owned(), *id));
                Value::Null
            }
            (Node::Constant(value), Some(over)) => {
                if !same(value, over) {
                    warn_outside(at, over);
                }
                over.clone()
            }
            (Node::Object(_) | Node::List(_) | Node::Function(_), Some(over)) => over.clone(),
        })
    }

    fn object(&mut self, entries: &[(String, Node)], at: &str, over: &Map<String, Value>) -> Result<Value> {
        if let Some(key) = over.keys().find(|key| entries.iter().all(|(known, _)| known != *key)) {
            let full = |key: &str| dotted(&format!("{at}/{}", escape(key)));
            let known = || entries.iter().map(|(key, _)| key.as_str());
            return Err(Error::UnknownKey {
                key: full(key),
                origin: "points_to_evaluate".into(),
                nearest: nearest(key, known()).map(full),
                known: known().map(full).collect(),
            });
        }
        let filled = entries.iter().map(|(key, node)| {
            Ok((key.clone(), self.fill(node, &format!("{at}/{}", escape(key)), over.get(key))?))
        });
        Ok(Value::Object(filled.collect::<Result<_>>()?))
    }

    fn list<'v>(
        &mut self,
        items: &[Node],
        at: &str,
        over: impl Fn(usize) -> Option<&'v Value>,
    ) -> Result<Value> {
        let filled = items
            .iter()
            .enumerate()
            .map(|(index, node)| self.fill(node, &format!("{at}/{index}"), over(index)));
        Ok(Value::Array(filled.collect::<Result<_>>()?))
    }
}

/// Returns the index of the option at the quantile `u`, for `len` equally likely options.
pub(super) fn option_at(u: f64, len: usize) -> usize {
    ((u * len as f64) as usize).min(len - 1)
}

/// Returns the middle of the quantiles that belong to option `index` of `len`.
pub(super) fn middle(index: usize, len: usize) -> f64 {
    (index as f64 + 0.5) / len as f64
}

fn warn_outside(at: &str, value: &Value) {
    tracing::warn!("points_to_evaluate: `{}` is {value}, which the search space does not have", dotted(at));
}
