//! One page that is made anew when what it shows has changed: `pavlov report --serve`.

use super::answer::{Answer, answer};
use super::guard::{ambiguity, other_name};
use super::limits::Limits;
use super::listen::{HttpRequest, Site, answer_all};
use super::memory::Budget;
use hyper::body::Bytes;
use hyper::header::{ALLOW, CACHE_CONTROL, ETAG, HeaderName, HeaderValue, IF_NONE_MATCH};
use hyper::{Method, Response, StatusCode};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;

/// Number of open connections.
const CONNECTIONS: usize = 64;
/// Least time between two pages.
const LEAST: Duration = Duration::from_secs(1);
/// A page that takes long is made less often: at most this share of the time is spent on it.
const SHARE: u32 = 4;
/// Time that answers under way have when the server ends.
const END: Duration = Duration::from_secs(1);
/// What a browser may do with the page of a report, and what the served one may do: ask for its own version.
const ALONE: &str = "default-src 'none';";
const SERVED: &str = "default-src 'none'; connect-src 'self';";
/// Asks for the version every two seconds and loads the page again when there is another one. The place on the page and the
/// open folds stay. A reader who types or has chosen something is not disturbed.
const SCRIPT: &str = r#"<script>(()=>{const version="VERSION",key="pavlov-place",folds=()=>[...document.querySelectorAll("details")];try{const kept=JSON.parse(sessionStorage.getItem(key));sessionStorage.removeItem(key);if(kept){folds().forEach((fold,i)=>{fold.open=kept.open.includes(i)});scrollTo(kept.x,kept.y)}}catch(_){}
const look=async()=>{try{const answer=await fetch("version",{cache:"no-store"});const busy=document.activeElement&&document.activeElement.matches("input,select");if(answer.ok&&!busy&&await answer.text()!==version){const open=folds().map((fold,i)=>fold.open?i:-1).filter(i=>i>=0);sessionStorage.setItem(key,JSON.stringify({x:scrollX,y:scrollY,open}));location.reload();return}}catch(_){}setTimeout(look,2000)};setTimeout(look,2000)})()</script></body>"#;

/// What a page is made of. Both functions only read.
pub struct Source {
    /// Differs when the page may differ; it must be cheap.
    pub stamp: Box<dyn Fn() -> String + Send + Sync>,
    /// Makes the page, or says why it cannot be made.
    pub make: Box<dyn Fn() -> std::result::Result<String, String> + Send + Sync>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}

/// A server of one page that listens on loopback.
pub struct PageServer {
    listener: std::net::TcpListener,
    addr: SocketAddr,
    desk: Arc<Desk>,
}

impl fmt::Debug for PageServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PageServer").field("addr", &self.addr).finish_non_exhaustive()
    }
}

struct Desk {
    source: Source,
    say: fn(&str),
    made: Mutex<Made>,
    limits: Limits,
    connections: Budget,
    ending: watch::Sender<bool>,
}

/// The newest page.
struct Made {
    stamp: String,
    page: Bytes,
    version: String,
    /// When making it ended, and how long it took.
    at: Instant,
    took: Duration,
}

impl PageServer {
    /// Makes the page for the first time and begins to listen. `say` gets a line when the page cannot be made later.
    ///
    /// # Errors
    /// Fails if the address is not one of loopback or cannot be listened on, or if the page cannot be made.
    pub fn bind(addr: SocketAddr, source: Source, say: fn(&str)) -> Result<PageServer> {
        if !addr.ip().is_loopback() {
            let rule = "others could read the page there; listen on 127.0.0.1, and from another machine use \
                        `ssh -L PORT:127.0.0.1:PORT`";
            return Err(Error::new(ErrorKind::InvalidInput, format!("the address is {addr}, but {rule}")));
        }
        let made = Made::make(&source).map_err(Error::other)?;
        let listener = std::net::TcpListener::bind(addr)
            .map_err(|error| Error::new(error.kind(), format!("cannot listen on {addr}: {error}")))?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
        let limits = Limits { max_connections: CONNECTIONS, end_timeout: END, ..Limits::default() };
        let connections = Budget::new(limits.max_connections);
        let ending = watch::Sender::new(false);
        let desk = Arc::new(Desk { source, say, made: Mutex::new(made), limits, connections, ending });
        Ok(PageServer { listener, addr, desk })
    }

    /// The address that the server listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.addr
    }

    /// Answers until SIGTERM or Ctrl-C.
    ///
    /// # Errors
    /// Fails if the system has no room for an event loop or does not let signals be watched.
    pub fn run(self) -> Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let done = runtime.block_on(async {
            for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
                let mut signals = signal(kind)?;
                let desk = Arc::clone(&self.desk);
                tokio::spawn(async move {
                    signals.recv().await;
                    desk.ending.send_replace(true);
                });
            }
            answer_all(TcpListener::from_std(self.listener)?, &self.desk).await;
            Ok(())
        });
        // A page that is being made is not waited for.
        runtime.shutdown_background();
        done
    }
}

impl Made {
    fn make(source: &Source) -> std::result::Result<Made, String> {
        let started = Instant::now();
        // What changes while the page is made makes another one necessary.
        let stamp = (source.stamp)();
        let page = (source.make)()?;
        let mut hasher = DefaultHasher::new();
        hasher.write(page.as_bytes());
        let version = format!("{:016x}", hasher.finish());
        let page = page.replacen(ALONE, SERVED, 1);
        let page = match page.rsplit_once("</body>") {
            Some((before, after)) => format!("{before}{}{after}", SCRIPT.replace("VERSION", &version)),
            None => page,
        };
        Ok(Made { stamp, page: page.into(), version, at: Instant::now(), took: started.elapsed() })
    }
}

impl Desk {
    /// The newest page and its version. If it cannot be made, the one before stays.
    fn newest(&self) -> (Bytes, String) {
        let mut made = self.made.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let is_due = made.at.elapsed() >= LEAST.max(made.took * SHARE);
        if is_due && (self.source.stamp)() != made.stamp {
            match Made::make(&self.source) {
                Ok(newer) => *made = newer,
                Err(reason) => {
                    (self.say)(&format!("the page stays as it is: {reason}"));
                    made.at = Instant::now();
                }
            }
        }
        (made.page.clone(), made.version.clone())
    }
}

impl Site for Desk {
    type Visit = ();

    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn connections(&self) -> &Budget {
        &self.connections
    }

    fn ending(&self) -> &watch::Sender<bool> {
        &self.ending
    }

    fn visit(self: &Arc<Self>) {}

    async fn answer(self: Arc<Self>, request: HttpRequest, (): &()) -> Response<Answer> {
        let sentence =
            |status, text: &str| answer(status, "text/plain; charset=utf-8", format!("{text}\n"), None);
        if let Some(text) = ambiguity(request.uri(), request.headers()) {
            return sentence(StatusCode::BAD_REQUEST, &text);
        }
        if let Some(called) = other_name(request.headers()) {
            let text = format!(
                "this server listens on loopback and was called by {called}: call it by localhost or 127.0.0.1"
            );
            return sentence(StatusCode::MISDIRECTED_REQUEST, &text);
        }
        let path = request.uri().path();
        if !["/", "/version"].contains(&path) {
            return sentence(StatusCode::NOT_FOUND, "there is only the page, at /");
        }
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            let mut refused = sentence(StatusCode::METHOD_NOT_ALLOWED, "the page can only be read: use GET");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        let desk = Arc::clone(&self);
        // Reading files and playing an episode would keep other connections waiting.
        let Ok((page, version)) = spawn_blocking(move || desk.newest()).await else {
            return sentence(
                StatusCode::INTERNAL_SERVER_ERROR,
                "making the page failed; the terminal says why",
            );
        };
        let tag = format!("\"{version}\"");
        let knows = |sent: &HeaderValue| sent.as_bytes() == tag.as_bytes();
        let is_known = request.headers().get_all(IF_NONE_MATCH).iter().any(knows);
        let mut response = match (path, is_known) {
            (_, true) => sentence_less(StatusCode::NOT_MODIFIED),
            ("/version", false) => answer(StatusCode::OK, "text/plain; charset=utf-8", version, None),
            _ => answer(StatusCode::OK, "text/html; charset=utf-8", page, None),
        };
        let headers = response.headers_mut();
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        headers
            .insert(HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff"));
        if let Ok(tag) = HeaderValue::from_str(&tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

/// An answer without a body.
fn sentence_less(status: StatusCode) -> Response<Answer> {
    let mut response = Response::new(Answer::default());
    *response.status_mut() = status;
    response
}
