//! Pictures of fields: each tile is drawn once with three times the resolution and averaged down, as in MiniGrid.

use std::{
    f64::consts::PI,
    sync::{Arc, OnceLock},
};

use super::{
    cell::{BALL, BOX, CLOSED, Cell, DOOR, FLOOR, GOAL, KEY, KINDS, LAVA, LOCKED, OPEN, RGB, STATES, WALL},
    scalar::MiniGridObs,
    view::View,
    world::World,
};

type Rgb = [u8; 3];
const BLACK: Rgb = [0; 3];

/// Tiles for all field contents, with and without the agent, highlighted or not.
#[derive(Debug)]
pub(super) struct Tiles {
    /// Width and height of a tile in pixels.
    pub(super) size: usize,
    drawn: Vec<OnceLock<Box<[u8]>>>,
}

/// Number of agent variants of a tile: no agent, or one in four directions.
const AGENTS: usize = 5;

impl Tiles {
    /// Creates tiles that are drawn when first used.
    pub(super) fn lazy(size: usize) -> Arc<Self> {
        let count = KINDS * RGB.len() * STATES * AGENTS * 2;
        Arc::new(Self { size, drawn: (0..count).map(|_| OnceLock::new()).collect() })
    }

    /// Creates tiles of all contents that occur and draws them now, so that later steps allocate no memory.
    pub(super) fn ready(size: usize) -> Arc<Self> {
        let tiles = Self::lazy(size);
        let mut cells = vec![Cell::EMPTY, Cell::WALL, Cell::GOAL, Cell::LAVA];
        for color in 0..RGB.len() as u8 {
            cells.extend([KEY, BALL, BOX].map(|kind| Cell::new(kind, color)));
            cells.extend([OPEN, CLOSED, LOCKED].map(|state| Cell::door(color, state)));
        }
        for cell in cells {
            for agent in [None, Some(0), Some(1), Some(2), Some(3)] {
                tiles.get(cell, agent, false);
                tiles.get(cell, agent, true);
            }
        }
        tiles
    }

    fn get(&self, cell: Cell, agent: Option<usize>, highlight: bool) -> &[u8] {
        let [kind, color, state] = cell.encode().map(usize::from);
        let look = (kind * RGB.len() + color) * STATES + state;
        let index = (look * AGENTS + agent.map_or(0, |direction| direction + 1)) * 2 + usize::from(highlight);
        self.drawn[index].get_or_init(|| draw(cell, agent, highlight, self.size))
    }

    /// Draws the agent's view; rows of pixels from the top.
    pub(super) fn paint_view<O: MiniGridObs>(&self, view: &View, out: &mut [O]) {
        for j in 0..view.size {
            for i in 0..view.size {
                let agent = (i == view.size / 2 && j == view.size - 1).then_some(3);
                let (cell, visible) =
                    if view.is_visible(i, j) { (view.get(i, j), true) } else { (Cell::EMPTY, false) };
                self.paint(out, view.size, (i, j), self.get(cell, agent, visible));
            }
        }
    }

    /// Draws the whole grid, rows of pixels from the top. With a `view`, the visible fields are highlighted.
    pub(super) fn paint_world<O: MiniGridObs>(&self, world: &World, view: Option<&View>, out: &mut [O]) {
        for (at, cell) in world.grid.cells() {
            let agent = (at == world.agent).then_some(world.direction);
            let seen = view.is_some_and(|view| view.sees(world, at));
            let place = (at.0 as usize, at.1 as usize);
            self.paint(out, world.grid.width as usize, place, self.get(cell, agent, seen));
        }
    }

    /// Writes a tile into a picture that is `columns` tiles wide.
    fn paint<O: MiniGridObs>(&self, out: &mut [O], columns: usize, (i, j): (usize, usize), tile: &[u8]) {
        let row = 3 * self.size;
        for (y, pixels) in tile.chunks_exact(row).enumerate() {
            let start = ((j * self.size + y) * columns + i) * row;
            for (out, &byte) in out[start..start + row].iter_mut().zip(pixels) {
                *out = O::of(i64::from(byte));
            }
        }
    }
}

/// Number of samples per pixel in each direction.
const SAMPLES: usize = 3;

/// A tile that is being drawn; coordinates go from 0 to 1.
struct Painter {
    side: usize,
    samples: Vec<Rgb>,
}

impl Painter {
    fn fill(&mut self, inside: impl Fn(f64, f64) -> bool, color: Rgb) {
        for (index, sample) in self.samples.iter_mut().enumerate() {
            let place = |at: usize| (at as f64 + 0.5) / self.side as f64;
            if inside(place(index % self.side), place(index / self.side)) {
                *sample = color;
            }
        }
    }

    /// Fills a rectangle, given as left, right, top and bottom.
    fn rect(&mut self, [left, right, top, bottom]: [f64; 4], color: Rgb) {
        self.fill(|x, y| x >= left && x <= right && y >= top && y <= bottom, color);
    }

    fn circle(&mut self, [cx, cy]: [f64; 2], r: f64, color: Rgb) {
        self.fill(|x, y| (x - cx) * (x - cx) + (y - cy) * (y - cy) <= r * r, color);
    }

    /// Draws a line of half width `r` with round ends. End points and direction are single-precision, as in MiniGrid.
    fn line(&mut self, from: [f64; 2], to: [f64; 2], r: f64, color: Rgb) {
        let single = [from, to].map(|end| end.map(|x| x as f32));
        let [dx, dy] = [0, 1].map(|k| single[1][k] - single[0][k]);
        let length = (dx * dx + dy * dy).sqrt();
        let [px, py] = single[0].map(f64::from);
        let [dx, dy] = [dx / length, dy / length].map(f64::from);
        let reach = |k: usize| (from[k].min(to[k]) - r, from[k].max(to[k]) + r);
        let (left, right) = reach(0);
        let (top, bottom) = reach(1);
        let inside = |x: f64, y: f64| {
            if x < left || x > right || y < top || y > bottom {
                return false;
            }
            let along = ((x - px) * dx + (y - py) * dy).clamp(0.0, f64::from(length));
            let off_x = x - (px + along * dx);
            let off_y = y - (py + along * dy);
            (off_x * off_x + off_y * off_y).sqrt() <= r
        };
        self.fill(inside, color);
    }

    /// Draws the agent: a red triangle that points in its direction.
    fn agent(&mut self, direction: usize) {
        let [a, b, c] = [[0.12_f32, 0.19], [0.87, 0.50], [0.12, 0.81]];
        let [v0, v1] = [c, b].map(|corner| [corner[0] - a[0], corner[1] - a[1]]);
        let dot = |u: [f32; 2], v: [f32; 2]| u[0] * v[0] + u[1] * v[1];
        let dot00 = dot(v0, v0);
        let dot01 = dot(v0, v1);
        let dot11 = dot(v1, v1);
        let inverse = f64::from(1.0 / (dot00 * dot11 - dot01 * dot01));
        let [dot00, dot01, dot11] = [dot00, dot01, dot11].map(f64::from);
        let (sin, cos) = (-(0.5 * PI * direction as f64)).sin_cos();
        let inside = |x: f64, y: f64| {
            let x = x - 0.5;
            let y = y - 0.5;
            let (x, y) = (0.5 + x * cos - y * sin, 0.5 + y * cos + x * sin);
            let v2 = [x - f64::from(a[0]), y - f64::from(a[1])];
            let along = |v: [f32; 2]| f64::from(v[0]) * v2[0] + f64::from(v[1]) * v2[1];
            let dot02 = along(v0);
            let dot12 = along(v1);
            let u = (dot11 * dot02 - dot01 * dot12) * inverse;
            let v = (dot00 * dot12 - dot01 * dot02) * inverse;
            u >= 0.0 && v >= 0.0 && u + v < 1.0
        };
        self.fill(inside, RGB[0]);
    }

    fn object(&mut self, cell: Cell) {
        let color = RGB[cell.color() as usize];
        let whole = [0.0, 1.0, 0.0, 1.0];
        match cell.kind() {
            GOAL | WALL => self.rect(whole, color),
            FLOOR => self.rect([0.031, 1.0, 0.031, 1.0], color.map(|part| part / 2)),
            LAVA => {
                self.rect(whole, [255, 128, 0]);
                for wave in 0..3 {
                    let low = 0.3 + 0.2 * f64::from(wave);
                    let high = 0.4 + 0.2 * f64::from(wave);
                    for (left, right, y) in [
                        (0.1, 0.3, [low, high]),
                        (0.3, 0.5, [high, low]),
                        (0.5, 0.7, [low, high]),
                        (0.7, 0.9, [high, low]),
                    ] {
                        self.line([left, y[0]], [right, y[1]], 0.03, BLACK);
                    }
                }
            }
            DOOR => match cell.state() {
                OPEN => {
                    self.rect([0.88, 1.0, 0.0, 1.0], color);
                    self.rect([0.92, 0.96, 0.04, 0.96], BLACK);
                }
                LOCKED => {
                    self.rect(whole, color);
                    self.rect([0.06, 0.94, 0.06, 0.94], color.map(|part| (0.45 * f64::from(part)) as u8));
                    self.rect([0.52, 0.75, 0.50, 0.56], color);
                }
                _ => {
                    for (k, margin) in [0.0, 0.04, 0.08, 0.12].into_iter().enumerate() {
                        let far = [1.0, 0.96, 0.92, 0.88][k];
                        self.rect([margin, far, margin, far], if k % 2 == 0 { color } else { BLACK });
                    }
                    self.circle([0.75, 0.5], 0.08, color);
                }
            },
            KEY => {
                self.rect([0.50, 0.63, 0.31, 0.88], color);
                self.rect([0.38, 0.50, 0.59, 0.66], color);
                self.rect([0.38, 0.50, 0.81, 0.88], color);
                self.circle([0.56, 0.28], 0.19, color);
                self.circle([0.56, 0.28], 0.064, BLACK);
            }
            BALL => self.circle([0.5, 0.5], 0.31, color),
            BOX => {
                self.rect([0.12, 0.88, 0.12, 0.88], color);
                self.rect([0.18, 0.82, 0.18, 0.82], BLACK);
                self.rect([0.16, 0.84, 0.47, 0.53], color);
            }
            _ => {}
        }
    }

    /// Highlights the tile: mixes it with 30 % white.
    fn highlight(&mut self) {
        for part in self.samples.iter_mut().flatten() {
            *part = (f64::from(*part) + 0.30 * f64::from(255 - *part)) as u8;
        }
    }

    /// Averages the samples of each pixel, first within rows, then over rows.
    fn shrink(&self) -> Box<[u8]> {
        let size = self.side / SAMPLES;
        let mean = |values: [f64; SAMPLES]| values.iter().sum::<f64>() / SAMPLES as f64;
        let mut pixels = Vec::with_capacity(size * size * 3);
        for (y, x) in (0..size).flat_map(|y| (0..size).map(move |x| (y, x))) {
            for part in 0..3 {
                let sample = |dx: usize, dy: usize| {
                    self.samples[(SAMPLES * y + dy) * self.side + SAMPLES * x + dx][part]
                };
                let row = |dy: usize| mean([0, 1, 2].map(|dx| f64::from(sample(dx, dy))));
                pixels.push(mean([0, 1, 2].map(row)) as u8);
            }
        }
        pixels.into()
    }
}

fn draw(cell: Cell, agent: Option<usize>, highlight: bool, size: usize) -> Box<[u8]> {
    let side = SAMPLES * size;
    let mut painter = Painter { side, samples: vec![BLACK; side * side] };
    // The lines between fields.
    painter.rect([0.0, 0.031, 0.0, 1.0], [100; 3]);
    painter.rect([0.0, 1.0, 0.0, 0.031], [100; 3]);
    painter.object(cell);
    if let Some(direction) = agent {
        painter.agent(direction);
    }
    if highlight {
        painter.highlight();
    }
    painter.shrink()
}
