//! The `model` settings: layers and activations of networks.

use crate::base::{Error, ImagePart, Result, Spaces, image, images_in_parts, rules};
use crate::layers::conv_filters::{ConvFilters, UNITS, UNITS_OF_PART};
use pavlov_envs::Space;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The `model` settings (Ray's MODEL_DEFAULTS), which describe the layers of the policy's network. A network of the
/// user's own (`Builder::custom_model` of pavlov's trainer) replaces these layers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// Number of units of each hidden layer. Images pass through convolutions instead.
    pub fcnet_hiddens: Vec<usize>,
    /// Convolutions for images, which are boxes of three dimensions with channels last or first:
    /// `[[channels, kernel, stride], ...]`, or `"nature"`. Null: Ray's for 84x84, 42x42, 96x96, 10x10, 240x320 and 480x640;
    /// `"nature"` for other images from 36x36 on; `[[32, 3, 2], [64, 3, 2]]` for smaller ones from 5x5 on; none for still smaller
    /// boxes and for those with as many channels as pixels on a side, which are numbers. The layers of
    /// `post_fcnet_hiddens` follow them.
    pub conv_filters: Option<ConvFilters>,
    /// Activation of the convolutions.
    pub conv_activation: Activation,
    /// Activation of the hidden layers: tanh, relu, elu, swish or linear.
    pub fcnet_activation: Activation,
    /// Number of units of each further hidden layer, after `fcnet_hiddens` or the convolutions.
    pub post_fcnet_hiddens: Vec<usize>,
    /// Activation of the layers of `post_fcnet_hiddens`.
    pub post_fcnet_activation: Activation,
    /// Whether the last hidden layer, with its activation, is the output of the network.
    pub no_final_linear: bool,
    /// Whether the log standard deviations of continuous actions are free parameters instead of outputs of the
    /// network.
    pub free_log_std: bool,
    /// Whether actor and critic share their hidden layers. Each algorithm has its own default.
    pub vf_share_layers: bool,
    /// How initial weights are drawn: `normc` as in Ray, `orthogonal` as in PPO of Stable-Baselines3 and of CleanRL, or
    /// `uniform` as in PyTorch and in DQN of Stable-Baselines3.
    pub fcnet_initializer: Initializer,
    /// Whether a gated recurrent unit (GRU) follows the hidden layers, so that the policy remembers earlier steps.
    /// Actor and critic then share all layers but the last.
    pub use_gru: bool,
    /// Whether a long short-term memory (LSTM) follows the hidden layers; `use_gru` must then be false.
    pub use_lstm: bool,
    /// Number of units of the recurrent layer, a GRU or an LSTM.
    pub lstm_cell_size: usize,
    /// Number of steps in the sequences that recurrent layers learn from.
    pub max_seq_len: usize,
    /// Whether networks on the CPU run on the fused engine; otherwise libtorch runs them. Results are equal up to
    /// rounding.
    pub fused: bool,
}

impl Default for ModelConfig {
    fn default() -> Self {
        Self {
            fcnet_hiddens: vec![256, 256],
            conv_filters: None,
            conv_activation: Activation::Relu,
            fcnet_activation: Activation::Tanh,
            post_fcnet_hiddens: Vec::new(),
            post_fcnet_activation: Activation::Relu,
            no_final_linear: false,
            free_log_std: false,
            vf_share_layers: true,
            fcnet_initializer: Initializer::Normc,
            use_gru: false,
            use_lstm: false,
            lstm_cell_size: 256,
            max_seq_len: 20,
            fused: true,
        }
    }
}

impl ModelConfig {
    /// Refuses settings from which no network can be built.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the setting that breaks a rule; fails as [`rules::all`] does if several do.
    pub fn validate(&self) -> Result<()> {
        let layers = |key: &str, sizes: &[usize]| {
            let rule = "every layer needs at least one unit";
            rules::refuse_if(sizes.contains(&0), key, format_args!("{sizes:?}"), rule)
        };
        let memory = if self.is_recurrent() {
            rules::at_least_one([
                ("model.lstm_cell_size", self.lstm_cell_size),
                ("model.max_seq_len", self.max_seq_len),
            ])
        } else {
            Ok(())
        };
        let both = self.use_gru && self.use_lstm;
        let bare =
            self.no_final_linear && self.fcnet_hiddens.is_empty() && self.post_fcnet_hiddens.is_empty();
        let hidden = "without a final linear layer there must be a hidden one; add to `model.fcnet_hiddens`";
        rules::all([
            layers("model.fcnet_hiddens", &self.fcnet_hiddens),
            layers("model.post_fcnet_hiddens", &self.post_fcnet_hiddens),
            rules::refuse_if(both, "model.use_gru", true, "`model.use_lstm` is set as well; set one of them"),
            memory,
            rules::refuse_if(bare, "model.no_final_linear", true, hidden),
        ])
    }

    /// Whether the policy has a recurrent layer, and so remembers earlier steps.
    pub fn is_recurrent(&self) -> bool {
        self.use_gru || self.use_lstm
    }

    /// The activation of the last convolution or hidden layer; linear if there is neither.
    pub(crate) fn last_activation(&self, for_images: bool) -> Activation {
        match (for_images, self.hidden_layers().last()) {
            (true, _) if self.post_fcnet_hiddens.is_empty() => self.conv_activation,
            (_, Some((_, activation))) => *activation,
            _ => Activation::Linear,
        }
    }

    /// Height, width and channels of observations that are images, and their convolutions. `None` if observations go as numbers
    /// into fully connected layers: those that are no box of three dimensions, and without `conv_filters` also those that are
    /// too small or have too many channels.
    pub fn filters(&self, observation_space: &Space) -> Option<([usize; 3], ConvFilters)> {
        let image = image(observation_space)?;
        Some((image, self.conv_filters.clone().or_else(|| ConvFilters::of_size(image))?))
    }

    /// The images inside a Dict or a Tuple that go through convolutions, and these; as of [`filters`](Self::filters).
    pub fn filters_of_parts(&self, observation_space: &Space) -> Vec<(ImagePart, ConvFilters)> {
        let of_part = |part: ImagePart| {
            let filters = self.conv_filters.clone().or_else(|| ConvFilters::of_size(part.image))?;
            Some((part, filters))
        };
        images_in_parts(observation_space).into_iter().filter_map(of_part).collect()
    }

    /// Number of parameters of the convolutions, and number of outputs of these together with the numbers that pass through
    /// none; `None` if there are no convolutions.
    pub fn convolutions(&self, observation_space: &Space) -> Option<(u128, usize)> {
        if let Some((image, filters)) = self.filters(observation_space) {
            return Some(filters.sizes(image, UNITS));
        }
        let parts = self.filters_of_parts(observation_space);
        let start = (0_u128, observation_space.flat_width());
        (!parts.is_empty()).then(|| {
            parts.into_iter().fold(start, |(weights, width), (part, filters)| {
                let (own, outputs) = filters.sizes(part.image, UNITS_OF_PART);
                (weights.saturating_add(own), (width - part.flat.len()).saturating_add(outputs))
            })
        })
    }

    /// Number of outputs of the hidden layers, before a recurrent layer and the output layers.
    pub fn features(&self, spaces: &Spaces) -> usize {
        let space = &spaces.observation_space;
        let seen = self.convolutions(space).map_or(spaces.obs_width(), |(_, outputs)| outputs);
        let last = self.fcnet_hiddens.last().filter(|_| self.filters(space).is_none());
        self.post_fcnet_hiddens.last().or(last).copied().unwrap_or(seen)
    }

    /// Number of units and activation of each hidden layer, without convolutions and recurrent layers.
    pub fn hidden_layers(&self) -> Vec<(usize, Activation)> {
        let first = self.fcnet_hiddens.iter().map(|&n| (n, self.fcnet_activation));
        first.chain(self.post_fcnet_hiddens.iter().map(|&n| (n, self.post_fcnet_activation))).collect()
    }
}

/// Hidden layers of one network, for algorithms with several networks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HiddenLayers {
    /// Number of units of each hidden layer.
    pub fcnet_hiddens: Vec<usize>,
    /// Activation of each hidden layer.
    pub fcnet_activation: Activation,
    /// Whether each hidden layer has layer normalisation before its activation.
    pub layer_norm: bool,
    /// How the layers are connected: `mlp` or `simba`.
    pub architecture: Architecture,
}

/// How hidden layers are connected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// A plain stack of layers.
    Mlp,
    /// SimBa (Lee et al. 2024): a linear layer, a residual block for each entry of `fcnet_hiddens` (all entries must be
    /// equal), and then layer normalisation. A block consists of layer normalisation, a layer of four times the units
    /// and a linear layer; its result is added to its input.
    Simba,
}

impl Default for HiddenLayers {
    fn default() -> Self {
        Self {
            fcnet_hiddens: vec![256, 256],
            fcnet_activation: Activation::Relu,
            layer_norm: false,
            architecture: Architecture::Mlp,
        }
    }
}

impl ModelConfig {
    /// Returns an error for changed settings other than `fused` and those of convolutions, for an algorithm named `who` that reads
    /// only these; `networks` names the algorithm's own settings of networks. Convolutions may be set only if `observation_space`
    /// has images. Recurrent layers are left to `OffPolicy::validate` of pavlov's trainer, which refuses them.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if a setting that the algorithm does not read differs from its default.
    pub fn refuse_all_but_convolutions(
        &self,
        who: &str,
        networks: &str,
        observation_space: &Space,
    ) -> Result<()> {
        let mut read = Self { fused: self.fused, ..Self::default() };
        if image(observation_space).is_some() || !images_in_parts(observation_space).is_empty() {
            read = Self {
                conv_filters: self.conv_filters.clone(),
                conv_activation: self.conv_activation,
                ..read
            };
        }
        if *self == read || self.is_recurrent() {
            return Ok(());
        }
        let rule = format!(
            "{who} reads nothing of it but `fused` and, for images, `conv_filters` and `conv_activation`; its networks are {networks}"
        );
        Err(Error::config("model", serde_json::to_string(self).unwrap_or_default(), rule))
    }
}

impl HiddenLayers {
    /// Returns an error for layers without units, and for residual blocks of unequal widths; `key` is the path of these
    /// settings, for error messages.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the first broken rule.
    pub fn validate(&self, key: &str) -> Result<()> {
        let hiddens = &self.fcnet_hiddens;
        let is_simba = self.architecture == Architecture::Simba;
        let refuse = |broken, rule| {
            rules::refuse_if(broken, &format!("{key}.fcnet_hiddens"), format_args!("{hiddens:?}"), rule)
        };
        refuse(hiddens.contains(&0), "every layer needs at least one unit")?;
        let equal = hiddens.first().is_some_and(|first| hiddens.iter().all(|units| units == first));
        refuse(
            is_simba && !equal,
            "a `simba` network needs at least one block, and all of its blocks have the same number of units",
        )?;
        rules::refuse_if(
            is_simba && self.layer_norm,
            &format!("{key}.layer_norm"),
            true,
            "a `simba` network has its own layer normalisation: leave it out",
        )
    }

    /// Number of units of every layer, including the layers within blocks.
    pub fn widths(&self) -> Vec<usize> {
        match self.architecture {
            Architecture::Mlp => self.fcnet_hiddens.clone(),
            Architecture::Simba => {
                let first = self.fcnet_hiddens.first().copied();
                let blocks = self.fcnet_hiddens.iter().flat_map(|&units| [units.saturating_mul(4), units]);
                first.into_iter().chain(blocks).collect()
            }
        }
    }
}

/// How initial weights are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initializer {
    /// Normal random numbers, scaled so that the weights of each unit have a given norm.
    Normc,
    /// Random matrices with orthogonal rows or columns, scaled by a gain.
    Orthogonal,
    /// Weights and biases uniform in plus and minus one over the root of the number of inputs, in every layer.
    Uniform,
}

/// Activation function of a hidden layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Activation {
    /// Hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
    /// Exponential linear unit.
    Elu,
    /// `x * sigmoid(x)`.
    #[serde(alias = "silu")]
    Swish,
    /// The identity: numbers stay as they are.
    Linear,
}
