//! Packed models: they act as what was packed, say nothing about the machine, and refuse what a stranger may have made.

use std::fs;
use std::path::{Path, PathBuf};

use pavlov::envs::{DType, NpRandom};
use pavlov::prelude::*;
use pavlov::trainer::policy::ActionRows;
use pavlov::trainer::{Observations, Pack, PackFacts, Session};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

#[cfg(feature = "cli")]
use crate::cli::{pavlov, run, scratch, text, train};
use crate::loaded::{dqn, kinds, ppo, rows, session};
use crate::support::{refused, tiny_sac};

/// Number of steps that two sessions act side by side.
const STEPS: usize = 40;

/// The actions of a session for drawn observations, as text that tells every bit.
fn actions(session: &mut Session) -> Vec<String> {
    let space = session.observation_space().clone();
    let mut random = NpRandom::new(5);
    let mut all = Vec::new();
    for step in 0..STEPS as u64 {
        if let Some(mask) = session.mask_mut() {
            mask.fill_with(|| random.random() < 0.5);
            mask[0] = true;
        }
        let action = match space.dtype() {
            DType::I64 => session.act(&rows::<i64>(&space, 1, step)),
            DType::U8 => session.act(&rows::<u8>(&space, 1, step)),
            DType::F64 => session.act(&rows::<f64>(&space, 1, step)),
            DType::F32 => session.act(&rows::<f32>(&space, 1, step)),
        };
        all.push(format!("{:?}", action.expect("an action")));
    }
    all
}

/// The bytes of a packed policy of CartPole.
fn small() -> Vec<u8> {
    let mut session = session(ppo(|ppo| ppo.common.model.fcnet_hiddens = vec![8]), "CartPole-v1", 1);
    session.pack(facts()).expect("a pack").to_bytes().expect("bytes")
}

fn facts() -> PackFacts {
    PackFacts { card: "# A card".into(), licence: "CC0-1.0".into(), ..PackFacts::default() }
}

#[test]
fn a_packed_policy_acts_with_the_bits_of_what_was_packed() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("model.pavlov");
    let mut pixels = ppo(|_| ());
    pixels.common.num_envs_per_worker = 1;
    let images = crate::support::quiet(pixels, crate::images::Catch::new).expect("a trainer").session(1);
    for mut own in kinds(1).into_iter().chain(images) {
        let pack = own.pack(facts()).expect("a pack");
        pack.write(&file).expect("a file");
        let read = Pack::read(&file).expect("the same pack");
        assert_eq!(read.facts(), &facts());
        let mut packed = read.session(1).expect("a session");
        assert_eq!(actions(&mut packed), actions(&mut own));
        // It can be packed again, to the same bytes.
        let again = packed.pack(facts()).expect("a pack").to_bytes().expect("bytes");
        assert!(again == fs::read(&file).expect("the file"), "the bytes differ");
    }
}

#[test]
fn a_packed_policy_is_loaded_shared_and_exported_by_its_path() {
    let home = tempfile::tempdir().expect("a directory");
    let file = home.path().join("model.pavlov");
    let mut own = session(dqn(), "CartPole-v1", 1);
    own.pack(facts()).expect("a pack").write(&file).expect("a file");
    let wanted = own.act(&[0.1_f32, 0.0, -0.1, 0.2]).expect("an action");
    assert_eq!(pavlov::load(&file).expect("a session").act(&[0.1_f32, 0.0, -0.1, 0.2]).expect("one"), wanted);
    let shared = pavlov::load_shared(&file, None).expect("a policy");
    let mut action = [0];
    shared.act(Observations::new(&[0.1_f32, 0.0, -0.1, 0.2]), ActionRows::Int(&mut action)).expect("one");
    assert_eq!(Action::Int(action.to_vec()), wanted);
    for end in ["onnx", "c"] {
        let out = home.path().join(format!("policy.{end}"));
        pavlov::load(&file).expect("a session").export(&out).expect("an export");
    }
    refused(pavlov::load_policy(&file, Some("first"), 1), &["a packed model has one policy"]);
}

/// Whether reading is refused, with a sentence. A panic fails the test.
fn is_refused(bytes: &[u8]) -> bool {
    match Pack::from_bytes(bytes) {
        Ok(_) => false,
        Err(error @ Error::Panic { .. }) => panic!("{error}"),
        Err(error) => {
            assert!(error.to_string().len() > 30, "{error}");
            true
        }
    }
}

#[test]
fn two_hundred_mutations_of_a_pack_are_refused() {
    let whole = small();
    assert!(!is_refused(&whole));
    let mut random = NpRandom::new(11);
    let mut below = |n: usize| (random.random() * n as f64) as usize;
    for mutation in 0..200 {
        let mut bytes = whole.clone();
        let at = below(bytes.len());
        match mutation % 5 {
            0 => bytes[at] ^= 1 << below(8),
            1 => bytes.truncate(at),
            2 => bytes.insert(at, below(256) as u8),
            3 => bytes[below(8)] ^= 1 << below(8),
            _ => drop(bytes.drain(at..(at + 1 + below(40)).min(whole.len()))),
        }
        assert!(is_refused(&bytes), "mutation {mutation} at {at}");
    }
    for garbage in [&b""[..], b"pavlov", &[0; 8], &[0xff; 4096], b"PK\x03\x04 a zip archive"] {
        assert!(is_refused(garbage));
    }
}

#[test]
fn a_header_of_four_gigabytes_is_refused_before_memory_is_taken() {
    let mut bytes = (4_u64 << 30).to_le_bytes().to_vec();
    bytes.extend(b"{}");
    refused(Pack::from_bytes(&bytes), &["header", "4294967296 bytes", "at most 16777216"]);
    let mut bytes = (16_u64 << 20).to_le_bytes().to_vec();
    bytes.extend(b"{}");
    refused(Pack::from_bytes(&bytes), &["16777216 bytes, but 2 are there"]);
}

/// The parts of a pack, to be changed as a stranger would.
struct Forged {
    header: Value,
    numbers: Vec<u8>,
}

impl Forged {
    fn new() -> Self {
        Self::of(&small())
    }

    fn of(bytes: &[u8]) -> Self {
        let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + length]).expect("a header");
        Self { header, numbers: bytes[8 + length..].to_vec() }
    }

    fn metadata(&mut self, key: &str) -> &mut Value {
        &mut self.header["__metadata__"][key]
    }

    /// Changes one of the metadata that is JSON.
    fn change(&mut self, key: &str, change: impl FnOnce(&mut Value)) {
        let text = self.metadata(key).as_str().expect("text").to_owned();
        let mut value = serde_json::from_str(&text).expect("JSON");
        change(&mut value);
        *self.metadata(key) = value.to_string().into();
    }

    /// The bytes of the changed file, with the digest of its new content.
    fn bytes(mut self) -> Vec<u8> {
        *self.metadata("digest") = "0".repeat(64).into();
        let header = self.header.to_string().into_bytes();
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header);
        bytes.extend(self.numbers);
        let digest: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let key = b"\"digest\":\"";
        let at = bytes.windows(key.len()).position(|part| part == key).expect("a digest") + key.len();
        bytes[at..at + 64].copy_from_slice(digest.as_bytes());
        bytes
    }
}

/// Names of the arrays in the order of their bytes.
fn arrays(header: &Value) -> Vec<String> {
    let all = header.as_object().expect("an object").keys().filter(|name| *name != "__metadata__");
    let mut all: Vec<String> = all.cloned().collect();
    all.sort_by_key(|name| header[name.as_str()]["data_offsets"][0].as_u64());
    all
}

#[test]
fn a_pack_has_the_lower_bound_of_its_deviations_and_refuses_one_above_the_upper() {
    let sac = Sac { log_std_min: -20.0, ..tiny_sac() };
    let mut own = session(sac, "Pendulum-v1", 1);
    let bytes = own.pack(facts()).expect("a pack").to_bytes().expect("bytes");
    let mut read = Forged::of(&bytes);
    read.change("plan", |plan| assert_eq!(plan["choice"], json!({"squashed_from": -20.0})));
    let mut packed = Pack::from_bytes(&bytes).expect("the pack").session(1).expect("a session");
    assert_eq!(actions(&mut packed), actions(&mut own));
    read.change("plan", |plan| plan["choice"] = json!({"squashed_from": 3.0}));
    let refused =
        Pack::from_bytes(&read.bytes()).and_then(|pack| pack.session(1)).expect_err("it is refused");
    assert!(refused.to_string().contains("at most 2"), "{refused}");
}

#[track_caller]
fn forged(change: impl FnOnce(&mut Forged), parts: &[&str]) {
    let mut forged = Forged::new();
    change(&mut forged);
    let error = Pack::from_bytes(&forged.bytes()).expect_err("a forged pack");
    assert!(!matches!(error, Error::Panic { .. }), "{error}");
    parts.iter().for_each(|part| assert!(error.to_string().contains(part), "no {part:?} in: {error}"));
}

#[test]
fn a_forged_pack_with_a_right_digest_is_refused_by_what_is_wrong_in_it() {
    assert!(Pack::from_bytes(&Forged::new().bytes()).is_ok(), "unchanged, it is taken");
    let offsets = |forged: &mut Forged, which: usize, to: Value| {
        let name = arrays(&forged.header)[which].clone();
        forged.header[name.as_str()]["data_offsets"] = to;
    };
    forged(|forged| offsets(forged, 1, json!([0, 32])), &["overlap"]);
    forged(|forged| offsets(forged, 0, json!([0, u64::MAX])), &["does not fit"]);
    forged(|forged| offsets(forged, 0, json!([8, 0])), &["gap"]);
    forged(|forged| forged.numbers.extend([0; 4]), &["4 bytes behind its last array"]);
    let huge = |forged: &mut Forged| {
        let name = arrays(&forged.header)[0].clone();
        forged.header[name.as_str()]["shape"] = json!([1_u64 << 62, 1_u64 << 62]);
    };
    forged(huge, &["does not fit its bytes"]);
    let wide = |forged: &mut Forged| {
        let name = arrays(&forged.header)[0].clone();
        forged.header[name.as_str()]["dtype"] = json!("F64");
    };
    forged(wide, &["F64", "weights are F32"]);
    forged(|forged| forged.numbers[..4].copy_from_slice(&f32::NAN.to_le_bytes()), &["NaN", "finite"]);
    let spare = |forged: &mut Forged| {
        let end = forged.numbers.len();
        forged.numbers.extend([0; 4]);
        forged.header["spare"] = json!({"dtype": "F32", "shape": [1], "data_offsets": [end, end + 4]});
    };
    forged(spare, &["does not name the array \"spare\""]);
    forged(|forged| *forged.metadata("format_version") = "2".into(), &["format_version is 2", "reads 1"]);
    forged(|forged| *forged.metadata("format") = "other".into(), &["its format is \"other\""]);
    forged(|forged| *forged.metadata("licence") = "\u{1b}[2J".into(), &["no name to print"]);
    forged(|forged| *forged.metadata("settings") = r#"{"env": "a\u0007"}"#.into(), &["no name to print"]);
    forged(|forged| *forged.metadata("card") = json!(5), &["metadata"]);
    let step = |at: usize, to: Value| {
        move |forged: &mut Forged| forged.change("plan", |plan| plan["steps"][at] = to)
    };
    forged(step(1, json!({"attention": {"of": 0}})), &["attention"]);
    forged(step(1, json!({"apply": {"name": "system", "of": [0]}})), &["no operation \"system\""]);
    forged(step(1, json!({"apply": {"name": "tanh", "of": [1]}})), &["step 1", "does not come before it"]);
    let narrow = json!({"apply": {"name": "narrow", "of": [0], "with": [3.0, 2.0]}});
    forged(step(1, narrow), &["step 1", "does not fit 4 columns"]);
    forged(step(1, json!("mask")), &["takes no masks"]);
    let doubled = |forged: &mut Forged| {
        forged.change("plan", |plan| {
            let steps = plan["steps"].as_array_mut().expect("steps");
            let first = steps.len();
            steps.extend((0..40).map(|i| {
                let of = if i == 0 { 0 } else { first + i - 1 };
                json!({"apply": {"name": "cat", "of": [of, of]}})
            }));
        });
    };
    forged(doubled, &["4194304 columns"]);
    forged(|forged| forged.change("plan", |plan| plan["head"] = json!(99)), &["outputs are step 99"]);
    forged(|forged| forged.change("plan", |plan| plan["head"] = json!(0)), &["gives 4 numbers"]);
    forged(|forged| forged.change("plan", |plan| plan["choice"] = json!("exact")), &["Exact"]);
    forged(
        |forged| forged.change("plan", |plan| plan["program"] = json!("sh")),
        &["unknown field `program`"],
    );
    let discrete = json!({"discrete": {"n": i64::MAX, "start": 0}});
    let space = discrete.clone();
    forged(|forged| forged.change("spaces", |spaces| spaces["observation_space"] = space), &["4194304"]);
    forged(|forged| forged.change("spaces", |spaces| spaces["action_space"] = discrete), &["4194304"]);
    let narrow = json!({"box": {"low": [0.0], "high": [1.0], "shape": [3], "dtype": "f32"}});
    forged(|forged| forged.change("spaces", |spaces| spaces["observation_space"] = narrow), &["low"]);
    let filter = json!({"count": 2, "mean": [0.0], "sum_of_squares": [0.0]});
    forged(|forged| forged.change("filter", |found| *found = filter), &["filter does not fit"]);
}

/// The run directory of a short training, whose environment has settings of several kinds.
#[cfg(feature = "cli")]
fn trained() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let (dir, out) = scratch();
    let more = ["--stop", "training_iteration=2", "--set", "observation_filter=\"MeanStdFilter\""];
    run(&mut train(&out, &more)).ok();
    let file = dir.path().join("pole.pavlov");
    (dir, out, file)
}

#[test]
#[cfg(feature = "cli")]
fn a_packed_file_evaluates_to_the_returns_of_its_run() {
    let (dir, out, file) = trained();
    let said = pavlov(&["pack", text(&out), text(&file), "--licence", "CC-BY-4.0"]).ok().stdout;
    assert!(said.contains("CC-BY-4.0"), "{said}");
    let returns = |place: &Path, more: &[&str]| {
        let args = ["evaluate", text(place), "--episodes", "20", "--seed", "7", "--json"];
        pavlov(&[&args[..], more].concat()).ok().lines()[0].clone()
    };
    for more in [&[][..], &["--explore"]] {
        let mut wanted = returns(&out, more);
        let mut found = returns(&file, more);
        wanted["checkpoint"] = Value::Null;
        found["checkpoint"] = Value::Null;
        assert_eq!(found, wanted);
    }
    let shown = pavlov(&["show", text(&file)]).ok().stdout;
    for part in ["# PPO on CartPole-v1", "CC-BY-4.0", "pavlov evaluate model.pavlov --episodes 10 --seed 0"] {
        assert!(shown.contains(part), "no {part:?} in: {shown}");
    }
    let facts = pavlov(&["show", text(&file), "--json"]).ok().lines()[0].clone();
    assert_eq!(facts["results"]["training_iteration"], 2);
    assert_eq!(facts["results"]["evaluation"]["episodes"], 10);
    assert_eq!(facts["settings"]["env"], "CartPole-v1");
    let onnx = dir.path().join("pole.onnx");
    pavlov(&["export", text(&file), "--out", text(&onnx)]).ok();
    pavlov(&["evaluate", text(&file), "--set", "lr=1"]).refused("with the settings `env`");
    fs::write(&file, &fs::read(&file).expect("the pack")[..900]).expect("half a pack");
    let ran = pavlov(&["show", text(&file)]);
    assert_eq!(ran.code, Some(1));
    assert!(ran.stderr.contains("pole.pavlov"), "{}", ran.stderr);
}

#[test]
#[cfg(feature = "cli")]
fn a_pack_names_no_directory_no_host_and_no_user() {
    let (dir, out, file) = trained();
    let card = dir.path().join("card.md");
    fs::write(&card, "# Mine\n").expect("a card");
    pavlov(&["pack", text(&out), text(&file), "--card", text(&card), "--episodes", "0"]).ok();
    let bytes = fs::read(&file).expect("a pack");
    let length = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes")) as usize;
    let header = String::from_utf8(bytes[8..8 + length].to_vec()).expect("text");
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let places = [text(dir.path()), env!("CARGO_MANIFEST_DIR"), "/home", "/tmp", "/root", host.trim()];
    let named = ["HOME", "USER", "LOGNAME", "HOSTNAME"].map(|name| std::env::var(name).unwrap_or_default());
    let named = named.iter().map(String::as_str).chain(places).filter(|name| name.len() > 2);
    for name in named {
        let is_word = |text: &str| text.split(|c: char| !c.is_alphanumeric()).any(|word| word == name);
        let found = if name.contains('/') { header.contains(name) } else { is_word(&header) };
        assert!(!found, "{name:?} stands in: {header}");
    }
    assert!(header.contains("# Mine") && header.contains("none given"), "{header}");
    pavlov(&["pack", text(&out), text(&card)]).refused("must end in .pavlov");
    pavlov(&["pack", text(dir.path()), text(&file)]).refused("no whole checkpoint");
    pavlov(&["show", text(&out)]).refused("there is no such file");
}
