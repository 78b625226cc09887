//! The losses of SAC: of the critics, of the actor, and of the temperature.

use super::{NEXT_NOISE, NOISE, SHARE_OF_ENTROPY, SacPolicy};
use pavlov_trainer::prelude::*;

/// A loss with the name that it is reported by.
type Named<'t> = (&'static str, Value<'t>);

/// The actor's policy in a batch: one drawn action per row, or the probabilities of all discrete choices.
struct Pi<'t> {
    /// The drawn action; `None` for discrete choices.
    a: Option<Value<'t>>,
    logp: Value<'t>,
    /// Probabilities of all choices; `None` for continuous actions.
    p: Option<Value<'t>>,
}

impl<'t> Pi<'t> {
    /// Mean of `x` over all discrete choices by their probabilities; for a drawn continuous action `x` itself.
    fn mean(&self, x: Value<'t>) -> Value<'t> {
        self.p.map_or(x, |p| (p * x).sum_columns())
    }
}

impl SacPolicy {
    /// The loss of the critics, the temperature, the first critic's values as in Ray's statistics, and the error of each row.
    pub(super) fn critic_loss<'t>(
        &self,
        rows: &Rows<'t>,
    ) -> Result<(Named<'t>, Value<'t>, Value<'t>, Value<'t>)> {
        let s = rows.obs()?;
        let s2 = rows.next_obs()?;
        let discount = rows.discounts()?;
        let [a, r] = rows.columns([Column::ACTIONS, Column::REWARDS])?;
        let quantiles = &self.config.quantiles;
        let alpha = self.log_alpha.on(rows.online()).detach().exp();

        // y = r + gamma (min Q'(s', a') - alpha log pi(a'|s')),  a' ~ pi(s')
        let noise = if self.sde.is_some() { NOISE } else { NEXT_NOISE };
        let pi2 = self.pi(rows.frozen(), s2, rows, noise)?;
        let next = quantiles.target(self.said(rows.target(), s2, &pi2)) - alpha * pi2.logp;
        let y = r + discount * pi2.mean(next);
        let q = self.values(rows.online(), s, a);
        let weights = rows.weights()?;
        let size = |q: Value<'t>| quantiles.loss(self.config.critic_loss, q, y);
        let critic_loss: Value<'t> = q.iter().map(|&q| (size(q) * weights).mean()).sum();
        let critic_loss = ("critic_loss", critic_loss * self.config.critic_loss_scale);

        let error = |q: &Value<'t>| (q.mean_columns() - y.mean_columns()).abs();
        let td = q.iter().map(error).sum::<Value<'t>>() / q.len() as f64;
        Ok((critic_loss, alpha, q[0].mean_columns(), td))
    }

    fn pi<'t>(&self, net: Net<'t>, s: Input<'t>, rows: &Rows<'t>, noise: Column) -> Result<Pi<'t>> {
        if let Some(sde) = &self.sde {
            let (features, mean) = self.mean(net, s);
            let deviations = sde.deviations(net);
            let inputs = mean.cat(sde.log_std(features, deviations));
            let noise = sde.noise(features, deviations, rows.get(noise)?);
            let pi = self.dist.at_unbounded(inputs);
            let (a, logp) = pi.rsample_by(noise, self.config.log_prob_epsilon);
            return Ok(Pi { a: Some(a), logp, p: None });
        }
        let head = self.action_inputs(net, s);
        if self.dist.is_discrete() {
            let logp = s.masked(head).log_softmax();
            return Ok(Pi { a: None, logp, p: Some(logp.exp()) });
        }
        let (a, logp) = self.dist.at(head).rsample_with(rows.get(noise)?, self.config.log_prob_epsilon);
        Ok(Pi { a: Some(a), logp, p: None })
    }

    /// The outputs of all critics for the actor's policy `pi` in `s`: of its drawn action, or of all discrete choices.
    fn said<'t>(&self, net: Net<'t>, s: Input<'t>, pi: &Pi<'t>) -> Vec<Value<'t>> {
        let seen = self.q.seen(net, s, &*self.features);
        self.q.on(net, pi.a.map_or(seen, |a| seen.cat(a)))
    }

    /// The target entropy of each row, if it depends on the number of legal choices; else `None`.
    fn target_of_rows<'t>(&self, rows: &Rows<'t>, s: Input<'t>, logp: Value<'t>) -> Option<Value<'t>> {
        let differ = self.dist.is_discrete() && rows.has(Column::ACTION_MASK);
        // Zeros for the legal choices: the sum of their exponentials is the number of legal choices.
        (differ && self.config.target_entropy.is_none())
            .then(|| s.masked(logp.detach() * 0.0).logsumexp() * SHARE_OF_ENTROPY)
    }

    /// The losses of the actor and of the temperature, with their names.
    pub(super) fn actor_losses<'t>(&self, rows: &Rows<'t>) -> Result<[Named<'t>; 2]> {
        let s = rows.obs()?;
        let log_alpha = self.log_alpha.on(rows.online());
        let alpha = log_alpha.detach().exp();
        // The critics' parameters are constant here; the gradient of their values for a ~ pi(s) reaches the actor
        // through a, or through its probability.
        let pi = self.pi(rows.online(), s, rows, NOISE)?;
        let worth = self.config.quantiles.worth(self.said(rows.frozen(), s, &pi));
        let actor_loss = pi.mean(alpha * pi.logp - worth).mean();
        let below_target = match self.target_of_rows(rows, s, pi.logp) {
            Some(targets) => pi.mean(pi.logp).detach() + targets,
            None => pi.mean(pi.logp).detach() + self.target_entropy,
        };
        Ok([("actor_loss", actor_loss), ("alpha_loss", -(log_alpha * below_target).mean())])
    }

    /// Each critic's values of the actions that were taken.
    fn values<'t>(&self, net: Net<'t>, s: Input<'t>, a: Value<'t>) -> Vec<Value<'t>> {
        let seen = self.q.seen(net, s, &*self.features);
        if self.dist.is_discrete() {
            self.q.on(net, seen).into_iter().map(|q| q.gather(a)).collect()
        } else {
            self.q.on(net, seen.cat(a))
        }
    }
}
