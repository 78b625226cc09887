//! Limits in files: a number, where another number that no limit can be says that there is none.

/// -1 is no limit: for `num_samples` and `max_failures`, as Ray has them.
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

/// 0 is never: for `checkpoint_frequency`, as Ray has it.
pub(crate) mod zero {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(every: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        every.unwrap_or(0).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(Some(u64::deserialize(deserializer)?).filter(|every| *every > 0))
    }
}

/// 0 and below is no limit: for `increase_by_times`, as Ray has it.
pub(crate) mod positive {
    use serde::{Deserialize, Deserializer, Serializer};

    pub(crate) fn serialize<S: Serializer>(limit: &Option<u64>, serializer: S) -> Result<S::Ok, S::Error> {
        super::minus_one::serialize(limit, serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
        Ok(u64::try_from(i64::deserialize(deserializer)?).ok().filter(|limit| *limit > 0))
    }
}
