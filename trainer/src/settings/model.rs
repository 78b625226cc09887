//! The `model` settings.

use crate::base::{Error, Result, Spaces, image, rules};
use crate::settings::conv_filters::ConvFilters;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The `model` settings (Ray's MODEL_DEFAULTS). A network of the user's own
/// ([`Builder::custom_model`](crate::run::Builder::custom_model)) replaces the layers that they describe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// Units of each hidden layer. Images pass convolutions instead.
    pub fcnet_hiddens: Vec<usize>,
    /// Convolutions for images (boxes of three dimensions, channels last or first):
    /// `[[channels, kernel, stride], ...]`, `"nature"`, or null for Ray's defaults, which exist for 84x84, 42x42,
    /// 96x96, 10x10, 240x320 and 480x640. The layers of `post_fcnet_hiddens` follow.
    pub conv_filters: Option<ConvFilters>,
    /// Activation of the convolutions.
    pub conv_activation: Activation,
    /// Activation of the hidden layers: tanh, relu, elu, swish or linear.
    pub fcnet_activation: Activation,
    /// Units of further hidden layers, after `fcnet_hiddens` or the convolutions.
    pub post_fcnet_hiddens: Vec<usize>,
    /// Activation of `post_fcnet_hiddens`.
    pub post_fcnet_activation: Activation,
    /// Whether the last hidden layer, with its activation, is the output.
    pub no_final_linear: bool,
    /// Whether the log standard deviations of continuous actions are free parameters instead of outputs of the
    /// network.
    pub free_log_std: bool,
    /// Whether actor and critic share their hidden layers. Each algorithm has its own default.
    pub vf_share_layers: bool,
    /// How weights start: `normc` (Ray's: rows of normal numbers with unit norm) or `orthogonal` (Stable-Baselines3's
    /// and CleanRL's).
    pub fcnet_initializer: Initializer,
    /// Adds a gated recurrent unit after the hidden layers, so that the policy remembers. Actor and critic then share
    /// all layers but the last.
    pub use_gru: bool,
    /// Adds a long short-term memory (LSTM) after the hidden layers, instead of `use_gru`.
    pub use_lstm: bool,
    /// Units of the recurrent layer.
    pub lstm_cell_size: usize,
    /// Number of steps per sequence that recurrent layers learn from.
    pub max_seq_len: usize,
    /// Whether [`learner`](crate::learn::learner)'s fused engine runs fully connected and recurrent networks on the
    /// CPU; false leaves them to libtorch. Results are equal up to rounding.
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
    /// Returns [`Error::Config`] for the setting that breaks a rule; fails as [`rules::all`] does where several do.
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

    /// Whether the policy has a recurrent layer, and so remembers.
    pub fn is_recurrent(&self) -> bool {
        self.use_gru || self.use_lstm
    }

    /// The activation of the last layer before the heads.
    pub(crate) fn last_activation(&self, for_images: bool) -> Activation {
        match (for_images, self.hidden_layers().last()) {
            (true, _) if self.post_fcnet_hiddens.is_empty() => self.conv_activation,
            (_, Some((_, activation))) => *activation,
            _ => Activation::Linear,
        }
    }

    /// The convolutions for images of this height, width and number of channels.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if none are set and images of this size have no default.
    pub(crate) fn filters(&self, [height, width, _]: [usize; 3]) -> Result<ConvFilters> {
        match &self.conv_filters {
            Some(filters) => Ok(filters.clone()),
            None => ConvFilters::of_size(height, width),
        }
    }

    /// Number of parameters of the convolutions for images `[height, width, channels]`, and number of outputs.
    pub(crate) fn convolutions(&self, image: [usize; 3]) -> (u128, usize) {
        self.filters(image).map_or((0, 0), |filters| filters.sizes(image))
    }

    /// Number of outputs of the last layer before the heads.
    pub fn features(&self, spaces: &Spaces) -> usize {
        let before = match image(&spaces.observation_space) {
            Some(image) => self.convolutions(image).1,
            None => self.fcnet_hiddens.last().copied().unwrap_or(spaces.obs_width()),
        };
        self.post_fcnet_hiddens.last().copied().unwrap_or(before)
    }

    /// Units and activation of each hidden layer.
    pub fn hidden_layers(&self) -> Vec<(usize, Activation)> {
        let first = self.fcnet_hiddens.iter().map(|&n| (n, self.fcnet_activation));
        first.chain(self.post_fcnet_hiddens.iter().map(|&n| (n, self.post_fcnet_activation))).collect()
    }
}

/// Hidden layers of one network of an algorithm that has several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct HiddenLayers {
    /// Units of each hidden layer.
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
    /// SimBa (Lee et al. 2024): a linear layer, a residual block for each entry of `fcnet_hiddens` (all must be
    /// equal), then layer normalisation. A block adds to its input the result of layer normalisation, a layer of four
    /// times the units and a linear layer.
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
    /// Refuses all settings but `fused`, for algorithms that read no other; `networks` names their settings of
    /// networks. [`OffPolicy::validate`](crate::settings::replay::OffPolicy::validate) refuses recurrent layers.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if any setting but `fused` is changed from its default.
    pub fn refuse_all_but_fused(&self, who: &str, networks: &str) -> Result<()> {
        if *self == (Self { fused: self.fused, ..Self::default() }) || self.is_recurrent() {
            return Ok(());
        }
        let rule = format!("{who} reads nothing of it but `fused`; its networks are {networks}");
        Err(Error::config("model", serde_json::to_string(self).unwrap_or_default(), rule))
    }
}

impl HiddenLayers {
    /// Refuses layers without units, and residual blocks of unequal widths; `key` is the path of the settings in
    /// errors.
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

    /// Number of units of every layer, those within blocks included.
    pub(crate) fn widths(&self) -> Vec<usize> {
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

/// Distribution of initial weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initializer {
    /// Normal numbers, scaled so that each unit's weights have a given norm.
    Normc,
    /// Orthogonal rows or columns, scaled by a gain.
    Orthogonal,
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
