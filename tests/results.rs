//! What `train` returns and what a built trainer answers.

mod batches;
mod callbacks;
mod evaluation;
mod inference;
mod keys;
mod loading;
mod time;
