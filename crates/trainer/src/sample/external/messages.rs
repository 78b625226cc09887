//! Carrying out the messages of programs that play episodes.

use crate::base::Episode;
use crate::policy::Policy;
use crate::sample::agents::AgentStep;
use crate::sample::callbacks::StepView;
use crate::sample::external::copies::copied;
use crate::sample::external::places::{Place, refused};
use crate::sample::external::{Acting, ExternalSampler, episode_of};
use crate::sample::session::Inference;
use pavlov_envs::external::{Answer, Ask, Call, Refused, Reply, Turn};
use pavlov_learn::base::{Result, Stream};
use std::sync::Arc;

/// Number of versions that a copy of the policy may be behind, where an algorithm learns from its own actions.
const LAG: u64 = 1;

/// An action that a program chose itself.
struct Given {
    /// The action in the policy's form.
    action: Vec<u8>,
    logp: Option<f32>,
    /// The action as the program sent it.
    sent: Vec<u8>,
    /// Version of the policy whose copy chose it.
    version: Option<u64>,
}

impl ExternalSampler {
    /// Carries out a message. One that the fragment has no room for is held until the next.
    pub(super) fn handle(&mut self, call: Call, acting: &mut Acting<'_>) -> Result<()> {
        let place = episode_of(&call.ask).and_then(|name| self.places.place_of(call.client, name).ok());
        if place.is_some_and(|place| self.is_held(place)) {
            self.held.push_back(call);
            return Ok(());
        }
        let Call { client, ask, reply } = call;
        match ask {
            Ask::StartEpisode { episode } => {
                let began = self.places.start(client, episode, self.episodes);
                self.episodes += u64::from(began.is_ok());
                reply.send(began.map(|episode| Answer::Started { episode }));
                Ok(())
            }
            Ask::GetAction(turn) => self.turn(client, &turn, None, reply, acting),
            Ask::LogAction { turn, action, logp, version } => {
                let given = self.check_version(version).and_then(|()| {
                    self.seats.given(&action, logp).map_err(|(code, message)| refused(code, message))
                });
                match given {
                    Ok(given) => {
                        let given = Given { action: given, logp, sent: action, version };
                        self.turn(client, &turn, Some(given), reply, acting)
                    }
                    Err(refused) => {
                        reply.send(Err(refused));
                        Ok(())
                    }
                }
            }
            Ask::EndEpisode { episode, obs, reward, truncated, mask } => {
                let step = AgentStep { reward, terminated: !truncated, truncated, acting: false };
                let ended = match self.places.place_of(client, &episode) {
                    Ok(place) => self.end(place, (&obs, mask.as_deref()), step, acting)?,
                    Err(refused) => Err(refused),
                };
                reply.send(ended);
                Ok(())
            }
            Ask::GetPolicy { than } => {
                reply.send(self.policy(than, acting.policy));
                Ok(())
            }
            Ask::Gone => {
                for place in self.places.of_client(client) {
                    self.cut(place);
                }
                Ok(())
            }
        }
    }

    /// A copy of the policy, unless the program has this version already.
    fn policy(&mut self, than: Option<u64>, policy: &dyn Policy) -> std::result::Result<Answer, Refused> {
        let version = self.version;
        if than == Some(version) {
            return Ok(Answer::Policy { version, onnx: None });
        }
        if let Some((_, onnx)) = self.copy.as_ref().filter(|(of, _)| *of == version) {
            return Ok(Answer::Policy { version, onnx: Some(Arc::clone(onnx)) });
        }
        let filter = self.seats.filter_mut().map(|(_, filter)| filter.running().clone());
        let filter = filter.filter(|running| running.count() > 0);
        let rngs = vec![Stream::new(self.run_seed, "copy of the policy", 0)];
        let desk = Inference::new(&self.spec, (self.seats.id(), policy), rngs, filter.as_ref());
        let copy = desk.and_then(|desk| copied(&desk, policy).transpose());
        let onnx = copy.map_err(|error| refused("policy", error.to_string()))?;
        let onnx = onnx.ok_or_else(|| refused("policy", "this run gives no copies of its policy".into()))?;
        let onnx: Arc<[u8]> = onnx.into();
        self.copy = Some((version, Arc::clone(&onnx)));
        Ok(Answer::Policy { version, onnx: Some(onnx) })
    }

    /// Refuses an action of a copy that is too old for an algorithm that learns from its own actions.
    fn check_version(&self, version: Option<u64>) -> std::result::Result<(), Refused> {
        let Some(version) = version.filter(|_| self.seats.needs_logp()) else { return Ok(()) };
        if version <= self.version && self.version - version <= LAG {
            return Ok(());
        }
        let message = format!(
            "the action is of version {version} of the policy, and the run is at {}: get the policy again",
            self.version
        );
        Err(refused("stale", message))
    }

    /// Takes what a program saw, and the action that it chose itself if there is one. The policy's answer follows later.
    fn turn(
        &mut self,
        client: u64,
        turn: &Turn,
        given: Option<Given>,
        reply: Reply,
        acting: &mut Acting<'_>,
    ) -> Result<()> {
        let place = match self.places.place_of_turn(client, turn) {
            Ok(Place::Next(place)) => place,
            Ok(Place::Again(place)) => {
                if let Some(playing) = self.places.at_mut(place) {
                    match &playing.answered {
                        Some(answer) => reply.send(Ok(answer.clone())),
                        None => playing.waiting.push(reply),
                    }
                }
                return Ok(());
            }
            Err(refused) => {
                reply.send(Err(refused));
                return Ok(());
            }
        };
        if let Err(refused) = self.see(place, turn, acting)? {
            reply.send(Err(refused));
            return Ok(());
        }
        if let Some(Given { sent, logp, version, .. }) = &given
            && self.is_full(place)
        {
            let (action, logp, version) = (sent.clone(), *logp, *version);
            let ask = Ask::LogAction { turn: turn.clone(), action, logp, version };
            self.held.push_back(Call { client, ask, reply });
            return Ok(());
        }
        let version = self.version;
        if let Some(playing) = self.places.at_mut(place) {
            playing.is_seen = false;
            playing.turns += 1;
            playing.answered = None;
            if given.is_none() {
                playing.waiting.push(reply);
                return Ok(());
            }
            reply.send(Ok(Answer::Logged { version }));
        }
        if let Some(Given { action, logp, .. }) = given {
            // The policy acts as well: its columns of the row are those of learning.
            self.act(acting)?;
            self.seats.replace_action(place, &action, logp);
            if let Some(playing) = self.places.at_mut(place) {
                playing.answered = Some(Answer::Logged { version });
            }
        }
        Ok(())
    }

    /// Closes the row of the action before with the reward of a turn, and takes the turn's observation; once for each turn.
    fn see(
        &mut self,
        place: usize,
        turn: &Turn,
        acting: &mut Acting<'_>,
    ) -> Result<std::result::Result<(), Refused>> {
        let Some(playing) = self.places.at(place) else { return Ok(Ok(())) };
        if playing.is_seen {
            return Ok(Ok(()));
        }
        let (is_first, number) = (playing.turns == 0, playing.number);
        let step = AgentStep { reward: turn.reward, acting: true, ..AgentStep::default() };
        let mut seen = self.places.see(place, &turn.obs, turn.mask.as_deref(), step);
        if is_first && turn.reward != 0.0 {
            let message = format!("the reward before the first action is {}: it must be 0", turn.reward);
            seen = Err(refused("reward", message));
        }
        if seen.is_ok() {
            let looked_at = self.out_of_bounds.look(place, 0, &turn.obs);
            seen = looked_at.map_err(|error| refused("obs", error.to_string()));
        }
        if seen.is_err() {
            return Ok(seen);
        }
        if is_first {
            let stream = |_| Some(Stream::new(self.run_seed, "external action", number));
            self.seats.begin(&self.places, (place, &self.seated), &stream)?;
        } else {
            self.seats.settle_slot(&self.places, place)?;
            self.count(place, step, acting)?;
        }
        if let Some(playing) = self.places.at_mut(place) {
            playing.is_seen = true;
        }
        Ok(Ok(()))
    }

    /// Adds a step to the episode at a place.
    fn count(&mut self, place: usize, step: AgentStep, acting: &mut Acting<'_>) -> Result<()> {
        let AgentStep { reward, terminated, truncated, .. } = step;
        let ended = terminated || truncated;
        if ended {
            self.out_of_bounds.end(place, &mut self.running_episodes);
        }
        // Only callbacks read the observation.
        let obs = if acting.callbacks.is_some() { self.seats.model_row(place, ended) } else { &[] };
        let step = StepView { obs, reward: reward as f32, terminated, truncated };
        let callbacks = &mut acting.callbacks;
        self.running_episodes.step(place, reward, step, callbacks)
    }

    fn end(
        &mut self,
        place: usize,
        (obs, mask): (&[u8], Option<&[bool]>),
        step: AgentStep,
        acting: &mut Acting<'_>,
    ) -> Result<std::result::Result<Answer, Refused>> {
        let Some(playing) = self.places.at(place) else {
            return Ok(Err(refused("unknown_episode", String::new())));
        };
        if !playing.waiting.is_empty() {
            let message = "the action before is not chosen yet: wait for its answer";
            return Ok(Err(refused("out_of_order", message.into())));
        }
        let Episode { total_reward, length, .. } = *self.running_episodes.running(place);
        let mut answer = Answer::Ended { episode_reward: total_reward, episode_len: length };
        // An episode without an action has no rows.
        if playing.turns > 0 {
            if let Err(refused) = self.places.see_end(place, obs, mask, step) {
                return Ok(Err(refused));
            }
            self.seats.settle_slot(&self.places, place)?;
            self.count(place, step, acting)?;
            answer = Answer::Ended { episode_reward: total_reward + step.reward, episode_len: length + 1 };
        }
        self.places.free(place);
        Ok(Ok(answer))
    }

    /// Cuts the episode at a place: its finished rows count, and it is in no result.
    pub(super) fn cut(&mut self, place: usize) {
        let Some(playing) = self.places.free(place) else { return };
        self.seats.cut(place);
        drop(self.running_episodes.follow(place));
        self.held.retain(|call| episode_of(&call.ask) != Some(&playing.name));
        for reply in playing.waiting {
            let message = "the episode was cut: start a new one".into();
            reply.send(Err(refused("unknown_episode", message)));
        }
    }
}
