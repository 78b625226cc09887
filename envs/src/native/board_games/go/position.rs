//! Rules of Go: legal moves, captures and scoring.
//!
//! The rules are those of Minigo (Apache-2.0, Copyright 2018 Google LLC), which PettingZoo uses: no suicide; ko, but no
//! rule against longer repetitions; area scoring.

pub(super) const EMPTY: u8 = 0;

/// A board position with all that the next move depends on. Points are numbered row by row; a stone is 1 + its player.
#[derive(Clone, Debug)]
pub(super) struct Position {
    size: usize,
    pub(super) board: Vec<u8>,
    pub(super) to_play: usize,
    /// Point that may not be played because of ko.
    pub(super) ko: Option<usize>,
    /// Number of passes in a row up to now.
    pub(super) passes: u64,
    /// Whether each action is legal: the points, then the pass.
    pub(super) legal: Vec<bool>,
    /// Number of liberties of the chain at each point; 0 for an empty point.
    liberties: Vec<u16>,
    /// Number of the last search that visited each point.
    marks: Vec<u32>,
    mark: u32,
    chain: Vec<usize>,
}

impl Position {
    /// Creates an empty board; black (player 0) begins.
    pub(super) fn new(size: usize) -> Self {
        let points = size * size;
        let mut position = Self {
            size,
            board: vec![EMPTY; points],
            to_play: 0,
            ko: None,
            passes: 0,
            legal: vec![true; points + 1],
            liberties: vec![0; points],
            marks: vec![0; points],
            mark: 0,
            chain: Vec::with_capacity(points),
        };
        position.update();
        position
    }

    pub(super) fn clear(&mut self) {
        self.board.fill(EMPTY);
        self.to_play = 0;
        self.ko = None;
        self.passes = 0;
        self.update();
    }

    /// Plays an action, which must be legal.
    pub(super) fn play(&mut self, action: usize) {
        let mine = 1 + self.to_play as u8;
        self.to_play = 1 - self.to_play;
        self.ko = None;
        if action == self.board.len() {
            self.passes += 1;
        } else {
            self.passes = 0;
            let theirs = 3 - mine;
            let may_be_ko = self.neighbors(action).all(|point| self.board[point] == theirs);
            self.board[action] = mine;
            let mut captured = 0;
            for neighbor in self.neighbors(action) {
                // The only liberty of this chain was the point of the new stone.
                if self.board[neighbor] == theirs && self.liberties[neighbor] == 1 {
                    self.find_chain(neighbor);
                    captured += self.chain.len();
                    self.chain.iter().for_each(|&point| self.board[point] = EMPTY);
                    self.ko = Some(neighbor);
                }
            }
            self.ko = self.ko.filter(|_| captured == 1 && may_be_ko);
        }
        self.update();
    }

    /// Score of black minus that of white: stones and surrounded points, without komi.
    pub(super) fn lead_of_black(&mut self) -> i64 {
        let points = |color: u8| if color == 1 { 1 } else { -1_i64 };
        let mut lead =
            self.board.iter().filter(|&&color| color != EMPTY).map(|&color| points(color)).sum::<i64>();
        self.begin_marks();
        let first = self.mark;
        for point in 0..self.board.len() {
            if self.board[point] != EMPTY || self.marks[point] >= first {
                continue;
            }
            self.find_region(point);
            let mut borders = [false; 3];
            for &point in &self.chain {
                self.neighbors(point).for_each(|neighbor| borders[self.board[neighbor] as usize] = true);
            }
            match borders {
                [_, true, false] => lead += self.chain.len() as i64,
                [_, false, true] => lead -= self.chain.len() as i64,
                _ => {}
            }
        }
        lead
    }

    /// Computes the liberties and the legal actions from the board.
    pub(super) fn update(&mut self) {
        self.liberties.fill(0);
        for point in 0..self.board.len() {
            if self.board[point] != EMPTY && self.liberties[point] == 0 {
                self.find_chain(point);
                let liberties = self.count_liberties();
                self.chain.iter().for_each(|&stone| self.liberties[stone] = liberties);
            }
        }
        for point in 0..self.board.len() {
            self.legal[point] =
                self.board[point] == EMPTY && self.ko != Some(point) && !self.is_suicide(point);
        }
    }

    fn is_suicide(&self, point: usize) -> bool {
        let mine = 1 + self.to_play as u8;
        self.neighbors(point).all(|neighbor| match self.board[neighbor] {
            EMPTY => false,
            color if color == mine => self.liberties[neighbor] == 1,
            _ => self.liberties[neighbor] > 1,
        })
    }

    fn begin_marks(&mut self) {
        if self.mark > u32::MAX / 2 {
            self.marks.fill(0);
            self.mark = 0;
        }
        self.mark += 1;
    }

    /// Fills `chain` with the points of the same color that are connected with `start`, in a new search.
    fn find_chain(&mut self, start: usize) {
        self.begin_marks();
        self.find_region(start);
    }

    /// Fills `chain` with the points of the same color that are connected with `start`, in the current search.
    fn find_region(&mut self, start: usize) {
        let size = self.size;
        let color = self.board[start];
        self.marks[start] = self.mark;
        self.chain.clear();
        self.chain.push(start);
        let mut next = 0;
        while let Some(&point) = self.chain.get(next) {
            for neighbor in neighbors(size, point) {
                if self.board[neighbor] == color && self.marks[neighbor] != self.mark {
                    self.marks[neighbor] = self.mark;
                    self.chain.push(neighbor);
                }
            }
            next += 1;
        }
    }

    /// Counts the empty points next to `chain`.
    fn count_liberties(&mut self) -> u16 {
        let mut liberties = 0;
        for &point in &self.chain {
            for neighbor in neighbors(self.size, point) {
                if self.board[neighbor] == EMPTY && self.marks[neighbor] != self.mark {
                    self.marks[neighbor] = self.mark;
                    liberties += 1;
                }
            }
        }
        liberties
    }

    fn neighbors(&self, point: usize) -> impl Iterator<Item = usize> + use<> {
        neighbors(self.size, point)
    }
}

/// Returns the neighbouring points on the board: above, left, right and below.
fn neighbors(size: usize, point: usize) -> impl Iterator<Item = usize> {
    let row = point / size;
    let column = point % size;
    let above = (row > 0).then(|| point - size);
    let left = (column > 0).then(|| point - 1);
    let right = (column + 1 < size).then(|| point + 1);
    let below = (row + 1 < size).then(|| point + size);
    [above, left, right, below].into_iter().flatten()
}
