//! Returns of evaluation episodes: a summary, the returns of each agent, and the winners of games.

use serde_json::{Value, json};

use crate::trainer::Episode;

/// Mean, standard deviation (divisor n, as in numpy's `std`), minimum and maximum of some numbers.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    pub(super) mean: f64,
    pub(super) std: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Summary {
    pub(super) fn of(values: &[f64]) -> Summary {
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        let fold = |pick: fn(f64, f64) -> f64| values.iter().copied().reduce(pick).unwrap_or(f64::NAN);
        Summary { mean, std: variance.sqrt(), min: fold(f64::min), max: fold(f64::max) }
    }
}

/// The returns of one agent, episode by episode.
#[derive(Debug)]
pub(super) struct AgentReturns {
    agent: String,
    policy: String,
    returns: Vec<f64>,
}

/// Collects the returns of every agent; empty if the environment has one agent.
pub(super) fn of_agents(episodes: &[Episode]) -> Vec<AgentReturns> {
    let agents = episodes.first().map(|episode| episode.agent_rewards.as_slice()).unwrap_or_default();
    let of = |i: usize| episodes.iter().map(|episode| episode.agent_rewards[i].reward).collect();
    let agents = agents.iter().enumerate();
    agents
        .map(|(i, agent)| AgentReturns {
            agent: agent.agent.clone(),
            policy: agent.policy.clone(),
            returns: of(i),
        })
        .collect()
}

/// Counts the games that each agent won, and the draws. `None` if the episodes are not games: in a game there are two or
/// more agents, and all returns are -1, 0 or 1.
fn games(agents: &[AgentReturns]) -> Option<(Vec<usize>, usize)> {
    let mut all = agents.iter().flat_map(|agent| &agent.returns);
    if agents.len() < 2 || all.any(|x| ![-1.0, 0.0, 1.0].contains(x)) {
        return None;
    }
    let mut won = vec![0; agents.len()];
    let mut drawn = 0;
    for episode in 0..agents[0].returns.len() {
        let of = |agent: &AgentReturns| agent.returns[episode];
        let best = agents.iter().map(of).fold(f64::NEG_INFINITY, f64::max);
        let winners: Vec<usize> = (0..agents.len()).filter(|&i| of(&agents[i]) == best).collect();
        match winners.as_slice() {
            &[winner] => won[winner] += 1,
            _ => drawn += 1,
        }
    }
    Some((won, drawn))
}

/// Formats the returns of the agents and the games as lines of text, each after a line break.
pub(super) fn lines(agents: &[AgentReturns]) -> String {
    let mut text = String::new();
    for AgentReturns { agent, policy, returns } in agents {
        let Summary { mean, std, min, max } = Summary::of(returns);
        text += &format!(
            "\nagent {agent} (policy {policy})  mean {mean:.2}  std {std:.2}  min {min:.2}  max {max:.2}"
        );
    }
    if let Some((won, drawn)) = games(agents) {
        let won = agents.iter().zip(won).map(|(of, won)| format!("{} won {won}", of.agent));
        text += &format!("\ngames   {}, {drawn} drawn", won.collect::<Vec<_>>().join(", "));
    }
    text
}

/// Returns the values of `agents` and `games` in the JSON report.
pub(super) fn report(agents: &[AgentReturns]) -> (Value, Value) {
    let of = |AgentReturns { agent, policy, returns }: &AgentReturns| {
        let Summary { mean, std, min, max } = Summary::of(returns);
        json!({
            "agent": agent, "policy": policy, "reward_mean": mean, "reward_std": std, "reward_min": min,
            "reward_max": max,
        })
    };
    let games = games(agents).map(|(won, drawn)| {
        let won: serde_json::Map<_, _> =
            agents.iter().zip(won).map(|(of, won)| (of.agent.clone(), json!(won))).collect();
        json!({"won": won, "drawn": drawn})
    });
    (agents.iter().map(of).collect(), json!(games))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agents(returns: [&[f64]; 2]) -> Vec<AgentReturns> {
        let of = |(i, returns): (usize, &&[f64])| AgentReturns {
            agent: format!("player_{}", i + 1),
            policy: "shared".into(),
            returns: returns.to_vec(),
        };
        returns.iter().enumerate().map(of).collect()
    }

    #[test]
    fn games_are_won_lost_and_drawn_and_other_episodes_are_no_games() {
        // The third game ended by an illegal move of the second player.
        let games = agents([&[1.0, -1.0, 0.0, 0.0], &[-1.0, 1.0, -1.0, 0.0]]);
        let text = lines(&games);
        assert!(text.ends_with("\ngames   player_1 won 2, player_2 won 1, 1 drawn"), "{text}");
        assert!(text.starts_with("\nagent player_1 (policy shared)  mean 0.00"), "{text}");
        assert_eq!(report(&games).1, json!({"won": {"player_1": 2, "player_2": 1}, "drawn": 1}));
        assert_eq!(report(&agents([&[0.5], &[-0.5]])).1, Value::Null);
        let drawn = lines(&agents([&[0.0], &[0.0]]));
        assert!(drawn.ends_with("player_1 won 0, player_2 won 0, 1 drawn"), "{drawn}");
    }

    #[test]
    fn the_summary_of_one_three_and_five_by_hand() {
        // Deviations -2, 0, 2: variance 8/3.
        let expected = Summary { mean: 3.0, std: (8.0_f64 / 3.0).sqrt(), min: 1.0, max: 5.0 };
        assert_eq!(Summary::of(&[5.0, 1.0, 3.0]), expected);
    }
}
