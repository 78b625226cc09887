//! The `workers` setting: what rollout workers are.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// What carries requests to rollout workers and replies back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WorkerTransport {
    /// Workers are threads of this process.
    #[default]
    Threads,
    /// Workers are processes of this executable, whose `main` calls `child_main` first. One that crashes, leaks or hangs
    /// takes nothing with it.
    Procs,
}

impl WorkerTransport {
    const ALL: [(&str, Self); 2] = [("threads", Self::Threads), ("procs", Self::Procs)];
}

/// What rollout workers are and, if it says so, how many: `"threads"`, `"procs"`, `"threads:4"`, `"procs:4"`.
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
}

impl Serialize for Workers {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let name = WorkerTransport::ALL.iter().find(|(_, known)| *known == self.transport);
        let name = name.map_or("", |(name, _)| name);
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
                "it must be \"threads\" or \"procs\", with a number of workers behind it or not: \"procs:4\"",
            )),
        }
    }
}
