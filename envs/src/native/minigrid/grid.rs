//! The grid of fields.

use super::cell::Cell;

/// Column and row of a field, counted from the upper left corner.
pub(super) type Pos = (i32, i32);

/// Unit steps of the four directions: right, down, left, up.
pub(super) const DIRECTIONS: [Pos; 4] = [(1, 0), (0, 1), (-1, 0), (0, -1)];

/// A grid in a margin of walls as wide as the agent's view, so that views never index out of bounds.
#[derive(Clone, Debug)]
pub(super) struct Grid {
    pub(super) width: i32,
    pub(super) height: i32,
    margin: i32,
    stride: i32,
    cells: Vec<Cell>,
}

impl Grid {
    pub(super) fn new(width: i32, height: i32, margin: i32) -> Self {
        let stride = width + 2 * margin;
        let cells = vec![Cell::WALL; (stride * (height + 2 * margin)) as usize];
        Self { width, height, margin, stride, cells }
    }

    /// Empties all fields except the margin.
    pub(super) fn clear(&mut self) {
        for y in 0..self.height {
            let start = self.index((0, y));
            self.cells[start..start + self.width as usize].fill(Cell::EMPTY);
        }
    }

    /// Memory index of a field; fields of the margin have one too.
    #[inline]
    fn index(&self, (x, y): Pos) -> usize {
        ((y + self.margin) * self.stride + x + self.margin) as usize
    }

    #[inline]
    pub(super) fn get(&self, at: Pos) -> Cell {
        self.cells[self.index(at)]
    }

    pub(super) fn set(&mut self, at: Pos, cell: Cell) {
        let index = self.index(at);
        self.cells[index] = cell;
    }

    pub(super) fn contains(&self, (x, y): Pos) -> bool {
        (0..self.width).contains(&x) && (0..self.height).contains(&y)
    }

    /// Iterates over all fields, row by row.
    pub(super) fn cells(&self) -> impl Iterator<Item = (Pos, Cell)> + '_ {
        (0..self.height).flat_map(move |y| (0..self.width).map(move |x| ((x, y), self.get((x, y)))))
    }

    /// Returns the memory index of `start` and the index difference of the step `(dx, dy)`.
    #[inline]
    pub(super) fn walk(&self, start: Pos, (dx, dy): Pos) -> (usize, isize) {
        (self.index(start), (dy * self.stride + dx) as isize)
    }

    #[inline]
    pub(super) fn at_index(&self, index: usize) -> Cell {
        self.cells[index]
    }

    pub(super) fn horizontal(&mut self, (x, y): Pos, length: i32, cell: Cell) {
        (0..length).for_each(|i| self.set((x + i, y), cell));
    }

    pub(super) fn vertical(&mut self, (x, y): Pos, length: i32, cell: Cell) {
        (0..length).for_each(|i| self.set((x, y + i), cell));
    }

    /// Draws walls along the edges of a rectangle.
    pub(super) fn wall_rect(&mut self, (x, y): Pos, (width, height): Pos) {
        self.horizontal((x, y), width, Cell::WALL);
        self.horizontal((x, y + height - 1), width, Cell::WALL);
        self.vertical((x, y), height, Cell::WALL);
        self.vertical((x + width - 1, y), height, Cell::WALL);
    }

    /// Draws walls along the edges of the grid.
    pub(super) fn surround(&mut self) {
        self.wall_rect((0, 0), (self.width, self.height));
    }
}
