//! Ray's setting `input`, where it names a server that other programs play an environment over.

use pavlov_learn::base::{Error, Result};
use pavlov_tune::Config;
use serde_json::{Map, Value, json};

/// Id of the environment that other programs play.
const ID: &str = "PolicyServerInput";

/// Turns Ray's `input: {"type": "PolicyServerInput", ..}`, with `observation_space` and `action_space` beside it, into the
/// environment of that name and its `env_config`. `num_workers` becomes 0 where it is not given. Settings without such an input
/// stay as they are.
///
/// # Errors
/// Returns [`Error::Config`] if the settings name another environment as well, or `env_config` is no table.
pub fn translate_input(config: &mut Config) -> Result<()> {
    let is_server = |input: &Map<String, Value>| input.get("type").is_some_and(|kind| kind == ID);
    let Some(Value::Object(input)) = config.get("input") else { return Ok(()) };
    if !is_server(input) {
        return Ok(());
    }
    let mut input = input.clone();
    input.shift_remove("type");
    match config.get("env") {
        None | Some(Value::Null) => {}
        Some(env) if env == ID => {}
        Some(env) => {
            let rule = "the programs that connect to `input` play the environment: set it to null";
            return Err(Error::config("env", env, rule));
        }
    }
    let mut settings = match config.shift_remove("env_config") {
        None | Some(Value::Null) => Map::new(),
        Some(Value::Object(settings)) => settings,
        Some(other) => return Err(Error::config("env_config", other, "it must be a table of settings")),
    };
    config.shift_remove("input");
    settings.extend(input);
    for key in ["observation_space", "action_space"] {
        if let Some(space) = config.shift_remove(key).filter(|space| !space.is_null()) {
            settings.insert(key.into(), space);
        }
    }
    config.insert("env".into(), json!(ID));
    config.insert("env_config".into(), Value::Object(settings));
    config.entry("num_workers").or_insert(json!(0));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(value: Value) -> Config {
        serde_json::from_value(value).expect("an object")
    }

    #[test]
    fn an_input_of_rays_becomes_an_environment() {
        let mut of_ray = config(json!({
            "env": null,
            "observation_space": "Box(-1.0, 1.0, (4,), float32)",
            "action_space": "Discrete(2)",
            "input": {"type": "PolicyServerInput", "address": "127.0.0.1:9900"},
            "lr": 0.1,
        }));
        translate_input(&mut of_ray).expect("it fits");
        let env_config = json!({
            "address": "127.0.0.1:9900",
            "observation_space": "Box(-1.0, 1.0, (4,), float32)",
            "action_space": "Discrete(2)",
        });
        let wanted =
            json!({"lr": 0.1, "env": "PolicyServerInput", "env_config": env_config, "num_workers": 0});
        assert_eq!(of_ray, config(wanted));
        // What is given stays, and is refused later with the reason.
        let mut given = config(json!({"num_workers": 2, "input": {"type": "PolicyServerInput"}}));
        translate_input(&mut given).expect("it fits");
        assert_eq!(given["num_workers"], 2);

        let other = config(json!({"input": "sampler", "lr": 0.1}));
        let mut same = other.clone();
        translate_input(&mut same).expect("it is left alone");
        assert_eq!(same, other);

        let mut both = config(json!({"env": "CartPole-v1", "input": {"type": "PolicyServerInput"}}));
        assert!(translate_input(&mut both).is_err());
    }
}
