//! What clients do wrong: each request is refused in a sentence or its connection is closed, and others are answered.

use std::io::{Read, Write};
use std::time::Duration;

use pavlov::serve::{Limits, ServeConfig, Token};
use serde_json::json;

use super::client::{Answer, Running, packed};
use super::pole;

const ROW: [f32; 4] = [0.1, 0.2, 0.3, 0.4];

#[track_caller]
fn is(answer: &Answer, status: u16, code: &str) {
    assert_eq!((answer.status, answer.code().as_str()), (status, code), "{answer:?}");
}

#[test]
fn wrong_numbers_and_wrong_json_are_refused_and_the_connection_stays() {
    let server = Running::of(&pole(), Limits::default());
    let mut client = server.client();
    for (body, code) in [
        ("{\"obs\": [1, 2", "json"),
        ("", "json"),
        ("[1, 2, 3, 4]", "json"),
        ("{\"obs\": [NaN, 0, 0, 0]}", "json"),
        ("{\"obs\": [1e999, 0, 0, 0]}", "json"),
        ("{\"obs\": [null, 0, 0, 0]}", "json"),
        ("{\"obs\": \"text\"}", "json"),
        ("{\"obs\": [0, 0, 0, 0], \"obs\": [0, 0, 0, 0]}", "json"),
        ("{\"obs\": [0, 0, 0, 0]} {}", "json"),
        ("{\"mask\": [1, 1]}", "json"),
        ("{\"obs\": [0, 0, 0, 0], \"sesion\": \"a\"}", "json"),
        ("{\"obs\": [1e200, 0, 0, 0]}", "not_finite"),
        ("{\"obs\": [0, 0, 0]}", "width"),
        ("{\"obs\": [[0, 0, 0, 0], [0, 0, 0, 0, 0]]}", "width"),
        ("{\"obs\": [[0, 0, 0, 0], 0, 0, 0, 0]}", "width"),
        ("{\"obs\": [[[0, 0, 0, 0]]]}", "width"),
        ("{\"obs\": 1}", "width"),
        ("{\"obs\": []}", "rows"),
        ("{\"obs\": [0, 0, 0, 0], \"mask\": [1, 1]}", "mask"),
        ("{\"obs\": [0, 0, 0, 0], \"begin\": true}", "session"),
    ] {
        is(&client.act(body), 400, code);
    }
    let deep = "[".repeat(100_000);
    is(&client.act(format!("{{\"obs\": {deep}")), 400, "width");
    is(&client.act(format!("{{\"mask\": {deep}")), 400, "json");
    is(&client.act(json!({"obs": vec![ROW; 1025]})), 400, "rows");
    assert_eq!(client.act(json!({"obs": ROW})).status, 200);
}

#[test]
fn wrong_binary_rows_are_refused() {
    let server = Running::of(&pole(), Limits::default());
    let mut client = server.client();
    let numbers: &[u8] = bytemuck::cast_slice(&ROW);
    let nan: &[u8] = bytemuck::cast_slice(&[0.0, 0.0, f32::NAN, 0.0]);
    for (body, code) in [
        (packed(0, 0, 1, 4, &[nan]), "not_finite"),
        (packed(0, 0, 1, 3, &[numbers]), "width"),
        (packed(1, 0, 1, 4, &[numbers]), "rows"),
        (packed(0, 16, 1, 4, &[numbers]), "rows"),
        (packed(0, 0, 2, 4, &[numbers]), "rows"),
        (packed(0, 0, u32::MAX as usize, 4, &[numbers]), "rows"),
        (packed(0, 0, 0, 4, &[]), "rows"),
        (packed(0, 1, 1, 4, &[numbers]), "mask"),
        (b"pvr1".to_vec(), "rows"),
        (Vec::new(), "rows"),
    ] {
        is(&client.rows(&body), 400, code);
    }
    let whole = packed(0, 0, 1, 4, &[numbers]);
    assert_eq!(client.rows(&whole).status, 200);
    let mut other = whole.clone();
    other[3] = b'2';
    let refused = client.rows(&other);
    is(&refused, 400, "rows");
    assert!(
        refused.text.contains(r#"are of version \"pvr2\", but this server reads version \"pvr1\""#),
        "{refused:?}"
    );
    // The version of the policy, too: that which is served is taken, another one is named beside it.
    let of_version = |version: u64| {
        let mut body = whole.clone();
        body[16..24].copy_from_slice(&version.to_le_bytes());
        body
    };
    assert_eq!(client.rows(&of_version(1)).status, 200);
    let refused = client.rows(&of_version(7));
    is(&refused, 409, "model_changed");
    assert!(refused.text.contains("for version 7 of the policy, but version 1 answers"), "{refused:?}");
}

#[test]
fn a_request_whose_address_is_ambiguous_is_refused() {
    let server = Running::of(&pole(), Limits::default());
    let mut client = server.client();
    let mut ask = |start: &str, hosts: &[&str]| {
        let hosts: String = hosts.iter().map(|host| format!("Host: {host}\r\n")).collect();
        client.send(format!("{start} HTTP/1.1\r\n{hosts}\r\n").as_bytes()).expect("a header");
        client.read()
    };
    assert_eq!(ask("GET /healthz", &["localhost"]).status, 200);
    is(&ask("GET /healthz", &["localhost", "example.org"]), 400, "host");
    is(&ask("GET http://example.org/healthz", &["localhost"]), 400, "host");
    is(&ask("GET http://example.org/healthz", &["example.org"]), 421, "host");
    assert_eq!(ask("GET http://localhost/healthz", &["localhost"]).status, 200);
}

#[test]
fn headers_that_a_web_page_could_not_send_are_demanded() {
    let server = Running::of(&pole(), Limits::default());
    let mut client = server.client();
    let body = json!({"obs": ROW}).to_string();
    let mut ask = |headers: &str| client.ask("POST", "/v1/act", headers, body.as_bytes());
    is(&ask(""), 415, "content_type");
    is(&ask("Content-Type: text/plain\r\n"), 415, "content_type");
    assert_eq!(ask("Content-Type: application/json; charset=utf-8\r\n").status, 200);
    is(&ask("Host: example.org\r\nContent-Type: application/json\r\n"), 421, "host");
    assert_eq!(ask("Host: 127.0.0.1:8000\r\nContent-Type: application/json\r\n").status, 200);
    // A request that does not say the length of its body.
    let head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    client.send(head.as_bytes()).expect("a header");
    is(&client.read(), 411, "length");
}

#[test]
fn only_the_right_token_is_answered() {
    let home = tempfile::tempdir().expect("a directory");
    let token = |name: &str, text: &str| {
        let file = home.path().join(name);
        std::fs::write(&file, text).expect("a file");
        Token::read(&file)
    };
    let short = token("short", "secret\n").expect_err("too short");
    assert!(short.contains("6 bytes") && !short.contains("secret"), "{short}");
    let config = ServeConfig {
        token: Some(token("user", "0123456789abcdef\n").expect("a token")),
        admin_token: Some(token("admin", "fedcba9876543210").expect("a token")),
        ..ServeConfig::default()
    };
    let policy = pole();
    let server = Running::with(config, move || Ok(policy.clone()));
    let mut client = server.client();
    let user = "Authorization: Bearer 0123456789abcdef\r\n";
    let admin = "Authorization: Bearer fedcba9876543210\r\n";
    let json = "Content-Type: application/json\r\n";
    let body = json!({"obs": ROW}).to_string();
    let body = body.as_bytes();
    for wrong in
        ["", "Authorization: Bearer 0123456789abcdee\r\n", "Authorization: 0123456789abcdef\r\n", admin]
    {
        is(&client.ask("POST", "/v1/act", &format!("{json}{wrong}"), body), 401, "token");
        is(&client.ask("GET", "/metrics", wrong, b""), 401, "token");
        is(&client.ask("GET", "/v1/model", wrong, b""), 401, "token");
    }
    assert_eq!(client.ask("POST", "/v1/act", &format!("{json}{user}"), body).status, 200);
    assert_eq!(client.ask("GET", "/healthz", "", b"").status, 200);
    is(&client.ask("POST", "/v1/reload", user, b""), 401, "token");
    let reloaded = client.ask("POST", "/v1/reload", admin, b"");
    assert_eq!(reloaded.json(), json!({"version": 2}));
}

#[test]
fn without_a_token_for_it_no_client_reloads() {
    let server = Running::of(&pole(), Limits::default());
    is(&server.client().ask("POST", "/v1/reload", "", b""), 404, "path");
}

#[test]
fn a_body_of_100_megabytes_is_refused_by_its_header() {
    let server = Running::of(&pole(), Limits::default());
    let mut client = server.client();
    let head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 104857600\r\n\r\n";
    client.send(head.as_bytes()).expect("a header");
    let answer = client.read();
    is(&answer, 413, "body");
    assert!(answer.closes());
    // Who sends the body all the same is cut off.
    let chunk = vec![b' '; 1 << 20];
    let sent = (0..100).take_while(|_| client.stream.get_mut().write_all(&chunk).is_ok()).count();
    assert!(sent < 100, "all of it was read");
    assert_eq!(server.client().act(json!({"obs": ROW})).status, 200);
}

#[test]
fn a_client_that_goes_in_the_middle_leaves_nothing_behind() {
    let server = Running::of(&pole(), Limits::default());
    let body = json!({"obs": ROW}).to_string();
    let head = |length: usize| {
        format!(
            "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n\r\n"
        )
    };
    for _ in 0..50 {
        // A whole request whose answer nobody reads, half a body, and half a header.
        server.client().send(format!("{}{body}", head(body.len())).as_bytes()).expect("a request");
        server.client().send(format!("{}{body}", head(2 * body.len())).as_bytes()).expect("half a request");
        server.client().send(&head(1).as_bytes()[..30]).expect("half a header");
    }
    server.wait_until_alone();
    assert_eq!(server.metric("pavlov_serve_queue_rows"), 0.0);
    assert_eq!(server.client().act(json!({"obs": ROW})).status, 200);
}

#[test]
fn slow_headers_slow_bodies_and_silence_are_cut_off() {
    let soon = Duration::from_millis(50);
    let limits = Limits { header_timeout: soon, body_timeout: soon, idle_timeout: soon, ..Limits::default() };
    let server = Running::of(&pole(), limits);
    let mut silent = server.client();
    assert!(silent.try_read().is_none(), "a silent client is closed");
    let mut slow = server.client();
    slow.send(b"POST /v1/act HTTP/1.1\r\n").expect("half a header");
    assert!(slow.try_read().is_none_or(|answer| answer.status == 408), "half a header is closed");
    let mut half = server.client();
    let head = "POST /v1/act HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 20\r\n\r\n{";
    half.send(head.as_bytes()).expect("half a body");
    let answer = half.read();
    is(&answer, 408, "slow_body");
    assert!(answer.closes());
    assert_eq!(server.client().act(json!({"obs": ROW})).status, 200);
}

#[test]
fn a_client_that_reads_nothing_is_cut_off() {
    let limits = Limits { write_timeout: Duration::from_millis(50), ..Limits::default() };
    let server = Running::of(&pole(), limits);
    let mut client = server.client();
    client.stream.get_mut().set_write_timeout(Some(Duration::from_secs(20))).expect("a time limit");
    let requests = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n".repeat(1000);
    let written = (0..1000).take_while(|_| client.send(requests.as_bytes()).is_ok()).count();
    assert!(written < 1000, "every answer found room");
    server.wait_until_alone();
    // What arrived before is there to read, and then the end.
    let mut rest = Vec::new();
    let _ = client.stream.get_mut().read_to_end(&mut rest);
    assert_eq!(server.client().act(json!({"obs": ROW})).status, 200);
}

#[test]
fn what_is_too_much_at_once_is_refused_for_now() {
    let policy = pole();
    let server = Running::of(&policy, Limits { max_queue: 1, ..Limits::default() });
    let answer = server.client().act(json!({"obs": [ROW, ROW]}));
    is(&answer, 503, "queue");
    assert!(answer.head.to_ascii_lowercase().contains("retry-after: 1"));
    assert_eq!(server.client().act(json!({"obs": ROW})).status, 200);
    let server = Running::of(&policy, Limits { max_memory: 1500, ..Limits::default() });
    is(&server.client().act(json!({"obs": vec![ROW; 10]})), 503, "memory");
    assert_eq!(server.client().act(json!({"obs": [0, 0, 0, 0]})).status, 200);
    let server = Running::of(&policy, Limits { deadline: Duration::ZERO, ..Limits::default() });
    is(&server.client().act(json!({"obs": ROW})), 504, "deadline");
    let server = Running::of(&policy, Limits { max_connections: 1, ..Limits::default() });
    let mut first = server.client();
    assert_eq!(first.act(json!({"obs": ROW})).status, 200);
    let mut second = server.client();
    is(&second.read(), 503, "connections");
    assert_eq!(first.act(json!({"obs": ROW})).status, 200);
}
