//! Conversion of requests and replies to frames, and back.

use crate::sample::{Evaluation, Follow, Reply, Request, Sampled};
use crate::workers::transport::Fault;
use crate::workers::wire::frame::{Frame, Message, Op, damaged, read, write};
use pavlov_envs::Frame as Picture;
use pavlov_learn::base::{Array, Kind, Result, State, catch};
use std::borrow::Cow;
use std::io::{Read, Write};
use std::sync::Arc;

/// Writes a request, with its number, as a frame.
///
/// # Errors
/// Fails if `to` fails, or if the request cannot be written: it is too long, or has an array of a type that frames have
/// no name for.
pub fn write_request(to: &mut impl Write, number: u64, body: &Request) -> Result<()> {
    let (op, message) = request(body)?;
    write(to, op, number, &message)
}

/// Reads a request and its number; returns `None` if the data end, even in the middle of a frame.
///
/// # Errors
/// Fails if `from` fails, or if the frame is damaged, is of another version, or carries no request.
pub fn read_request(from: &mut impl Read) -> Result<Option<(u64, Request)>> {
    let Some(frame) = read(from)? else { return Ok(None) };
    Ok(Some((frame.request, to_request(frame)?)))
}

/// Writes the answer to the request `number` as a frame.
///
/// # Errors
/// Fails in the same cases as [`write_request`].
pub fn write_reply(to: &mut impl Write, number: u64, answer: &Result<Reply, Fault>) -> Result<()> {
    let (op, message) = match answer {
        Ok(answer) => reply(answer)?,
        Err(reason) => (Op::Fault, fault(reason)),
    };
    write(to, op, number, &message)
}

/// Reads an answer and the number of its request; returns `None` if the data end, even in the middle of a frame.
///
/// # Errors
/// Fails if `from` fails, or if the frame is damaged, is of another version, or carries no answer.
#[allow(clippy::type_complexity)]
pub fn read_reply(from: &mut impl Read) -> Result<Option<(u64, Result<Reply, Fault>)>> {
    let Some(frame) = read(from)? else { return Ok(None) };
    Ok(Some((frame.request, to_reply(frame)?)))
}

/// Returns the kind and the content of a request's frame.
///
/// # Errors
/// Fails if serde cannot write a part of the request as JSON.
fn request(request: &Request) -> Result<(Op, Message<'_>)> {
    let message = Message::default();
    Ok(match request {
        Request::Sample { timestep } => (Op::Sample, message.with("timestep", timestep)?),
        Request::SetWeights { version, weights } => {
            (Op::SetWeights, Message::of(Cow::Borrowed(weights)).with("version", version)?)
        }
        Request::Evaluate(task) => (Op::Evaluate, message.with("task", task)?),
        Request::GetState => (Op::GetState, message),
        Request::SetState(state) => (Op::SetState, Message::of(Cow::Borrowed(state))),
        Request::FlushFilters => (Op::FlushFilters, message),
        Request::SetFilters(stats) => (Op::SetFilters, message.with("filters", &**stats)?),
        Request::SetTask(task) => (Op::SetTask, message.with("task", &**task)?),
        Request::Follow(follow) => {
            let message = follow.arrays().map_or(message, |arrays| Message::of(Cow::Borrowed(arrays)));
            (Op::Follow, message.with("follow", follow)?)
        }
    })
}

/// Returns the request that a frame carries.
///
/// # Errors
/// Fails if the frame carries no request, or if a part of the request is missing or of another type.
pub(crate) fn to_request(Frame { op, message, .. }: Frame) -> Result<Request> {
    Ok(match op {
        Op::Sample => Request::Sample { timestep: message.get("timestep")? },
        Op::SetWeights => {
            Request::SetWeights { version: message.get("version")?, weights: Arc::new(message.into_state()) }
        }
        Op::Evaluate => Request::Evaluate(message.get("task")?),
        Op::GetState => Request::GetState,
        Op::SetState => Request::SetState(Arc::new(message.into_state())),
        Op::FlushFilters => Request::FlushFilters,
        Op::SetFilters => Request::SetFilters(Arc::new(message.get("filters")?)),
        Op::SetTask => Request::SetTask(Arc::new(message.get("task")?)),
        Op::Follow => {
            let follow: Follow = message.get("follow")?;
            Request::Follow(follow.with_arrays(message.into_state()))
        }
        other => return Err(damaged(format!("{other:?} is no request"))),
    })
}

/// Returns the kind and the content of a reply's frame.
///
/// # Errors
/// Fails if serde cannot write a part of the reply as JSON.
fn reply(reply: &Reply) -> Result<(Op, Message<'_>)> {
    let message = Message::default();
    Ok(match reply {
        Reply::Done => (Op::Done, message),
        Reply::Sample(sampled) => {
            (Op::Sampled, Message::of(Cow::Owned(sampled.state()?)).with("perf", &sampled.perf)?)
        }
        Reply::Evaluation(Evaluation { episodes, frames, render_fps }) => {
            let mut pictures = State::default();
            for (i, picture) in frames.iter().enumerate() {
                let shape = [picture.height as i64, picture.width as i64, 3];
                pictures.push_array(i.to_string(), Array::from_bytes(Kind::U8, &shape, &picture.rgb));
            }
            let message = Message::of(Cow::Owned(pictures));
            (Op::Evaluated, message.with("episodes", episodes)?.with("render_fps", render_fps)?)
        }
        Reply::State(state) => (Op::State, Message::of(Cow::Borrowed(state))),
        Reply::Filters(seen) => (Op::Filters, message.with("filters", seen)?),
        Reply::Listens(address) => (Op::Listens, message.with("address", address)?),
    })
}

/// Returns the content of the frame that says why a request has no reply.
fn fault(fault: &Fault) -> Message<'static> {
    // Text can always be written as JSON.
    let message = |kind: &str| Message::default().with("fault", &kind);
    let message = match fault {
        Fault::App(reason) => message("app").and_then(|message| message.with("reason", reason)),
        Fault::Dead(reason) => message("dead").and_then(|message| message.with("reason", reason)),
        Fault::Setting { key, value, rule } => {
            message("setting").and_then(|message| message.with("reason", &(key, value, rule)))
        }
    };
    message.unwrap_or_default()
}

/// Returns the reply that a frame carries, or the reason why there is none.
///
/// # Errors
/// Fails if the frame carries no answer, or if a part of the answer is missing or of another type.
fn to_reply(Frame { op, mut message, .. }: Frame) -> Result<Result<Reply, Fault>> {
    Ok(Ok(match op {
        Op::Done => Reply::Done,
        Op::Sampled => {
            // Rows that do not fit together are a bug in the worker, and cause a panic here.
            let made = || Sampled::from_state(message.state_mut());
            let sampled = catch(|| "reading a fragment".to_owned(), made)?;
            Reply::Sample(Sampled { perf: message.get("perf")?, ..sampled })
        }
        Op::Evaluated => {
            let episodes = message.get("episodes")?;
            let render_fps = message.get("render_fps")?;
            let frames = message.into_state().into_arrays().map(|(_, array)| match *array.shape() {
                [height, width, 3] if array.kind() == Kind::U8 => Ok(Picture {
                    width: width as usize,
                    height: height as usize,
                    rgb: array.bytes().to_vec(),
                }),
                _ => Err(damaged("an array is no picture")),
            });
            Reply::Evaluation(Evaluation { episodes, frames: frames.collect::<Result<_>>()?, render_fps })
        }
        Op::State => Reply::State(message.into_state()),
        Op::Filters => Reply::Filters(message.get("filters")?),
        Op::Listens => Reply::Listens(message.get("address")?),
        Op::Fault => {
            return Ok(Err(match message.get::<String>("fault")?.as_str() {
                "app" => Fault::App(message.get("reason")?),
                "setting" => {
                    let (key, value, rule) = message.get("reason")?;
                    Fault::Setting { key, value, rule }
                }
                _ => Fault::Dead(message.get("reason")?),
            }));
        }
        other => return Err(damaged(format!("{other:?} is no answer"))),
    }))
}
