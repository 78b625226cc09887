//! `policy` and `policy_kwargs`: what the networks are made of.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::table::{Argument, Kind, PARSED};
use super::values::{activation, number, shown};
use super::work::Work;
use crate::tune::config::nearest;

/// Translates the policy's name and the arguments of its networks.
pub(super) fn translate(work: &mut Work<'_>, policy: &str) {
    let is_recurrent = policy.contains("Lstm");
    let given = match &work.all["policy_kwargs"] {
        Value::Object(given) => given.clone(),
        _ => Map::new(),
    };
    for (key, value) in &given {
        match work.class.policy_argument(key, is_recurrent) {
            Some(row) => argument(work, row, value),
            None => refuse_unknown(work, key, value, is_recurrent),
        }
    }
    if is_recurrent {
        let units = given.get("lstm_hidden_size").and_then(number).unwrap_or(256.0);
        work.to.set(policy, "model.use_lstm", true);
        work.to.set("policy_kwargs.lstm_hidden_size", "model.lstm_cell_size", units as u64);
    }
    if work.is_one_of(&["RecurrentPPO"]) {
        // Sequences end with the rollout or the minibatch, not before.
        let rows = ["rollout_fragment_length", "sgd_minibatch_size"].map(|key| work.to.config[key].as_u64());
        work.to.set(policy, "model.max_seq_len", rows.into_iter().flatten().min());
    }
    if work.is_one_of(&["TQC"]) {
        let whole = |key, default| given.get(key).and_then(number).unwrap_or(default);
        let critics = whole("n_critics", 2.0);
        work.to.set("policy_kwargs.n_critics", "n_critics", critics as u64);
        work.to.set("policy_kwargs.n_quantiles", "n_quantiles", whole("n_quantiles", 25.0) as u64);
        work.to.set("TQC", "critic_loss", "huber");
        work.to.set("TQC", "critic_loss_scale", 1.0 / critics);
    }
    if policy.starts_with("Cnn") {
        convolutions(work, policy, &given);
    }
}

fn refuse_unknown(work: &mut Work<'_>, key: &str, value: &Value, is_recurrent: bool) {
    let known: Vec<&str> = PARSED
        .policy_kwargs
        .iter()
        .filter(|row| row.only.is_none())
        .filter_map(|row| work.class.policy_argument(&row.name, is_recurrent))
        .map(|row| row.name.as_str())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let hint = match nearest(key, known.iter().copied()) {
        Some(near) => format!("nearest: `{near}`"),
        None => format!("there is {}", known.join(", ")),
    };
    work.refuse_value(&format!("policy_kwargs.{key}"), value, format!("there is no such argument; {hint}"));
}

/// Translates a key of `policy_kwargs`.
fn argument(work: &mut Work<'_>, row: &Argument, value: &Value) {
    let name = format!("policy_kwargs.{}", row.name);
    // None is what the class does by itself.
    if value.is_null() && matches!(row.kind, Kind::Layers | Kind::Dictionary | Kind::Activation) {
        return;
    }
    if let Some(refused) = row.refuses(work.class, &name, value) {
        work.to.refused.push(refused);
        return;
    }
    match row.kind {
        _ if row.only.is_some() => {}
        Kind::Layers => layers(work, row, &name, value),
        Kind::Activation => {
            row.becomes.iter().for_each(|path| work.to.set(&name, path, activation(value)));
        }
        Kind::Flag if row.name == "ortho_init" => {
            let how = if *value == true { "orthogonal" } else { "uniform" };
            work.to.set(&name, "model.fcnet_initializer", how);
        }
        Kind::Number => sde_number(work, row, &name, value),
        Kind::Flag if ["full_std", "use_expln"].contains(&row.name.as_str()) => {
            sde_flag(work, row, &name, value);
        }
        Kind::Dictionary => optimizer(work, &name, value),
        Kind::Whole if !row.recurrent => {
            let whole = number(value).map(|number| number as u64);
            row.becomes.iter().for_each(|path| work.to.set(&name, path, whole));
        }
        // The recurrent layer is set as a whole, and so are convolutions.
        _ => {}
    }
}

/// The end of a refusal of what gSDE alone has.
const OF_SDE: &str = "it belongs to gSDE; give `use_sde=True`, or leave it out";

/// Sets the initial logarithm of standard deviations. That of an actor that computes its deviations has no effect there.
fn sde_number(work: &mut Work<'_>, row: &Argument, name: &str, value: &Value) {
    let default = if work.is_on_policy() { 0.0 } else { -3.0 };
    if number(value) == Some(default) && !work.uses_sde() {
        return;
    }
    if !work.is_on_policy() && !work.uses_sde() {
        return work.refuse_value(name, value, OF_SDE);
    }
    row.becomes.iter().for_each(|path| work.to.set(name, path, number(value)));
}

/// Sets a flag of gSDE.
fn sde_flag(work: &mut Work<'_>, row: &Argument, name: &str, value: &Value) {
    if value.as_bool() == Some(row.name == "full_std") {
        return;
    }
    if !work.uses_sde() {
        return work.refuse_value(name, value, OF_SDE);
    }
    row.becomes.iter().for_each(|path| work.to.set(name, path, value.clone()));
}

/// Sets the hidden layers of two networks: a list for both, or a dictionary with one for each.
fn layers(work: &mut Work<'_>, row: &Argument, name: &str, value: &Value) {
    let value = match value {
        Value::Array(only) if only.len() == 1 && only[0].is_object() => &only[0],
        _ => value,
    };
    let list = |value: &Value| -> Option<Vec<u64>> {
        value
            .as_array()?
            .iter()
            .map(|units| number(units).filter(|n| n.fract() == 0.0).map(|n| n as u64))
            .collect()
    };
    let is_dqn = work.is_one_of(&["DQN"]);
    let second = if row.becomes.len() == 2 { "qf" } else { "vf" };
    let both = match value {
        Value::Object(parts) if !is_dqn => {
            if let Some(key) = parts.keys().find(|key| !["pi", second].contains(&key.as_str())) {
                let why = format!("'{key}' must be 'pi' or '{second}'");
                return work.refuse_value(name, value, why);
            }
            // Stable-Baselines3 gives a network that is not named no hidden layer.
            ["pi", second].map(|key| parts.get(key).map_or(Some(Vec::new()), list))
        }
        _ => [list(value), list(value)],
    };
    let [Some(actor), Some(critic)] = both else {
        let rule = if is_dqn { "" } else { ", or a dictionary of two" };
        return work.refuse_value(name, value, format!("it must be a list of numbers of units{rule}"));
    };
    match row.becomes.as_slice() {
        [one] if actor == critic => work.to.set(name, one, actor),
        [_] => work.refuse_value(name, value, "both networks have equal layers here"),
        paths => {
            for (path, units) in paths.iter().zip([actor, critic]) {
                work.to.set(name, path, units);
            }
        }
    }
}

/// Takes the optimizer's epsilon.
fn optimizer(work: &mut Work<'_>, name: &str, value: &Value) {
    for (key, value) in value.as_object().into_iter().flatten() {
        match number(value).filter(|_| key == "eps") {
            Some(epsilon) => work.to.set(name, "adam_epsilon", epsilon),
            None if key == "eps" => work.refuse_value(name, &json!({key: value}), "`eps` must be a number"),
            None => {
                let why = format!("`{key}` ({}) has no setting here; only `eps` has one", shown(value));
                work.refuse_value(name, &json!({key: value}), why);
            }
        }
    }
}

/// Sets three convolutions and a layer of 512 units, and the hidden layers behind them. Actor and critic of on-policy classes share
/// them unless `share_features_extractor` is False, those of off-policy classes only if it is True.
fn convolutions(work: &mut Work<'_>, policy: &str, given: &Map<String, Value>) {
    let has_layers = given.get("net_arch").is_some_and(|layers| !layers.is_null());
    let shares = given.get("share_features_extractor").and_then(Value::as_bool);
    let label = if shares.is_some() { "policy_kwargs.share_features_extractor" } else { policy };
    work.to.set(policy, "model.conv_filters", "nature");
    if work.is_one_of(&["SAC", "TQC", "TD3", "DDPG"]) {
        work.to.set(label, "share_features_extractor", shares.unwrap_or(false));
        // These classes have other hidden layers behind convolutions than for vectors.
        if work.is_one_of(&["TD3", "DDPG"]) && !has_layers {
            for path in ["actor_hiddens", "critic_hiddens"] {
                work.to.set(policy, path, json!([256, 256]));
            }
        }
        return;
    }
    let model = work.to.config.get("model").cloned().unwrap_or_default();
    let none = json!([]);
    let behind = model.get("fcnet_hiddens").filter(|_| has_layers).unwrap_or(&none).clone();
    for (path, value) in [("fcnet_hiddens", none), ("post_fcnet_hiddens", behind)] {
        work.to.set(policy, &format!("model.{path}"), value);
    }
    work.to.set(label, "model.vf_share_layers", shares.unwrap_or(true));
    if let Some(activation) = model.get("fcnet_activation") {
        work.to.set(policy, "model.post_fcnet_activation", activation.clone());
    }
}
