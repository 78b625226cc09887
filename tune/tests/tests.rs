//! Integration tests of the trainable lifecycle, in one binary.
//!
//! `lifecycle`: the driver around a trainable. `checkpoints`: directories on disk, whole and damaged. `logging`: the
//! files of a run. `settings`: layers and decoding. `search`: spaces and searchers. `counter` is the trainable that most of
//! them use.

mod checkpoints;
mod child;
mod counter;
mod lifecycle;
mod logging;
mod search;
mod settings;
mod tensorboard;
