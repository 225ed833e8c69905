//! Pictures in the cells of the terminal, by kitty's graphics protocol.
//!
//! A picture is sent once. A frame has it where cells are marked with its id, and the canvas moves it when the marks
//! move. Nothing waits for the terminal's reply, and a terminal that does not reply gets no picture.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Position;
use ratatui::style::{Color, Style};

/// The width and height of a picture in pixels.
pub(crate) const SIDE: usize = 32;
/// The bytes of a picture: red, green, blue and alpha of each pixel.
pub(crate) const BYTES: usize = SIDE * SIDE * 4;
/// The cells of a picture, which are next to each other: about a square.
pub(crate) const CELLS: u16 = 2;

/// The most bytes of one part of a picture.
const PART_BYTES_MAX: usize = 4096;
/// The id of the picture in [`QUERY`], which the terminal does not keep.
const QUERY_ID: u32 = 31;

/// The query whether the terminal shows pictures: it is to check one of one pixel.
pub(super) const QUERY: &str = "\x1b_Gi=31,s=1,v=1,a=q,t=d,f=24;AAAA\x1b\\";
/// The end of a part whose sending was interrupted, which would swallow what follows.
pub(super) const END: &str = "\x1b\\";

/// Returns whether the reply to [`QUERY`], without its escapes, says that the terminal shows pictures.
pub(super) fn shows_pictures(reply: &str) -> bool {
    reply == format!("_Gi={QUERY_ID};OK")
}

/// Returns the first id of this process. Ids have 24 bits, because a mark holds one as a colour.
pub(super) fn base_id() -> u32 {
    0x0001_0000_u32.saturating_add((std::process::id() & 0x7fff) << 8)
}

/// Marks the first cell of a picture: it is blank and has the id as its colour, which no text has.
pub(crate) fn mark(cell: &mut Cell, id: u32) {
    let [_zero, red, green, blue] = id.to_be_bytes();
    cell.set_symbol(" ").set_style(Style::reset().fg(Color::Rgb(red, green, blue)));
}

/// Returns the pictures of a frame: the id of each, and its first cell.
pub(super) fn marked(frame: &Buffer) -> Vec<(u32, Position)> {
    let cells = frame.content();
    // A text that covers the second cell covers the picture.
    let is_blank = |index: usize| cells.get(index).is_some_and(|cell| cell.symbol() == " ");
    let cells = cells
        .iter()
        .enumerate()
        .filter(|(index, _cell)| is_blank(*index) && is_blank(index.saturating_add(1)));
    let at = |(index, cell): (usize, &Cell)| match cell.fg {
        Color::Rgb(red, green, blue) => {
            Some((u32::from_be_bytes([0, red, green, blue]), frame.pos_of(index).into()))
        }
        _no_mark => None,
    };
    cells.filter_map(at).collect()
}

/// Returns the sequence that draws a picture under the text of its cells. The cursor must be on the first one.
pub(super) fn placement(id: u32, number: usize) -> String {
    format!("\x1b_Ga=p,i={id},p={number},c={CELLS},r=1,C=1,z=-1,q=2\x1b\\")
}

/// Returns the sequence that removes a picture from all cells. The terminal keeps it.
pub(super) fn removal(id: u32) -> String {
    format!("\x1b_Ga=d,d=i,i={id},q=2\x1b\\")
}

/// Returns the sequence that sends a picture.
pub(super) fn transmission(id: u32, rgba: &[u8]) -> String {
    let text = STANDARD.encode(rgba);
    let mut sequence = String::with_capacity(text.len().saturating_add(128));
    let mut rest = text.as_str();
    let mut control = format!("a=t,q=2,i={id},f=32,s={SIDE},v={SIDE},");
    loop {
        let (part, after) = rest.split_at_checked(PART_BYTES_MAX).unwrap_or((rest, ""));
        let more = u8::from(!after.is_empty());
        sequence.push_str(&format!("\x1b_G{control}m={more};{part}\x1b\\"));
        if after.is_empty() {
            return sequence;
        }
        (rest, control) = (after, "q=2,".to_owned());
    }
}

/// Returns the sequence that makes the terminal forget a picture.
pub(super) fn deletion(id: u32) -> String {
    format!("\x1b_Ga=d,d=I,i={id},q=2\x1b\\")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_sent_in_parts_and_removed_by_its_id() {
        let sent = transmission(0x1_2345, &[7; BYTES]);
        let parts: Vec<&str> = sent.split("\x1b\\").filter(|part| !part.is_empty()).collect();
        assert_eq!(parts.len(), 2);
        assert!(parts[0].starts_with("\x1b_Ga=t,q=2,i=74565,f=32,s=32,v=32,m=1;"));
        assert!(parts[1].starts_with("\x1b_Gq=2,m=0;"));
        let data: String = parts.iter().filter_map(|part| Some(part.split_once(';')?.1)).collect();
        assert_eq!(STANDARD.decode(data).unwrap(), [7; BYTES]);
        assert!(parts.iter().all(|part| part.len() < PART_BYTES_MAX + 80));
        assert_eq!(deletion(74_565), "\x1b_Ga=d,d=I,i=74565,q=2\x1b\\");
        assert!(QUERY.contains(&format!("i={QUERY_ID},")));
    }

    #[test]
    fn ids_fit_a_colour() {
        let base = base_id();
        assert!(base >= 0x1_0000 && base + 255 <= 0xff_ffff);
    }
}
