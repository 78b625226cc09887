//! The `workers` setting: what workers are, those that sample and those that train together.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What carries requests to workers and replies back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerTransport {
    /// Workers are threads of this process.
    #[default]
    Threads,
    /// Workers are processes of this executable, whose `main` calls `child_main` first. One that crashes, leaks or hangs
    /// takes nothing with it.
    Procs,
    /// Workers are such processes on the machines of a Ray cluster: the one at `RAY_ADDRESS`, or one on this machine that
    /// the run starts for itself.
    Ray,
}

impl WorkerTransport {
    const ALL: [(&str, Self); 3] = [("threads", Self::Threads), ("procs", Self::Procs), ("ray", Self::Ray)];

    /// Its name in settings.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, known)| *known == self).map_or("", |(name, _)| name)
    }
}

/// How a cluster places workers on its machines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PlacementStrategy {
    /// Workers stand on as few machines as there is room for.
    #[default]
    Pack,
    /// Workers stand on as many machines as there is room for.
    Spread,
    /// All workers stand on one machine, or the run does not start.
    StrictPack,
    /// Every worker stands on a machine of its own, or the run does not start.
    StrictSpread,
}

/// What workers are and, if it says so, how many: `"threads"`, `"procs"`, `"ray"`, `"threads:4"`, `"ray:4"`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// What they are.
    pub transport: WorkerTransport,
    /// Goes over `num_workers`, which has it once the settings are checked.
    pub number: Option<usize>,
}

impl Workers {
    /// So many processes.
    pub fn procs(number: usize) -> Self {
        Self { transport: WorkerTransport::Procs, number: Some(number) }
    }

    /// So many workers on a Ray cluster.
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
