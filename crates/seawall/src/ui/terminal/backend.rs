//! Where frames are written to. A terminal is never asked where its cursor is: a slow or suspended terminal would keep the screens waiting
//! for the answer, and the answer would arrive between the keys.

use std::io::{self, BufWriter, Stdout, stdout};

use ratatui::backend::{Backend, ClearType, CrosstermBackend, WindowSize};
use ratatui::buffer::Cell;
use ratatui::layout::{Position, Size};

/// Standard output, whose cursor is hidden and therefore anywhere.
pub(super) struct Quiet(CrosstermBackend<BufWriter<Stdout>>);

impl Quiet {
    pub(super) fn new() -> Self {
        Self(CrosstermBackend::new(BufWriter::new(stdout())))
    }
}

/// A terminal that doesn't know its size, as of a container that was just attached to, counts as one of the usual size.
fn known(size: Size) -> Size {
    if size.width == 0 || size.height == 0 { Size::new(80, 24) } else { size }
}

impl Backend for Quiet {
    type Error = io::Error;

    fn draw<'a, I: Iterator<Item = (u16, u16, &'a Cell)>>(&mut self, content: I) -> io::Result<()> {
        self.0.draw(content)
    }

    fn hide_cursor(&mut self) -> io::Result<()> {
        self.0.hide_cursor()
    }

    fn show_cursor(&mut self) -> io::Result<()> {
        self.0.show_cursor()
    }

    fn get_cursor_position(&mut self) -> io::Result<Position> {
        Ok(Position::ORIGIN)
    }

    fn set_cursor_position<P: Into<Position>>(&mut self, position: P) -> io::Result<()> {
        self.0.set_cursor_position(position)
    }

    fn clear(&mut self) -> io::Result<()> {
        self.0.clear()
    }

    fn clear_region(&mut self, region: ClearType) -> io::Result<()> {
        self.0.clear_region(region)
    }

    fn size(&self) -> io::Result<Size> {
        self.0.size().map(known)
    }

    fn window_size(&mut self) -> io::Result<WindowSize> {
        self.0.window_size()
    }

    fn flush(&mut self) -> io::Result<()> {
        Backend::flush(&mut self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (told, expected) in [((0, 0), (80, 24)), ((120, 0), (80, 24)), ((1, 1), (1, 1)), ((120, 40), (120, 40))] {
            assert_eq!(known(told.into()), expected.into(), "{told:?}");
        }
    }
}
