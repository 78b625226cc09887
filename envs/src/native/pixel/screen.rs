//! The screen of the games in pixels: 42 x 42 squares in plain colours, with their pixels.

use crate::Frame;

/// Number of squares along each side of the screen. Games give positions in squares from the top left.
pub(super) const SIDE: i32 = 42;

/// A colour, and its grey for screens of one channel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Color {
    rgb: [u8; 3],
    grey: u8,
}

impl Color {
    /// Makes a colour; its grey is the luma of ITU-R BT.601, rounded.
    pub(super) const fn new(red: u8, green: u8, blue: u8) -> Self {
        let luma = 299 * red as u32 + 587 * green as u32 + 114 * blue as u32;
        Self { rgb: [red, green, blue], grey: ((luma + 500) / 1000) as u8 }
    }
}

pub(super) const BLACK: Color = Color::new(0, 0, 0);
pub(super) const WHITE: Color = Color::new(255, 255, 255);

/// The pixels of a game, of which a step redraws only those that change.
#[derive(Clone, Debug)]
pub struct Screen {
    /// Number of pixels along each side of a square.
    scale: usize,
    /// Number of bytes per pixel: 1 for greyscale, 3 for RGB.
    channels: usize,
    pixels: Vec<u8>,
}

impl Screen {
    /// Makes a black screen.
    pub(super) fn new(scale: usize, channels: usize) -> Self {
        let side = SIDE as usize * scale;
        Self { scale, channels, pixels: vec![0; side * side * channels] }
    }

    pub(super) fn clear(&mut self) {
        self.pixels.fill(0);
    }

    /// The bytes of the pixels, row by row from the top, `[height, width, channels]`.
    pub(super) fn pixels(&self) -> &[u8] {
        &self.pixels
    }

    /// Fills the rectangle whose top left corner is `at`; parts outside of the screen are ignored.
    pub(super) fn fill(&mut self, at: [i32; 2], size: [i32; 2], color: Color) {
        let edge = |place: i32| place.clamp(0, SIDE) as usize * self.scale;
        let left = edge(at[0]);
        let right = edge(at[0] + size[0]);
        let top = edge(at[1]);
        let bottom = edge(at[1] + size[1]);
        if left == right || top == bottom {
            return;
        }
        let line = SIDE as usize * self.scale * self.channels;
        for row in self.pixels.chunks_exact_mut(line).take(bottom).skip(top) {
            let part = &mut row[left * self.channels..right * self.channels];
            if self.channels == 1 {
                part.fill(color.grey);
            } else {
                part.chunks_exact_mut(3).for_each(|pixel| pixel.copy_from_slice(&color.rgb));
            }
        }
    }

    /// Converts a screen of three channels to a frame.
    pub(super) fn into_frame(self) -> Frame {
        let side = SIDE as usize * self.scale;
        Frame { width: side, height: side, rgb: self.pixels }
    }
}
