//! N-step transitions, as Ray's `adjust_nstep` makes them. But truncated episodes are bootstrapped, rows near an end,
//! which look ahead fewer steps, have the discount of these steps, and the end of a fragment cuts nothing: rows there wait
//! for their rewards until the next fragment.

use crate::base::{Array, ArrayRef};
use crate::experience::batch::SampleBatch;
use crate::experience::columns::Column;
use crate::experience::fragment::Fragment;
use crate::experience::waiting::{WaitingRows, WaitingSteps};

/// Rows `[rows, width]` of bytes that lie in several places, numbered one place after the other.
struct Bytes<'a> {
    width: usize,
    parts: Vec<&'a [u8]>,
}

impl<'a> Bytes<'a> {
    /// The rows of a fragment in two `parts`, followed by those of all copies that wait.
    fn of(
        width: usize,
        parts: [&'a [u8]; 2],
        waiting: &'a WaitingRows,
        old: fn(&WaitingSteps) -> &[u8],
    ) -> Self {
        let all = parts.into_iter().chain(waiting.copies.iter().map(old));
        Self { width, parts: all.filter(|part| !part.is_empty()).collect() }
    }

    /// The row with the number `i`.
    fn row(&self, i: usize) -> &'a [u8] {
        let mut start = i * self.width;
        for part in &self.parts {
            if start < part.len() {
                return &part[start..][..self.width];
            }
            start -= part.len();
        }
        panic!("row {i} of fewer")
    }

    /// The rows with these numbers, one after the other.
    fn rows(&self, index: &[usize]) -> Vec<u8> {
        let mut data = Vec::with_capacity(index.len() * self.width);
        index.iter().for_each(|&i| data.extend_from_slice(self.row(i)));
        data
    }
}

impl Fragment<'_> {
    /// Makes rows of `(obs, action, sum of rewards, observation n steps later, terminated, gamma^n)`, copy by copy.
    ///
    /// The sum stops at the end of an episode. Such a row looks ahead fewer than `n` steps, and the exponent of its
    /// discount is that number. In a truncated episode `terminated` is 0, and the observation after the last step is the
    /// last of that episode.
    ///
    /// A row whose `n` steps go beyond the fragment is left in [`waiting`](Self::waiting), and a later fragment makes it;
    /// without `waiting` it looks ahead to the end of the fragment only.
    pub fn transitions(&self, n_step: usize, gamma: f64) -> SampleBatch {
        let f = self;
        let copies = f.num_envs;
        let stored = f.steps * copies;
        let mut waiting =
            f.waiting.map(|waiting| std::mem::take(&mut *waiting.borrow_mut())).unwrap_or_default();
        if waiting.copies.len() != copies {
            waiting.copies = vec![WaitingSteps::default(); copies];
        }
        // With fewer steps than before a resume, rows that wait would be complete already.
        waiting
            .copies
            .iter_mut()
            .filter(|steps| steps.rewards.len() >= n_step)
            .for_each(|steps| *steps = WaitingSteps::default());
        f.abandoned.iter().for_each(|&copy| waiting.copies[copy] = WaitingSteps::default());
        let mut ending = vec![usize::MAX; stored];
        for (k, &row) in f.ended.iter().enumerate() {
            ending[row] = k;
        }
        // Places of observations: first those of `obs`, flattened time-major, then `final_obs`, then those that wait.
        let finals = stored + copies;
        let old = finals + f.ended.len();
        // As many rows as there are steps, at most: lists that grow would allocate.
        let most =
            waiting.copies.iter().zip(0..).map(|(steps, copy)| steps.rewards.len() + f.length(copy)).sum();
        let [mut rewards, mut terminated, mut discounts] = [(); 3].map(|()| Vec::<f32>::with_capacity(most));
        // For each row the places of its observation, its action and its next observation.
        let [mut from, mut acted, mut next] = [(); 3].map(|()| Vec::<usize>::with_capacity(most));
        // For each copy the number of rows made.
        let mut made = Vec::with_capacity(copies);
        let mut first_old = 0;
        for (copy, before) in waiting.copies.iter().enumerate() {
            let waited = before.rewards.len();
            let steps = waited + f.length(copy);
            let mut row = 0;
            while row < steps {
                let mut sum = 0.0;
                let mut discount = 1.0;
                let mut end = usize::MAX;
                let mut ahead = row;
                while ahead < (row + n_step).min(steps) && end == usize::MAX {
                    let at = ahead.checked_sub(waited).map(|t| t * copies + copy);
                    sum += discount * f64::from(at.map_or_else(|| before.rewards[ahead], |at| f.rewards[at]));
                    discount *= gamma;
                    end = at.map_or(usize::MAX, |at| ending[at]);
                    ahead += 1;
                }
                let is_whole = ahead - row == n_step || end != usize::MAX;
                if !is_whole && f.waiting.is_some() {
                    break;
                }
                // A row ends in this fragment: with its last step it would have been made before.
                let last = (ahead - 1).saturating_sub(waited) * copies + copy;
                rewards.push(sum as f32);
                discounts.push(discount as f32);
                terminated.push(f32::from(f.terminated[last]));
                next.push(if end == usize::MAX { last + copies } else { finals + end });
                match row.checked_sub(waited) {
                    Some(t) => {
                        from.push(t * copies + copy);
                        acted.push(t * copies + copy);
                    }
                    None => {
                        from.push(old + first_old + row);
                        acted.push(stored + first_old + row);
                    }
                }
                row += 1;
            }
            first_old += waited;
            made.push(row);
        }

        let rows = rewards.len() as i64;
        let masks = f.masks.as_ref();
        let obs_width = f.obs.bytes().len() / finals;
        let action_width = f.actions.bytes().len() / stored;
        let mask_width = masks.map_or(0, |masks| masks.rows.bytes().len() / finals);
        let obs = Bytes::of(obs_width, [f.obs.bytes(), f.final_obs.bytes()], &waiting, |steps| &steps.obs);
        let actions = Bytes::of(action_width, [f.actions.bytes(), &[]], &waiting, |steps| &steps.actions);
        let mask_parts = masks.map_or([&[][..]; 2], |masks| [masks.rows.bytes(), masks.behind.bytes()]);
        let flags = Bytes::of(mask_width, mask_parts, &waiting, |steps| &steps.masks);
        let array = |bytes: &Bytes<'_>, index: &[usize], like: ArrayRef<'_>| {
            Array::from_bytes(like.kind(), &[&[rows], &like.shape()[2..]].concat(), &bytes.rows(index))
        };
        let mut batch = SampleBatch::default()
            .with(Column::OBS, array(&obs, &from, f.obs))
            .with(Column::ACTIONS, array(&actions, &acted, f.actions))
            .with_f32s(Column::REWARDS, &rewards)
            .with(Column::NEW_OBS, array(&obs, &next, f.obs))
            .with_f32s(Column::TERMINATED, &terminated)
            .with_f32s(Column::DISCOUNTS, &discounts);
        if let Some(masks) = masks {
            batch.set(Column::ACTION_MASK, array(&flags, &from, masks.rows));
            batch.set(Column::NEW_ACTION_MASK, array(&flags, &next, masks.rows));
        }
        if let Some(place) = f.waiting {
            let still = made.iter().enumerate().map(|(copy, &made)| {
                let before = &waiting.copies[copy];
                let waited = before.rewards.len();
                let kept = made.min(waited);
                let new = (made.max(waited) - waited..f.length(copy)).map(|t| t * copies + copy);
                let joined = |old: &[u8], width: usize, new_of: &Bytes<'_>| {
                    let mut bytes = old[kept * width..].to_vec();
                    new.clone().for_each(|at| bytes.extend_from_slice(new_of.row(at)));
                    bytes
                };
                WaitingSteps {
                    obs: joined(&before.obs, obs_width, &obs),
                    actions: joined(&before.actions, action_width, &actions),
                    masks: if masks.is_some() {
                        joined(&before.masks, mask_width, &flags)
                    } else {
                        Vec::new()
                    },
                    rewards: before.rewards[kept..]
                        .iter()
                        .copied()
                        .chain(new.clone().map(|at| f.rewards[at]))
                        .collect(),
                }
            });
            let still = still.collect();
            place.borrow_mut().copies = still;
        }
        batch
    }
}
