use serde_json::Value;
use crate::search::{SearchSpace, Searcher, Suggestion};
use crate::{Mode, Result};

pub(super) fn experiment_tag(number: usize, drawn: &[(String, Value)]) -> String {
    format!("{number}_{}", drawn.iter().map(|(k, v)| format!("{k}={v}")).collect::<Vec<_>>().join(","))
}

pub(super) struct Same { space: crate::Config, left: i64 }
impl Same { pub(super) fn new(num_samples: i64, _seed: u64) -> Self { Same { space: Default::default(), left: num_samples } } }
impl Searcher for Same {
    fn set_search_properties(&mut self, _: Option<&str>, _: Option<Mode>, space: &SearchSpace) -> Result<()> {
        self.space = space.tree.clone();
        Ok(())
    }
    fn suggest(&mut self, _: &str) -> Result<Suggestion> {
        if self.left == 0 { return Ok(Suggestion::Finished); }
        self.left -= 1;
        Ok(Suggestion::Trial { config: self.space.clone(), drawn: Vec::new() })
    }
}
