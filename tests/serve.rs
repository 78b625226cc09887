//! A policy behind HTTP, asked over sockets.

mod client;
mod ending;
mod faults;
mod sessions;

use pavlov::serve::{Limits, ServeConfig, Server};
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::settings::ObservationFilter;
use pavlov::trainer::{Loaded, Observations};
use serde_json::json;

use crate::loaded::{dqn, ppo, rows, session};
use client::{Running, header, packed};

/// A policy for the pole.
fn pole() -> Loaded {
    session(ppo(|_| ()), "CartPole-v1", 1).into_loaded().expect("a policy to share")
}

/// A policy of numbers behind a filter.
fn pendulum() -> Loaded {
    let filtered = ppo(|ppo| ppo.common.observation_filter = ObservationFilter::MeanStdFilter);
    session(filtered, "Pendulum-v1", 1).into_loaded().expect("a policy to share")
}

fn numbers(policy: &Loaded, obs: &[f32]) -> Vec<f32> {
    let mut actions = vec![0.0; obs.len() / policy.observation_width() * policy.action_width()];
    policy.act(Observations::new(obs), ActionRows::Float(&mut actions)).expect("actions");
    actions
}

fn choices(policy: &Loaded, obs: &[f32]) -> Vec<i64> {
    let mut actions = vec![0; obs.len() / policy.observation_width()];
    policy.act(Observations::new(obs), ActionRows::Int(&mut actions)).expect("actions");
    actions
}

#[test]
fn json_and_binary_answers_have_the_bits_of_the_policy_on_numbers() {
    let policy = pendulum();
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    let obs: Vec<f32> = rows(policy.observation_space(), 100, 1);
    let wanted = numbers(&policy, &obs);
    let listed = client.act(json!({"obs": obs.chunks(3).collect::<Vec<_>>()})).json();
    let of_json: Vec<Vec<f32>> = serde_json::from_value(listed["actions"].clone()).expect("rows of numbers");
    assert!(of_json.concat() == wanted, "{listed}");
    assert_eq!(listed["version"], 1);
    let one = client.act(json!({"obs": &obs[..3]})).json();
    let of_one: [f32; 1] = serde_json::from_value(one["action"].clone()).expect("a row of numbers");
    assert_eq!((of_one[0], &one["version"]), (wanted[0], &json!(1)));
    let answer = client.rows(&packed(0, 0, 100, 3, &[bytemuck::cast_slice(&obs)]));
    assert_eq!(header(&answer.bytes), (0, 100, 1, 1), "{answer:?}");
    assert!(answer.bytes[24..] == *bytemuck::cast_slice::<f32, u8>(&wanted));
}

#[test]
fn json_and_binary_answers_are_the_choices_of_the_policy() {
    let values = session(dqn(), "CartPole-v1", 1).into_loaded().expect("a policy to share");
    for policy in [pole(), values] {
        let server = Running::of(&policy, Limits::default());
        let mut client = server.client();
        let obs: Vec<f32> = rows(policy.observation_space(), 50, 2);
        let obs: Vec<f32> = obs.into_iter().map(|x| x.clamp(-3.0, 3.0)).collect();
        let wanted = choices(&policy, &obs);
        let listed = client.act(json!({"obs": obs.chunks(4).collect::<Vec<_>>()})).json();
        assert_eq!(listed["actions"], json!(wanted));
        assert_eq!(client.act(json!({"obs": &obs[..4]})).json()["action"], json!(wanted[0]));
        let answer = client.rows(&packed(0, 0, 50, 4, &[bytemuck::cast_slice(&obs)]));
        assert_eq!(header(&answer.bytes), (1, 50, 1, 1));
        assert!(answer.bytes[24..] == *bytemuck::cast_slice::<i64, u8>(&wanted));
    }
}

#[test]
fn masks_and_discrete_observations_are_taken_in_either_form() {
    let masked = ppo(|ppo| ppo.common.mask_actions = true);
    let policy = session(masked, "Taxi-v4", 1).into_loaded().expect("a policy to share");
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    for legal in 0..6 {
        let mask: Vec<bool> = (0..6).map(|option| option == legal).collect();
        let wanted = json!({"action": legal, "version": 1});
        assert_eq!(client.act(json!({"obs": 42, "mask": mask})).json(), wanted);
        let flags: Vec<u8> = mask.iter().map(|&flag| u8::from(flag)).collect();
        assert_eq!(client.act(json!({"obs": [42], "mask": flags})).json(), wanted);
        let two = client.act(json!({"obs": [[42], [43]], "mask": [flags, flags]})).json();
        assert_eq!(two["actions"], json!([legal, legal]));
        let answer = client.rows(&packed(1, 1, 1, 1, &[&42_i64.to_le_bytes(), &flags]));
        assert_eq!(answer.bytes[24..], (legal as i64).to_le_bytes());
    }
    // Without a mask every action is legal.
    assert_eq!(client.act(json!({"obs": 42})).status, 200);
    let refused = client.act(json!({"obs": 42, "mask": [0, 0, 0, 0, 0, 0]}));
    assert_eq!((refused.status, refused.code().as_str()), (400, "mask_without_action"));
    let refused = client.act(json!({"obs": 42, "mask": [1]}));
    assert_eq!((refused.status, refused.code().as_str()), (400, "width"));
    assert_eq!(client.act(json!({"obs": 1.5})).code(), "rows");
}

#[test]
fn drawn_actions_differ_and_best_ones_do_not() {
    let policy = pole();
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    let obs = vec![[0.0; 4]; 200];
    let ones = |answer: client::Answer| {
        let actions: Vec<i64> = serde_json::from_value(answer.json()["actions"].clone()).expect("choices");
        actions.into_iter().sum::<i64>()
    };
    assert!([0, 200].contains(&ones(client.act(json!({"obs": obs})))));
    // After one iteration the policy is close to even.
    let drawn = ones(client.act(json!({"obs": obs, "explore": true})));
    assert!((20..180).contains(&drawn), "{drawn}");
}

#[test]
fn health_the_model_and_metrics_are_told() {
    let policy = pendulum();
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    assert_eq!(client.get("/healthz").text, "ok\n");
    assert_eq!(client.get("/readyz").status, 200);
    let model = client.get("/v1/model").json();
    assert_eq!(model["version"], 1);
    assert_eq!(model["observation_width"], 3);
    assert!(model["action_space"].as_str().is_some_and(|space| space.starts_with("Box(")), "{model}");
    client.act(json!({"obs": [[0, 0, 0], [1, 0, 0]]}));
    assert_eq!(server.metric("pavlov_serve_rows_total"), 2.0);
    assert_eq!(server.metric("pavlov_serve_batches_total"), 1.0);
    assert_eq!(server.metric("pavlov_serve_model_version"), 1.0);
    let refused = client.get("/v1/nothing");
    assert_eq!((refused.status, refused.code().as_str()), (404, "path"));
    let refused = client.get("/v1/act");
    assert_eq!((refused.status, refused.code().as_str()), (405, "method"));
    assert!(refused.head.to_ascii_lowercase().contains("allow: post"), "{refused:?}");
    assert!(server.metric("pavlov_serve_requests_total{code=\"404\"}") == 1.0);
}

#[test]
fn an_address_that_others_reach_needs_a_token() {
    let policy = pole();
    let config = ServeConfig { addr: ([0, 0, 0, 0], 0).into(), ..ServeConfig::default() };
    let refused = Server::bind(config, move || Ok(policy.clone())).expect_err("no token").to_string();
    assert!(refused.contains("0.0.0.0:0") && refused.contains("--token-file"), "{refused}");
}
