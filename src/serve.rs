//! A policy behind HTTP: `pavlov serve`, as a part of a program. The code is the crate `pavlov-serve`.
//!
//! One thread reads requests, lets the policy act for all rows that wait at once, and answers. `docs/serve.md` describes the
//! endpoints; `SECURITY.md` says what the server protects and what it does not.
//!
//! ```no_run
//! use pavlov::serve::{ServeConfig, Server};
//!
//! # fn main() -> pavlov::Result<()> {
//! let server = Server::bind(ServeConfig::default(), || pavlov::load_shared("runs/first", None))?;
//! println!("http://{}", server.local_addr());
//! server.run()
//! # }
//! ```

pub use pavlov_serve::{Limits, ServeConfig, Server, ServerHandle, Token};
