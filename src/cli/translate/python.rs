//! Values in Python syntax, as `policy_kwargs` of RL Baselines3 Zoo: `dict(net_arch=[64, 64], activation_fn=nn.ReLU)`.

use serde_json::{Map, Number, Value};

/// Reads a value: a number, a list, a dictionary (`dict(..)` or `{..}`), a truth value, a text in quotes, or a name, which becomes
/// the text of its last part.
pub(super) fn value(text: &str) -> Option<Value> {
    let text = text.trim();
    let inside = |open: &str, close: char| text.strip_prefix(open)?.strip_suffix(close);
    for (open, close, between) in [("dict(", ')', '='), ("{", '}', ':')] {
        let Some(inner) = inside(open, close) else { continue };
        let entries = parts(inner)?.into_iter().map(|part| {
            let (name, given) = part.split_once(between)?;
            Some((name.trim().trim_matches(['\'', '"']).to_owned(), value(given)?))
        });
        return entries.collect::<Option<Map<_, _>>>().map(Value::Object);
    }
    if let Some(inner) = inside("[", ']').or_else(|| inside("(", ')')) {
        return parts(inner)?.into_iter().map(value).collect::<Option<Vec<_>>>().map(Value::Array);
    }
    if let Some(inner) = inside("'", '\'').or_else(|| inside("\"", '"')) {
        return Some(inner.into());
    }
    Some(match text {
        "None" => Value::Null,
        "True" => true.into(),
        "False" => false.into(),
        _ => {
            match text.parse::<i64>().map(Number::from).ok().or_else(|| Number::from_f64(text.parse().ok()?))
            {
                Some(number) => number.into(),
                None if is_name(text) => text.rsplit('.').next()?.into(),
                None => return None,
            }
        }
    })
}

/// Whether a text is a name, also one with a module before it.
fn is_name(text: &str) -> bool {
    let is_of_name = |c: char| c.is_alphanumeric() || c == '_' || c == '.';
    text.starts_with(|c: char| c.is_alphabetic()) && text.chars().all(is_of_name)
}

/// Splits at the commas that are in no brackets; `None` if the brackets do not match.
fn parts(text: &str) -> Option<Vec<&str>> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, c) in text.char_indices().chain([(text.len(), ',')]) {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                found.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    // A last comma ends the last part.
    found.pop_if(|last| last.trim().is_empty());
    (depth == 0).then_some(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::value;

    #[test]
    fn a_dictionary_in_pythons_syntax_is_read() {
        let text = "dict(log_std_init=-2, ortho_init=False, activation_fn=nn.ReLU, net_arch=[dict(pi=[256, 8], vf=[1e1])])";
        let net_arch = json!([{"pi": [256, 8], "vf": [10.0]}]);
        let read =
            json!({"log_std_init": -2, "ortho_init": false, "activation_fn": "ReLU", "net_arch": net_arch});
        assert_eq!(value(text), Some(read));
        assert_eq!(value("dict(a=(1, 2,), b='x', c=None)"), Some(json!({"a": [1, 2], "b": "x", "c": null})));
        assert_eq!(
            value("{'norm_obs': False, \"gamma\": 0.9}"),
            Some(json!({"norm_obs": false, "gamma": 0.9}))
        );
        for wrong in ["dict(a=[1)", "dict(a)", "dict(a=[1]", "dict(a=-x)"] {
            assert_eq!(value(wrong), None, "{wrong}");
        }
    }
}
