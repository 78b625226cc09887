//! Integration tests of trainables and sweeps, in one binary.
//!
//! `lifecycle`: the driver around a trainable. `checkpoints`: directories on disk, whole and damaged. `logging`: the
//! files of a run. `settings`: layers and decoding. `sweeps`, `orders`, `restores`, `processes`, `functions`, `sweep_files`: the tuner.
//! `deleted`: files that are deleted meanwhile. `mlflow`, `tensorboard`: files of other programs. `foreign`: sweeps that come from elsewhere. `remote`: sweeps on storage, `faulty` being one that fails. `same_place`: a run where one lies already. `counter` is the
//! trainable that most of them use.

mod apart;
mod checkpoints;
mod child;
mod counter;
mod deleted;
mod faulty;
mod foreign;
mod functions;
mod lifecycle;
mod logging;
mod mlflow;
mod orders;
mod populations;
mod processes;
mod remote;
mod restores;
mod same_place;
mod schedulers;
mod search;
mod settings;
mod stoppers;
mod sweep_files;
mod sweeps;
mod tensorboard;
mod wandb;
