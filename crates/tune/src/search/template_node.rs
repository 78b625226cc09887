//! The nodes of a template: a search space as a tree.

use serde_json::Value;

use super::domain::{Domain, same};
use super::space::{dotted, pointer};
use crate::base::{Error, Result};

#[derive(Debug)]
pub(super) enum Node {
    Constant(Value),
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
    Number { id: usize, domain: Domain },
    Choice { id: usize, options: Vec<Node> },
    Grid { id: usize, options: Vec<Node> },
    Function(usize),
}

impl Default for Node {
    fn default() -> Self {
        Node::Object(Vec::new())
    }
}

/// Returns the node at `path` in the tree, and creates missing objects on the way.
pub(super) fn place<'a>(root: &'a mut Node, path: &str) -> Result<&'a mut Node> {
    let refuse = |rule: &str| Err(Error::config(path, "computed by a closure", rule));
    let mut node = root;
    for name in pointer(path).split('/').skip(1).map(|name| dotted(&format!("/{name}"))) {
        if name.is_empty() {
            return refuse("its path must have a name between any two dots");
        }
        node = match node {
            Node::Object(entries) => {
                let index = entries.iter().position(|(key, _)| *key == name).unwrap_or_else(|| {
                    entries.push((name, Node::default()));
                    entries.len() - 1
                });
                &mut entries[index].1
            }
            Node::List(items) => match name.parse().ok().filter(|index: &usize| *index < items.len()) {
                Some(index) => &mut items[index],
                None => return refuse("its path must name an existing item of the list"),
            },
            _ => return refuse("its path must not lead through a value that is no object or list"),
        };
    }
    match node {
        Node::Number { .. } | Node::Choice { .. } | Node::Grid { .. } => {
            refuse("a domain stands there already; take one of them away")
        }
        node => Ok(node),
    }
}

/// Whether `node` can produce `value`; objects in `value` may lack some keys.
pub(super) fn fits(node: &Node, value: &Value) -> bool {
    match (node, value) {
        (Node::Constant(constant), value) => same(constant, value),
        (Node::Object(entries), Value::Object(value)) => value
            .iter()
            .all(|(key, value)| entries.iter().any(|(known, node)| known == key && fits(node, value))),
        (Node::List(items), Value::Array(values)) => {
            items.len() == values.len() && items.iter().zip(values).all(|(node, value)| fits(node, value))
        }
        (Node::Number { domain, .. }, value) => domain.is_valid(value),
        (Node::Choice { options, .. } | Node::Grid { options, .. }, value) => {
            options.iter().any(|option| fits(option, value))
        }
        (Node::Function(_), _) => true,
        _ => false,
    }
}
