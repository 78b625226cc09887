//! Checks whether a trainable and its settings can run in trial processes.

use pavlov_processes::is_known_to_children;
use serde_json::Value;

use crate::base::{Config, flatten};
use crate::functions::TrainableFactory;

/// Lists the reasons why trials of `trainable` with the settings `config` cannot run in processes; empty if they can.
///
/// A trial process is this program started again. Values captured by a trainable's closure are not sent to it: the
/// process makes the trainable anew before [`child_main`](crate::child_main). Settings and results travel as JSON.
pub fn diagnose_serialization(trainable: &TrainableFactory, config: &Config) -> Vec<String> {
    let mut reasons = Vec::new();
    let name = trainable.name();
    if !is_known_to_children(name) {
        reasons.push(format!("trainable `{name}`: `main` does not give it to `child_main`"));
    }
    let travelled = serde_json::to_string(config).and_then(|text| serde_json::from_str::<Config>(&text));
    match travelled {
        Err(error) => reasons.push(format!("settings: {error}")),
        Ok(travelled) => {
            let before = flatten(config);
            let after = flatten(&travelled);
            let changed = before.iter().filter(|pair| !after.contains(pair));
            reasons.extend(
                changed.map(|(key, value)| format!("setting `{key}`: {value} is read back as another value")),
            );
        }
    }
    for (key, value) in flatten(config) {
        if let Value::Array(items) = value
            && items.len() > LARGE
        {
            let rule = "read large data in `setup`, or capture it in the trainable's closure";
            reasons.push(format!(
                "setting `{key}`: {} values go into every result and checkpoint; {rule}",
                items.len()
            ));
        }
    }
    if let Err(error) = trainable.make(config) {
        reasons.push(format!("trainable `{name}` cannot be made with these settings: {error}"));
    }
    reasons
}

/// Maximum number of values of a list in the settings; a longer list is data, not a setting.
const LARGE: usize = 100_000;
