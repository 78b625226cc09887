//! A search space compiled for drawing: checked, with numbered parameters and sorted grids.

use serde_json::Value;

use super::domain::Domain;
use super::domain_json::single;
use super::random::Random;
use super::space::{Drawn, Function, SearchSpace, dotted, escape};
use super::template_node::{Node, place};
use super::template_walk::TemplateWalk;
use crate::base::{Config, Error, Result};

/// Search space that was checked and is ready to draw from.
#[derive(Default)]
pub(super) struct Template {
    root: Node,
    /// Kinds of the parameters, by parameter number. Parameters are numbered in the order of the space; those inside a
    /// choice follow the choice.
    pub(super) parameters: Vec<ParameterKind>,
    /// Grids in Ray's order, sorted by path. The first grid changes fastest.
    pub(super) grids: Vec<Grid>,
    functions: Vec<Function>,
}

/// Meaning of a parameter's quantile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ParameterKind {
    /// Ordered numeric value.
    Numeric,
    /// One of the given number of options.
    Categorical(usize),
}

/// One `grid_search` of the search space.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pointer: String,
    /// Number of the grid in the tree, in the order of the space.
    id: usize,
    /// Number of values of the grid.
    pub(super) len: usize,
}

impl Grid {
    /// Returns the dotted path of the grid.
    pub(super) fn path(&self) -> String {
        dotted(&self.pointer)
    }
}

/// Sources of the values of one trial.
pub(super) struct Source<'a> {
    /// Returns the quantile of the parameter with the given number.
    pub(super) quantile: &'a mut dyn FnMut(usize) -> f64,
    /// Index of the option of each grid, in the order of [`Template::grids`].
    pub(super) grid: &'a [usize],
    /// Values to use in place of draws, if any.
    pub(super) point: Option<&'a Config>,
    /// Returns the random numbers of the closure with the given number.
    pub(super) random: &'a dyn Fn(usize) -> Random,
}

/// Settings of one trial, with the draws they came from.
#[derive(Clone, Debug)]
pub(super) struct Draw {
    pub(super) config: Config,
    /// Drawn values by dotted path, in the order of the space.
    pub(super) drawn: Vec<(String, Value)>,
    /// Quantiles by parameter number; NaN for parameters that were not drawn.
    pub(super) quantiles: Vec<f64>,
}

impl Template {
    /// Checks `space` and makes it ready to draw from.
    ///
    /// # Errors
    /// Returns [`Error::Config`] with the first mistake in the space.
    pub(super) fn new(space: &SearchSpace) -> Result<Self> {
        if !space.tree.is_object() {
            return Err(Error::config("the search space", &space.tree, "it must be an object with settings"));
        }
        let mut template = Template::default();
        template.root = template.compile(&space.tree, "", None)?;
        template.grids.sort_by_cached_key(|grid| order(&dotted(&grid.pointer)));
        for (path, function) in &space.functions {
            let id = template.functions.len();
            template.functions.push(function.clone());
            *place(&mut template.root, path)? = Node::Function(id);
        }
        Ok(template)
    }

    /// Compiles `value`, which stands at the JSON pointer `at`. `within` is the name of the enclosing domain, if any.
    fn compile(&mut self, value: &Value, at: &str, within: Option<&str>) -> Result<Node> {
        let path = || dotted(at);
        match single(value) {
            Some(("literal", literal)) => return Ok(Node::Constant(literal.clone())),
            Some((name @ ("sample_from" | "eval"), Value::String(_))) => {
                let rule = format!(
                    "`{name}` cannot be written in a file: attach a closure with `SearchSpace::sample_from`"
                );
                return Err(Error::config(path(), value, rule));
            }
            _ => {}
        }
        Ok(match (Domain::parse(&path(), value)?, value) {
            (Some(Domain::Choice(options)), _) => {
                let id = self.parameter(ParameterKind::Categorical(options.len()));
                Node::Choice { id, options: self.compile_all(&options, |_| at.to_owned(), Some("choice"))? }
            }
            (Some(Domain::GridSearch(options)), _) => {
                if let Some(within) = within {
                    let rule =
                        format!("a grid cannot stand inside `{within}`: list the combinations there instead");
                    return Err(Error::config(path(), value, rule));
                }
                let id = self.grids.len();
                self.grids.push(Grid { pointer: at.to_owned(), id, len: options.len() });
                Node::Grid {
                    id,
                    options: self.compile_all(&options, |_| at.to_owned(), Some("grid_search"))?,
                }
            }
            (Some(domain), _) => Node::Number { id: self.parameter(ParameterKind::Numeric), domain },
            (None, Value::Object(entries)) => Node::Object(
                entries
                    .iter()
                    .map(|(key, value)| {
                        let at = format!("{at}/{}", escape(key));
                        Ok((key.clone(), self.compile(value, &at, within)?))
                    })
                    .collect::<Result<_>>()?,
            ),
            (None, Value::Array(items)) => {
                Node::List(self.compile_all(items, |index| format!("{at}/{index}"), within)?)
            }
            (None, value) => Node::Constant(value.clone()),
        })
    }

    fn compile_all(
        &mut self,
        values: &[Value],
        at: impl Fn(usize) -> String,
        within: Option<&str>,
    ) -> Result<Vec<Node>> {
        values.iter().enumerate().map(|(index, value)| self.compile(value, &at(index), within)).collect()
    }

    fn parameter(&mut self, kind: ParameterKind) -> usize {
        self.parameters.push(kind);
        self.parameters.len() - 1
    }

    /// Indices of the grids that are still enumerated when `point` is laid over the space.
    pub(super) fn free_grids(&self, point: Option<&Config>) -> Vec<usize> {
        let is_set = |grid: &Grid| {
            let mut names = grid.pointer.split('/').skip(1).map(|name| dotted(&format!("/{name}")));
            let first = names.next().and_then(|name| point?.get(&name));
            names
                .try_fold(first, |value, name| match value? {
                    Value::Object(object) => Some(object.get(&name)),
                    Value::Array(items) => Some(name.parse().ok().and_then(|index: usize| items.get(index))),
                    _ => None,
                })
                .flatten()
                .is_some()
        };
        (0..self.grids.len()).filter(|index| !is_set(&self.grids[*index])).collect()
    }

    /// Draws the settings of one trial.
    ///
    /// # Errors
    /// Returns [`Error::UnknownKey`] if the point has a key that the space lacks, any error of a closure, and
    /// [`Error::Config`] if closures depend on each other in a circle.
    pub(super) fn draw(&self, source: Source<'_>) -> Result<Draw> {
        let mut options = vec![0; self.grids.len()];
        for (grid, option) in self.grids.iter().zip(source.grid) {
            options[grid.id] = *option;
        }
        let mut filling = TemplateWalk {
            quantile: source.quantile,
            options,
            quantiles: vec![f64::NAN; self.parameters.len()],
            drawn: Vec::new(),
            functions: Vec::new(),
        };
        let point = source.point.map(|point| Value::from(point.clone()));
        let mut config = filling.fill(&self.root, "", point.as_ref())?;
        let TemplateWalk { quantiles, drawn, functions, .. } = filling;
        self.call(&mut config, functions, source.random)?;
        let drawn = drawn
            .into_iter()
            .filter_map(|pointer| Some((dotted(&pointer), config.pointer(&pointer)?.clone())))
            .collect();
        let Value::Object(config) = config else { unreachable!("the root of a template is an object") };
        Ok(Draw { config: config.into(), drawn, quantiles })
    }

    /// Calls the pending closures until all have returned a value. Fails if none of those left can be computed.
    fn call(
        &self,
        config: &mut Value,
        mut pending: Vec<(String, usize)>,
        random: &dyn Fn(usize) -> Random,
    ) -> Result<()> {
        while !pending.is_empty() {
            let before = pending.len();
            let mut waits_for = String::new();
            let mut index = 0;
            while index < pending.len() {
                let (at, id) = pending[index].clone();
                let pointers: Vec<String> = pending.iter().map(|(at, _)| at.clone()).collect();
                let drawn = Drawn::new(config, &pointers);
                let value = self.functions[id](&drawn, &mut random(id));
                if let Some(missed) = drawn.missed() {
                    waits_for = missed;
                    index += 1;
                    continue;
                }
                let value = value?;
                if let Some(slot) = config.pointer_mut(&at) {
                    *slot = value;
                }
                pending.remove(index);
            }
            if pending.len() == before {
                let paths: Vec<String> = pending.iter().map(|(at, _)| dotted(at)).collect();
                return Err(Error::config(
                    paths.join("`, `"),
                    "computed by closures",
                    format!(
                        "they wait for each other (recursive dependency), the last one for `{waits_for}`"
                    ),
                ));
            }
        }
        Ok(())
    }
}

/// Sort key of a dotted path that sorts as Ray sorts tuples of names and list indices.
pub(super) fn order(path: &str) -> Vec<(usize, String)> {
    path.split('.')
        .map(|name| match name.parse() {
            Ok(index) => (index, String::new()),
            Err(_) => (usize::MAX, name.to_owned()),
        })
        .collect()
}
