//! The `model` settings.

use crate::base::{Error, Result, Spaces, image, rules};
use crate::settings::conv_filters::ConvFilters;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;

/// The `model` settings (Ray's MODEL_DEFAULTS). A network of the user's own
/// ([`Builder::custom_model`](crate::run::Builder::custom_model)) takes the place of the layers that they
/// describe.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ModelConfig {
    /// Units of each hidden layer. Images have convolutions instead.
    pub fcnet_hiddens: Vec<usize>,
    /// Convolutions for images (boxes of three dimensions, channels last or first): `[[channels, kernel, stride], ...]`,
    /// `"nature"`, or null for Ray's, which exist for 84x84, 42x42, 96x96, 10x10, 240x320 and 480x640.
    /// `post_fcnet_hiddens` stand behind them.
    pub conv_filters: Option<ConvFilters>,
    /// Activation of the convolutions.
    pub conv_activation: Activation,
    /// Activation of the hidden layers: tanh, relu, elu, swish or linear.
    pub fcnet_activation: Activation,
    /// Units of more hidden layers, behind `fcnet_hiddens` or the convolutions.
    pub post_fcnet_hiddens: Vec<usize>,
    /// Activation of `post_fcnet_hiddens`.
    pub post_fcnet_activation: Activation,
    /// The last hidden layer is the output itself, activation included.
    pub no_final_linear: bool,
    /// Continuous actions: the log standard deviations are parameters of their own, not outputs of the network.
    pub free_log_std: bool,
    /// Actor and critic share their hidden layers. Algorithms set their own default.
    pub vf_share_layers: bool,
    /// `normc` (Ray's: unit-norm rows of normal numbers) or `orthogonal` (Stable-Baselines3's and CleanRL's).
    pub fcnet_initializer: Initializer,
    /// A gated recurrent unit behind the hidden layers: the policy remembers. Actor and critic then share all layers but
    /// the last.
    pub use_gru: bool,
    /// Long short-term memory behind the hidden layers, in place of `use_gru`.
    pub use_lstm: bool,
    /// Units of the recurrent layer.
    pub lstm_cell_size: usize,
    /// Steps that a recurrent layer learns over at a time.
    pub max_seq_len: usize,
    /// Run fully connected and recurrent networks on the CPU by [`learner`](crate::learn::learner)'s fused engine; false leaves them to
    /// libtorch. Results are equal up to rounding.
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
    /// Refuses what no network can be built from.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the setting that breaks a rule; fails as [`rules::all`] does where several do.
    pub fn validate(&self) -> Result<()> {
        let layers = |key: &str, sizes: &[usize]| {
            let rule = "every layer needs at least one unit";
            rules::refuse_if(sizes.contains(&0), key, format_args!("{sizes:?}"), rule)
        };
        let memory = match self.is_recurrent() {
            true => rules::at_least_one([
                ("model.lstm_cell_size", self.lstm_cell_size),
                ("model.max_seq_len", self.max_seq_len),
            ]),
            false => Ok(()),
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

    /// Whether the policy remembers: it has a recurrent layer.
    pub fn is_recurrent(&self) -> bool {
        self.use_gru || self.use_lstm
    }

    /// What follows the last layer before the heads.
    pub(crate) fn last_activation(&self, for_images: bool) -> Activation {
        match (for_images, self.hidden_layers().last()) {
            (true, _) if self.post_fcnet_hiddens.is_empty() => self.conv_activation,
            (_, Some((_, activation))) => *activation,
            _ => Activation::Linear,
        }
    }

    /// The convolutions for images of that height, width and number of channels.
    ///
    /// # Errors
    /// [`Error::Config`]: none are set, and there are no default ones for that size.
    pub(crate) fn filters(&self, [height, width, _]: [usize; 3]) -> Result<ConvFilters> {
        match &self.conv_filters {
            Some(filters) => Ok(filters.clone()),
            None => ConvFilters::of_size(height, width),
        }
    }

    /// How many numbers the convolutions learn for such images, and how many leave them.
    pub(crate) fn convolutions(&self, image: [usize; 3]) -> (u128, usize) {
        self.filters(image).map_or((0, 0), |filters| filters.sizes(image))
    }

    /// How many numbers leave the hidden layers, or the convolutions and the layers behind them.
    pub fn features(&self, spaces: &Spaces) -> usize {
        let before = match image(&spaces.observation_space) {
            Some(image) => self.convolutions(image).1,
            None => self.fcnet_hiddens.last().copied().unwrap_or(spaces.obs_width()),
        };
        self.post_fcnet_hiddens.last().copied().unwrap_or(before)
    }

    /// The hidden layers: units and activation of each.
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
    /// Whether layer normalisation stands between each hidden layer and its activation.
    pub layer_norm: bool,
    /// How the layers are put together: `mlp` or `simba`.
    pub architecture: Architecture,
}

/// How hidden layers are put together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// One layer behind the other.
    Mlp,
    /// SimBa (Lee et al. 2024): a linear layer, then a residual block for each entry of `fcnet_hiddens`, which must all be
    /// equal, then layer normalisation. A block adds to its input what layer normalisation, a layer of four times the units
    /// and a linear layer make of it.
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
    /// Refuses all settings but `fused`, for algorithms that read no other; `networks` says where theirs stand. Recurrent
    /// layers have a refusal of their own, [`OffPolicy::validate`](crate::settings::replay::OffPolicy::validate).
    ///
    /// # Errors
    /// Returns [`Error::Config`] if another setting than `fused` is not its default.
    pub fn refuse_all_but_fused(&self, who: &str, networks: &str) -> Result<()> {
        if *self == (Self { fused: self.fused, ..Self::default() }) || self.is_recurrent() {
            return Ok(());
        }
        let rule = format!("{who} reads nothing of it but `fused`; its networks are {networks}");
        Err(Error::config("model", serde_json::to_string(self).unwrap_or_default(), rule))
    }
}

impl HiddenLayers {
    /// Refuses layers without units, and blocks that no residual network is made of; `key` is where they stand among the
    /// settings.
    ///
    /// # Errors
    /// Returns [`Error::Config`] for the first rule that they break.
    pub fn validate(&self, key: &str) -> Result<()> {
        let (hiddens, is_simba) = (&self.fcnet_hiddens, self.architecture == Architecture::Simba);
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

    /// Units of every layer, those within blocks included.
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

/// How weights start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Initializer {
    /// Normal numbers, each unit's weights scaled to a given norm.
    Normc,
    /// Orthogonal rows or columns, scaled by a gain.
    Orthogonal,
}

/// What follows a hidden layer.
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
    /// Numbers stay as they are.
    Linear,
}
