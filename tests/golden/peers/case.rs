//! The fixtures of `peers.rs` as they are read.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;

use pavlov::envs::Space;
use pavlov::presets::preset;
use pavlov::torch::{Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch, Trajectory};
use pavlov::trainer::policy::Spaces;
use pavlov::trainer::returns::{Trajectories, advantages};
use serde::Deserialize;
use serde_json::{Value as Json, json};

/// Arrays by name.
pub(super) type Arrays = BTreeMap<String, Numbers>;

/// Numbers in a shape.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Numbers {
    shape: Vec<i64>,
    data: Vec<f64>,
}

impl Numbers {
    pub(super) fn floats(&self) -> Vec<f64> {
        self.data.iter().map(|&x| f64::from(x as f32)).collect()
    }

    pub(super) fn tensor(&self) -> Tensor {
        Tensor::from_slice(&self.data).to_kind(Kind::Float).view(self.shape.as_slice())
    }
}

/// Arrays, or a word that says where they are: `first` is the first case of the file, `same` the step before.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Rows {
    Own(Arrays),
    Elsewhere(String),
}

/// One call of `learn_on_batch`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Step {
    pub(super) rows: Rows,
    /// Lengths of the sequences of a recurrent policy.
    sequences: Option<Vec<usize>>,
    /// Which rows follow each other, for V-trace.
    trajectories: Option<Vec<Trajectory>>,
    /// Observations behind the trajectories that were cut.
    behind: Option<Arrays>,
    pub(super) update_target: bool,
    #[serde(default)]
    pub(super) timestep: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Actions {
    Discrete(i64),
    MultiDiscrete(Vec<i64>),
    #[serde(untagged)]
    Box {
        low: Vec<f64>,
        high: Vec<f64>,
    },
}

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Observations {
    shape: Vec<usize>,
    /// Number of members of a team, each with observations of this shape.
    members: Option<usize>,
}

impl Observations {
    fn space(&self) -> Space {
        let own = Space::real(&self.shape);
        self.members.map_or_else(|| own.clone(), |members| Space::Tuple(vec![own.clone(); members]))
    }
}

#[derive(Clone, Debug, Deserialize)]
struct Recorded {
    library: String,
    algorithm: String,
    argument: String,
    trainer: String,
    base: Option<String>,
    settings: Json,
    observation_space: Observations,
    action_space: Actions,
    before: Rows,
    target: Option<Rows>,
    steps: Vec<Step>,
    after: Arrays,
    target_after: Option<Arrays>,
    losses: BTreeMap<String, f64>,
    /// What advantages and value targets were computed from, beside the values.
    gae: Option<Gae>,
    /// Whether pavlov computes the same; where it does not, the documentation says so.
    #[serde(default = "yes")]
    equal: bool,
}

/// One copy's rewards, with 1 where an episode begins, and the critic's value after the last step.
#[derive(Clone, Debug, Deserialize)]
struct Gae {
    rewards: Vec<f32>,
    starts: Vec<f32>,
    last_value: f32,
}

fn yes() -> bool {
    true
}

/// One update by another library.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) trainer: String,
    pub(super) before: Arrays,
    pub(super) target: Option<Arrays>,
    pub(super) steps: Vec<Step>,
    pub(super) after: Arrays,
    pub(super) target_after: Option<Arrays>,
    pub(super) losses: BTreeMap<String, f64>,
    pub(super) equal: bool,
    recorded: Recorded,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Recorded { library, algorithm, argument, .. } = &self.recorded;
        write!(f, "{library} | {algorithm} | {argument}")
    }
}

/// The cases of a file.
pub(super) fn read(file: &Path) -> Vec<Case> {
    let text = std::fs::read_to_string(file).expect("a fixture");
    let recorded: Vec<Recorded> =
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let of_first = |stored: fn(&Recorded) -> Option<&Rows>| match recorded.first().and_then(stored) {
        Some(Rows::Own(arrays)) => Some(arrays.clone()),
        _ => None,
    };
    let first = [of_first(|case| Some(&case.before)), of_first(|case| case.target.as_ref())];
    let resolve = |stored: &Rows, i: usize| match stored {
        Rows::Own(arrays) => arrays.clone(),
        Rows::Elsewhere(word) => {
            assert_eq!(word, "first", "{}", file.display());
            first[i].clone().expect("arrays of the first case")
        }
    };
    let case = |recorded: &Recorded| Case {
        trainer: recorded.trainer.clone(),
        before: resolve(&recorded.before, 0),
        target: recorded.target.as_ref().map(|target| resolve(target, 1)),
        steps: recorded.steps.clone(),
        after: recorded.after.clone(),
        target_after: recorded.target_after.clone(),
        losses: recorded.losses.clone(),
        equal: recorded.equal,
        recorded: recorded.clone(),
    };
    recorded.iter().map(case).collect()
}

/// Lays settings over others, level by level.
fn merge(into: &mut Json, other: &Json) {
    match (into, other) {
        (Json::Object(into), Json::Object(other)) => {
            other.iter().for_each(|(key, value)| merge(into.entry(key).or_insert(Json::Null), value));
        }
        (into, other) => *into = other.clone(),
    }
}

impl Case {
    pub(super) fn spaces(&self) -> Spaces {
        let observation_space = self.recorded.observation_space.space();
        Spaces { observation_space, ..self.recorded.action_space.with_observations(&[1]) }
    }

    /// Advantages and value targets as pavlov computes them, and as they were recorded; `None` if none were.
    pub(super) fn estimates(&self) -> Option<[Vec<f64>; 2]> {
        let Gae { rewards, starts, last_value } = self.recorded.gae.as_ref()?;
        let Some(Rows::Own(rows)) = self.steps.first().map(|step| &step.rows) else { return None };
        let settings = self.all_settings(true);
        let number = |key: &str| settings[key].as_f64().expect("a number") as f32;
        let mut values: Vec<f32> = rows["vf_preds"].data.iter().map(|&x| x as f32).collect();
        values.push(*last_value);
        // An episode ends before the next begins.
        let ended: Vec<usize> = (0..rewards.len() - 1).filter(|&t| starts[t + 1] == 1.0).collect();
        let found = advantages(
            Trajectories {
                num_envs: 1,
                lengths: None,
                rewards,
                values: &values,
                terminated: &(0..rewards.len()).map(|t| ended.contains(&t)).collect::<Vec<_>>(),
                truncated: &vec![false; rewards.len()],
                ended: &ended,
                final_values: &vec![0.0; ended.len()],
            },
            number("gamma"),
            number("lambda"),
        );
        let targets = found.iter().zip(&values).map(|(a, v)| f64::from(a + v));
        let found = found.iter().map(|&a| f64::from(a)).chain(targets).collect();
        Some([found, [rows["advantages"].floats(), rows["value_targets"].floats()].concat()])
    }

    /// The settings of the case on top of those of its base.
    pub(super) fn all_settings(&self, fused: bool) -> Json {
        let mut settings = settings_on(self.recorded.base.as_deref(), &self.recorded.settings);
        merge(&mut settings, &json!({"model": {"fused": fused}}));
        settings
    }
}

/// Settings on top of those of a preset.
pub(super) fn settings_on(base: Option<&str>, settings: &Json) -> Json {
    let mut all = base.map_or_else(|| json!({}), |name| Json::from(preset(name).expect("a preset").config));
    merge(&mut all, settings);
    all
}

impl Actions {
    /// The space of these actions, beside observations of real numbers.
    pub(super) fn with_observations(&self, shape: &[usize]) -> Spaces {
        let action_space = match self {
            Self::Discrete(n) => Space::discrete(*n),
            Self::MultiDiscrete(nvec) => Space::multi_discrete(nvec),
            Self::Box { low, high } => Space::boxed(low[0], high[0], &[low.len()]),
        };
        Spaces { observation_space: Space::real(shape), action_space }
    }
}

impl Step {
    /// The rows to learn from.
    pub(super) fn batch(&self, columns: &Arrays, case: &Case) -> SampleBatch {
        let discrete = !matches!(case.recorded.action_space, Actions::Box { .. });
        let mut batch = SampleBatch::default();
        for (name, array) in columns.iter().filter(|(name, _)| *name != "state_in") {
            let tensor = array.tensor();
            let kind = match name.as_str() {
                "actions" if discrete => Kind::Int64,
                "action_mask" | "new_action_mask" => Kind::Bool,
                _ => Kind::Float,
            };
            batch = batch.with(Column::named(name), tensor.to_kind(kind));
        }
        if let Some(pieces) = &self.trajectories {
            let behind = self.behind.iter().flatten().fold(SampleBatch::default(), |rows, (name, array)| {
                rows.with(Column::named(name), array.tensor())
            });
            batch = batch.with_trajectories(pieces.clone(), behind);
        }
        match (&self.sequences, columns.get("state_in")) {
            (Some(lengths), Some(memory)) => {
                batch.with_sequences(lengths.clone(), Column::STATE_IN, memory.tensor())
            }
            _ => batch,
        }
    }
}
