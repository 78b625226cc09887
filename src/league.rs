//! Self-play: a policy learns against a league of frozen earlier versions of itself.

use pavlov_trainer::batch::PolicyId;
use pavlov_trainer::rng::Stream;
use pavlov_trainer::settings::rules;
use pavlov_trainer::state::{State, Weights};
use pavlov_trainer::{Callbacks, Error, Result, RunHandle};
use pavlov_tune::Metrics;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::Arc;

/// Elo rating of the first players.
const FIRST_ELO: f64 = 1000.0;
/// Difference in Elo rating at which the better player is ten times as likely to win.
const ELO_SCALE: f64 = 400.0;
/// Factor by which the weight of earlier games shrinks with each new result, so that win rates follow the policy as
/// it learns.
const REMEMBERED: f64 = 0.8;

/// Settings of a [`League`].
#[derive(Clone, Debug, PartialEq)]
pub struct LeagueConfig {
    /// Id of the policy that learns.
    pub main: PolicyId,
    /// Id of the policy that plays against `main`, with the weights of a snapshot. This policy must not learn
    /// (`multiagent.policies_to_train`), and must have the same network as `main`.
    pub opponent: PolicyId,
    /// Share of the iterations in which `opponent` has the current weights of `main` (Berner et al. 2019 used 0.8).
    /// In the others a snapshot plays. With 0, `main` meets one old player for a whole iteration, learns to beat that
    /// one, and forgets how to beat others.
    pub self_play: f64,
    /// Number of iterations between two snapshots of `main`.
    pub snapshot_interval: u64,
    /// Largest number of snapshots; when it is reached, the snapshot that loses most often is removed.
    pub capacity: usize,
    /// Exponent of the choice of opponents: a snapshot's weight is the share of games that `main` does not win
    /// against it, to this power (Vinyals et al. 2019). 0 chooses all snapshots equally often.
    pub pfsp_power: f64,
    /// Largest change of a rating in one iteration, in Elo points.
    pub elo_k: f64,
    /// Seed of the random choice of opponents.
    pub seed: u64,
}

impl Default for LeagueConfig {
    fn default() -> Self {
        Self {
            main: "main".into(),
            opponent: "opponent".into(),
            self_play: 0.8,
            snapshot_interval: 10,
            capacity: 100,
            pfsp_power: 2.0,
            elo_k: 32.0,
            seed: 0,
        }
    }
}

/// Callbacks with which a policy learns against earlier versions of itself; pass them to
/// [`Builder::callbacks`](crate::trainer::Builder::callbacks).
///
/// 1. Every few iterations a snapshot of `main` joins the league.
/// 2. After every iteration the next opponent is drawn, and the policy `opponent` gets its weights: mostly those of
///    `main` itself, otherwise those of a snapshot; a snapshot is more likely the less `main` wins against it
///    (prioritised fictitious self-play, Vinyals et al. 2019).
/// 3. An episode is won, lost or drawn by the sign of the total reward of the agents of `main`. It counts for the
///    opponent at its end.
///
/// A snapshot does not include the observation filter: `opponent` has its own.
///
/// Every result has under `league`: the `elo` of `main`; the `opponent` of the iteration, as the `iteration` of its
/// snapshot (null for `main` itself, whose games against itself change no rating); and for each of the `members` its
/// `iteration`, its `elo` and the `win_rate` of `main` against it (Elo 1978). Checkpoints keep the league: a restored
/// run continues with the same opponents, bit for bit.
///
/// ```no_run
/// use pavlov::trainer::{Trainer, TrainerExt};
/// use pavlov::{League, LeagueConfig};
/// # fn train<T: Trainer>(mut ppo: T) -> pavlov_trainer::Result<()> {
/// let multi = &mut ppo.common_mut().multiagent;
/// multi.policies.extend(["main", "opponent"].map(|id| (id.to_owned(), Default::default())));
/// multi.policies_to_train = Some(vec!["main".into()]);
/// let by = |agent: &str| if agent == "player_1" { "main" } else { "opponent" };
/// let league = || League::new(LeagueConfig::default());
/// let mut trainer = ppo.builder("tictactoe_v3").policy_mapping_fn(by).callbacks(league).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct League {
    config: LeagueConfig,
    book: Book,
    /// Weights of each snapshot, in the order of `book.members`.
    weights: Vec<Weights>,
}

/// Ratings and results of the players.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Book {
    iteration: u64,
    /// Elo rating of `main`.
    elo: f64,
    members: Vec<Member>,
    /// Index of the snapshot that plays; `None` if `main` plays against itself.
    opponent: Option<usize>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Member {
    /// Iteration in which the snapshot was made.
    iteration: u64,
    elo: f64,
    /// Number of games against `main`, and the points of `main` in them: 1 for a win, 1/2 for a draw. Old games count
    /// less.
    games: f64,
    score: f64,
}

impl Member {
    fn new(iteration: u64, elo: f64) -> Self {
        Self { iteration, elo, games: 0.0, score: 0.0 }
    }

    /// Returns the share of games that `main` wins against this member; one half before the first game.
    fn win_rate(&self) -> f64 {
        (self.score + 0.5) / (self.games + 1.0)
    }
}

impl League {
    /// Makes a league whose only member has the initial weights of `opponent`.
    pub fn new(config: LeagueConfig) -> Self {
        let book = Book { iteration: 0, elo: FIRST_ELO, members: Vec::new(), opponent: Some(0) };
        Self { config, book, weights: Vec::new() }
    }

    /// Returns the weights of the policy `id` of the run.
    fn of(run: &mut RunHandle<'_>, id: &str) -> Result<Weights> {
        Ok(Arc::new(run.get_weights(&[id])?.nested(id)?))
    }

    /// Counts `games` games against the current opponent, in which `main` got `score` points.
    fn count(&mut self, games: f64, score: f64) {
        let Book { elo, members, opponent, .. } = &mut self.book;
        if let Some(opponent) = *opponent
            && games > 0.0
        {
            let member = &mut members[opponent];
            let expected = 1.0 / (1.0 + 10_f64.powf((member.elo - *elo) / ELO_SCALE));
            let gained = self.config.elo_k * (score / games - expected);
            *elo += gained;
            member.elo -= gained;
            member.games = REMEMBERED * member.games + games;
            member.score = REMEMBERED * member.score + score;
        }
    }

    fn add(&mut self, weights: Weights) {
        if self.weights.len() >= self.config.capacity.max(1) {
            let rates = self.book.members.iter().map(Member::win_rate).enumerate();
            let weakest = rates.max_by(|(_, a), (_, b)| a.total_cmp(b)).map_or(0, |(i, _)| i);
            self.book.members.remove(weakest);
            self.weights.remove(weakest);
        }
        self.book.members.push(Member::new(self.book.iteration, self.book.elo));
        self.weights.push(weights);
    }

    /// Draws the next opponent: the index of a snapshot, or `None` for `main` itself.
    fn choose(&self) -> Option<usize> {
        let mut rng = Stream::new(self.config.seed, "league", self.book.iteration);
        (rng.uniform_f64() >= self.config.self_play).then(|| self.member(&mut rng))
    }

    fn member(&self, rng: &mut Stream) -> usize {
        let power = self.config.pfsp_power;
        let weights =
            || self.book.members.iter().map(|member| (1.0 - member.win_rate()).max(0.0).powf(power));
        let total: f64 = weights().sum();
        let mut left = rng.uniform_f64() * total;
        for (i, weight) in weights().enumerate() {
            if left < weight {
                return i;
            }
            left -= weight;
        }
        self.book.members.len() - 1
    }
}

/// Returns the number of games that ended in this iteration, and the points of the policy in them.
fn games_of(result: &Metrics, policy: &str) -> Result<(f64, f64)> {
    let ended = result.get("episodes_this_iter").and_then(Value::as_u64).unwrap_or(0) as usize;
    let rewards = result.get("hist_stats").and_then(|stats| stats.get(format!("policy_{policy}_reward")));
    let Some(rewards) = rewards.and_then(Value::as_array) else {
        let reason = format!(
            "no agent acts by `{policy}`, or no episode has ended; see `multiagent.policy_mapping_fn`"
        );
        return if ended == 0 { Ok((0.0, 0.0)) } else { Err(Error::state("the league", reason)) };
    };
    let last = &rewards[rewards.len().saturating_sub(ended)..];
    let score = |reward: &Value| match reward.as_f64().unwrap_or(0.0) {
        reward if reward > 0.0 => 1.0,
        reward if reward < 0.0 => 0.0,
        _ => 0.5,
    };
    Ok((last.len() as f64, last.iter().map(score).sum()))
}

impl Callbacks for League {
    fn on_train_result(&mut self, run: &mut RunHandle<'_>, result: &mut Metrics) -> Result<()> {
        if self.weights.is_empty() {
            let share = self.config.self_play;
            let rule = "it is a share of the iterations, from 0 to 1";
            rules::refuse_if(!(0.0..=1.0).contains(&share), "LeagueConfig.self_play", share, rule)?;
            let first = Self::of(run, &self.config.opponent)?;
            self.add(first);
        }
        self.book.iteration += 1;
        let (games, score) = games_of(result, &self.config.main)?;
        self.count(games, score);
        let opponent = self.book.opponent.map(|member| self.book.members[member].iteration);
        if self.book.iteration.is_multiple_of(self.config.snapshot_interval.max(1)) {
            let snapshot = Self::of(run, &self.config.main)?;
            self.add(snapshot);
        }
        let of = |member: &Member| {
            let iteration = member.iteration;
            let elo = member.elo;
            let win_rate = member.win_rate();
            json!({"iteration": iteration, "elo": elo, "win_rate": win_rate})
        };
        let members: Vec<Value> = self.book.members.iter().map(of).collect();
        let league = json!({"elo": self.book.elo, "opponent": opponent, "members": members});
        result.insert("league".into(), league);

        self.book.opponent = self.choose();
        let mut weights = State::default();
        let chosen = match self.book.opponent {
            Some(member) => self.weights[member].clone(),
            None => Self::of(run, &self.config.main)?,
        };
        weights.nest(&self.config.opponent, (*chosen).clone());
        run.set_weights(Arc::new(weights));
        Ok(())
    }

    fn state(&self) -> Result<State> {
        let mut state = State::default();
        state.set("book", &self.book)?;
        for (i, weights) in self.weights.iter().enumerate() {
            state.nest(&format!("member_{i}"), (**weights).clone());
        }
        Ok(state)
    }

    fn set_state(&mut self, state: &State) -> Result<()> {
        let book: Book = state.get("book")?;
        if let Some(opponent) = book.opponent.filter(|&opponent| opponent >= book.members.len().max(1)) {
            let reason = format!("opponent {opponent} plays, but it has {} members", book.members.len());
            return Err(Error::state("the league", reason));
        }
        let weights = (0..book.members.len()).map(|i| state.nested(&format!("member_{i}")).map(Arc::new));
        self.weights = weights.collect::<Result<_>>()?;
        self.book = book;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Vinyals et al. (2019), prioritised fictitious self-play: a player's weight is the share of games that `main`
    /// does not win, to a power.
    #[test]
    fn a_member_plays_the_more_often_the_less_main_wins_against_it() {
        let shares = |pfsp_power| {
            let mut league =
                League::new(LeagueConfig { self_play: 0.2, pfsp_power, ..LeagueConfig::default() });
            // Win rates of 1/4, 1/2 and 3/4.
            for score in [0.0, 0.5, 1.0] {
                league.book.members.push(Member { games: 1.0, score, ..Member::new(0, FIRST_ELO) });
            }
            let mut counts = [0.0; 4];
            for iteration in 0..20_000 {
                league.book.iteration = iteration;
                counts[league.choose().unwrap_or(3)] += 1.0 / 20_000.0;
            }
            counts
        };
        // 3/4, 1/2 and 1/4 squared are 9, 4 and 1 of 14; a fifth of the iterations are games against itself.
        for (power, weights) in [(2.0, [9.0, 4.0, 1.0]), (1.0, [3.0, 2.0, 1.0]), (0.0, [1.0; 3])] {
            let total: f64 = weights.iter().sum();
            let wanted = weights.map(|weight| 0.8 * weight / total);
            let found = shares(power);
            for (found, wanted) in found.iter().zip(wanted.iter().chain(&[0.2])) {
                // Five standard deviations of a share of 20,000 draws.
                assert!(
                    (found - wanted).abs() < 5.0 * (0.25_f64 / 20_000.0).sqrt(),
                    "{power}: {found} {wanted}"
                );
            }
        }
    }
}
