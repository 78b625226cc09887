//! The settings of layers: what a network is built from.

mod conv_filters;
mod model;

pub use conv_filters::{ConvFilters, Filter, Padding};
pub(crate) use conv_filters::{UNITS, UNITS_OF_PART};
pub use model::{Activation, Architecture, HiddenLayers, Initializer, ModelConfig};
