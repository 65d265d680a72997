//! Tokens and the comments around them, as pieces of a layout.
//!
//! [`Writer::token`] takes the next token of the source together with its comments: those that end its line belong to it, those
//! before it that do not end an earlier token's line precede it.

use super::gap::{Comment, Cursor, is_letter};
use super::layout::{self, Piece};

/// Collects the pieces of an item.
pub struct Writer<'a> {
    /// The source text.
    pub text: &'a str,
    /// How far it is printed.
    pub cursor: Cursor<'a>,
    pieces: Vec<Piece<'a>>,
    groups: usize,
    /// The line must end before the next text, with a blank line or not.
    line_end: Option<bool>,
    /// The last text is a comment in mid-line.
    after_comment: bool,
    /// The last text is `(` or `[`.
    after_bracket: bool,
    /// The last character of the last token.
    last: char,
    /// How many pieces there were after the last token.
    after_token: usize,
    /// The tree does not say what the source says.
    failed: bool,
}

impl<'a> Writer<'a> {
    /// At the start of a text.
    pub fn new(text: &'a str) -> Writer<'a> {
        Writer {
            text,
            cursor: Cursor::new(text),
            pieces: Vec::new(),
            groups: 0,
            line_end: None,
            after_comment: false,
            after_bracket: false,
            last: ' ',
            after_token: 0,
            failed: false,
        }
    }

    /// What has been written since the last time, laid out; `None` if the tree and the source disagree.
    pub fn take(&mut self) -> Option<String> {
        let text = layout::render(&self.pieces, self.groups);
        self.pieces.clear();
        self.groups = 0;
        self.after_token = 0;
        self.line_end = None;
        self.after_comment = false;
        self.after_bracket = false;
        (!self.failed).then_some(text)
    }

    /// The next token, which must be this one.
    pub fn token(&mut self, token: &str) {
        self.leading(false);
        if token.is_empty() || !self.cursor.at(token) {
            self.failed = true;
            return;
        }
        let token = self.cursor.pass(token.len());
        if let Some(blank) = self.line_end.take() {
            self.pieces.push(Piece::Hard { blank });
        } else if self.after_comment && !matches!(token, ")" | "]" | "," | ";") || glues(self.last, token) {
            self.pieces.push(Piece::Space);
        }
        self.pieces.push(Piece::Text(token));
        self.after_token = self.pieces.len();
        self.after_comment = false;
        self.after_bracket = matches!(token, "(" | "[");
        self.last = token.chars().next_back().unwrap_or(' ');
        self.trailing();
    }

    /// A token that may be left out, with its comments, which stay.
    fn drop_token(&mut self, token: &str) {
        if self.cursor.at(token) {
            self.leading(false);
            self.cursor.pass(token.len());
            self.trailing();
        }
    }

    /// Leaves out a `;`, if one stands here.
    pub fn no_semicolon(&mut self) {
        self.drop_token(";");
    }

    /// A comma after the last element of a list whose group is broken, none if it is flat.
    pub fn last_comma(&mut self, group: usize) {
        self.pieces.insert(self.after_token, Piece::IfBroken(group, ","));
        self.drop_token(",");
    }

    /// The comments at the end of the line of the token just written.
    fn trailing(&mut self) {
        let here = self.cursor.comments.iter().take_while(|comment| comment.newlines == 0).count();
        let newlines = self.cursor.comments.get(here).map_or(self.cursor.newlines, |comment| comment.newlines);
        if here == 0 || newlines == 0 && !self.cursor.at_end() {
            return;
        }
        for _ in 0..here {
            if let Some(comment) = self.cursor.comments.pop_front() {
                self.comment(comment);
            }
        }
        self.line_end = Some(false);
    }

    /// The comments before the next token. `blanks`: blank lines between them are kept.
    pub fn leading(&mut self, blanks: bool) {
        let mut any = false;
        while let Some(comment) = self.cursor.comments.pop_front() {
            self.end_line(comment.newlines, blanks);
            self.comment(comment);
            any = true;
        }
        if any {
            self.end_line(self.cursor.newlines, blanks);
        }
    }

    fn end_line(&mut self, newlines: usize, blanks: bool) {
        if newlines > 0 {
            let blank = blanks && newlines > 1;
            self.line_end = Some(blank || self.line_end.unwrap_or(false));
        }
    }

    fn comment(&mut self, comment: Comment<'a>) {
        if let Some(blank) = self.line_end.take() {
            self.pieces.push(Piece::Hard { blank });
        } else if self.after_comment || comment.is_line() || !self.after_bracket {
            self.pieces.push(Piece::Space);
        }
        if comment.is_line() {
            self.pieces.push(Piece::Trail(comment.text));
            self.line_end = Some(false);
            self.after_comment = false;
            return;
        }
        self.pieces.push(match comment.text.contains('\n') {
            true => Piece::Lines(comment.text.replace("\r\n", "\n")),
            false => Piece::Text(comment.text),
        });
        self.after_comment = true;
    }

    /// A space.
    pub fn space(&mut self) {
        self.pieces.push(Piece::Space);
    }

    /// A possible line end; a space or nothing if there is none.
    pub fn break_here(&mut self, space: bool) {
        if self.line_end.is_some() {
            self.hard(false);
        } else {
            self.pieces.push(Piece::Break { space });
        }
    }

    /// A line end.
    pub fn hard(&mut self, blank: bool) {
        self.line_end = None;
        self.pieces.push(Piece::Hard { blank });
    }

    /// A new line of a block, with its leading comments. A blank line before it is kept unless it is the block's first.
    pub fn line(&mut self, first: bool) {
        self.hard(!first && self.cursor.newlines_ahead() > 1);
        if let Some(comment) = self.cursor.comments.front_mut() {
            comment.newlines = comment.newlines.min(1);
        }
        self.leading(true);
    }

    /// What follows is indented once more.
    pub fn indent(&mut self) {
        self.pieces.push(Piece::Indent);
    }

    /// Once less.
    pub fn dedent(&mut self) {
        self.pieces.push(Piece::Dedent);
    }

    /// A group begins at the next token; comments before that stay outside.
    pub fn begin(&mut self) -> usize {
        self.leading(false);
        if let Some(blank) = self.line_end.take() {
            self.pieces.push(Piece::Hard { blank });
        }
        self.pieces.push(Piece::Begin(self.groups));
        self.groups += 1;
        self.groups - 1
    }

    /// A group ends.
    pub fn end(&mut self, group: usize) {
        self.pieces.push(Piece::End(group));
    }

    /// Whether a comment forces a line end before the next token.
    pub fn line_ends_here(&self) -> bool {
        self.line_end.is_some()
            || self.cursor.comments.iter().any(|comment| comment.newlines > 0 || comment.is_line())
            || !self.cursor.comments.is_empty() && self.cursor.newlines > 0
    }

    /// A bracketed list. `comma`: the last element of a broken list is followed by one.
    pub fn list<T>(&mut self, brackets: [&str; 2], list: &[T], comma: bool, mut each: impl FnMut(&mut Self, &T)) {
        let group = self.begin();
        self.token(brackets[0]);
        self.indent();
        for (nth, element) in list.iter().enumerate() {
            if nth > 0 {
                self.token(",");
            }
            self.break_here(nth > 0);
            each(self, element);
        }
        if comma && !list.is_empty() {
            self.last_comma(group);
        }
        self.leading(false);
        self.dedent();
        if !list.is_empty() {
            self.break_here(false);
        }
        self.token(brackets[1]);
        self.end(group);
    }
}

/// Whether a token would merge with the one that ends in a character: two words, or `1.` and `..`.
fn glues(last: char, token: &str) -> bool {
    is_letter(last) && token.starts_with(is_letter) || last == '.' && token.starts_with('.')
}
