//! Stable-Baselines3's arguments as pavlov's settings: one table, `arguments.json`, which `--from-sb3`, the constructors of
//! the Python package and a page are read from.

mod policy;
mod replay_buffer;
mod table;
mod translate;
mod values;
mod work;

pub use self::table::{Class, Refused, TABLE};
pub use self::translate::translate;
pub use self::work::{Became, Span, Translated};
