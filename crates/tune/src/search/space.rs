//! The search space of a sweep: settings in which some values are domains.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::random::Random;
use crate::base::config::nearest;
use crate::base::{Config, Error, Result};

/// Closure that computes a value from the values drawn so far.
pub(super) type Function = Arc<dyn Fn(&Drawn<'_>, &mut Random) -> Result<Value> + Send + Sync>;

/// Search space: settings in which some values are [`Domain`](super::Domain)s, built from JSON or from functions named as in
/// Ray Tune.
///
/// ```
/// use pavlov_tune::search::{SearchSpace, choice, loguniform};
/// use serde_json::json;
///
/// let space = SearchSpace::from(json!({
///     "lr": loguniform(1e-4, 1e-1),                                     // or {"loguniform": [1e-4, 1e-1]}
///     "model": {"fcnet_hiddens": choice([vec![64, 64], vec![256]])},
///     "optimizer": {"choice": [
///         {"type": "adam"},
///         {"type": "sgd", "momentum": {"uniform": [0.0, 0.99]}},        // drawn for this branch only
///     ]},
/// }))
/// .sample_from("lr_end", |config, _| Ok(json!(config.number("lr")? / 10.0)));
/// # let _ = space;
/// ```
///
/// An object whose only key is the name of a domain is a domain. Objects and lists around domains may be nested. An object
/// in `choice` or `grid_search` may contain further domains, which are drawn if that object is chosen. To set an object that
/// looks like a domain, wrap it: `{"literal": {"choice": [1, 2]}}`. Nothing inside `literal` is drawn.
///
/// The same domain in a sweep file, in TOML: `lr = { loguniform = [1e-4, 1e-1] }`.
///
/// Making a space checks nothing; the searcher that gets the space reports its mistakes.
#[derive(Clone)]
pub struct SearchSpace {
    pub(super) tree: Value,
    pub(super) functions: Vec<(String, Function)>,
}

impl SearchSpace {
    /// Sets the value at `path` (`lr_end`, `model.dropout`, `layers.0.size`) to the result of `function`. The function gets
    /// the values drawn so far and a source of random numbers.
    ///
    /// Functions may read each other's values, as long as they do not depend on each other in a circle. `path` may be new,
    /// but it cannot lead into a domain. The result must depend only on the arguments, or a resumed sweep draws different
    /// values.
    #[must_use]
    pub fn sample_from<F>(mut self, path: &str, function: F) -> Self
    where
        F: Fn(&Drawn<'_>, &mut Random) -> Result<Value> + Send + Sync + 'static,
    {
        self.functions.push((path.to_owned(), Arc::new(function)));
        self
    }

    /// Returns the space as JSON, without its closures.
    pub fn as_json(&self) -> &Value {
        &self.tree
    }
}

impl Default for SearchSpace {
    fn default() -> Self {
        Config::new().into()
    }
}

impl From<Config> for SearchSpace {
    fn from(tree: Config) -> Self {
        Value::from(tree).into()
    }
}

impl From<Value> for SearchSpace {
    fn from(tree: Value) -> Self {
        Self { tree, functions: Vec::new() }
    }
}

impl fmt::Debug for SearchSpace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let functions: Vec<&str> = self.functions.iter().map(|(path, _)| path.as_str()).collect();
        f.debug_struct("SearchSpace").field("tree", &self.tree).field("functions", &functions).finish()
    }
}

/// Settings of a trial while its closures are computed.
pub struct Drawn<'a> {
    config: &'a Value,
    /// JSON pointers of the values that closures have not computed yet.
    pending: &'a [String],
    /// Path of a value that the closure read before it was computed.
    missed: RefCell<Option<String>>,
}

impl<'a> Drawn<'a> {
    pub(super) fn new(config: &'a Value, pending: &'a [String]) -> Self {
        Drawn { config, pending, missed: RefCell::new(None) }
    }

    /// Returns the path of a value that the closure read before it was computed; `None` if there was none.
    pub(super) fn missed(&self) -> Option<String> {
        self.missed.borrow().clone()
    }

    /// Returns the value at `path`, e.g. `model.fcnet_hiddens`.
    ///
    /// # Errors
    /// Returns [`Error::Missing`] if no such setting exists, and [`Error::Config`] if another closure has yet to compute
    /// it. Return the latter error from the closure, which is then called again later.
    pub fn get(&self, path: &str) -> Result<&'a Value> {
        let pointer = pointer(path);
        let touches = |pending: &&String| is_under(pending, &pointer) || is_under(&pointer, pending);
        if self.pending.iter().any(|pending| touches(&pending)) {
            *self.missed.borrow_mut() = Some(path.to_owned());
            return Err(Error::config(path, "not drawn yet", "a closure needs it"));
        }
        self.config.pointer(&pointer).ok_or_else(|| {
            let level = pointer.rsplit_once('/').and_then(|(parent, _)| self.config.pointer(parent));
            let names = level.and_then(Value::as_object).into_iter().flat_map(|level| level.keys());
            let last = path.rsplit('.').next().unwrap_or(path);
            let rule = match nearest(last, names.map(String::as_str)) {
                Some(near) => format!("a closure reads it; nearest setting there: `{near}`"),
                None => "a closure reads it, so the space must have it".into(),
            };
            Error::missing(path, rule)
        })
    }

    /// Returns the number at `path`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if the value is not a number, and the errors of [`get`](Drawn::get).
    pub fn number(&self, path: &str) -> Result<f64> {
        let value = self.get(path)?;
        value.as_f64().ok_or_else(|| Error::config(path, value, "a closure reads it as a number"))
    }
}

impl fmt::Debug for Drawn<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drawn").field("config", self.config).field("pending", &self.pending).finish()
    }
}

/// Converts the dotted path `a.b.0` to the JSON pointer `/a/b/0`.
pub(super) fn pointer(path: &str) -> String {
    path.split('.').map(|name| format!("/{}", escape(name))).collect()
}

/// Converts a JSON pointer such as `/a/b/0` to the dotted path `a.b.0`.
pub(super) fn dotted(pointer: &str) -> String {
    let names: Vec<String> =
        pointer.split('/').skip(1).map(|name| name.replace("~1", "/").replace("~0", "~")).collect();
    names.join(".")
}

/// Escapes a key for use in a JSON pointer.
pub(super) fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

fn is_under(pointer: &str, top: &str) -> bool {
    pointer.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
