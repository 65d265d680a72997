//! What lies between tokens: comments, and how many lines they are apart. The text has been parsed, so every comment ends.

use std::collections::VecDeque;

/// A comment, without the white space around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Comment<'a> {
    /// As written, except for spaces at the end of a `//` line.
    pub text: &'a str,
    /// Line ends between what stands before it and it.
    pub newlines: usize,
}

impl Comment<'_> {
    /// `//` rather than `/* */`.
    pub fn is_line(&self) -> bool {
        self.text.starts_with("//")
    }
}

/// A place in a text, between two tokens.
pub struct Cursor<'a> {
    text: &'a str,
    /// Where the next token starts.
    next: usize,
    /// The comments before it that have not been taken.
    pub comments: VecDeque<Comment<'a>>,
    /// Line ends between the last of them, or the token before, and the next token.
    pub newlines: usize,
}

impl<'a> Cursor<'a> {
    /// Before the first token.
    pub fn new(text: &'a str) -> Cursor<'a> {
        let mut cursor = Cursor { text, next: 0, comments: VecDeque::new(), newlines: 0 };
        cursor.skip_gap();
        cursor
    }

    /// Whether the next token is this one.
    pub fn at(&self, token: &str) -> bool {
        let Some(rest) = self.text[self.next..].strip_prefix(token) else { return false };
        !(token.ends_with(is_letter) && rest.starts_with(is_letter))
    }

    /// Whether no token follows.
    pub fn at_end(&self) -> bool {
        self.next == self.text.len()
    }

    /// The text from the next token up to a place.
    pub fn ahead(&self, end: usize) -> &'a str {
        self.text.get(self.next..end).unwrap_or("")
    }

    /// Passes over the next token, which has this many bytes, and gives it.
    pub fn pass(&mut self, length: usize) -> &'a str {
        let token = &self.text[self.next..self.next + length];
        self.next += length;
        self.skip_gap();
        token
    }

    /// Line ends before whatever comes next, a comment or the token.
    pub fn newlines_ahead(&self) -> usize {
        self.comments.front().map_or(self.newlines, |comment| comment.newlines)
    }

    /// Whether a blank line stands before or after a comment that has not been taken.
    pub fn blank_ahead(&self) -> bool {
        self.newlines > 1 || self.comments.iter().any(|comment| comment.newlines > 1)
    }

    fn skip_gap(&mut self) {
        self.newlines = 0;
        let mut after_doc = false;
        loop {
            let rest = &self.text[self.next..];
            let spaces = rest.find(|c| !is_space(c)).unwrap_or(rest.len());
            self.newlines += rest[..spaces].matches('\n').count();
            if after_doc {
                // No blank line between a doc comment and its item.
                self.newlines = self.newlines.min(1);
            }
            self.next += spaces;
            let Some(end) = comment_end(self.text, self.next) else { return };
            let text = trimmed(&self.text[self.next..end]);
            self.comments.push_back(Comment { text, newlines: self.newlines });
            after_doc = text.starts_with("///") && !text.starts_with("////");
            self.newlines = 0;
            self.next = end;
        }
    }
}

/// White space, a letter of a word.
fn is_space(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

/// A character of a word or a number.
pub fn is_letter(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Where the comment that starts at a place ends, if one does.
fn comment_end(text: &str, start: usize) -> Option<usize> {
    let rest = &text.as_bytes()[start..];
    if rest.starts_with(b"//") {
        return Some(start + rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len()));
    }
    if !rest.starts_with(b"/*") {
        return None;
    }
    let (mut at, mut depth) = (2, 1);
    while depth > 0 && at < rest.len() {
        let mark = &rest[at..];
        let step = if mark.starts_with(b"*/") {
            depth -= 1;
            2
        } else if mark.starts_with(b"/*") {
            depth += 1;
            2
        } else {
            1
        };
        at += step;
    }
    Some(start + at.min(rest.len()))
}

fn trimmed(comment: &str) -> &str {
    if comment.starts_with("//") { comment.trim_end() } else { comment }
}

/// What formatting must not change: the code without white space and without the signs that may come and go, and the comments.
pub fn essence(text: &str) -> (String, Vec<String>) {
    let (mut code, mut comments) = (String::new(), Vec::new());
    let mut at = 0;
    while let Some(c) = text[at..].chars().next() {
        if let Some(end) = comment_end(text, at) {
            comments.push(trimmed(&text[at..end]).replace("\r\n", "\n"));
            at = end;
            continue;
        }
        at += c.len_utf8();
        match c {
            ' ' | '\t' | '\r' | '\n' => continue,
            ')' | '{' if code.ends_with(',') => drop(code.pop()),
            ';' if code.ends_with('}') => continue,
            _ => {}
        }
        code.push(c);
    }
    (code, comments)
}
