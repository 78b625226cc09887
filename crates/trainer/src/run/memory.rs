//! The memory that a run needs, computed from its settings before anything large is made.

use crate::settings::{Common, DurationUnit, EvaluationDuration, OffPolicy, ReplayKind};
use pavlov_learn::base::{Error, Result, Spaces};
use pavlov_learn::layers::{HiddenLayers, ModelConfig};
use serde_json::json;

/// Bytes per learned weight: the weight, its gradient and Adam's two moments.
const LEARNED: u128 = 16;
/// Bytes per worker thread, including libtorch's own memory for the thread.
const THREAD: u128 = 1 << 20;
/// Bytes that results keep per finished episode.
const EPISODE: u128 = 128;

/// The memory that a run needs, as a sum over its parts. A buffer that fills slowly counts at its full size. The sum
/// is a lower bound: it has only the parts that settings can make large.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    parts: Vec<Part>,
}

#[derive(Clone, Debug)]
struct Part {
    what: String,
    /// Settings whose product the size is, as key and value.
    settings: Vec<(String, String)>,
    /// Setting that divides the product, as key and value.
    per: Option<(String, String)>,
    /// Index of the setting with the largest value among `settings`.
    largest: usize,
    bytes: u128,
    /// Numbers of inputs and of units of the first of fully connected layers.
    first_layer: Option<[usize; 2]>,
}

impl Memory {
    /// The memory that every algorithm needs with these settings: for sampling, evaluation and the model.
    pub(crate) fn of(common: &Common, spaces: &Spaces) -> Self {
        let mut memory = Self::default();
        memory.add_sampling(common, spaces);
        memory.add_evaluation(common);
        memory.add_model(common, spaces);
        memory
    }

    /// Adds a part whose size is the product of these settings' values and `bytes`.
    pub fn add(&mut self, what: &str, settings: &[(&str, usize)], bytes: u128) {
        self.add_per(what, settings, None, bytes);
    }

    /// Adds a part whose size is the product of these settings' values and `bytes`, divided by the value of the
    /// setting `per`, which is above 0.
    fn add_per(&mut self, what: &str, settings: &[(&str, usize)], per: Option<(&str, usize)>, bytes: u128) {
        let largest = (0..settings.len()).max_by_key(|&i| settings[i].1).unwrap_or(0);
        let product = settings.iter().fold(bytes, |product, (_, n)| product.saturating_mul(*n as u128));
        let bytes = product / per.map_or(1, |(_, n)| n as u128);
        let shown = |&(key, n): &(&str, usize)| (key.into(), n.to_string());
        let settings = settings.iter().map(shown).collect();
        let per = per.as_ref().map(shown);
        self.parts.push(Part { what: what.into(), settings, per, largest, bytes, first_layer: None });
    }

    /// Adds a part of `bytes` bytes that depends on one setting.
    fn add_one(&mut self, what: &str, key: &str, value: String, bytes: u128) {
        let settings = vec![(key.into(), value)];
        let what = what.into();
        self.parts.push(Part { what, settings, per: None, largest: 0, bytes, first_layer: None });
    }

    /// Adds fully connected layers of these widths after `inputs` inputs, with gradients and optimizer state.
    pub fn add_layers(&mut self, what: &str, key: &str, inputs: usize, widths: &[usize]) {
        let mut weights = 0_u128;
        let mut width_before = inputs as u128;
        for &width in widths {
            let layer = (width as u128).saturating_mul(width_before + 1);
            weights = weights.saturating_add(layer);
            width_before = width as u128;
        }
        self.add_one(what, key, format!("{widths:?}"), weights.saturating_mul(LEARNED));
        if let (Some(part), Some(&units)) = (self.parts.last_mut(), widths.first()) {
            part.first_layer = Some([inputs, units]);
        }
    }

    /// The largest number of units of a layer that reads observations of `inputs` numbers, with key and value of its setting.
    /// Layers of `model` count only if the algorithm has no networks of other settings.
    pub(crate) fn layer_on_observations(&self, inputs: usize) -> Option<(usize, &str, &str)> {
        let is_own = |part: &&Part| part.what == "the networks";
        let has_own = self.parts.iter().any(|part| is_own(&part));
        let parts = self.parts.iter().filter(|part| !has_own || is_own(part));
        let reads = parts.filter_map(|part| {
            let [of, units] = part.first_layer?;
            let (key, value) = part.settings.first().filter(|_| of == inputs)?;
            Some((units, key.as_str(), value.as_str()))
        });
        reads.max_by_key(|(units, ..)| *units)
    }

    /// Adds the hidden layers of one of an algorithm's networks; `key` is the setting that contains its
    /// `fcnet_hiddens`.
    pub fn add_hidden_layers(&mut self, key: &str, inputs: usize, layers: &HiddenLayers) {
        self.add_layers("the networks", key, inputs, &layers.widths());
        if let Some(part) = self.parts.last_mut() {
            part.settings = vec![(key.into(), format!("{:?}", layers.fcnet_hiddens))];
        }
    }

    /// Adds convolutions of the `model` settings, with gradients and optimizer state, and returns the number of their outputs; `None`
    /// if observations pass through none.
    pub fn add_convolutions(&mut self, model: &ModelConfig, spaces: &Spaces) -> Option<usize> {
        let (weights, outputs) = model.convolutions(&spaces.observation_space)?;
        let shown = json!(model.conv_filters).to_string();
        let bytes = weights.saturating_mul(LEARNED).saturating_add(4 * outputs as u128);
        self.add_one("the network", "model.conv_filters", shown, bytes);
        Some(outputs)
    }

    /// Adds the replay buffer of these settings.
    pub fn add_off_policy(&mut self, off_policy: &OffPolicy, spaces: &Spaces) {
        let config = &off_policy.replay_buffer_config;
        let mut row = 32 + 8 * spaces.action_space.width() as u128 + kept_observations(spaces);
        if config.kind == ReplayKind::PrioritizedReplayBuffer {
            // The sum tree has a sum and a minimum per node, and twice as many nodes as rows.
            row += 32;
        }
        if config.kind == ReplayKind::HerReplayBuffer {
            // Five numbers of 32 bits tell the episode of a row and its place among the rows to draw.
            row += 20;
        }
        self.add("the replay buffer", &[("replay_buffer_config.capacity", config.capacity)], row);
    }

    fn add_sampling(&mut self, common: &Common, spaces: &Spaces) {
        let row = row(spaces);
        let [workers, copies, steps] = sampled(common);
        self.add("fragments", &[workers, copies, steps], row);
        self.add("environments", &[workers, copies], 2 * row);
        self.add("threads", &[workers], THREAD);
        self.add("training batches", &[("train_batch_size", common.train_batch_size)], row);
        let smoothing = common.metrics_num_episodes_for_smoothing;
        self.add("results", &[("metrics_num_episodes_for_smoothing", smoothing)], EPISODE);
    }

    fn add_evaluation(&mut self, common: &Common) {
        if common.evaluation_interval.is_some() {
            let workers = ("evaluation_num_workers", common.evaluation_num_workers);
            self.add("evaluation workers", &[workers], THREAD);
            if let EvaluationDuration::Units(units) = common.evaluation_duration {
                let bytes = match common.evaluation_duration_unit {
                    DurationUnit::Episodes => EPISODE,
                    // A lower bound if episodes have at most `EPISODE` steps.
                    DurationUnit::Timesteps => 1,
                };
                let units = usize::try_from(units).unwrap_or(usize::MAX);
                self.add("evaluation", &[("evaluation_duration", units)], bytes);
            }
        }
    }

    fn add_model(&mut self, common: &Common, spaces: &Spaces) {
        let model = &common.model;
        let mut before = self.add_convolutions(model, spaces).unwrap_or(spaces.obs_width());
        if model.filters(&spaces.observation_space).is_none() {
            self.add_layers("the network", "model.fcnet_hiddens", before, &model.fcnet_hiddens);
            before = model.fcnet_hiddens.last().copied().unwrap_or(before);
        }
        self.add_layers("the network", "model.post_fcnet_hiddens", before, &model.post_fcnet_hiddens);
        if model.is_recurrent() {
            let cell = ("model.lstm_cell_size", model.lstm_cell_size);
            let weights = (cell.1 as u128).saturating_add(model.features(spaces) as u128);
            self.add("the network", &[cell], weights.saturating_mul(3 * LEARNED));
            let [workers, copies, steps] = sampled(common);
            let sequences = ("model.max_seq_len", model.max_seq_len.max(1));
            let width = if model.use_lstm { 8 } else { 4 };
            self.add_per("memories of the policy", &[workers, copies, steps, cell], Some(sequences), width);
        }
    }

    /// Returns an error if the sum does not fit into the memory that is available now.
    ///
    /// # Errors
    /// Returns [`Error::Config`] about the setting of the largest part, with the sum and its parts.
    pub fn check(&self) -> Result<()> {
        // If the available memory is unknown, at least sizes that no machine could address are refused.
        self.check_against(pavlov_processes::available_memory().unwrap_or(1 << 47).into())
    }

    fn check_against(&self, available: u128) -> Result<()> {
        let sum = self.parts.iter().fold(0_u128, |sum, part| sum.saturating_add(part.bytes));
        if sum <= available {
            return Ok(());
        }
        let mut parts: Vec<&Part> = self.parts.iter().filter(|part| part.bytes > sum / 50).collect();
        parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
        let list = |part: &&Part| {
            let setting = |(key, value): &(String, String)| format!("`{key}` {value}");
            let settings: Vec<String> = part.settings.iter().map(setting).collect();
            let per = part.per.iter().map(|per| format!(" / {}", setting(per))).collect::<String>();
            format!("{} for {} ({}{per})", shown(part.bytes), part.what, settings.join(" x "))
        };
        let list: Vec<String> = parts.iter().map(list).collect();
        let (key, value) = &parts[0].settings[parts[0].largest];
        let rule = format!(
            "the run would need {} of memory, and {} are available: {}; make it smaller",
            shown(sum),
            shown(available),
            list.join(", ")
        );
        Err(Error::config(key, value, rule))
    }
}

/// The settings, as key and value, whose product is the number of rows that are sampled at a time.
fn sampled(common: &Common) -> [(&'static str, usize); 3] {
    [
        ("num_workers", common.num_workers.max(1)),
        ("num_envs_per_worker", common.num_envs_per_worker),
        ("rollout_fragment_length", common.rollout_fragment_length),
    ]
}

/// About the number of bytes of a row: observation, action, reward, flags, and columns that policies add.
fn row(spaces: &Spaces) -> u128 {
    let space = &spaces.observation_space;
    let obs = space.width() * space.dtype().size();
    let action = spaces.action_space.width();
    obs as u128 + 8 * action as u128 + 16
}

/// Bytes that a replay buffer keeps for the two observations of a row. Long observations are stored as frames, and
/// each distinct frame once.
fn kept_observations(spaces: &Spaces) -> u128 {
    let space = &spaces.observation_space;
    let bytes = (space.width() * space.dtype().size()) as u128;
    let shape = space.shape();
    let planes = if shape.len() == 3 { shape[0].min(shape[2]).max(1) } else { 1 };
    if bytes < 256 { 2 * bytes } else { bytes / planes as u128 }
}

/// Bytes as text, such as `12.3 GB`.
fn shown(bytes: u128) -> String {
    const UNITS: [&str; 7] = ["bytes", "kB", "MB", "GB", "TB", "PB", "EB"];
    let mut value = bytes as f64;
    for unit in UNITS {
        if value < 1000.0 {
            return if unit == "bytes" { format!("{bytes} bytes") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    "more than 1000 EB".into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_names_its_large_parts_and_the_setting_to_blame() {
        let mut memory = Memory::default();
        memory.add("fragments", &[("num_workers", 2), ("num_envs_per_worker", 3_000)], 1_000);
        memory.add_layers("the network", "model.fcnet_hiddens", 4, &[100, 1_000]);
        memory.add("threads", &[("num_workers", 2)], 10);
        // 6,000,000 + 16 * (5 * 100 + 101 * 1,000) + 20
        memory.check_against(7_624_020).unwrap();
        let message = memory.check_against(7_624_019).unwrap_err().to_string();
        assert_eq!(
            message,
            "`num_envs_per_worker` is 3000, but the run would need 7.6 MB of memory, and 7.6 MB are available: 6.0 MB for \
             fragments (`num_workers` 2 x `num_envs_per_worker` 3000), 1.6 MB for the network (`model.fcnet_hiddens` \
             [100, 1000]); make it smaller"
        );
    }

    #[test]
    fn a_sum_beyond_all_numbers_is_refused_too() {
        let mut memory = Memory::default();
        let most = usize::MAX;
        memory.add("fragments", &[("a", most), ("b", most), ("c", most)], u128::MAX);
        memory.add_layers("the network", "layers", most, &[most, most]);
        let message = memory.check_against(u128::from(u64::MAX)).unwrap_err().to_string();
        assert!(
            message.contains("would need more than 1000 EB of memory, and 18.4 EB are available"),
            "{message}"
        );
    }
}
