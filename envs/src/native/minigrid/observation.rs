//! Observations of the agent: MiniGrid's dict, or the output of its observation wrappers.

use std::sync::Arc;

use super::{
    cell::{AGENT, KINDS, RED, RGB, STATES},
    grid::Pos,
    scalar::MiniGridObs,
    settings::{Common, TILE_SIZES, outside},
    task::Missions,
    tiles::Tiles,
    view::View,
    world::World,
};
use crate::{Space, WrapperSpec};

/// What the image of an observation shows.
#[derive(Clone, Debug)]
enum Image {
    /// Kind, colour and state of the fields in the agent's view.
    Partial,
    /// Kind, colour and state of the fields in the agent's view, one-hot encoded.
    OneHotPartial,
    /// Kind, colour and state of all fields.
    Full,
    /// Pixels of the fields in the agent's view.
    PartialPixels(Arc<Tiles>),
    /// Pixels of all fields.
    FullPixels(Arc<Tiles>),
}

/// Number of bytes of a one-hot encoded field.
const BITS: usize = KINDS + RGB.len() + STATES;

/// Writes observations and draws pictures.
#[derive(Clone, Debug)]
pub(super) struct Observer {
    image: Image,
    image_only: bool,
    see_through_walls: bool,
    highlight: bool,
    view: View,
}

impl Observer {
    /// Creates the observer that the settings ask for, or returns an error message. With `image_only` it writes the image
    /// alone.
    pub(super) fn new(common: &Common, see_through_walls: bool, image_only: bool) -> Result<Self, String> {
        let image = match &common.wrappers[..] {
            [] => Image::Partial,
            [one] => Self::image(one)?,
            [first, second, ..] => {
                return Err(format!(
                    "`wrappers` has {first} and {second}, but only one can make the image; ImgObsWrapper may stand last"
                ));
            }
        };
        let view = View::new(common.agent_view_size);
        Ok(Self { image, image_only, see_through_walls, highlight: common.highlight, view })
    }

    fn image(wrapper: &WrapperSpec) -> Result<Image, String> {
        let tiles = || -> Result<Arc<Tiles>, String> {
            let size = wrapper.arguments().get(0).map_err(|error| error.to_string())?;
            outside("tile_size", size, TILE_SIZES).map_or_else(|| Ok(Tiles::ready(size)), Err)
        };
        match wrapper.name() {
            "FullyObsWrapper" => Ok(Image::Full),
            "OneHotPartialObsWrapper" => Ok(Image::OneHotPartial),
            "RGBImgObsWrapper" => tiles().map(Image::FullPixels),
            "RGBImgPartialObsWrapper" => tiles().map(Image::PartialPixels),
            name => Err(format!(
                "`wrappers` has {name}, but in `env_config` it takes MiniGrid's own: an image ({}), and ImgObsWrapper behind it",
                "FullyObsWrapper, OneHotPartialObsWrapper, RGBImgObsWrapper or RGBImgPartialObsWrapper"
            )),
        }
    }

    /// Space of the image in a grid of the given size.
    fn image_space(&self, (width, height): Pos) -> Space {
        let width = width as usize;
        let height = height as usize;
        let view = self.view.size;
        Space::image(&match &self.image {
            Image::Partial => [view, view, 3],
            Image::OneHotPartial => [view, view, BITS],
            Image::Full => [width, height, 3],
            Image::PartialPixels(tiles) => [view * tiles.size, view * tiles.size, 3],
            Image::FullPixels(tiles) => [height * tiles.size, width * tiles.size, 3],
        })
    }

    pub(super) fn space(&self, size: Pos, missions: &Missions) -> Space {
        let image = self.image_space(size);
        if self.image_only {
            return image;
        }
        let direction = Space::discrete(4);
        let mission = Space::discrete(missions.len());
        Space::dict([("direction", direction), ("image", image), ("mission", mission)])
    }

    pub(super) fn write<O: MiniGridObs>(&mut self, world: &World, row: &mut [O]) {
        let image = match row {
            [direction, image @ .., mission] if !O::IMAGE_ONLY => {
                *direction = O::of(world.direction as i64);
                *mission = O::of(world.mission);
                image
            }
            image => image,
        };
        match &self.image {
            Image::Full => return write_full(world, image),
            Image::FullPixels(tiles) if !self.highlight => return tiles.paint_world(world, None, image),
            _ => {}
        }
        self.view.look(world, self.see_through_walls);
        match &self.image {
            Image::OneHotPartial => write_one_hot(&self.view, image),
            Image::PartialPixels(tiles) => tiles.paint_view(&self.view, image),
            Image::FullPixels(tiles) => tiles.paint_world(world, Some(&self.view), image),
            Image::Partial | Image::Full => write_partial(&self.view, image),
        }
    }

    /// Draws the picture of `render`: the whole grid, or with `pov` the agent's view. Returns width, height and pixels.
    pub(super) fn render(&mut self, world: &World, tiles: &Tiles, pov: bool) -> (usize, usize, Vec<u8>) {
        self.view.look(world, self.see_through_walls);
        let (columns, rows) = if pov {
            (self.view.size, self.view.size)
        } else {
            (world.grid.width as usize, world.grid.height as usize)
        };
        let width = columns * tiles.size;
        let height = rows * tiles.size;
        let mut pixels = vec![0; width * height * 3];
        if pov {
            tiles.paint_view(&self.view, &mut pixels);
        } else {
            tiles.paint_world(world, self.highlight.then_some(&self.view), &mut pixels);
        }
        (width, height, pixels)
    }
}

/// Calls `write` with the column, the row and the numbers of each field of an image, columns first.
#[inline(always)]
fn for_each_field<O, const N: usize>(
    image: &mut [O],
    rows: usize,
    write: impl Fn(usize, usize, &mut [O; N]),
) {
    for (i, column) in image.chunks_exact_mut(rows * N).enumerate() {
        for (j, field) in column.as_chunks_mut::<N>().0.iter_mut().enumerate() {
            write(i, j, field);
        }
    }
}

fn write_partial<O: MiniGridObs>(view: &View, image: &mut [O]) {
    for_each_field(image, view.size, |i, j, out| {
        *out = view.get(i, j).encode().map(|byte| O::of(i64::from(byte)));
    });
}

fn write_one_hot<O: MiniGridObs>(view: &View, image: &mut [O]) {
    for_each_field(image, view.size, |i, j, bits: &mut [O; BITS]| {
        let [kind, color, state] = view.get(i, j).encode().map(usize::from);
        bits.fill(O::of(0));
        for bit in [kind, KINDS + color, KINDS + RGB.len() + state] {
            bits[bit] = O::of(1);
        }
    });
}

fn write_full<O: MiniGridObs>(world: &World, image: &mut [O]) {
    for_each_field(image, world.grid.height as usize, |i, j, out| {
        let at = (i as i32, j as i32);
        let shown =
            if at == world.agent { [AGENT, RED, world.direction as u8] } else { world.grid.get(at).encode() };
        *out = shown.map(|byte| O::of(i64::from(byte)));
    });
}
