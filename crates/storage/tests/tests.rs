//! Integration tests of storages, in one binary.
//!
//! `contract`: what every backend promises. `faults`: errors, each with its way out. `runs`: drivers with a
//! `remote_checkpoint_dir`. `sweeps`: tuners with a URL as their storage path. `server` starts the S3 server that they
//! are run against; without PAVLOV_TEST_PYTHON those tests are skipped.

mod contract;
mod faults;
mod runs;
mod server;
mod sweeps;
