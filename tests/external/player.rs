//! A program that plays episodes with faults: it sends messages twice, dies, and ends episodes before the first action.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use pavlov::envs::external::{Answer, Ask, Call, Refused, Reply, Turn};
use pavlov::trainer::rng::Stream;

use super::floats;

/// A row as it was played: the second number of its observation, the action, the reward, the first number of the next
/// observation, and whether the episode ended.
type Row = (f64, f64, f64, f64, bool);

/// What a player reports.
#[derive(Debug, Default)]
pub(super) struct Played {
    /// Rows by the first number of their observation, which is another for every row.
    pub(super) closed: BTreeMap<u64, Row>,
    /// How often it died.
    pub(super) died: usize,
    /// How often it sent a message twice.
    pub(super) repeated: usize,
}

pub(super) struct Player {
    thread: JoinHandle<Played>,
    ends: Arc<AtomicBool>,
}

/// A number that no row of any player has yet.
static NEXT_ROW: AtomicU64 = AtomicU64::new(1);

type Answered = Receiver<Result<Answer, Refused>>;

fn send(to: &Sender<Call>, client: u64, ask: Ask) -> Option<Answered> {
    let (answer, answered) = channel();
    let reply = Reply::new(move |result| drop(answer.send(result)));
    to.send(Call { client, ask, reply }).ok()?;
    Some(answered)
}

fn action(answered: &Answered) -> Option<f64> {
    match answered.recv().ok()? {
        Ok(Answer::Action { action, .. }) => Some(bytemuck::pod_read_unaligned::<i64>(&action) as f64),
        other => panic!("no action: {other:?}"),
    }
}

impl Player {
    pub(super) fn start(client: u64, to: Sender<Call>) -> Self {
        let ends = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&ends);
        let thread = std::thread::spawn(move || {
            let mut played = Played::default();
            let mut draw = Stream::new(7, "player", client);
            let mut life = 0;
            // The trainer is gone when a message has no answer.
            while !until.load(Ordering::Relaxed)
                && play(&to, (client, &mut life), &mut draw, &mut played).is_some()
            {}
            played
        });
        Self { thread, ends }
    }

    pub(super) fn end(self) -> Played {
        self.ends.store(true, Ordering::Relaxed);
        self.thread.join().expect("a player")
    }
}

/// Plays one episode; `None` once the trainer is gone.
fn play(
    to: &Sender<Call>,
    (player, life): (u64, &mut u64),
    draw: &mut Stream,
    played: &mut Played,
) -> Option<()> {
    let client = player + 100 * *life;
    let Ok(Answer::Started { episode }) =
        send(to, client, Ask::StartEpisode { episode: None })?.recv().ok()?
    else {
        panic!("no episode")
    };
    let length = (draw.uniform() * 20.0) as u64;
    let mut open: Option<(u64, f64, f64)> = None;
    for t in 0..=length {
        // Whole numbers, which are exact as f32.
        let id = NEXT_ROW.fetch_add(1, Ordering::Relaxed);
        let obs = [id as f32, (t % 5) as f32];
        let reward = if t == 0 { 0.0 } else { f64::from((t % 3) as u8) };
        let is_last = t == length;
        if let Some((before, second, action)) = open.take() {
            played.closed.insert(before, (second, action, reward, id as f64, is_last));
        }
        if is_last {
            let ask = Ask::EndEpisode { episode, obs: floats(&obs), reward, truncated: false, mask: None };
            return send(to, client, ask)?.recv().ok()?.ok().map(drop);
        }
        let turn = Turn { episode: episode.clone(), seq: Some(t), obs: floats(&obs), mask: None, reward };
        let answered = send(to, client, Ask::GetAction(turn.clone()))?;
        let twice = (draw.uniform() < 0.1).then(|| send(to, client, Ask::GetAction(turn)));
        let chosen = action(&answered)?;
        if let Some(twice) = twice {
            played.repeated += 1;
            assert_eq!(action(&twice?)?, chosen);
        }
        if draw.uniform() < 0.02 {
            played.died += 1;
            *life += 1;
            let reply = Reply::new(drop);
            return to.send(Call { client, ask: Ask::Gone, reply }).ok();
        }
        open = Some((id, f64::from(obs[1]), chosen));
    }
    Some(())
}

/// The actions of two episodes of 16 steps, played in turn or one after the other.
pub(super) fn played(to: &Sender<Call>, together: bool) -> [Vec<f64>; 2] {
    let names = ["first", "second"];
    for name in names {
        let began =
            send(to, 1, Ask::StartEpisode { episode: Some(name.into()) }).and_then(|began| began.recv().ok());
        assert!(matches!(began, Some(Ok(Answer::Started { .. }))));
    }
    let mut all = [Vec::new(), Vec::new()];
    let ask = |episode: usize, t: u64| {
        let obs = floats(&[0.1 * t as f32, 0.5]);
        let turn = Turn { episode: names[episode].into(), seq: Some(t), obs, mask: None, reward: 0.0 };
        send(to, 1, Ask::GetAction(turn)).expect("a trainer")
    };
    if together {
        for t in 0..16 {
            let both = [ask(0, t), ask(1, t)];
            for (actions, answered) in all.iter_mut().zip(&both) {
                actions.extend(action(answered));
            }
        }
    } else {
        for (episode, actions) in all.iter_mut().enumerate() {
            actions.extend((0..16).filter_map(|t| action(&ask(episode, t))));
        }
    }
    // The rows of the last actions are closed by the ends.
    for name in names {
        let obs = floats(&[0.0, 0.0]);
        drop(send(
            to,
            1,
            Ask::EndEpisode { episode: name.into(), obs, reward: 0.0, truncated: true, mask: None },
        ));
    }
    all
}
