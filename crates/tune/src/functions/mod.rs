//! Where a sweep gets its trainables from: factories, functions that report through a session, and their worker groups.

mod factory;
mod function;
pub mod session;
mod workers;

pub use factory::TrainableFactory;
pub use function::{Function, IntoReport};
