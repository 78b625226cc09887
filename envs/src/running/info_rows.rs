//! Numbers of Gymnasium's `info`, one row per key with one number per copy.

use std::cell::OnceCell;

/// Rows of the `info` keys requested so far; a linked list, so that rows lent to the caller never move.
#[derive(Debug, Default)]
pub(crate) struct InfoRows {
    first: OnceCell<Box<Node>>,
}

#[derive(Debug)]
struct Node {
    key: String,
    row: Box<[f64]>,
    next: OnceCell<Box<Node>>,
}

impl InfoRows {
    /// Returns the row of `key`, `[num_envs]`. A new row is written by `fill`, which returns whether any copy has the
    /// number; a key that no copy has is looked up again at the next call.
    pub(crate) fn get(
        &self,
        key: &str,
        num_envs: usize,
        fill: impl FnOnce(&str, &mut [f64]) -> bool,
    ) -> Option<&[f64]> {
        let mut end = &self.first;
        while let Some(node) = end.get() {
            if node.key == key {
                return Some(&node.row);
            }
            end = &node.next;
        }
        let mut row = vec![f64::NAN; num_envs].into_boxed_slice();
        fill(key, &mut row).then(|| {
            let node = Node { key: key.into(), row, next: OnceCell::new() };
            &*end.get_or_init(|| Box::new(node)).row
        })
    }

    /// Writes all rows again; `reset` and `step` call this last.
    pub(crate) fn refresh(&mut self, mut fill: impl FnMut(&str, &mut [f64]) -> bool) {
        let mut next = self.first.get_mut();
        while let Some(node) = next {
            if !fill(&node.key, &mut node.row) {
                node.row.fill(f64::NAN);
            }
            next = node.next.get_mut();
        }
    }
}
