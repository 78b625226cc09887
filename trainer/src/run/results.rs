//! The result of a training iteration.

use crate::base::{Error, Result, notice};
use crate::plan::LearnerInfo;
use crate::run::training::Run;
use pavlov_tune::Metrics;
use serde_json::{Map, Value, json};

/// Steps per copy after which an environment without a finished episode is reported.
const ENDLESS: u64 = 10_000;

/// The warning about an environment without finished episodes, once its copies have taken `ENDLESS` steps.
fn endless(env: &str, copies: usize, before: u64, now: u64) -> Option<String> {
    let limit = ENDLESS * copies as u64;
    (before < limit && limit <= now).then(|| {
        format!(
            "no episode of {env} has ended in {ENDLESS} steps of each copy: returns are unknown and an evaluation would \
             not end. Give it a time limit: `Env::max_episode_steps`, the wrapper `TimeLimit`, or \
             `EnvSpec.max_episode_steps` where it is registered"
        )
    })
}

impl Run {
    pub(crate) fn result(
        &mut self,
        before: &crate::workers::Counters,
        info: &LearnerInfo,
    ) -> Result<Metrics> {
        let common = &self.spec.names.common;
        let counters = self.workers.counters();
        let episodes = self.workers.ledger.take_episodes();
        let episodes_this_iter = episodes.len();
        let before_steps = before.num_env_steps_sampled;
        self.window.add(episodes, common.metrics_num_episodes_for_smoothing);
        if let Some(text) =
            endless(self.spec.env.name(), common.total_envs(), before_steps, counters.num_env_steps_sampled)
                .filter(|_| self.window.is_empty())
        {
            notice(&text);
        }
        let mut sampler_results = self.window.summarize(common.keep_per_episode_custom_metrics);
        sampler_results.insert("episodes_this_iter".into(), json!(episodes_this_iter));
        sampler_results
            .insert("sampler_perf".into(), Value::Object(self.workers.ledger.sampler_perf().report()));

        let mut learner = Map::new();
        for (id, info) in info.policies() {
            let means = info.means();
            if let Some((name, value)) = means.iter().find(|(_, v)| !v.is_finite()) {
                let hint = "lower `lr`, set `grad_clip`, or scale rewards and observations".to_owned();
                let what = format!("the statistic `{name}` of the learner of `{id}`");
                return Err(Error::NotFinite {
                    what,
                    value: *value,
                    step: counters.num_env_steps_sampled,
                    hint,
                });
            }
            let mut policy = Map::new();
            let mut stats = json!(means);
            let timestep = counters.num_env_steps_sampled;
            let current = self
                .workers
                .learners
                .lend(|policies, _| Ok::<_, Error>(policies.get_mut(id)?.current_values(timestep)))?;
            if let Some(stats) = stats.as_object_mut() {
                stats.extend(current.into_iter().map(|(k, v)| (k, json!(v))));
            }
            policy.insert("learner_stats".into(), stats);
            policy.insert("custom_metrics".into(), json!(info.custom_means()));
            policy.insert("num_agent_steps_trained".into(), json!(info.rows()));
            if let Some(error) = info.mean_td_error() {
                policy.insert("mean_td_error".into(), json!(error));
            }
            learner.insert(id.into(), Value::Object(policy));
        }
        let sampled = counters.num_env_steps_sampled;
        let trained = counters.num_env_steps_trained;
        let (agents_sampled, agents_trained) =
            (counters.num_agent_steps_sampled, counters.num_agent_steps_trained);
        let counts = json!({
            "num_env_steps_sampled": sampled,
            "num_agent_steps_sampled": agents_sampled,
            "num_env_steps_trained": trained,
            "num_agent_steps_trained": agents_trained,
            "num_target_updates": counters.num_target_updates,
            "last_target_update_ts": counters.last_target_update_ts,
            "num_weight_syncs": counters.num_weight_syncs,
        });
        let mut block = Map::new();
        block.insert("learner".into(), Value::Object(learner));
        if let Value::Object(counts) = &counts {
            block.extend(counts.clone());
        }
        block.insert("policy_lag".into(), json!(self.workers.ledger.policy_lag()));
        block.extend(self.workers.ledger.learner_queue_sizes().map(|sizes| ("learner_queue".into(), sizes)));

        let mut result = Metrics::new();
        result.extend(sampler_results.clone());
        result.insert("sampler_results".into(), Value::Object(sampler_results));
        result.insert("info".into(), Value::Object(block));
        result.insert("num_healthy_workers".into(), json!(self.workers.num_healthy_workers()));
        result.insert("num_remote_worker_restarts".into(), json!(self.workers.num_worker_restarts()));
        if self.workers.common().num_learners > 1 {
            result.insert("num_healthy_learners".into(), json!(self.workers.num_healthy_learners()));
            result.insert("num_learner_restarts".into(), json!(self.workers.num_learner_restarts()));
        }
        for (key, value) in [
            ("num_env_steps_sampled", sampled),
            ("num_agent_steps_sampled", agents_sampled),
            ("num_env_steps_trained", trained),
            ("num_agent_steps_trained", agents_trained),
            ("num_env_steps_sampled_this_iter", sampled - before.num_env_steps_sampled),
            ("num_env_steps_trained_this_iter", trained - before.num_env_steps_trained),
            ("num_agent_steps_sampled_this_iter", agents_sampled - before.num_agent_steps_sampled),
            ("num_agent_steps_trained_this_iter", agents_trained - before.num_agent_steps_trained),
            ("timesteps_this_iter", sampled - before.num_env_steps_sampled),
            ("timesteps_total", sampled),
            ("agent_timesteps_total", agents_sampled),
        ] {
            result.insert(key.into(), json!(value));
        }
        result.insert("timers".into(), Value::Object(self.workers.ledger.timers()));
        result.insert("counters".into(), counts);
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_environment_without_an_end_is_reported_once() {
        let reports =
            [(0, 19_999), (19_999, 20_001), (20_001, 40_000)].map(|(from, to)| endless("Maze", 2, from, to));
        assert_eq!(reports.iter().filter(|report| report.is_some()).count(), 1);
        let text = reports[1].as_deref().unwrap_or_default();
        assert!(
            text.contains("no episode of Maze has ended in 10000 steps") && text.contains("TimeLimit"),
            "{text}"
        );
    }
}
