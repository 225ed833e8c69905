//! Writes a frame as an SVG picture. It contains no scripts, fonts or links.
//!
//! Each piece of text has its own column and width, and frames are paths, so columns align in every font.

use std::collections::BTreeMap;

use ratatui::buffer::{Buffer, Cell};
use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use crate::console::theme::tests::{Rgb, rgb};

/// Width and height of a cell in pixels.
const CELL: (u16, u16) = (9, 18);
/// Size of the text in pixels. In most monospaced fonts, characters are 0.6 times as wide.
const FONT_SIZE: u16 = 15;
/// Distance from the top of a cell to the baseline of its text.
const BASELINE: u16 = 14;
/// Width of the empty edge around the frame.
const EDGE: u16 = 14;
const FONTS: &str = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace";

/// The colours of a terminal for cells without colours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paper {
    pub(super) text: Rgb,
    pub(super) background: Rgb,
}

/// The style of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Ink {
    text: Rgb,
    background: Rgb,
    is_bold: bool,
    is_underlined: bool,
}

/// A cell with its column.
type Place<'b> = (u16, Ink, &'b str);

impl Paper {
    fn ink(self, cell: &Cell) -> Ink {
        let colors = [rgb(cell.fg, self.text), rgb(cell.bg, self.background)];
        let has = |modifier| cell.modifier.contains(modifier);
        let [background, text] =
            if has(Modifier::REVERSED) { colors } else { [colors[1], colors[0]] };
        let (is_bold, is_underlined) = (has(Modifier::BOLD), has(Modifier::UNDERLINED));
        Ink { text, background, is_bold, is_underlined }
    }
}

/// Returns the frame as an SVG document. The title describes it for screen readers.
pub(super) fn document(buffer: &Buffer, paper: Paper, title: &str) -> String {
    let (mut areas, mut texts) = (String::new(), String::new());
    let mut lines: BTreeMap<(Rgb, u8), String> = BTreeMap::new();
    for row in 0..buffer.area.height {
        let place = |x| (x, paper.ink(&buffer[(x, row)]), buffer[(x, row)].symbol());
        let cells: Vec<Place<'_>> = (0..buffer.area.width).map(place).collect();
        for run in cells.chunk_by(|one, next| one.1 == next.1) {
            if run[0].1.background != paper.background {
                areas += &area(run, row);
            }
        }
        let is_rule = |one: &Place<'_>, next: &Place<'_>| {
            (one.1, one.2) == (next.1, next.2) && ["─", "━"].contains(&one.2)
        };
        for run in cells.chunk_by(is_rule) {
            if let Some((width, path)) = line(run, row) {
                *lines.entry((run[0].1.text, width)).or_default() += &path;
            }
        }
        // Two blanks end a piece.
        for run in cells.chunk_by(|one, next| one.1 == next.1 && !(is_blank(one) && is_blank(next)))
        {
            texts += &text(run, row, paper);
        }
    }
    let lines = lines.iter().map(|((color, width), path)| {
        format!(
            "<path fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\" d=\"{path}\"/>\n",
            hex(*color)
        )
    });
    let (width, height) = (left(buffer.area.width) + EDGE, top(buffer.area.height) + EDGE);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" width=\"{width}\" \
         height=\"{height}\" role=\"img\">\n<!-- Written by `cargo xtask pictures`. -->\n<title>{}</title>\n\
         <rect x=\"1\" y=\"1\" width=\"{}\" height=\"{}\" rx=\"8\" fill=\"{}\" stroke=\"#808080\"/>\n\
         {areas}{}<g font-family=\"{FONTS}\" font-size=\"{FONT_SIZE}\" fill=\"{}\">\n{texts}</g>\n</svg>\n",
        escape(title),
        width - 2,
        height - 2,
        hex(paper.background),
        lines.collect::<String>(),
        hex(paper.text),
    )
}

/// Returns the left edge of a column.
fn left(column: u16) -> u16 {
    EDGE + column * CELL.0
}

/// Returns the top edge of a row.
fn top(row: u16) -> u16 {
    EDGE + row * CELL.1
}

fn width(cells: &[Place<'_>]) -> u16 {
    u16::try_from(cells.len()).unwrap() * CELL.0
}

fn area(run: &[Place<'_>], row: u16) -> String {
    let (x, y, width, height) = (left(run[0].0), top(row), width(run), CELL.1);
    let color = hex(run[0].1.background);
    format!("<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{color}\"/>\n")
}

/// Returns the stroke width and the path of a line character, or of several equal horizontal ones; `None` for text.
fn line(run: &[Place<'_>], row: u16) -> Option<(u8, String)> {
    let (x, y) = (left(run[0].0), top(row));
    let (right, bottom) = (x + width(run), y + CELL.1);
    // Lines one pixel wide are sharp in the middle of a pixel.
    let (middle, center) = (format!("{}.5", x + CELL.0 / 2), format!("{}.5", y + CELL.1 / 2));
    Some(match run[0].2 {
        "─" => (1, format!("M{x} {center}H{right}")),
        "━" => (4, format!("M{x} {center}H{right}")),
        "│" => (1, format!("M{middle} {y}V{bottom}")),
        "┌" => (1, format!("M{right} {center}H{middle}V{bottom}")),
        "┐" => (1, format!("M{x} {center}H{middle}V{bottom}")),
        "└" => (1, format!("M{right} {center}H{middle}V{y}")),
        "┘" => (1, format!("M{x} {center}H{middle}V{y}")),
        _text => return None,
    })
}

fn is_blank(cell: &Place<'_>) -> bool {
    cell.2 == " " || line(std::slice::from_ref(cell), 0).is_some()
}

/// Returns the text of cells with one style, without the blanks at its ends.
fn text(run: &[Place<'_>], row: u16, paper: Paper) -> String {
    let Some(first) = run.iter().position(|cell| !is_blank(cell)) else { return String::new() };
    let last = run.iter().rposition(|cell| !is_blank(cell)).unwrap_or(first);
    let (run, ink) = (&run[first..=last], run[first].1);
    let shown: String = run.iter().map(|cell| if is_blank(cell) { " " } else { cell.2 }).collect();
    let color =
        if ink.text == paper.text { String::new() } else { format!(" fill=\"{}\"", hex(ink.text)) };
    let bold = if ink.is_bold { " font-weight=\"bold\"" } else { "" };
    let underline = if ink.is_underlined { " text-decoration=\"underline\"" } else { "" };
    let (x, y, length) = (left(run[0].0), top(row) + BASELINE, width(run));
    format!(
        "<text x=\"{x}\" y=\"{y}\" textLength=\"{length}\"{color}{bold}{underline}>{}</text>\n",
        escape(&shown)
    )
}

fn hex([red, green, blue]: Rgb) -> String {
    format!("#{red:02x}{green:02x}{blue:02x}")
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// The texts of a picture, each in its column, are the texts of the frame.
#[test]
fn texts_keep_their_columns() {
    let mut buffer = Buffer::empty(Rect::new(0, 0, 24, 2));
    buffer.set_string(0, 0, "│ a<b & \"c\"  │d  >e│f━━·", Style::new());
    buffer.set_string(3, 1, "red", Style::new().fg(Color::Indexed(160)).bold().reversed());
    buffer.set_string(6, 1, " plain", Style::new());
    let paper = Paper { text: [0; 3], background: [255; 3] };
    let picture = document(&buffer, paper, "a & b");
    let mut read = Buffer::empty(buffer.area);
    for line in picture.lines().filter(|line| line.starts_with("<text ")) {
        let number = |name: &str| -> u16 {
            let (_before, rest) = line.split_once(&format!(" {name}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        let (_tag, shown) = line.strip_suffix("</text>").unwrap().split_once('>').unwrap();
        let shown = shown.replace("&lt;", "<").replace("&gt;", ">").replace("&quot;", "\"");
        let shown = shown.replace("&amp;", "&");
        assert_eq!(usize::from(number("textLength") / CELL.0), shown.chars().count(), "{line}");
        let (x, y) = ((number("x") - EDGE) / CELL.0, (number("y") - EDGE) / CELL.1);
        read.set_string(x, y, shown, Style::new());
    }
    let rows = |buffer: &Buffer| -> String { buffer.content().iter().map(Cell::symbol).collect() };
    assert_eq!(rows(&read), rows(&buffer).replace(['│', '━'], " "));
    assert!(picture.contains("<title>a &amp; b</title>"), "{picture}");
    // The red text is reversed: its colour is the background of three cells.
    assert!(picture.contains("width=\"27\" height=\"18\" fill=\"#d70000\""), "{picture}");
    assert!(picture.contains(" fill=\"#ffffff\" font-weight=\"bold\">red<"), "{picture}");
    assert_eq!(picture.matches("H").count(), 1, "one path for both heavy lines: {picture}");
}
