//! The `workers` setting: whether workers, for sampling or for training, are threads, processes or Ray actors.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How workers run and are reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerTransport {
    /// Workers are threads of this process.
    #[default]
    Threads,
    /// Workers are processes of this executable, whose `main` calls `child_main` first. A worker that crashes, leaks or
    /// hangs does not affect the others.
    Procs,
    /// Workers are processes on the machines of a Ray cluster: the one at `RAY_ADDRESS`, or one that the run starts on this
    /// machine.
    Ray,
}

impl WorkerTransport {
    const ALL: [(&str, Self); 3] = [("threads", Self::Threads), ("procs", Self::Procs), ("ray", Self::Ray)];

    /// Returns the name of the transport in settings: `threads`, `procs` or `ray`.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// Amounts by resource name, e.g. `{"CPU": 1.0, "GPU": 0.5}`; each bundle must fit on one machine.
pub type Bundle = BTreeMap<String, f64>;

/// Strategy by which a cluster places workers on its machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PlacementStrategy {
    /// Workers are placed on as few machines as possible.
    #[default]
    Pack,
    /// Workers are placed on as many machines as possible.
    Spread,
    /// All workers are placed on one machine; otherwise the run does not start.
    StrictPack,
    /// Each worker is placed on a different machine; otherwise the run does not start.
    StrictSpread,
}

/// Transport and optional number of workers: `"threads"`, `"procs"`, `"ray"`, `"threads:4"`, `"ray:4"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// How the workers run.
    pub transport: WorkerTransport,
    /// Number of workers; overrides the setting `num_workers` if given.
    pub number: Option<usize>,
}

impl Workers {
    /// Returns the setting for `number` workers in processes.
    pub fn procs(number: usize) -> Self {
        Self { transport: WorkerTransport::Procs, number: Some(number) }
    }

    /// Returns the setting for `number` workers on a Ray cluster.
    pub fn ray(number: usize) -> Self {
        Self { transport: WorkerTransport::Ray, number: Some(number) }
    }
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = self.transport.name();
        match self.number {
            None => serializer.serialize_str(name),
            Some(number) => serializer.serialize_str(&format!("{name}:{number}")),
        }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let (name, number) = match text.split_once(':') {
            None => (text.as_str(), None),
            Some((name, number)) => (name, Some(number.parse().ok())),
        };
        let transport = WorkerTransport::ALL.iter().find(|(known, _)| *known == name);
        match (transport, number) {
            (Some((_, transport)), None) => Ok(Self { transport: *transport, number: None }),
            (Some((_, transport)), Some(Some(number))) => {
                Ok(Self { transport: *transport, number: Some(number) })
            }
            _ => Err(de::Error::custom(
                "it must be \"threads\", \"procs\" or \"ray\", with a number of workers behind it or not: \"procs:4\"",
            )),
        }
    }
}
