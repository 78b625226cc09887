//! Requests and answers as JSON.

use super::numbers::{Actions, Numbers};
use super::refusal::Refusal;
use super::request::{Request, wrong_width};
use pavlov_envs::Space;
use pavlov_trainer::Loaded;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::cell::Cell;
use std::fmt;
use std::fmt::Write;

/// The keys of a request.
const KEYS: &[&str] = &["obs", "mask", "session", "begin", "explore"];

/// Reads a request for actions. Numbers are converted to the type of the policy's observations.
pub(super) fn read(body: &[u8], policy: &Loaded) -> Result<Request, Refusal> {
    let refusal = Cell::new(None);
    let mut source = serde_json::Deserializer::from_slice(body);
    let read = Ask { policy, refusal: &refusal }.deserialize(&mut source);
    let read = read.and_then(|request| source.end().map(|()| request));
    read.map_err(|error| {
        let message = format!(
            "the body is no request: {error}; it is like {{\"obs\": [0.1, 0.2]}}, with the keys {}",
            KEYS.join(", ")
        );
        refusal.take().unwrap_or_else(|| Refusal::bad("json", message))
    })
}

/// Reads the object of a request.
struct Ask<'a> {
    policy: &'a Loaded,
    /// What is wrong with the numbers, which says more than an error of the syntax.
    refusal: &'a Cell<Option<Refusal>>,
}

/// One value, or a list with a value for each row.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMany<T> {
    One(T),
    Many(Vec<T>),
}

impl<T: Clone> OneOrMany<T> {
    fn of_rows(self, rows: usize) -> Vec<T> {
        match self {
            Self::One(one) => vec![one; rows],
            Self::Many(many) => many,
        }
    }
}

impl<'de> DeserializeSeed<'de> for Ask<'_> {
    type Value = Request;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Request, D::Error> {
        source.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Ask<'_> {
    type Value = Request;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with `obs`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Request, A::Error> {
        let mut rows = None;
        let mut mask: Option<Flags> = None;
        let mut session: Option<OneOrMany<String>> = None;
        let mut begin: Option<OneOrMany<bool>> = None;
        let mut explores = false;
        while let Some(key) = map.next_key::<std::borrow::Cow<'_, str>>()? {
            match &*key {
                "obs" if rows.is_some() => return Err(A::Error::custom("`obs` stands twice")),
                "obs" => {
                    let obs = Numbers::empty(self.policy.observation_dtype());
                    let mut all = Rows { obs, rows: 0, is_single: false };
                    map.next_value_seed(List { all: &mut all, depth: 0, of: &self })?;
                    rows = Some(all);
                }
                "mask" => mask = Some(map.next_value()?),
                "session" => session = Some(map.next_value()?),
                "begin" => begin = Some(map.next_value()?),
                "explore" => explores = map.next_value()?,
                other => return Err(A::Error::unknown_field(other, KEYS)),
            }
        }
        let Rows { obs, rows, is_single } = rows.ok_or_else(|| A::Error::missing_field("obs"))?;
        Ok(Request {
            obs,
            rows,
            is_single,
            mask: mask.map(|mask| mask.0),
            sessions: session.map(|session| session.of_rows(rows)).unwrap_or_default(),
            begins: begin.map(|begin| begin.of_rows(rows)).unwrap_or_default(),
            explores,
            version: None,
        })
    }
}

/// The numbers of `obs`.
struct Rows {
    obs: Numbers,
    rows: usize,
    is_single: bool,
}

/// Reads `obs`: a number (depth 0), a row (1) or a list of rows (2).
struct List<'a, 'b> {
    all: &'a mut Rows,
    depth: usize,
    of: &'a Ask<'b>,
}

impl List<'_, '_> {
    fn fail<E: serde::de::Error>(&self, refusal: Refusal) -> E {
        self.of.refusal.set(Some(refusal));
        E::custom("an observation does not fit")
    }

    fn push<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        if self.depth == 0 {
            self.all.rows = 1;
            self.all.is_single = true;
        }
        self.all.obs.push(number).map_err(|refusal| self.fail(refusal))
    }
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<(), D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an observation as a flat list of numbers, or a list of observations")
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        self.push(number)
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        self.push(number as f64)
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        self.push(number as f64)
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<(), E> {
        self.push(f64::from(u8::from(flag)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if self.depth == 2 {
            let width = self.of.policy.observation_width();
            let message =
                format!("`obs` is nested too deep: an observation is a flat list of {width} numbers");
            return Err(self.fail(Refusal::bad("width", message)));
        }
        let before = self.all.obs.len();
        let rows = self.all.rows;
        let depth = self.depth + 1;
        while seq.next_element_seed(List { all: &mut *self.all, depth, of: self.of })?.is_some() {}
        let found = self.all.obs.len() - before;
        let is_row = self.all.rows == rows;
        if self.depth == 0 && (!is_row || found == 0) {
            // A list of rows, each of which counted itself; numbers beside them belong to none.
            let width = self.of.policy.observation_width();
            if found != self.all.rows * width {
                let message = "`obs` has numbers beside rows: give one flat row, or a list of rows";
                return Err(self.fail(Refusal::bad("width", message)));
            }
            return Ok(());
        }
        if found != self.of.policy.observation_width() {
            return Err(self.fail(wrong_width(self.of.policy, found)));
        }
        self.all.rows += 1;
        self.all.is_single = self.depth == 0;
        Ok(())
    }
}

/// Flags of legal actions: a list, or a list for each row; `true` and `false`, or 1 and 0.
pub(crate) struct Flags(pub(crate) Vec<bool>);

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Flag {
            Bool(bool),
            Number(u8),
            Row(Vec<Flag>),
            Other(IgnoredAny),
        }
        fn flatten<E: serde::de::Error>(flags: Vec<Flag>, to: &mut Vec<bool>, depth: usize) -> Result<(), E> {
            for flag in flags {
                match flag {
                    Flag::Bool(flag) => to.push(flag),
                    Flag::Number(flag @ (0 | 1)) => to.push(flag == 1),
                    Flag::Row(row) if depth == 0 => flatten(row, to, 1)?,
                    Flag::Number(_) | Flag::Row(_) | Flag::Other(_) => {
                        return Err(E::custom("`mask` is a list of true and false, or of such lists"));
                    }
                }
            }
            Ok(())
        }
        let mut all = Vec::new();
        flatten(Vec::deserialize(source)?, &mut all, 0)?;
        Ok(Self(all))
    }
}

/// Writes the answer: `{"action": .., "version": ..}` for one row, else `{"actions": [..], "version": ..}`.
pub(super) fn write(actions: &Actions, is_single: bool, policy: &Loaded, version: u64) -> String {
    let mut text = String::with_capacity(64);
    let width = policy.action_width();
    let is_number = matches!(policy.action_space(), Space::Discrete { .. });
    text.push_str(if is_single { "{\"action\":" } else { "{\"actions\":[" });
    match actions {
        Actions::Int(all) => rows(&mut text, all, width, is_number),
        Actions::Float(all) => rows(&mut text, all, width, is_number),
    }
    text.push_str(if is_single { "" } else { "]" });
    // Writing to a string cannot fail.
    let _ = write!(text, ",\"version\":{version}}}");
    text
}

/// Writes rows of numbers with commas between them. `Debug` of a finite number is its shortest text in JSON.
fn rows<T: fmt::Debug>(text: &mut String, all: &[T], width: usize, is_number: bool) {
    for (i, row) in all.chunks_exact(width.max(1)).enumerate() {
        if i > 0 {
            text.push(',');
        }
        // Writing to a string cannot fail.
        let _ = if is_number { write!(text, "{:?}", row[0]) } else { write!(text, "{row:?}") };
    }
}
