//! Networks: parameters in one flat buffer, layers that know their place in it, and what is made of them.

mod actor_critic;
mod builder;
mod config;
mod conv_filters;
mod conv_tower;
mod critics;
mod encoding;
mod layers;
mod mlp;
mod params;
mod quantiles;
mod torso;
mod view;

pub use actor_critic::ActorCritic;
pub use builder::{CustomModel, NetBuilder, PolicySpec, Spaces, Torso};
pub use config::{Architecture, HiddenLayers, Initializer, ModelConfig};
pub use conv_filters::ConvFilters;
pub use critics::Critics;
pub use encoding::Encoding;
pub(crate) use encoding::{Raw, channels_first, image, readable};
pub use layers::{Conv2d, Dense, Filter, Free, Init, LayerNorm, Padding, Recurrent};
pub use mlp::Mlp;
pub(crate) use params::Layout;
pub use params::{Params, ParamsBuilder};
pub use quantiles::{CriticLoss, Quantiles};
pub use view::{Input, Net};

pub use crate::learn::engines::Activation;
pub use crate::learn::{Group, OnLibtorch, Rule};
