//! Fresh networks have the weights of fresh networks of Stable-Baselines3 and of Ray: the same distribution in every layer.

use std::collections::BTreeMap;

use pavlov::prelude::*;
use pavlov::trainer::policy::{Policy, PolicySpec};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::case::{Actions, settings_on};
use crate::support::{floats, spec};

/// The distribution of a layer's weights over many seeds.
#[derive(Debug, Deserialize)]
struct Layer {
    mean: f64,
    std: f64,
    max: f64,
    orthogonal: bool,
    /// The length of every row of the matrix, if all have one.
    normc: Option<f64>,
}

#[derive(Debug, Deserialize)]
struct Fresh {
    algorithm: String,
    trainer: String,
    base: Option<String>,
    action_space: Actions,
    layers: BTreeMap<String, Layer>,
}

/// Number of networks to draw.
const SEEDS: u64 = 40;

fn build<T: Trainer + DeserializeOwned>(fresh: &Fresh, seed: u64) -> Box<dyn Policy> {
    let hidden = json!([32, 24]);
    let sizes = match fresh.trainer.as_str() {
        "SAC" => {
            json!({"policy_model_config": {"fcnet_hiddens": hidden}, "q_model_config": {"fcnet_hiddens": hidden}})
        }
        "TD3" | "DDPG" => json!({"actor_hiddens": hidden, "critic_hiddens": hidden}),
        _ => json!({"model": {"fcnet_hiddens": hidden}}),
    };
    let mut settings: T =
        serde_json::from_value(settings_on(fresh.base.as_deref(), &sizes)).expect("settings");
    let spaces = fresh.action_space.with_observations(&[3]);
    settings.validate_config(&spaces).expect("settings that fit");
    let spec = PolicySpec { seed, ..spec(&spaces, true) };
    settings.get_default_policy_class(&spaces).and_then(|class| class.build(&spec)).expect("a policy")
}

/// Whether the rows of a matrix, or its columns if there are fewer, are orthogonal and of equal length.
fn is_orthogonal(x: &[f64], shape: &[i64]) -> bool {
    let &[rows, columns] = shape else { return false };
    let [rows, columns] = [rows as usize, columns as usize];
    let count = rows.min(columns);
    let at = |v: usize, i: usize| if rows <= columns { x[v * columns + i] } else { x[i * columns + v] };
    let dot = |a: usize, b: usize| (0..rows.max(columns)).map(|i| at(a, i) * at(b, i)).sum::<f64>();
    let length = dot(0, 0);
    let near = |a: usize, b: usize| (dot(a, b) / length - f64::from(a == b)).abs() < 1e-4;
    rows > 1 && (0..count).all(|a| (0..count).all(|b| near(a, b)))
}

/// The length of every row of a matrix, if all have one.
fn row_length(x: &[f64], shape: &[i64]) -> Option<f64> {
    let &[_, columns] = shape else { return None };
    let lengths = x.chunks(columns as usize).map(|row| row.iter().map(|x| x * x).sum::<f64>().sqrt());
    let lengths: Vec<f64> = lengths.collect();
    lengths.iter().all(|length| (length / lengths[0] - 1.0).abs() < 1e-5).then(|| lengths[0])
}

/// The layers of fresh networks whose distribution is another one, with both distributions.
fn others(fresh: &Fresh) -> Vec<(String, String)> {
    let drawn = |seed| {
        let policy = match fresh.trainer.as_str() {
            "PPO" => build::<Ppo>(fresh, seed),
            "IMPALA" => build::<Impala>(fresh, seed),
            "DQN" => build::<Dqn>(fresh, seed),
            "SAC" => build::<Sac>(fresh, seed),
            "TD3" => build::<Td3>(fresh, seed),
            "DDPG" => build::<Ddpg>(fresh, seed),
            other => panic!("no algorithm {other}"),
        };
        policy.get_weights()
    };
    let networks: Vec<_> = (0..SEEDS).map(drawn).collect();
    assert_eq!(networks[0].array_names().count(), fresh.layers.len(), "{}", fresh.algorithm);
    let mut found = Vec::new();
    for (name, wanted) in &fresh.layers {
        let arrays = networks.iter().map(|network| network.array(name).expect("the layer"));
        let all: Vec<f64> = arrays.flat_map(floats).collect();
        let n = all.len() as f64;
        let mean = all.iter().sum::<f64>() / n;
        let std = (all.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n).sqrt();
        let max = all.iter().fold(0.0_f64, |most, x| most.max(x.abs()));
        let first = networks[0].array(name).expect("the layer");
        let orthogonal = is_orthogonal(&floats(first), first.shape());
        let length = row_length(&floats(first), first.shape());
        // Two draws of n numbers each; those of an orthogonal matrix are not more different than free ones.
        let same = (mean - wanted.mean).abs() <= 6.0 * wanted.std / n.sqrt() + 1e-9
            && (std - wanted.std).abs() <= 5.0 * wanted.std / n.sqrt() + 1e-6
            && (0.6 * wanted.max..=1.6 * wanted.max).contains(&max)
            && orthogonal == wanted.orthogonal
            && wanted.normc.is_none_or(|wanted| length.is_some_and(|l| (l / wanted - 1.0).abs() < 1e-4));
        if !same {
            found.push((
                name.clone(),
                format!("{mean} {std} {max} {orthogonal} {length:?}, wanted {wanted:?}"),
            ));
        }
    }
    found
}

#[test]
fn fresh_weights_have_the_distribution_of_stable_baselines3_in_every_layer() {
    let all: Vec<Fresh> = serde_json::from_str(include_str!("sb3_initial.json")).expect("the fixture");
    assert!(!all.is_empty());
    for fresh in &all {
        assert_eq!(others(fresh), [], "{}", fresh.algorithm);
    }
}

/// `docs/habits.md` says which layers are not Ray's. (Of QMIX only the mixer has a counterpart.)
#[test]
fn fresh_weights_have_the_distribution_of_ray_but_where_the_page_says_otherwise() {
    let all: Vec<Fresh> = serde_json::from_str(include_str!("ray113_initial.json")).expect("the fixture");
    let mut equal = Vec::new();
    for fresh in all.iter().filter(|fresh| fresh.trainer != "QMIX") {
        let differ = others(fresh);
        let said = |name: &str| match fresh.trainer.as_str() {
            "DQN" => name.starts_with("advantage.") || name.starts_with("value."),
            "SAC" | "TD3" | "DDPG" => true,
            _ => false,
        };
        let unsaid: Vec<_> = differ.iter().filter(|(name, _)| !said(name)).collect();
        assert!(unsaid.is_empty(), "{}: {unsaid:#?}", fresh.algorithm);
        if differ.is_empty() {
            equal.push(fresh.algorithm.as_str());
        }
    }
    assert_eq!(equal, ["PPO", "PPO, Discrete", "IMPALA"]);
}
