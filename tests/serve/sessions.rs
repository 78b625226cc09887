//! Sessions: the memory of a recurrent policy from one request to the next.

use std::time::Duration;

use pavlov::serve::Limits;
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::{Loaded, Observations};
use serde_json::{Value, json};

use super::client::{Running, packed};
use crate::loaded::{ppo, rows, session};

fn recurrent() -> Loaded {
    let lstm = ppo(|ppo| ppo.common.model.use_lstm = true);
    session(lstm, "Pendulum-v1", 1).into_loaded().expect("a policy to share")
}

/// The actions of one episode, one row after the other.
fn episode(policy: &Loaded, obs: &[f32]) -> Vec<f32> {
    let mut memory = vec![0.0; policy.memory_width()];
    let step = |row: &[f32]| {
        let mut action = [0.0];
        let rows = Observations::new(row).with_memory(&mut memory);
        policy.act(rows, ActionRows::Float(&mut action)).expect("an action");
        action[0]
    };
    obs.chunks(3).map(step).collect()
}

fn action(answer: &Value) -> f32 {
    serde_json::from_value(answer["action"][0].clone()).unwrap_or_else(|_| panic!("no action: {answer}"))
}

#[test]
fn episodes_side_by_side_have_the_bits_of_the_policy() {
    let policy = recurrent();
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    let first: Vec<f32> = rows(policy.observation_space(), 8, 1);
    let second: Vec<f32> = rows(policy.observation_space(), 8, 2);
    let wanted = [episode(&policy, &first), episode(&policy, &second)];
    for step in 0..8 {
        let obs = [&first[3 * step..][..3], &second[3 * step..][..3]];
        let begins = step == 0;
        // One in JSON, both in one request, and one by its number in binary rows.
        let one = client.act(json!({"obs": obs[0], "session": "a", "begin": begins})).json();
        assert_eq!(action(&one), wanted[0][step], "step {step}");
        let two = client.act(json!({"obs": obs, "session": ["b", "c"], "begin": begins})).json();
        let found: Vec<[f32; 1]> = serde_json::from_value(two["actions"].clone()).expect("two actions");
        assert_eq!(found, [[wanted[0][step]], [wanted[1][step]]], "step {step}");
        let numbers: &[u8] = bytemuck::cast_slice(obs[1]);
        let body = packed(0, 2 | 4, 1, 3, &[numbers, &7_u64.to_le_bytes(), &[u8::from(begins)]]);
        assert_eq!(client.rows(&body).bytes[24..], wanted[1][step].to_le_bytes(), "step {step}");
    }
    assert_eq!(server.metric("pavlov_serve_sessions"), 4.0);
    // The binary session 7 is "7" in JSON; begun anew, it remembers nothing.
    let anew = client.act(json!({"obs": &first[..3], "session": "7", "begin": true})).json();
    assert_eq!(action(&anew), wanted[0][0]);
}

#[test]
fn a_session_is_never_made_in_silence_and_ends_when_it_is_deleted() {
    let policy = recurrent();
    let server = Running::of(&policy, Limits::default());
    let mut client = server.client();
    let row = [0.1, 0.2, 0.3];
    let code = |answer: super::client::Answer| (answer.status, answer.code());
    assert_eq!(code(client.act(json!({"obs": row}))), (400, "session".into()));
    assert_eq!(code(client.act(json!({"obs": row, "session": "a"}))), (404, "unknown_session".into()));
    assert_eq!(client.act(json!({"obs": row, "session": "a", "begin": true})).status, 200);
    assert_eq!(client.act(json!({"obs": row, "session": "a"})).status, 200);
    let twice = client.act(json!({"obs": [row, row], "session": ["a", "a"]}));
    assert_eq!(code(twice), (409, "session_busy".into()));
    // The request that was refused has let go of the session.
    assert_eq!(client.act(json!({"obs": row, "session": "a"})).status, 200);
    assert_eq!(client.ask("DELETE", "/v1/sessions/a", "", b"").status, 204);
    assert_eq!(code(client.ask("DELETE", "/v1/sessions/a", "", b"")), (404, "unknown_session".into()));
    assert_eq!(code(client.act(json!({"obs": row, "session": "a"}))), (404, "unknown_session".into()));
    let long = "x".repeat(65);
    assert_eq!(
        code(client.act(json!({"obs": row, "session": long, "begin": true}))),
        (400, "session".into())
    );
    let unnamed = client.act(json!({"obs": [row, row], "session": ["a"], "begin": true}));
    assert_eq!(code(unnamed), (400, "session".into()));
    assert_eq!(server.metric("pavlov_serve_sessions"), 0.0);
}

#[test]
fn the_number_of_sessions_is_bounded_and_silent_ones_make_room() {
    let policy = recurrent();
    let row = [0.1, 0.2, 0.3];
    let begin = |name: usize| json!({"obs": row, "session": name.to_string(), "begin": true});
    let server = Running::of(&policy, Limits { max_sessions: 3, ..Limits::default() });
    let mut client = server.client();
    (0..3).for_each(|name| assert_eq!(client.act(begin(name)).status, 200));
    let refused = client.act(begin(3));
    assert_eq!((refused.status, refused.code().as_str()), (429, "sessions"));
    assert_eq!(client.act(begin(2)).status, 200, "one that is there may begin anew");
    let silent = Limits { max_sessions: 3, session_timeout: Duration::ZERO, ..Limits::default() };
    let server = Running::of(&policy, silent);
    let mut client = server.client();
    (0..20).for_each(|name| assert_eq!(client.act(begin(name)).status, 200));
    assert!(server.metric("pavlov_serve_sessions") <= 3.0);
}
