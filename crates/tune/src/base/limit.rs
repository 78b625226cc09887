//! Serialization of optional limits in files, where a number such as -1 or 0 stands for no limit.

/// Writes no limit as -1, as Ray does for `num_samples` and `max_failures`.
pub(crate) mod minus_one {
    use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

    pub(crate) fn serialize<S: Serializer>(limit: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        match limit {
            Some(limit) => limit.serialize(serializer),
            None => (-1).serialize(serializer),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        let rule = |value: i64| format!("{value} is neither a number from 0 nor -1, which means no limit");
        match i64::deserialize(deserializer)? {
            -1 => Ok(None),
            value => u64::try_from(value).map(Some).map_err(|_| de::Error::custom(rule(value))),
        }
    }
}

/// Writes `None`, which means never, as 0, as Ray does for `checkpoint_frequency`.
pub(crate) mod zero {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(every: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        every.unwrap_or(0).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Some(u64::deserialize(deserializer)?).filter(|every| *every > 0))
    }
}

/// Reads 0 and negative numbers as no limit, as Ray does for `increase_by_times`; writes no limit as -1.
pub(crate) mod positive {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(limit: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        super::minus_one::serialize(limit, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(u64::try_from(i64::deserialize(deserializer)?).ok().filter(|limit| *limit > 0))
    }
}
