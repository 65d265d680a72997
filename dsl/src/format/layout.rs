//! Where lines break: pieces of text with possible breaks in, lines out.
//!
//! After Wadler and Oppen. A group whose pieces, and what follows up to the next possible break, fit on the line stays flat;
//! else all of its own breaks are line ends, and the groups inside it are tried in turn. A [`Piece::Hard`] in a group breaks it.
//! Line ends and spaces are held back until text comes: several of them in a row are one, and none stand at the end of a line.

/// Lines are no longer, where that is possible.
pub const WIDTH: usize = 100;

const INDENT: usize = 4;

/// A piece of a text to be laid out.
#[derive(Clone, Debug)]
pub enum Piece<'a> {
    /// A token or a comment that ends on the line where it begins.
    Text(&'a str),
    /// A comment of several lines.
    Lines(String),
    /// A comment up to the end of the line. A [`Piece::Hard`] follows before any text.
    Trail(&'a str),
    /// A space.
    Space,
    /// A line end in a broken group; in a flat one a space or nothing.
    Break {
        /// Which of the two.
        space: bool,
    },
    /// A line end.
    Hard {
        /// With a blank line.
        blank: bool,
    },
    /// Lines that begin after this are indented once more.
    Indent,
    /// Once less.
    Dedent,
    /// A group begins; groups are numbered.
    Begin(usize),
    /// It ends.
    End(usize),
    /// Text for the case that a group is broken.
    IfBroken(usize, &'static str),
}

/// What is held back until text comes, in ascending order of importance.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pending {
    Nothing,
    Space,
    Line,
    Blank,
}

struct Renderer {
    out: String,
    column: usize,
    indent: usize,
    pending: Pending,
    /// The group that is flat with all in it.
    flat: Option<usize>,
    /// The groups found not to fit.
    broken: Vec<bool>,
}

/// Lays pieces out. `groups` is how many groups there are. The text neither starts nor ends with a line end.
pub fn render(pieces: &[Piece<'_>], groups: usize) -> String {
    let mut renderer =
        Renderer { out: String::new(), column: 0, indent: 0, pending: Pending::Nothing, flat: None, broken: vec![false; groups] };
    for (at, piece) in pieces.iter().enumerate() {
        renderer.piece(piece, &pieces[at..]);
    }
    renderer.out
}

impl Renderer {
    fn piece(&mut self, piece: &Piece<'_>, from_here: &[Piece<'_>]) {
        match piece {
            Piece::Text(text) | Piece::Trail(text) => self.text(text),
            Piece::Lines(text) => self.text(text),
            Piece::Space => self.hold(Pending::Space),
            Piece::Break { space: false } if self.flat.is_some() => {}
            Piece::Break { .. } if self.flat.is_some() => self.hold(Pending::Space),
            Piece::Break { .. } => self.hold(Pending::Line),
            Piece::Hard { blank } => self.hold(if *blank { Pending::Blank } else { Pending::Line }),
            Piece::Indent => self.indent += 1,
            Piece::Dedent => self.indent = self.indent.saturating_sub(1),
            Piece::Begin(group) if self.flat.is_none() => {
                if self.fits(from_here) {
                    self.flat = Some(*group);
                } else {
                    self.broken[*group] = true;
                }
            }
            Piece::Begin(_) => {}
            Piece::End(group) => {
                if self.flat == Some(*group) {
                    self.flat = None;
                }
            }
            Piece::IfBroken(group, text) => {
                if self.broken[*group] {
                    self.text(text);
                }
            }
        }
    }

    fn hold(&mut self, pending: Pending) {
        self.pending = self.pending.max(pending);
    }

    fn text(&mut self, text: &str) {
        let pending = std::mem::replace(&mut self.pending, Pending::Nothing);
        if !self.out.is_empty() {
            match pending {
                Pending::Nothing => {}
                Pending::Space => {
                    self.out.push(' ');
                    self.column += 1;
                }
                Pending::Line | Pending::Blank => {
                    self.out.push_str(if pending == Pending::Blank { "\n\n" } else { "\n" });
                    self.column = self.indent * INDENT;
                    self.out.extend(std::iter::repeat_n(' ', self.column));
                }
            }
        }
        self.out.push_str(text);
        match text.rsplit_once('\n') {
            Some((_, last)) => self.column = last.chars().count(),
            None => self.column += text.chars().count(),
        }
    }

    /// Whether the group that the pieces start with, and what must follow on its line, fit.
    fn fits(&self, pieces: &[Piece<'_>]) -> bool {
        let (mut column, mut space) = match self.pending {
            Pending::Nothing => (self.column, false),
            Pending::Space => (self.column, true),
            Pending::Line | Pending::Blank => (self.indent * INDENT, false),
        };
        let mut depth = 0usize;
        let mut inside = true;
        for (at, piece) in pieces.iter().enumerate() {
            let text = match piece {
                Piece::Text(text) => *text,
                Piece::IfBroken(group, text) if self.broken[*group] => *text,
                Piece::Lines(_) if inside && !ends(&pieces[at + 1..], depth) => return false,
                Piece::Lines(text) => text.lines().next().unwrap_or(""),
                Piece::Space => {
                    space = true;
                    continue;
                }
                Piece::Break { .. } | Piece::Hard { .. } if !inside => return true,
                Piece::Hard { .. } => return false,
                Piece::Break { space: wide } => {
                    space |= wide;
                    continue;
                }
                Piece::Begin(_) => {
                    depth += usize::from(inside);
                    continue;
                }
                Piece::End(_) => {
                    depth = depth.saturating_sub(1);
                    inside &= depth > 0;
                    continue;
                }
                // A long remark at the end of a line does not break it.
                Piece::Trail(_) | Piece::IfBroken(..) | Piece::Indent | Piece::Dedent => continue,
            };
            column += text.chars().count() + usize::from(std::mem::take(&mut space));
            if column > WIDTH {
                return false;
            }
            if matches!(piece, Piece::Lines(_)) {
                return true;
            }
        }
        true
    }
}

/// Whether so many groups end before anything else comes.
fn ends(pieces: &[Piece<'_>], mut depth: usize) -> bool {
    for piece in pieces {
        match piece {
            Piece::End(_) => depth = depth.saturating_sub(1),
            Piece::Indent | Piece::Dedent | Piece::IfBroken(..) => {}
            _ => return false,
        }
        if depth == 0 {
            return true;
        }
    }
    false
}
