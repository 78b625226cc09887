//! Shards of a dataset for workers, and its parts for training and testing.

use pavlov_tune::{Error, Result};

use crate::dataset::Dataset;
use crate::part::{EqualShard, Part};

impl Dataset {
    /// Makes the shard of the worker `rank` of `world_size`: the rows `rank`, `rank + world_size`, and so on.
    ///
    /// Each row is in exactly one shard, and the sizes of shards differ by at most one row. Nothing is read to make a shard.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `rank` is not below `world_size`.
    pub fn shard(&self, rank: usize, world_size: usize) -> Result<Self> {
        refuse_rank(rank, world_size)?;
        Ok(self.part(rank, world_size, None))
    }

    /// Makes a [`shard`](Self::shard) with the same number of rows for each worker, as Ray Train does.
    ///
    /// Workers that train together then end together. Up to `world_size - 1` of the last rows are in no shard.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `rank` is not below `world_size`.
    pub fn equal_shard(&self, rank: usize, world_size: usize) -> Result<Self> {
        refuse_rank(rank, world_size)?;
        Ok(Dataset::from_source(EqualShard { of: self.source.clone(), rank, world_size }))
    }

    /// Splits the dataset into `n` consecutive parts. If the sizes cannot be equal, the first parts have one row more.
    ///
    /// Data that is not in memory is read once to count the rows, and each part reads past the rows before it.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `n` is 0. Fails if the source cannot be opened, or if a row cannot be read.
    pub fn split(&self, n: usize) -> Result<Vec<Self>> {
        if n == 0 {
            return Err(Error::config("n", n, "it must be above 0"));
        }
        let count = self.count()?;
        let ends: Vec<usize> = (1..n).map(|part| part * (count / n) + part.min(count % n)).collect();
        self.split_at_indices(&ends)
    }

    /// Splits the dataset into consecutive parts that begin at row 0 and at each of `indices`.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if an index is below the one before it.
    pub fn split_at_indices(&self, indices: &[usize]) -> Result<Vec<Self>> {
        if !indices.is_sorted() {
            return Err(Error::config("indices", format!("{indices:?}"), "they must not decrease"));
        }
        let starts = std::iter::once(&0).chain(indices);
        let ends = indices.iter().map(Some).chain([None]);
        let part = |(&start, end): (&usize, Option<&usize>)| self.part(start, 1, end.map(|end| end - start));
        Ok(starts.zip(ends).map(part).collect())
    }

    /// Splits the dataset into one part per proportion and one part of the remaining rows. No part is empty.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if there are no proportions, if one is not above 0, if their sum is not below 1, or if
    /// there are too few rows for one in each part. Fails if the source cannot be opened, or if a row cannot be read.
    pub fn split_proportionately(&self, proportions: &[f64]) -> Result<Vec<Self>> {
        let sum: f64 = proportions.iter().sum();
        if proportions.is_empty() || !proportions.iter().all(|&part| part > 0.0) || sum >= 1.0 {
            let rule = "they must be above 0, and their sum below 1: the rest is a part of its own";
            return Err(Error::config("proportions", format!("{proportions:?}"), rule));
        }
        let count = self.count()?;
        if count <= proportions.len() {
            let rule = format!("the dataset has {count} rows: too few for a row in each part");
            return Err(Error::config("proportions", format!("{proportions:?}"), rule));
        }
        let mut covered = 0.0;
        let mut ends: Vec<usize> = Vec::with_capacity(proportions.len());
        for part in proportions {
            covered += part;
            ends.push((count as f64 * covered) as usize);
        }
        // Every part gets at least one row.
        for index in 0..ends.len() {
            let before = if index == 0 { 0 } else { ends[index - 1] };
            ends[index] = ends[index].clamp(before + 1, count - (ends.len() - index));
        }
        self.split_at_indices(&ends)
    }

    /// Splits the dataset into a training part and a test part: the last `test_size` (a fraction from 0 to 1) of the rows.
    ///
    /// If the rows are in a meaningful order, call [`random_shuffle`](Self::random_shuffle) first.
    ///
    /// # Errors
    /// Returns [`Error::Config`] if `test_size` is not between 0 and 1, or if there are fewer than two rows. Fails if
    /// the source cannot be opened, or if a row cannot be read.
    pub fn train_test_split(&self, test_size: f64) -> Result<(Self, Self)> {
        if !(test_size > 0.0 && test_size < 1.0) {
            return Err(Error::config("test_size", test_size, "it must be between 0 and 1"));
        }
        let count = self.count()?;
        if count < 2 {
            let rule = format!("the dataset has {count} rows: too few for a row in each part");
            return Err(Error::config("test_size", test_size, rule));
        }
        let train = ((count as f64 * (1.0 - test_size)) as usize).clamp(1, count - 1);
        Ok((self.part(0, 1, Some(train)), self.part(train, 1, None)))
    }

    /// Makes the dataset of the rows `start`, `start + step`, ..., at most `len` of them.
    pub(crate) fn part(&self, start: usize, step: usize, len: Option<usize>) -> Self {
        Dataset::from_source(Part { of: self.source.clone(), start, step, len })
    }
}

fn refuse_rank(rank: usize, world_size: usize) -> Result<()> {
    if rank < world_size {
        return Ok(());
    }
    let rule = format!("it must be below the number of shards, {world_size}");
    Err(Error::config("rank", rank, rule))
}
