//! Requests and answers as bytes: every kind comes back as it was, and damaged frames are refused.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;

use pavlov::envs::Frame;
use pavlov::torch::{Device, Kind, Tensor};
use pavlov::trainer::batch::{Column, SampleBatch, Source, TrainBatch, Trajectory};
use pavlov::trainer::rng::Stream;
use pavlov::trainer::state::State;
use pavlov::trainer::workers::wire::{read_reply, read_request, write_reply, write_request};
use pavlov::trainer::workers::{Evaluation, EvaluationTask, Fault, MeanStdFilter, Reply, Request, Sampled};
use pavlov::trainer::{Episode, Result, SamplerPerf};
use serde_json::json;

use crate::support::refused;

fn state() -> State {
    let mut state = State::default();
    state.set("third", &(1.0 / 3.0)).expect("a number");
    state.set("seed", &u64::MAX).expect("a number");
    let mut inner = State::default();
    inner.set_tensor("kernel", &Tensor::from_slice(&[f32::NAN, -0.0, f32::MIN_POSITIVE / 2.0]));
    inner.set_tensor("none", &Tensor::zeros([0, 4], (Kind::Double, Device::Cpu)));
    inner.set_tensor("scalar", &Tensor::from(7i64));
    state.nest("policy", inner);
    state
}

fn requests() -> Vec<Request> {
    let mut filter = MeanStdFilter::new(2);
    filter.apply(&mut [0.1, 1e30, -3.0, 2.5], true);
    let task = EvaluationTask { episodes: vec![0, 7], seed: u64::MAX, explore: true, timestep: 5, frames: 2 };
    vec![
        Request::Sample { timestep: u64::MAX },
        Request::SetWeights { version: 3, weights: Arc::new(state()) },
        Request::Evaluate(task),
        Request::GetState,
        Request::SetState(Arc::new(state())),
        Request::FlushFilters,
        Request::SetFilters(Arc::new([("policy".into(), filter.running().clone())].into())),
        Request::SetTask(Arc::new(json!({"level": [1, 2.5, null, "ü\n"]}))),
    ]
}

fn episode() -> Episode {
    Episode {
        seed: u64::MAX,
        total_reward: f64::NEG_INFINITY,
        length: 3,
        custom_metrics: BTreeMap::from([("mean".into(), f64::NAN)]),
        ..Episode::default()
    }
}

/// Rows of every kind of numbers, and those that belong to sequences.
fn sampled() -> Sampled {
    let behind = SampleBatch::default().with(Column::NEW_OBS, Tensor::from_slice(&[9u8, 8]).view([1, 1, 2]));
    let pieces = vec![
        Trajectory { start: 0, len: 2, terminated: true },
        Trajectory { start: 2, len: 1, terminated: false },
    ];
    let rows = SampleBatch::default()
        .with_f32s(Column::REWARDS, &[1.5, f32::NEG_INFINITY, 0.0])
        .with(Column::OBS, Tensor::from_slice(&[0u8, 255, 3, 4, 5, 6]).view([3, 1, 2]))
        .with(Column::ACTIONS, Tensor::from_slice(&[i64::MIN, 0, i64::MAX]))
        .with(Column::ACTION_MASK, Tensor::from_slice(&[true, false, true]).view([3, 1]))
        .with(Column::new("double"), Tensor::from_slice(&[0.1f64, 0.2, 0.3]))
        .with_trajectories(pieces, behind);
    let memory = Tensor::from_slice(&[1f32, 2.0, 3.0, 4.0]).view([2, 2]);
    let remembered = SampleBatch::default().with_f32s(Column::RESETS, &[1.0, 0.0, 0.0]).with_sequences(
        vec![2, 1],
        Column::STATE_IN,
        memory,
    );
    let mut batch = TrainBatch::of("default_policy", rows, 3);
    batch.policies.insert("other".into(), remembered);
    batch.sources = vec![Source { worker: 2, version: 9, env_steps: 3 }];
    let perf =
        SamplerPerf { steps: 3, total: std::time::Duration::from_nanos(1_000_000_007), ..Default::default() };
    Sampled { batch, episodes: vec![episode()], version: 9, perf }
}

fn answers() -> Vec<Result<Reply, Fault>> {
    let mut filter = MeanStdFilter::new(1);
    filter.apply(&mut [4.0], true);
    let frames = [(2, 1), (1, 3)].map(|(width, height)| Frame {
        width,
        height,
        rgb: (0..width * height * 3).map(|i| i as u8 * 7).collect(),
    });
    vec![
        Ok(Reply::Done),
        Ok(Reply::Sample(sampled())),
        Ok(Reply::Evaluation(Evaluation {
            episodes: vec![episode()],
            frames: frames.into(),
            render_fps: Some(29.97),
        })),
        Ok(Reply::State(state())),
        Ok(Reply::Filters(BTreeMap::new())),
        Ok(Reply::Filters([("policy".into(), filter.flush())].into())),
        Err(Fault::App("the \"simulator\" is gone\n".into())),
        Err(Fault::Dead("it died".into())),
    ]
}

fn request_frame(number: u64, request: &Request) -> Vec<u8> {
    let mut frame = Vec::new();
    write_request(&mut frame, number, request).expect("a request that can be written");
    frame
}

fn answer_frame(number: u64, answer: &Result<Reply, Fault>) -> Vec<u8> {
    let mut frame = Vec::new();
    write_reply(&mut frame, number, answer).expect("an answer that can be written");
    frame
}

/// Frames are written from what frames say, so equal frames mean equal contents.
#[test]
fn every_request_comes_back_as_it_was_one_after_the_other() {
    let frames: Vec<Vec<u8>> = (1..).zip(requests()).map(|(i, request)| request_frame(i, &request)).collect();
    let all = frames.concat();
    let mut from = all.as_slice();
    for (i, frame) in (1..).zip(&frames) {
        let (number, request) = read_request(&mut from).expect("a whole frame").expect("one more");
        assert_eq!(number, i);
        assert_eq!(&request_frame(i, &request), frame, "{request:?}");
    }
    assert!(read_request(&mut from).expect("no frame").is_none());
}

#[test]
fn every_answer_comes_back_as_it_was() {
    for (i, answer) in (1..).zip(answers()) {
        let frame = answer_frame(i, &answer);
        let (number, back) = read_reply(&mut frame.as_slice()).expect("a whole frame").expect("an answer");
        assert_eq!(number, i);
        assert_eq!(answer_frame(i, &back), frame, "{answer:?}");
    }
    let (_, back) = read_reply(&mut answer_frame(1, &Ok(Reply::Sample(sampled()))).as_slice())
        .expect("a whole frame")
        .expect("an answer");
    let Ok(Reply::Sample(back)) = back else { panic!("a fragment") };
    let wanted = sampled();
    assert_eq!((back.version, back.perf, &back.batch.sources), (9, wanted.perf, &wanted.batch.sources));
    assert_eq!(back.episodes[0].total_reward, f64::NEG_INFINITY);
    for (id, rows) in &wanted.batch.policies {
        assert_eq!(back.batch.policies[id].sequences(), rows.sequences());
        for (column, data) in rows.columns() {
            let found = back.batch.policies[id].get(column).expect("the column");
            assert_eq!((found.kind(), found.size()), (data.kind(), data.size()), "{}", column.name());
            assert_eq!(found.bytes(), data.bytes(), "{}", column.name());
        }
    }
}

#[test]
fn a_frame_with_any_bit_changed_is_refused() {
    for answer in answers() {
        let frame = answer_frame(1, &answer);
        let mut rng = Stream::new(0, "damage", 0);
        // Every bit of the header, and 300 of the rest.
        let bits = (0..40 * 8).chain((0..300).map(|_| rng.below(frame.len() as u64 * 8)));
        for bit in bits {
            let mut damaged = frame.clone();
            damaged[bit as usize / 8] ^= 1 << (bit % 8);
            let read = read_reply(&mut damaged.as_slice());
            // A length that is too large asks for what does not come.
            assert!(!matches!(read, Ok(Some(_))), "bit {bit} of {answer:?}");
        }
    }
}

#[test]
fn a_frame_that_breaks_off_is_the_end() {
    for request in requests() {
        let frame = request_frame(1, &request);
        for end in 0..frame.len() {
            let read = read_request(&mut &frame[..end]).expect("an end, not an error");
            assert!(read.is_none(), "{end} bytes of {request:?}");
        }
    }
}

#[test]
fn noise_is_refused() {
    let mut rng = Stream::new(1, "noise", 0);
    for _ in 0..200 {
        let noise: Vec<u8> = (0..200).map(|_| rng.below(256) as u8).collect();
        refused(
            read_request(&mut noise.as_slice()),
            &["a frame: it does not begin with the mark of a frame"],
        );
    }
}

/// A frame of these sizes, and zeros for ever.
fn endless(json: u64, arrays: u64) -> impl Read {
    let mut header = request_frame(1, &Request::GetState)[..40].to_vec();
    header[16..24].copy_from_slice(&json.to_le_bytes());
    header[24..32].copy_from_slice(&arrays.to_le_bytes());
    io::Cursor::new(header).chain(io::repeat(0))
}

#[test]
fn lengths_have_bounds_and_another_version_is_named() {
    let rule = "bytes, but at most 268435456 are allowed";
    refused(read_request(&mut endless(u64::MAX, 0)), &["a frame: JSON of 18446744073709551615 ", rule]);
    refused(read_request(&mut endless(0, u64::MAX)), &["a frame: arrays of 18446744073709551615 bytes"]);
    let mut frame = request_frame(1, &Request::GetState);
    frame[4] = 99;
    let parts =
        ["it is of version 99, but this executable speaks 4", "both ends must be the same executable"];
    refused(read_request(&mut frame.as_slice()), &parts);
}

#[test]
fn a_long_array_that_breaks_off_is_the_end_or_has_no_memory() {
    let json = br#"{"head": {}, "values": {}, "arrays": [["weights", "F32", [15000000000]]]}"#;
    let mut frame = request_frame(1, &Request::GetState)[..40].to_vec();
    frame[16..24].copy_from_slice(&(json.len() as u64).to_le_bytes());
    frame[24..32].copy_from_slice(&60_000_000_000_u64.to_le_bytes());
    frame.extend_from_slice(json);
    frame.resize(frame.len() + (1 << 20), 0);
    match read_request(&mut frame.as_slice()) {
        Ok(read) => assert!(read.is_none()),
        Err(error) => assert!(error.to_string().starts_with("a frame: "), "{error}"),
    }
}

#[test]
fn an_answer_is_no_request_and_a_request_no_answer() {
    let done = answer_frame(1, &Ok(Reply::Done));
    refused(read_request(&mut done.as_slice()), &["a frame: Done is no request"]);
    let sample = request_frame(1, &Request::Sample { timestep: 0 });
    refused(read_reply(&mut sample.as_slice()), &["a frame: Sample is no answer"]);
}
