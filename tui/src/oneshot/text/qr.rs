//! QR codes in text. The light modules have the colour of the text: terminals are dark, and codes are dark on light.

use qrcode::render::unicode::Dense1x2;
use qrcode::{EcLevel, QrCode};

use crate::oneshot::sheet::Sheet;

/// Draws a text as a QR code, and prints the text below.
///
/// A character has two modules; with ASCII only, a module has two characters.
pub(super) fn draw(to: &mut Sheet, text: &str, ascii: bool) {
    if let Ok(code) = QrCode::with_error_correction_level(text, EcLevel::L) {
        let drawn = if ascii {
            code.render::<char>().dark_color(' ').light_color('#').module_dimensions(2, 1).build()
        } else {
            let light = Dense1x2::Dark;
            code.render::<Dense1x2>().dark_color(Dense1x2::Light).light_color(light).build()
        };
        for line in drawn.lines() {
            to.line(line);
        }
        to.blank();
    }
    to.line(text);
}
