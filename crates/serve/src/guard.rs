//! Who may ask: tokens, and the names under which the server may be called.

use super::refusal::Refusal;
use hyper::header::{AUTHORIZATION, HOST, HeaderMap};
use hyper::{StatusCode, Uri, http::uri::Authority};
use pavlov_tune::read_file;
use std::fmt;
use std::hint::black_box;
use std::path::Path;

/// Smallest number of bytes of a token.
pub(super) const LEAST: usize = 16;

/// A secret that a client must send, as `Authorization: Bearer TOKEN`.
#[derive(Clone)]
pub struct Token(Vec<u8>);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token")
    }
}

impl Token {
    /// Reads a token from a file; spaces and line ends around it do not count.
    ///
    /// # Errors
    /// Fails with a sentence if the file cannot be read or is no plain file (a pipe or a device may never end), or if the
    /// token is shorter than 16 bytes or has spaces inside.
    pub fn read(file: &Path) -> Result<Self, String> {
        let shown = file.display();
        let text = read_file(file).map_err(|error| format!("cannot read the token in {shown}: {error}"))?;
        let text = String::from_utf8(text).map_err(|_| format!("the token in {shown} is no text"))?;
        let token = text.trim();
        if token.len() < LEAST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "the token in {shown} has {} bytes, but it must be at least {LEAST} visible ASCII characters without spaces; \
                 make one with `openssl rand -hex 32 > {shown}`",
                token.len()
            ));
        }
        Ok(Self(token.as_bytes().to_vec()))
    }

    /// Compares in a time that does not depend on where the first difference is.
    fn is(&self, other: &[u8]) -> bool {
        let differs = self.0.iter().zip(other).fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        differs == 0 && self.0.len() == other.len()
    }

    /// Refuses a request that does not come with this token.
    pub(crate) fn check(&self, headers: &HeaderMap) -> Result<(), Refusal> {
        let sent = headers.get(AUTHORIZATION).and_then(|value| value.as_bytes().strip_prefix(b"Bearer "));
        if sent.is_some_and(|sent| self.is(sent)) {
            return Ok(());
        }
        let message = "the request must come with the header `Authorization: Bearer TOKEN`, with the token of this server";
        Err(Refusal::new(StatusCode::UNAUTHORIZED, "token", message))
    }
}

/// Refuses a request whose address is ambiguous: more than one `Host`, or an absolute target with another name than `Host`.
/// A program in front of the server may have decided by the other one.
pub(crate) fn check_target(target: &Uri, headers: &HeaderMap) -> Result<(), Refusal> {
    match ambiguity(target, headers) {
        Some(message) => Err(Refusal::bad("host", message)),
        None => Ok(()),
    }
}

/// What is ambiguous about the address of a request, as a sentence.
pub(super) fn ambiguity(target: &Uri, headers: &HeaderMap) -> Option<String> {
    let hosts: Vec<&[u8]> = headers.get_all(HOST).iter().map(|host| host.as_bytes()).collect();
    let shown = |host: &[u8]| format!("{:?}", String::from_utf8_lossy(host));
    if let [first, second, ..] = hosts.as_slice() {
        return Some(format!(
            "the request has several `Host` headers, {} and {}: send one",
            shown(first),
            shown(second)
        ));
    }
    let target = target.authority()?.as_str();
    let host = hosts.first().copied().unwrap_or_default();
    (!target.as_bytes().eq_ignore_ascii_case(host)).then(|| {
        format!(
            "the request is for {target:?}, but its `Host` header says {}: send the path alone, or the same name twice",
            shown(host)
        )
    })
}

/// Refuses a request that calls a server on loopback by another name than one of loopback. A web page that makes its own
/// name point to loopback could ask through its visitor's browser otherwise.
pub(crate) fn check_host(headers: &HeaderMap) -> Result<(), Refusal> {
    let Some(called) = other_name(headers) else { return Ok(()) };
    let message = format!(
        "this server listens on loopback and was called by {called}: call it by `localhost` or 127.0.0.1, or start it with \
         `--token-file`"
    );
    Err(Refusal::new(StatusCode::MISDIRECTED_REQUEST, "host", message))
}

/// The name by which a request calls the server, as text for a message, if it is none of loopback.
pub(super) fn other_name(headers: &HeaderMap) -> Option<String> {
    let host = headers.get(HOST).and_then(|value| value.to_str().ok());
    let name = host.and_then(|host| host.parse::<Authority>().ok());
    let name = name.as_ref().map(|authority| authority.host().trim_matches(['[', ']']));
    let is_loopback = |name: &str| {
        name.eq_ignore_ascii_case("localhost")
            || name.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
    };
    if name.is_some_and(is_loopback) {
        return None;
    }
    Some(host.map_or("no name".into(), |host| format!("{host:?}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> Result<(), Refusal> {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, name.parse().expect("a header"));
        check_host(&headers)
    }

    #[test]
    fn only_names_of_loopback_reach_a_server_on_loopback() {
        for name in ["localhost", "localhost:8000", "LOCALHOST", "127.0.0.1:1", "127.9.9.9", "[::1]:8000"] {
            assert_eq!(host(name), Ok(()), "{name}");
        }
        for name in ["example.org", "localhost.example.org:8000", "10.0.0.1", "", "localhost@example.org"] {
            assert_eq!(host(name).expect_err(name).code, "host");
        }
        assert!(check_host(&HeaderMap::new()).is_err());
    }

    #[test]
    fn a_request_has_one_host_and_its_target_no_other() {
        let ambiguity = |target: &str, hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a header"));
            }
            super::ambiguity(&target.parse().expect("a target"), &headers)
        };
        assert_eq!(ambiguity("/v1/act", &["localhost"]), None);
        assert_eq!(ambiguity("http://LOCALHOST:1/v1/act", &["localhost:1"]), None);
        let two = ambiguity("/v1/act", &["localhost", "example.org"]).expect("two hosts");
        assert_eq!(two, r#"the request has several `Host` headers, "localhost" and "example.org": send one"#);
        assert!(ambiguity("/v1/act", &["localhost", "localhost"]).is_some());
        let other = ambiguity("http://example.org/v1/act", &["localhost"]).expect("another host");
        assert!(other.contains(r#"is for "example.org", but its `Host` header says "localhost""#), "{other}");
        assert!(ambiguity("http://localhost/", &[]).is_some());
    }

    #[test]
    fn a_token_in_a_pipe_or_a_device_is_refused_and_not_waited_for() {
        let home = tempfile::tempdir().expect("a directory");
        let pipe = home.path().join("token");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status().expect("the program mkfifo");
        assert!(made.success());
        for path in [&*pipe, Path::new("/dev/zero")] {
            let refused = Token::read(path).expect_err("no plain file");
            assert!(refused.ends_with("it is no plain file; put a plain file there"), "{refused}");
        }
    }

    #[test]
    fn a_token_is_compared_whole() {
        let token = Token(b"0123456789abcdef".to_vec());
        let sent = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, text.parse().expect("a header"));
            token.check(&headers).is_ok()
        };
        assert!(sent("Bearer 0123456789abcdef"));
        for wrong in ["Bearer 0123456789abcde", "Bearer 0123456789abcdefg", "Bearer ", "0123456789abcdef"] {
            assert!(!sent(wrong), "{wrong}");
        }
        assert_eq!(format!("{token:?}"), "Token");
    }
}
