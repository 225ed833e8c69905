//! The real [`Icons`]: reads a PNG from a URL that an explorer supplied, and scales it down.

use std::io::Cursor;

use bursar_outbound::PublicClient;

use crate::ports::{BoxFuture, ICON_SIDE, IconFault, Icons, Pixels};

/// The longest accepted file in bytes.
pub const FILE_BYTES_MAX: usize = 256 << 10;
/// The largest accepted width and height in pixels.
pub const SIDE_MAX: u32 = 512;
/// Timeout of one fetch in milliseconds.
pub const TIMEOUT_MS: u64 = 5_000;

/// Bytes of memory that the decoder may use: a picture of the largest size, and its own buffers.
const DECODER_BYTES_MAX: usize = 4 << 20;

/// Fetches icons from public https servers.
#[derive(Debug)]
pub struct IconHttp {
    client: PublicClient,
}

impl IconHttp {
    /// Creates a client, which opens no connection yet.
    pub fn new() -> Self {
        Self { client: PublicClient::new(TIMEOUT_MS) }
    }
}

impl Default for IconHttp {
    fn default() -> Self {
        Self::new()
    }
}

impl Icons for IconHttp {
    fn fetch<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Pixels, IconFault>> {
        Box::pin(async move {
            let file = self.client.get(url, FILE_BYTES_MAX).await?;
            let decoded = tokio::task::spawn_blocking(move || decode(&file)).await;
            decoded.ok().flatten().ok_or(IconFault::NotAnIcon)
        })
    }
}

/// Decodes a PNG (RFC 2083) and scales it to the size of an icon; `None` if it is not a PNG or is too large.
pub fn decode(file: &[u8]) -> Option<Pixels> {
    let limits = png::Limits { bytes: DECODER_BYTES_MAX };
    let mut decoder = png::Decoder::new_with_limits(Cursor::new(file), limits);
    decoder.set_transformations(png::Transformations::normalize_to_color8());
    let mut reader = decoder.read_info().ok()?;
    let (width, height) = (reader.info().width, reader.info().height);
    if width == 0 || height == 0 || width > SIDE_MAX || height > SIDE_MAX {
        return None;
    }
    let mut bytes = vec![0; reader.output_buffer_size()?];
    let frame = reader.next_frame(&mut bytes).ok()?;
    let pixel = |x: u32, y: u32| -> Option<[u8; 4]> {
        let samples = frame.color_type.samples();
        let at = usize::try_from(y).ok()?.checked_mul(frame.line_size)?;
        let at = at.checked_add(usize::try_from(x).ok()?.checked_mul(samples)?)?;
        let of = bytes.get(at..at.checked_add(samples)?)?;
        Some(match of {
            [grey] => [*grey, *grey, *grey, u8::MAX],
            [grey, alpha] => [*grey, *grey, *grey, *alpha],
            [red, green, blue] => [*red, *green, *blue, u8::MAX],
            [red, green, blue, alpha] => [*red, *green, *blue, *alpha],
            _other => return None,
        })
    };
    let mut pixels = Vec::with_capacity(Pixels::BYTES);
    for y in 0..ICON_SIDE {
        for x in 0..ICON_SIDE {
            // The pixel in the middle of the area that this one stands for.
            let source = |at: u32, side: u32| {
                at.saturating_mul(2).saturating_add(1).saturating_mul(side)
                    / ICON_SIDE.saturating_mul(2)
            };
            pixels.extend_from_slice(&pixel(source(x, width), source(y, height))?);
        }
    }
    Pixels::new(pixels)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Encodes a picture of one colour.
    fn png_of(width: u32, height: u32, color: png::ColorType, pixel: &[u8]) -> Vec<u8> {
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(color);
        encoder.set_depth(png::BitDepth::Eight);
        let count = usize::try_from(width * height).unwrap();
        let mut writer = encoder.write_header().unwrap();
        writer.write_image_data(&pixel.repeat(count)).unwrap();
        writer.finish().unwrap();
        file
    }

    #[test]
    fn every_kind_of_png_is_scaled_to_an_icon() {
        for (color, pixel, shown) in [
            (png::ColorType::Grayscale, &[9][..], [9, 9, 9, 255]),
            (png::ColorType::GrayscaleAlpha, &[9, 7], [9, 9, 9, 7]),
            (png::ColorType::Rgb, &[1, 2, 3], [1, 2, 3, 255]),
            (png::ColorType::Rgba, &[1, 2, 3, 4], [1, 2, 3, 4]),
        ] {
            for (width, height) in [(1, 1), (32, 32), (33, 7), (SIDE_MAX, SIDE_MAX)] {
                let icon = decode(&png_of(width, height, color, pixel)).unwrap();
                assert_eq!(icon.bytes(), shown.repeat(32 * 32), "{color:?} {width}x{height}");
            }
        }
    }

    #[test]
    fn files_other_than_a_small_png_are_not_icons() {
        let valid = png_of(8, 8, png::ColorType::Rgb, &[1, 2, 3]);
        let mut huge = valid.clone();
        // The width and height of IHDR, with its checksum left as it was: neither is decoded.
        huge[16..24].copy_from_slice(&[0, 0, 0xc3, 0x50, 0, 0, 0xc3, 0x50]);
        let wide = png_of(SIDE_MAX + 1, 1, png::ColorType::Grayscale, &[0]);
        let svg = b"<svg xmlns='http://www.w3.org/2000/svg'/>".to_vec();
        let jpeg = vec![0xff, 0xd8, 0xff, 0xe0, 0, 16];
        for file in
            [Vec::new(), svg, b"<!doctype html>".to_vec(), jpeg, huge, wide, valid[..40].to_vec()]
        {
            assert_eq!(decode(&file), None);
        }
        assert!(decode(&valid).is_some());
    }

    proptest! {
        #[test]
        fn no_bytes_stop_the_decoder(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in 0usize..100, flip in any::<u8>()) {
            let _nothing = decode(&bytes);
            let mut damaged = png_of(8, 8, png::ColorType::Rgba, &[1, 2, 3, 4]);
            if let Some(byte) = damaged.get_mut(at) {
                *byte ^= flip;
            }
            let _nothing = decode(&damaged);
        }
    }
}
