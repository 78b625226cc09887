//! Connections: taking them, answering their requests, and their end.

use super::answer::Answer;
use super::limits::Limits;
use super::memory::{Budget, Held};
use super::refusal::Refusal;
use super::stream::{Phase, Timed};
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{CONNECTION, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

/// Largest number of bytes of a request's header.
const HEADER: usize = 16 << 10;
/// Time in which a client that is about to ask can still do so when the server ends.
const GRACE: Duration = Duration::from_millis(500);

pub(crate) type HttpRequest = hyper::Request<Incoming>;

/// What answers the requests of all connections.
pub(crate) trait Site: Send + Sync + 'static {
    /// What is kept for one connection; it is dropped when the connection ends.
    type Visit: Send + Sync;

    /// How much is taken.
    fn limits(&self) -> &Limits;

    /// The connections that are open.
    fn connections(&self) -> &Budget;

    /// Whether the server ends.
    fn ending(&self) -> &watch::Sender<bool>;

    /// A connection begins.
    fn visit(self: &Arc<Self>) -> Self::Visit;

    /// A connection was one too many.
    fn refused_connection(&self) {}

    /// Answers a request.
    fn answer(
        self: Arc<Self>,
        request: HttpRequest,
        visit: &Self::Visit,
    ) -> impl Future<Output = Response<Answer>> + Send;
}

/// Answers the requests of all connections until the site ends, and after that those that had already arrived.
pub(crate) async fn answer_all<S: Site>(listener: TcpListener, site: &Arc<S>) {
    accept(listener, site).await;
    let closed = async {
        while site.connections().used() > 0 {
            sleep(Duration::from_millis(5)).await;
        }
    };
    // Connections that are still open then are cut.
    let _ = timeout(site.limits().end_timeout, closed).await;
}

/// Takes connections until the server ends, and then those that the system has taken already.
async fn accept<S: Site>(listener: TcpListener, site: &Arc<S>) {
    let mut watch = site.ending().subscribe();
    let mut ended = pin!(watch.wait_for(|ends| *ends));
    loop {
        let next = poll_fn(|cx| match listener.poll_accept(cx) {
            Poll::Ready(taken) => Poll::Ready(Some(taken)),
            Poll::Pending => ended.as_mut().poll(cx).map(|_| None),
        });
        match next.await {
            Some(Ok((stream, _))) => begin(stream, site),
            // For instance too many open files: what is open may close.
            Some(Err(_)) => sleep(Duration::from_millis(20)).await,
            None => return,
        }
    }
}

/// What a connection gets that is one too many.
fn one_too_many(most: usize) -> String {
    let message = format!(
        "{most} connections are open, the most that this server takes (`--max-connections`): try again"
    );
    let body = Refusal::busy("connections", message).body();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n\
         Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn begin<S: Site>(stream: TcpStream, site: &Arc<S>) {
    let Some(held) = site.connections().take(1) else {
        // A client that does not take the answer is closed without.
        let _ = stream.try_write(one_too_many(site.limits().max_connections).as_bytes());
        site.refused_connection();
        return;
    };
    tokio::spawn(serve(stream, Arc::clone(site), held));
}

/// Answers the requests of one connection.
async fn serve<S: Site>(stream: TcpStream, site: Arc<S>, _held: Held) {
    // Without it, small answers wait for the client's acknowledgement.
    if stream.set_nodelay(true).is_err() {
        return;
    }
    let visit = site.visit();
    let phase = Arc::new(Phase::default());
    let io = Timed::new(stream, Arc::clone(&phase), site.limits());
    let service = service_fn(|request| {
        let phase = &phase;
        let site = Arc::clone(&site);
        let visit = &visit;
        async move {
            phase.enter();
            let mut response = Arc::clone(&site).answer(request, visit).await;
            if *site.ending().borrow() {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            phase.leave();
            Ok::<_, Infallible>(response)
        }
    });
    let mut http = http1::Builder::new();
    http.header_read_timeout(None).max_buf_size(HEADER);
    let mut connection = pin!(http.serve_connection(io, service));
    let mut watch = site.ending().subscribe();
    let mut ended = pin!(async move {
        let _ = watch.wait_for(|ends| *ends).await;
        sleep(GRACE).await;
    });
    let is_done = poll_fn(|cx| match connection.as_mut().poll(cx) {
        Poll::Ready(_) => Poll::Ready(true),
        Poll::Pending => ended.as_mut().poll(cx).map(|()| false),
    });
    if !is_done.await {
        connection.as_mut().graceful_shutdown();
        // Errors of a connection are the client's: it is closed either way.
        let _ = connection.await;
    }
}
