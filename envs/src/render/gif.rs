//! Encodes GIF animations without a display or ffmpeg: one palette for all frames, and per frame only the rectangle
//! that changed.

use std::{collections::HashMap, io::Write};

use gif::{DisposalMethod, Encoder, Repeat};

use crate::{Error, Frame, Result};

/// Number of colours in a GIF's palette.
const COLORS: usize = 256;

type Rgb = [u8; 3];

/// Encodes frames of equal size as a GIF animation that repeats, with `render_fps` frames per second (50 if it is not
/// known). Returns the content of the file.
///
/// # Errors
/// Returns [`Error::Other`] if there are no pictures or if they differ in size.
pub fn encode_gif(frames: &[Frame], render_fps: Option<f64>) -> Result<Vec<u8>> {
    let mut content = Vec::new();
    encode(&mut content, frames, frame_delay(render_fps)).map_err(Error::other)?;
    Ok(content)
}

/// Time between frames in hundredths of a second, for 50 frames per second if `render_fps` is unknown. The result is
/// at least 2, because most viewers show smaller values as 10.
fn frame_delay(render_fps: Option<f64>) -> u16 {
    let per_second = render_fps.filter(|rate| rate.is_finite() && *rate > 0.0).unwrap_or(50.0);
    (100.0 / per_second).round().clamp(2.0, f64::from(u16::MAX)) as u16
}

fn encode(out: impl Write, frames: &[Frame], delay: u16) -> std::result::Result<(), String> {
    let Some(first) = frames.first() else {
        return Err("the environment draws no pictures: implement `render` for it, or draw nothing".into());
    };
    if frames.iter().any(|frame| (frame.width, frame.height) != (first.width, first.height)) {
        return Err("the pictures differ in size".into());
    }
    let side = |side: usize| {
        u16::try_from(side).map_err(|_| format!("a GIF has sides of 65535 at most, not {side}"))
    };
    let width = side(first.width)?;
    let height = side(first.height)?;
    let rectangles: Vec<Rectangle> = (0..frames.len()).map(|i| Rectangle::changed(frames, i)).collect();
    let mut palette = Palette::of(frames.iter().zip(&rectangles));
    let mut encoder = Encoder::new(out, width, height, palette.colors.as_flattened()).map_err(said)?;
    encoder.set_repeat(Repeat::Infinite).map_err(said)?;
    for (frame, rectangle) in frames.iter().zip(rectangles) {
        let buffer: Vec<u8> = rectangle.pixels(frame).map(|color| palette.index(color)).collect();
        let part = gif::Frame {
            delay,
            dispose: DisposalMethod::Keep,
            left: rectangle.left as u16,
            top: rectangle.top as u16,
            width: rectangle.width as u16,
            height: rectangle.height as u16,
            buffer: buffer.into(),
            ..gif::Frame::default()
        };
        encoder.write_frame(&part).map_err(said)?;
    }
    Ok(())
}

fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// A part of a picture, at least one pixel.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Rectangle {
    left: usize,
    top: usize,
    width: usize,
    height: usize,
}

impl Rectangle {
    /// The smallest rectangle around all pixels of frame `i` that differ from the frame before; the whole picture for
    /// the first frame.
    fn changed(frames: &[Frame], i: usize) -> Rectangle {
        let frame = &frames[i];
        let Some(before) = i.checked_sub(1).map(|i| &frames[i]) else {
            return Rectangle { left: 0, top: 0, width: frame.width, height: frame.height };
        };
        let row_bytes = 3 * frame.width;
        let rows = frame.rgb.chunks_exact(row_bytes).zip(before.rgb.chunks_exact(row_bytes)).enumerate();
        let mut corners: Option<[usize; 4]> = None;
        for (y, (now, then)) in rows.filter(|(_, (now, then))| now != then) {
            let mut differing = (0..frame.width).filter(|x| now[3 * x..3 * x + 3] != then[3 * x..3 * x + 3]);
            let Some(from) = differing.next() else { continue };
            let to = differing.next_back().unwrap_or(from);
            let [left, top, right, _] = corners.unwrap_or([from, y, to, y]);
            corners = Some([left.min(from), top, right.max(to), y]);
        }
        let [left, top, right, bottom] = corners.unwrap_or_default();
        Rectangle { left, top, width: right - left + 1, height: bottom - top + 1 }
    }

    fn pixels<'a>(&self, frame: &'a Frame) -> impl Iterator<Item = Rgb> + 'a {
        let Rectangle { left, top, width, height } = *self;
        let all = frame.rgb.as_chunks::<3>().0;
        let frame_width = frame.width;
        (top..top + height).flat_map(move |y| all[y * frame_width + left..][..width].iter().copied())
    }
}

/// The most frequent colours of an animation, and for each colour seen the index of the nearest colour in the
/// palette.
struct Palette {
    colors: Vec<Rgb>,
    indices: HashMap<Rgb, u8>,
    /// The last colour and its index, because neighbouring pixels are mostly equal.
    last: Option<(Rgb, u8)>,
}

impl Palette {
    fn of<'a>(parts: impl Iterator<Item = (&'a Frame, &'a Rectangle)>) -> Palette {
        let mut counts: HashMap<Rgb, u64> = HashMap::new();
        for (frame, rectangle) in parts {
            let mut run: Option<(Rgb, u64)> = None;
            for color in rectangle.pixels(frame) {
                match &mut run {
                    Some((same, n)) if *same == color => *n += 1,
                    other => {
                        if let Some((color, n)) = other.replace((color, 1)) {
                            *counts.entry(color).or_default() += n;
                        }
                    }
                }
            }
            if let Some((color, n)) = run {
                *counts.entry(color).or_default() += n;
            }
        }
        let mut colors: Vec<(u64, Rgb)> = counts.into_iter().map(|(color, n)| (n, color)).collect();
        colors.sort_by(|a, b| b.cmp(a));
        let colors: Vec<Rgb> = colors.into_iter().take(COLORS).map(|(_, color)| color).collect();
        let indices = colors.iter().enumerate().map(|(i, color)| (*color, i as u8)).collect();
        Palette { colors, indices, last: None }
    }

    fn index(&mut self, color: Rgb) -> u8 {
        match self.last {
            Some((same, index)) if same == color => return index,
            _ => {}
        }
        let colors = &self.colors;
        let index = *self.indices.entry(color).or_insert_with(|| {
            let nearest = (0..colors.len()).min_by_key(|&i| distance(colors[i], color));
            nearest.unwrap_or_default() as u8
        });
        self.last = Some((color, index));
        index
    }
}

fn distance(a: Rgb, b: Rgb) -> u32 {
    a.iter().zip(b).map(|(&a, b)| u32::from(a.abs_diff(b)).pow(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A white picture of 4 x 3 with some pixels painted.
    fn frame(painted: &[(usize, usize, Rgb)]) -> Frame {
        let mut rgb = vec![255; 4 * 3 * 3];
        for (x, y, color) in painted {
            rgb[3 * (y * 4 + x)..][..3].copy_from_slice(color);
        }
        Frame { width: 4, height: 3, rgb }
    }

    const RED: Rgb = [255, 0, 0];
    const BLUE: Rgb = [0, 0, 255];

    #[test]
    fn a_decoder_gets_back_every_pixel_of_every_frame() {
        let frames =
            [frame(&[]), frame(&[(1, 1, RED), (2, 1, BLUE)]), frame(&[(2, 1, BLUE)]), frame(&[(2, 1, BLUE)])];
        let mut file = Vec::new();
        encode(&mut file, &frames, 2).unwrap();

        let mut options = gif::DecodeOptions::new();
        options.set_color_output(gif::ColorOutput::RGBA);
        let mut decoder = options.read_info(file.as_slice()).unwrap();
        let mut canvas = vec![0; 4 * 3 * 3];
        let mut seen = Vec::new();
        while let Some(part) = decoder.read_next_frame().unwrap() {
            assert_eq!(part.delay, 2);
            for (i, pixel) in part.buffer.as_chunks::<4>().0.iter().enumerate() {
                let x = i % usize::from(part.width);
                let y = i / usize::from(part.width);
                let at = 3 * ((usize::from(part.top) + y) * 4 + usize::from(part.left) + x);
                canvas[at..at + 3].copy_from_slice(&pixel[..3]);
            }
            seen.push((part.width, part.height, canvas.clone()));
        }
        let canvases: Vec<_> = seen.iter().map(|(_, _, canvas)| canvas.clone()).collect();
        assert_eq!(canvases, frames.map(|frame| frame.rgb));
        let sizes: Vec<_> = seen.iter().map(|(width, height, _)| (*width, *height)).collect();
        assert_eq!(sizes, [(4, 3), (2, 1), (1, 1), (1, 1)]);
    }

    #[test]
    fn a_colour_beyond_the_palette_becomes_the_nearest_in_it() {
        // The palette has room for 256 of the 300 colours.
        let rgb: Vec<u8> = (0..300_u32).flat_map(|i| [(i % 256) as u8, (i / 256) as u8 * 200, 0]).collect();
        let frames = [Frame { width: 300, height: 1, rgb }];
        let rectangle = Rectangle::changed(&frames, 0);
        let mut palette = Palette::of(std::iter::once((&frames[0], &rectangle)));
        assert_eq!(palette.colors.len(), 256);
        let kept = palette.colors.clone();
        let lost = (0..=255).map(|red| [red, 0, 0]).find(|color| !kept.contains(color)).unwrap();
        let found = kept[usize::from(palette.index(lost))];
        assert_eq!(distance(found, lost), kept.iter().map(|&color| distance(color, lost)).min().unwrap());
    }

    #[test]
    fn pictures_follow_each_other_at_the_environments_rate() {
        let rates = [Some(50.0), Some(30.0), Some(15.0), Some(4.0), Some(1000.0), Some(0.0), None];
        assert_eq!(rates.map(frame_delay), [2, 3, 7, 25, 2, 2, 2]);
    }

    #[test]
    fn pictures_of_different_sizes_are_refused() {
        let other = Frame { width: 1, height: 1, rgb: vec![0; 3] };
        let error = encode(Vec::new(), &[frame(&[]), other], 2).unwrap_err();
        assert_eq!(error, "the pictures differ in size");
    }
}
