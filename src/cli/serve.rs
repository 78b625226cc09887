//! `pavlov serve`: a saved policy behind HTTP.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;

use super::exit::usage;
use super::output::{print, say};
use super::run_dir::find_policy;
use crate::load_shared;
use crate::serve::{Limits, ServeConfig, Server, Token};
use crate::trainer::Error;

/// Answer requests for actions of a saved policy over HTTP
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  pavlov serve runs/first --addr 127.0.0.1:8000\n  \
                        curl -H 'Content-Type: application/json' -d '{\"obs\": [0.1, 0, 0.02, 0]}' localhost:8000/v1/act\n\n\
                        SIGHUP loads the newest checkpoint of the run; no request is lost. SIGTERM or Ctrl-C answers what \
                        waits and ends. docs/serve.md describes requests, sessions of recurrent policies and metrics.")]
pub(super) struct ServeArgs {
    /// A checkpoint or a run directory (its newest checkpoint), the URL of one, or a packed model
    #[arg(value_name = "DIR|URL|FILE.pavlov")]
    checkpoint: PathBuf,
    /// The address to listen on; one that others can reach needs --token-file
    #[arg(long, value_name = "IP:PORT", default_value = "127.0.0.1:8000")]
    addr: SocketAddr,
    /// Id of the policy, if the run has several
    #[arg(long, value_name = "ID")]
    policy: Option<String>,
    /// A file with the token that clients must send as `Authorization: Bearer TOKEN`
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// A file with the token for POST /v1/reload, which loads a newer policy
    #[arg(long, value_name = "FILE")]
    admin_token_file: Option<PathBuf>,
    #[command(flatten)]
    limits: LimitArgs,
}

/// How much the server takes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Limits")]
struct LimitArgs {
    /// Bytes of a request's body
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_body, value_parser = at_least_one)]
    max_body: usize,
    /// Rows of a request
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_rows, value_parser = at_least_one)]
    max_rows: usize,
    /// Rows that wait for the policy
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_queue, value_parser = at_least_one)]
    max_queue: usize,
    /// Open connections
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_connections, value_parser = at_least_one)]
    max_connections: usize,
    /// Sessions
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_sessions, value_parser = at_least_one)]
    max_sessions: usize,
    /// Bytes of the bodies and answers under way together
    #[arg(long, value_name = "N", default_value_t = Limits::default().max_memory, value_parser = at_least_one)]
    max_memory: usize,
    /// Seconds in which a request's header must arrive
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    header_timeout: Duration,
    /// Seconds in which a request's body must arrive
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    body_timeout: Duration,
    /// Seconds after which a connection without requests is closed
    #[arg(long, value_name = "S", default_value = "75", value_parser = seconds)]
    idle_timeout: Duration,
    /// Seconds after which a client that does not read its answer is cut off
    #[arg(long, value_name = "S", default_value = "10", value_parser = seconds)]
    write_timeout: Duration,
    /// Seconds after which a session without requests ends
    #[arg(long, value_name = "S", default_value = "600", value_parser = seconds)]
    session_timeout: Duration,
    /// Seconds that a request may wait for the policy
    #[arg(long, value_name = "S", default_value = "5", value_parser = seconds)]
    deadline: Duration,
    /// Milliseconds that the first request of a batch waits for others, 0 to 100. 0 takes what waits, which is best unless
    /// the network is large
    #[arg(long, value_name = "MS", default_value = "0", value_parser = clap::value_parser!(u64).range(0..=100))]
    batch_delay: u64,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    let number: usize = text.parse().map_err(|_| "it must be a whole number".to_owned())?;
    if number == 0 { Err("it must be at least 1".into()) } else { Ok(number) }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let number: f64 = text.parse().map_err(|_| "it must be a number of seconds".to_owned())?;
    if !(0.001..=1e6).contains(&number) {
        return Err("it must be a number of seconds from 0.001 to 1000000".into());
    }
    Ok(Duration::from_secs_f64(number))
}

impl LimitArgs {
    fn limits(&self) -> Limits {
        let &Self { max_body, max_rows, max_queue, max_connections, max_sessions, max_memory, .. } = self;
        let &Self { header_timeout, body_timeout, idle_timeout, write_timeout, session_timeout, .. } = self;
        Limits {
            max_body,
            max_rows,
            max_queue,
            max_connections,
            max_sessions,
            max_memory,
            header_timeout,
            body_timeout,
            idle_timeout,
            write_timeout,
            session_timeout,
            deadline: self.deadline,
            batch_delay: Duration::from_millis(self.batch_delay),
            ..Limits::default()
        }
    }
}

pub(super) fn serve(args: ServeArgs) -> anyhow::Result<()> {
    let token = |file: &Option<PathBuf>| file.as_deref().map(Token::read).transpose().map_err(usage);
    let config = ServeConfig {
        addr: args.addr,
        token: token(&args.token_file)?,
        admin_token: token(&args.admin_token_file)?,
        limits: args.limits.limits(),
    };
    // A wrong path is told as bad input, before anything is loaded.
    let first = find_policy(&args.checkpoint)?;
    let ServeArgs { checkpoint, policy, .. } = args;
    let server = Server::bind(config, move || newest(&checkpoint, policy.as_deref()))?;
    print(&format!("serving the policy of {} at http://{}", first.display(), server.local_addr()))?;
    Ok(server.run_until_signal(say)?)
}

/// Loads the newest checkpoint, which may be another one each time.
fn newest(path: &Path, policy: Option<&str>) -> Result<crate::trainer::Loaded, Error> {
    let found =
        find_policy(path).map_err(|error| Error::state(path.display().to_string(), error.to_string()))?;
    load_shared(found, policy)
}
