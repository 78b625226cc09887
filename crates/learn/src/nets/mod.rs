//! Networks: a builder, layers, torsos, and the networks that policies use.

mod actor_critic;
mod builder;
mod combined;
mod conv_tower;
mod critics;
mod init;
mod layers;
mod mlp;
mod quantiles;
mod sde;
#[cfg(feature = "torch")]
mod tch_module;
mod torso;

pub use actor_critic::ActorCritic;
pub(crate) use builder::NeedsTorch;
pub use builder::{CustomModel, NetBuilder, PolicySpec, Torso};
pub use critics::{Critics, UpdateOrder};
pub use init::Init;
pub use layers::{Conv2d, Dense, Free, LayerNorm, Recurrent};
pub use mlp::Mlp;
pub use quantiles::{CriticLoss, Quantiles};
pub use sde::{Sde, SdeNoise};
#[cfg(feature = "torch")]
pub use tch_module::TchModule;

pub use crate::base::Spaces;
pub use crate::layers::{
    Activation, Architecture, ConvFilters, Filter, HiddenLayers, Initializer, ModelConfig, Padding,
};
#[cfg(feature = "torch")]
pub use crate::loss::OnLibtorch;
pub use crate::loss::{Input, Net};
pub use crate::params::{Encoding, Group, Params, ParamsBuilder, Rule};
