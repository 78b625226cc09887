//! Integration tests of storages, in one binary.
//!
//! `contract`: what every backend promises. `faults`: errors, each with its way out. `server` starts the S3 server that
//! they are run against; those tests are skipped without PAVLOV_TEST_PYTHON.

mod contract;
mod faults;
mod server;
