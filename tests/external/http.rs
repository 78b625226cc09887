//! Programs that play over HTTP.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::Duration;

use pavlov::envs::{EnvConfig, IntoEnvCreator, Space, make_vec};
use pavlov::external::{ClientError, PolicyClient, PolicyServerInput};
use serde_json::json;

use crate::support::{number, quiet, refused, tiny_dqn, tiny_ppo};

/// An address with a port that is free.
pub(super) fn free_address() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").to_string()
}

fn pole(address: &str) -> PolicyServerInput {
    PolicyServerInput::new(address, Space::real(&[4]), Space::discrete(2))
}

/// A program that plays CartPole until it is dropped.
struct Game {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<Vec<f64>>>,
}

impl Game {
    fn start(address: &str, name: &str) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let mut client = PolicyClient::new(address, name);
        let thread = Some(spawn(move || {
            let mut returns = Vec::new();
            while !until.load(Ordering::Relaxed) {
                match episode(&mut client) {
                    Ok(total) => returns.push(total),
                    Err(ClientError::Refused { code, message }) => {
                        assert!(["unknown_episode", "ending"].contains(&code.as_str()), "{code}: {message}");
                    }
                    Err(_) => std::thread::sleep(Duration::from_millis(20)),
                }
            }
            returns
        }));
        Self { ends, thread }
    }

    /// The returns of the episodes that ended.
    fn end(mut self) -> Vec<f64> {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.take().expect("a thread").join().expect("a game")
    }
}

/// Plays an episode of CartPole; returns its return.
fn episode(client: &mut PolicyClient) -> Result<f64, ClientError> {
    let mut env = make_vec("CartPole-v1", &EnvConfig::new(), 1).expect("a pole");
    let mut obs = [0.0_f32; 4];
    let mut last = [0.0_f32; 4];
    let mut reward = [0.0_f32];
    let (mut terminated, mut truncated) = ([false], [false]);
    env.reset(Some(&[5]), bytemuck::cast_slice_mut(&mut obs)).expect("a reset");
    let episode = client.start_episode()?;
    while !terminated[0] && !truncated[0] {
        let action = [client.get_action(&episode, &obs)?[0] as i64];
        let out = pavlov::envs::StepOut {
            obs: bytemuck::cast_slice_mut(&mut obs),
            final_obs: bytemuck::cast_slice_mut(&mut last),
            rewards: &mut reward,
            terminated: &mut terminated,
            truncated: &mut truncated,
        };
        env.step(bytemuck::cast_slice(&action), Some(&[5]), out).expect("a step");
        client.log_returns(&episode, f64::from(reward[0]));
    }
    let ended = client.end_episode(&episode, &last, truncated[0])?;
    assert_eq!(ended.episode_reward, ended.episode_len as f64, "a reward of 1 for each action");
    Ok(ended.episode_reward)
}

#[test]
fn a_run_learns_from_programs_that_play_over_http_and_they_go_on_after_a_restore() {
    let address = free_address();
    let mut run = quiet(tiny_dqn(), pole(&address)).expect("a run");
    let games: Vec<Game> = ["a", "b"].map(|name| Game::start(&address, name)).into();
    let mut episodes = Vec::new();
    for _ in 0..20 {
        let result = run.train().expect("an iteration");
        episodes.push(number(&result, "episodes_this_iter"));
    }
    let result = run.train().expect("an iteration");
    assert!(number(&result, "timesteps_total") >= 21.0 * 16.0);
    assert!(number(&result, "info.learner.default_policy.learner_stats.mean_q").is_finite());
    let mean = number(&result, "episode_reward_mean");
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = run.save_to(folder.path()).expect("a checkpoint");
    run.restore(&checkpoint).expect("the same process takes over the server");
    let before = number(&result, "timesteps_total");
    let after = run.train().expect("an iteration");
    assert!(number(&after, "timesteps_total") > before);
    drop(run);
    let returns: Vec<f64> = games.into_iter().flat_map(Game::end).collect();
    assert!(returns.len() as f64 >= episodes.iter().sum::<f64>() - 2.0, "{} < {episodes:?}", returns.len());
    assert!((8.0..200.0).contains(&mean), "{mean}");
}

/// Sends bytes, and returns the status and the body of the answer; `None` if the connection was closed without.
fn raw(address: &str, bytes: &[u8]) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).expect("a server");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    // A server may close before everything was sent.
    drop(stream.write_all(bytes));
    let mut answer = String::new();
    let mut chunk = [0; 4096];
    loop {
        let more = stream.read(&mut chunk).unwrap_or(0);
        answer.push_str(&String::from_utf8_lossy(&chunk[..more]));
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned());
        if let Some(body) = body.filter(|body| body.ends_with('}') || body.ends_with(']')) {
            let status = answer.get(9..12)?.parse().ok()?;
            return Some((status, body));
        }
        if more == 0 {
            return None;
        }
    }
}

fn post(address: &str, path: &str, header: &str, body: &str) -> Option<(u16, String)> {
    let head = format!(
        "POST {path} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{header}Content-Length: {}\r\n\r\n",
        body.len()
    );
    raw(address, format!("{head}{body}").as_bytes())
}

#[test]
fn requests_that_are_wrong_are_answered_and_the_run_goes_on() {
    let address = free_address();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").expect("a token");
    let mut input = pole(&address);
    input.token_file = Some(file);
    let mut run = quiet(tiny_ppo(), input).expect("a run");
    let training = spawn(move || run.train().map(|_| ()));
    let token = "Authorization: Bearer 0123456789abcdef\r\n";
    let get = "/v1/external/get_action";
    let deep = format!("{{\"obs\": {}1{}}}", "[".repeat(5000), "]".repeat(5000));
    let cases = [
        (get, "", "{}", 401, "token"),
        (get, "Authorization: Bearer 0123456789abcdeX\r\n", "{}", 401, "token"),
        (get, token, "{", 400, "json"),
        (get, token, "{\"obs\": NaN}", 400, "json"),
        (get, token, &deep, 400, "json"),
        (get, token, "{\"what\": 1}", 400, "json"),
        (get, token, "{\"episode\": \"a\"}", 400, "missing"),
        (get, token, "{\"episode\": \"a\", \"obs\": [0, 0, 0, 0]}", 404, "unknown_episode"),
        ("/v1/external/start_episode", token, "{\"obs\": [1]}", 400, "message"),
        ("/v1/external/start_episode", token, "{\"episode\": \"a b\"}", 400, "episode"),
        ("/v1/external/stop", token, "{}", 404, "path"),
        ("/v1/else", token, "{}", 404, "path"),
        ("/v1/external/rows", token, "{}", 400, "missing"),
    ];
    while TcpStream::connect(&address).is_err() {
        std::thread::sleep(Duration::from_millis(10));
    }
    for (path, header, body, status, code) in cases {
        let (found, answer) = post(&address, path, header, body).expect("an answer");
        assert_eq!(found, status, "{path} {body:.50}: {answer}");
        assert!(answer.contains(&format!("\"code\":\"{code}\"")), "{path} {body:.50}: {answer}");
    }
    // One row is right, one is not finite, one is too short.
    let rows = json!({"client": "a", "rows": [
        {"message": "start_episode", "episode": "x"},
        {"message": "get_action", "episode": "x", "obs": [0, 0, 0, 1e300]},
        {"message": "get_action", "episode": "x", "obs": [0, 0]},
    ]});
    let (status, answer) = post(&address, "/v1/external/rows", token, &rows.to_string()).expect("an answer");
    assert_eq!(status, 200);
    let codes: Vec<serde_json::Value> = serde_json::from_str(&answer).expect("a list");
    assert_eq!(codes[0], json!({"episode": "x"}));
    assert_eq!(
        (&codes[1]["error"]["code"], &codes[2]["error"]["code"]),
        (&json!("not_finite"), &json!("width"))
    );
    let head = format!("POST {get} HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/json\r\n{token}");
    let large = raw(&address, format!("{head}Content-Length: 104857600\r\n\r\n").as_bytes());
    assert_eq!(large.map(|(status, _)| status), Some(413));
    let half = raw(&address, format!("{head}Content-Length: 100\r\n\r\n{{\"obs\"").as_bytes());
    assert_eq!(
        half.map(|(status, _)| status),
        Some(408),
        "half a body waits for its other half, but not for ever"
    );
    // A client with the token ends the iteration.
    let mut client = PolicyClient::new(&address, "right").with_token("0123456789abcdef");
    while !training.is_finished() {
        drop(episode(&mut client));
    }
    training.join().expect("a thread").expect("an iteration");
}

#[test]
fn an_address_for_others_needs_a_token_and_an_address_that_is_taken_is_named() {
    let address = free_address();
    refused(
        quiet(tiny_ppo(), pole("0.0.0.0:9900")).and_then(|mut run| Ok(run.train()?)),
        &["address", "token_file"],
    );
    refused(
        quiet(tiny_ppo(), pole("nonsense")).and_then(|mut run| Ok(run.train()?)),
        &["address", "127.0.0.1:9900"],
    );
    let _other = std::net::TcpListener::bind(&address).expect("a port");
    refused(
        quiet(tiny_ppo(), pole(&address)).and_then(|mut run| Ok(run.train()?)),
        &[&address, "choose another"],
    );
    let creator = pole(&address).into_env_creator();
    let config: EnvConfig = [("address".to_owned(), json!("x"))].into_iter().collect();
    refused(creator.make(&config, 1).map(|_| ()), &["env_config", "address"]);
}
