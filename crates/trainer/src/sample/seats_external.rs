//! Rows of episodes that other programs play: actions that the programs chose, and episodes that have no end.

use crate::sample::seats::Seats;
use pavlov_learn::experience::Column;

impl Seats {
    /// The slots that the last call of [`act`](Self::act) chose actions for.
    pub(crate) fn acted(&self) -> &[usize] {
        &self.gathered.slots
    }

    /// Whether the policy learns from the probabilities with which actions were drawn.
    pub(crate) fn needs_logp(&self) -> bool {
        self.connector.column(Column::ACTION_LOGP).is_some()
    }

    /// Converts an action that a program chose, in the environment's form, to the policy's form; `logp` is the logarithm of
    /// its probability. If it does not fit, returns the reason as a word and as a sentence.
    pub(crate) fn given(&self, action: &[u8], logp: Option<f32>) -> Result<Vec<u8>, (&'static str, String)> {
        match logp {
            None if self.needs_logp() => {
                let message = "this algorithm learns from its own actions: send `logp`, the logarithm of the probability with \
                               which a copy of the policy drew the action; or let the policy choose (`get_action`)";
                return Err(("logp", message.into()));
            }
            Some(logp) if !logp.is_finite() => {
                return Err(("not_finite", format!("`logp` is {logp}: it must be finite")));
            }
            _ => {}
        }
        self.connector.to_policy(action).map_err(|why| ("action", why))
    }

    /// Replaces the action of an agent's unfinished row, given by its `slot`, by one in the policy's form.
    pub(crate) fn replace_action(&mut self, slot: usize, action: &[u8], logp: Option<f32>) {
        let slots = self.slots();
        let row = self.closed[slot];
        if !self.open[slot] {
            return;
        }
        self.storage.actions.part_mut(row, slot, slots).copy_from_slice(action);
        if let (Some(column), Some(logp)) = (self.connector.column(Column::ACTION_LOGP), logp) {
            let part = self.storage.columns[column].part_mut(row, slot, slots);
            part.copy_from_slice(&logp.to_ne_bytes());
        }
    }

    /// Ends the rows of an agent, given by its `slot`, although its episode has no end: the last finished row counts as
    /// truncated at the observation after it, and the unfinished row is dropped.
    pub(crate) fn cut(&mut self, slot: usize) {
        let slots = self.slots();
        let is_open = self.open[slot];
        let is_seen = is_open || self.due[slot];
        self.open[slot] = false;
        self.due[slot] = false;
        let closed = self.closed[slot];
        if closed == 0 {
            self.abandoned.push(slot);
        }
        if !is_seen || closed == 0 {
            return;
        }
        let row = (closed - 1) * slots + slot;
        // The observation may be the first of an episode; then the row before it belongs to another one, which has ended.
        if self.storage.terminated[row] || self.storage.truncated[row] {
            return;
        }
        self.storage.truncated[row] = true;
        let obs = self.storage.obs.part_mut(closed, slot, slots).to_vec();
        let mask = self.storage.masks.as_mut().map_or_else(Vec::new, |masks| {
            let options = masks.options();
            masks.row(closed)[slot * options..][..options].to_vec()
        });
        let memory = if is_open && !self.before.is_empty() {
            let width = self.before.len() / slots;
            &self.before[slot * width..][..width]
        } else {
            self.connector.memory(slot)
        };
        self.storage.endings.push(row, &obs, mask.into_iter(), memory);
    }

    /// Drops all rows that are not finished.
    pub(crate) fn forget(&mut self) {
        self.due.fill(false);
        self.open.fill(false);
        self.closed.fill(0);
    }

    /// The observation that an agent saw last, given by its `slot`, as the model's input; with `ended` the last one of its
    /// episode.
    pub(crate) fn model_row(&mut self, slot: usize, ended: bool) -> &[f32] {
        let at = (!ended).then_some((self.closed[slot], slot));
        self.connector.model_row(&mut self.storage, at)
    }
}
