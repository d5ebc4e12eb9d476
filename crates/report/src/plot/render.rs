//! From a picture's drawing code to its two files.

use std::path::Path;

use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;

use super::canvas::{Canvas, PIXELS_PER_UNIT, TextMetrics};
use crate::error::ReportError;
use crate::folder::write_whole;

/// Pixels of the PNG per unit of length: twice the density of a screen.
const PNG_PIXELS_PER_UNIT: u32 = 2;
/// Most pixels of a drawing that is smoothed: three bytes each.
const SMOOTH_PIXELS_MAX: u64 = 60_000_000;
/// Most pixels of any drawing.
const PIXELS_MAX: u64 = 100_000_000;

/// Something that is measured and can draw itself.
pub(crate) trait Picture {
    /// Width and height in units of length.
    fn size(&self) -> (u32, u32);

    /// Returns the number of its panels, for the message that it is too large.
    fn n_panels(&self) -> usize;

    /// Draws it, whatever the canvas is made of.
    fn draw<DB: DrawingBackend>(&self, canvas: &Canvas<'_, DB>) -> Result<(), String>;
}

/// Writes a picture as SVG.
pub(crate) fn write_svg(picture: &impl Picture, path: &Path) -> Result<(), ReportError> {
    let (width, height) = picture.size();
    let size = (width * PIXELS_PER_UNIT, height * PIXELS_PER_UNIT);
    let mut svg = String::new();
    let backend = SVGBackend::with_string(&mut svg, size);
    draw(picture, backend, TextMetrics::Svg, PIXELS_PER_UNIT)
        .map_err(|message| draw_error(path, message))?;
    // Drawn on a fine grid of whole numbers, shown at its real size.
    let fine = format!("<svg width=\"{}\" height=\"{}\"", size.0, size.1);
    let shown = format!("<svg width=\"{width}\" height=\"{height}\"");
    let svg = svg.replacen(&fine, &shown, 1);
    write_whole(path, svg.as_bytes())
}

/// Writes a picture as PNG.
pub(crate) fn write_png(picture: &impl Picture, path: &Path) -> Result<(), ReportError> {
    let (width, height) = picture.size();
    // A very large picture is drawn without smoothing, to save memory, and beyond a limit not at all.
    let n_pixels = |scale: u32| u64::from(width * scale) * u64::from(height * scale);
    let scale = if n_pixels(PIXELS_PER_UNIT) > SMOOTH_PIXELS_MAX {
        PNG_PIXELS_PER_UNIT
    } else {
        PIXELS_PER_UNIT
    };
    if n_pixels(scale) > PIXELS_MAX {
        let message = format!("{} panels are too many for a picture", picture.n_panels());
        return Err(draw_error(path, message));
    }
    let (width, height) = (width * scale, height * scale);
    let mut fine = vec![255; width as usize * height as usize * 3];
    let backend = BitMapBackend::with_buffer(&mut fine, (width, height));
    draw(picture, backend, TextMetrics::Bitmap, scale)
        .map_err(|message| draw_error(path, message))?;
    let factor = scale / PNG_PIXELS_PER_UNIT;
    let coarse = average_blocks(&fine, width as usize, factor as usize);
    let size = (width / factor, height / factor);

    let mut encoded = Vec::new();
    let mut encoder = png::Encoder::new(&mut encoded, size.0, size.1);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder
        .write_header()
        .and_then(|mut writer| writer.write_image_data(&coarse))
        .map_err(|error| draw_error(path, error.to_string()))?;
    write_whole(path, &encoded)
}

fn draw<DB: DrawingBackend>(
    picture: &impl Picture,
    backend: DB,
    text: TextMetrics,
    scale: u32,
) -> Result<(), String> {
    let area = backend.into_drawing_area();
    let canvas = Canvas::new(&area, text, scale);
    picture.draw(&canvas)?;
    canvas.finish()
}

/// Makes the error of a picture from the renderer's answer.
pub(crate) fn draw_error(path: &Path, message: String) -> ReportError {
    ReportError::Draw {
        path: path.to_owned(),
        message,
    }
}

/// Shrinks an RGB image by a whole factor, each pixel the mean of its block: smooth edges for every shape.
fn average_blocks(fine: &[u8], width: usize, factor: usize) -> Vec<u8> {
    let height = fine.len() / 3 / width;
    let area = factor * factor;
    let mut coarse = Vec::with_capacity(fine.len() / area);
    for row in 0..height / factor {
        for column in 0..width / factor {
            for channel in 0..3 {
                let pixel = |index: usize| {
                    let (y, x) = (
                        row * factor + index / factor,
                        column * factor + index % factor,
                    );
                    usize::from(fine[(y * width + x) * 3 + channel])
                };
                let sum: usize = (0..area).map(pixel).sum();
                coarse.push(u8::try_from((sum + area / 2) / area).unwrap_or(u8::MAX));
            }
        }
    }
    coarse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_averaged_by_channel() {
        // 2×2 pixels into one: channels 0, 10, 20, 30 → 15; 1, 1, 1, 2 → 1.25; 255 throughout.
        let fine = [0, 1, 255, 10, 1, 255, 20, 1, 255, 30, 2, 255];
        assert_eq!(average_blocks(&fine, 2, 2), [15, 1, 255]);
    }
}
