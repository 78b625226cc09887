//! The agent's view: a square ahead of it, without the fields that walls and closed doors hide.

use super::{
    cell::Cell,
    grid::{DIRECTIONS, Pos},
    world::World,
};

/// Largest size of the view, in fields; a row of it must fit the bits of a `u32`.
pub(super) const MAX_VIEW: usize = 31;

/// The agent's view, rotated so that the agent is in the middle of the last row and looks towards the first row.
///
/// Each row of `visible` has one bit per column. Hidden fields keep their contents in `cells`.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) size: usize,
    /// Contents of the fields, row by row.
    cells: Vec<Cell>,
    visible: [u32; MAX_VIEW],
}

impl View {
    pub(super) fn new(size: usize) -> Self {
        Self { size, cells: vec![Cell::UNSEEN; size * size], visible: [0; MAX_VIEW] }
    }

    /// Updates the view from a world.
    #[inline]
    pub(super) fn look(&mut self, world: &World, see_through_walls: bool) {
        match self.size {
            // The default size has its own copy of the loop, with bounds known to the compiler.
            7 => self.look_sized(7, world, see_through_walls),
            size => self.look_sized(size, world, see_through_walls),
        }
    }

    #[inline(always)]
    fn look_sized(&mut self, size: usize, world: &World, see_through_walls: bool) {
        let (_, right) = axes(world.direction);
        let mut opaque = [0_u32; MAX_VIEW];
        for (j, row) in self.cells.chunks_exact_mut(size).enumerate() {
            let (first, step) = world.grid.walk(position(world, size, 0, j), right);
            let mut hides = 0;
            for (i, cell) in row.iter_mut().enumerate() {
                *cell = world.grid.at_index(first.wrapping_add_signed(step * i as isize));
                hides |= u32::from(cell.is_opaque()) << i;
            }
            opaque[j] = hides;
        }
        if see_through_walls {
            self.visible[..size].fill(all(size));
        } else {
            spread(size, &opaque, &mut self.visible);
        }
        // The agent's own field shows the object that it carries.
        self.cells[(size - 1) * size + size / 2] = world.carrying.unwrap_or(Cell::EMPTY);
    }

    pub(super) fn is_visible(&self, i: usize, j: usize) -> bool {
        self.visible[j] >> i & 1 == 1
    }

    /// Contents of the field in column `i` and row `j`; `UNSEEN` if hidden.
    #[inline]
    pub(super) fn get(&self, i: usize, j: usize) -> Cell {
        // `UNSEEN` is 0, so masking replaces an unpredictable branch.
        let all_or_none = 0_u32.wrapping_sub(self.visible[j] >> i & 1);
        Cell(self.cells[j * self.size + i].0 & all_or_none)
    }

    /// Whether a field of the world is visible.
    pub(super) fn sees(&self, world: &World, at: Pos) -> bool {
        let ((dx, dy), (rx, ry)) = axes(world.direction);
        let x = at.0 - world.agent.0;
        let y = at.1 - world.agent.1;
        let size = self.size as i32;
        let i = rx * x + ry * y + size / 2;
        let j = size - 1 - (dx * x + dy * y);
        (0..size).contains(&i) && (0..size).contains(&j) && self.is_visible(i as usize, j as usize)
    }
}

/// Directions ahead of the agent and to its right.
fn axes(direction: usize) -> (Pos, Pos) {
    let (dx, dy) = DIRECTIONS[direction];
    ((dx, dy), (-dy, dx))
}

#[inline(always)]
fn position(world: &World, size: usize, i: usize, j: usize) -> Pos {
    let ((dx, dy), (rx, ry)) = axes(world.direction);
    let ahead = (size - 1 - j) as i32;
    let aside = i as i32 - (size / 2) as i32;
    (world.agent.0 + dx * ahead + rx * aside, world.agent.1 + dy * ahead + ry * aside)
}

const fn all(size: usize) -> u32 {
    u32::MAX >> (32 - size)
}

/// Spreads visibility from the agent, row by row from the last to the first, to the right and then to the left, through
/// fields that are not opaque. Each such field makes its neighbour visible, and the fields ahead of both.
#[inline(always)]
fn spread(size: usize, opaque: &[u32; MAX_VIEW], visible: &mut [u32; MAX_VIEW]) {
    let last = 1 << (size - 1);
    visible[..size].fill(0);
    visible[size - 1] = 1 << (size / 2);
    for j in (0..size).rev() {
        let clear = !opaque[j] & all(size);
        let passed = flow(visible[j], clear & !last, |bits, n| bits << n);
        let lit = visible[j] | passed << 1;
        let back = flow(lit, clear & !1, |bits, n| bits >> n);
        visible[j] = lit | back >> 1;
        if j > 0 {
            visible[j - 1] |= passed | passed << 1 | back | back >> 1;
        }
    }
}

/// Extends the bits of `from` within `through` in the direction of `shift`, up to the next gap in `through`.
#[inline(always)]
fn flow(from: u32, mut through: u32, shift: impl Fn(u32, u32) -> u32) -> u32 {
    let mut reached = from & through;
    for n in [1, 2, 4, 8, 16] {
        reached |= through & shift(reached, n);
        through &= shift(through, n);
    }
    reached
}
