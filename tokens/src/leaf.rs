//! A token stream to its tokens in a row, delimiters being tokens too, and doc comments one each.

use proc_macro2::token_stream::IntoIter;
use proc_macro2::{Delimiter, Group, Punct, Spacing, Span, TokenStream, TokenTree};
use syn::ext::IdentExt;

/// A token.
pub(crate) struct Leaf {
    pub text: String,
    pub span: Span,
    /// Nothing may stand between this and the next.
    pub joint: bool,
    /// A doc comment: ends its line.
    pub doc: bool,
}

/// All tokens of a stream. Never recursive: streams may be nested as deep as memory allows.
pub(crate) fn leaves(tokens: TokenStream) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut open: Vec<(std::iter::Peekable<IntoIter>, Option<Leaf>)> = vec![(tokens.into_iter().peekable(), None)];
    while let Some((tokens, _)) = open.last_mut() {
        match tokens.next() {
            Some(TokenTree::Punct(hash)) if hash.as_char() == '#' => {
                // `#![doc = …]` is the comment `//!`, which belongs to nothing in gk.
                let inner = tokens.next_if(|next| matches!(next, TokenTree::Punct(punct) if punct.as_char() == '!'));
                match tokens.peek().and_then(doc_comment) {
                    Some(doc) => {
                        tokens.next();
                        if inner.is_none() {
                            leaves.extend(comment(&doc, hash.span()));
                        }
                    }
                    None => {
                        leaves.push(leaf("#", hash.span()));
                        leaves.extend(inner.map(|token| leaf("!", token.span())));
                    }
                }
            }
            Some(TokenTree::Punct(punct)) => {
                let next = tokens.peek();
                leaves.push(Leaf { joint: joins(&punct, next), ..leaf(&punct.as_char().to_string(), punct.span()) });
            }
            Some(TokenTree::Group(group)) => {
                let (first, last) = delimiters(&group);
                leaves.extend(first);
                open.push((group.stream().into_iter().peekable(), last));
            }
            // Names need not be raw in gk; other macros may have made them so.
            Some(TokenTree::Ident(name)) => leaves.push(leaf(&name.unraw().to_string(), name.span())),
            Some(other) => leaves.push(leaf(&other.to_string(), other.span())),
            None => leaves.extend(open.pop().and_then(|(_, last)| last)),
        }
    }
    leaves
}

fn leaf(text: &str, span: Span) -> Leaf {
    Leaf { text: text.to_owned(), span, joint: false, doc: false }
}

/// What stands around a group's tokens.
fn delimiters(group: &Group) -> (Option<Leaf>, Option<Leaf>) {
    let (first, last) = match group.delimiter() {
        Delimiter::Parenthesis => ("(", ")"),
        Delimiter::Bracket => ("[", "]"),
        Delimiter::Brace => ("{", "}"),
        Delimiter::None => return (None, None),
    };
    (Some(leaf(first, group.span_open())), Some(leaf(last, group.span_close())))
}

/// Whether a sign and the next token are one. Signs that another macro has made may say so of what would begin a comment, or of a
/// doc comment's `#`.
fn joins(punct: &Punct, next: Option<&TokenTree>) -> bool {
    let lifetime = punct.as_char() == '\'' && matches!(next, Some(TokenTree::Ident(_)));
    let comment = |next: char| punct.as_char() == '/' && matches!(next, '/' | '*');
    let sign = matches!(next, Some(TokenTree::Punct(next)) if next.as_char() != '#' && !comment(next.as_char()));
    punct.spacing() == Spacing::Joint && (lifetime || sign)
}

/// A doc comment as gk has them, of lines alone; none if there is nothing in it.
fn comment(doc: &str, span: Span) -> Option<Leaf> {
    // Four slashes begin no doc comment.
    let line = |line: &String| format!("///{}{line}", if line.starts_with('/') { " " } else { "" });
    let lines: Vec<String> = doc_lines(doc).iter().map(line).collect();
    (!lines.is_empty()).then(|| Leaf { doc: true, ..leaf(&lines.join("\n"), span) })
}

/// The lines of a doc comment. One of several lines is a block, which may have stars down its side, or be indented; its first and
/// last lines may be blank.
fn doc_lines(doc: &str) -> Vec<String> {
    let Some((first, block)) = doc.split_once('\n') else { return vec![doc.to_owned()] };
    let starred = block.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('*')) && block.contains('*');
    let indent = |line: &str| line.len() - line.trim_start().len();
    let common = block.lines().filter(|line| !line.trim().is_empty()).map(indent).min().unwrap_or(0);
    let line = |line: &str| match starred {
        true => line.trim_start().trim_start_matches('*').to_owned(),
        false => format!(" {}", line.get(common..).unwrap_or("")),
    };
    let lines: Vec<String> = [first.trim_start_matches('*').to_owned()].into_iter().chain(block.lines().map(line)).collect();
    let blank = |line: &String| line.trim().is_empty();
    let end = lines.iter().rposition(|line| !blank(line)).map_or(0, |last| last + 1);
    lines[..end].iter().skip_while(|line| blank(line)).cloned().collect()
}

/// The text of `[doc = "…"]`, as a doc comment arrives; where another macro has passed it on, invisible delimiters stand around it.
fn doc_comment(token: &TokenTree) -> Option<String> {
    let TokenTree::Group(group) = token else { return None };
    if group.delimiter() != Delimiter::Bracket {
        return None;
    }
    let mut inside: Vec<TokenTree> = group.stream().into_iter().take(4).collect();
    while let [TokenTree::Group(group)] = inside.as_slice()
        && group.delimiter() == Delimiter::None
    {
        inside = group.stream().into_iter().take(4).collect();
    }
    match inside.as_slice() {
        [TokenTree::Ident(name), TokenTree::Punct(equals), text] if name == "doc" && equals.as_char() == '=' => {
            syn::parse2::<syn::LitStr>(text.clone().into()).ok().map(|text| text.value())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(tokens: TokenStream) -> Vec<String> {
        leaves(tokens).into_iter().map(|leaf| leaf.text + if leaf.joint { "~" } else { "" }).collect()
    }

    #[test]
    fn delimiters_are_tokens() {
        assert_eq!(texts("f(x[i], {})".parse().unwrap()), ["f", "(", "x", "[", "i", "]", ",", "{", "}", ")"]);
        let group = Group::new(Delimiter::None, "a + b".parse().unwrap());
        assert_eq!(texts(TokenTree::Group(group).into()), ["a", "+", "b"]);
    }

    #[test]
    fn signs_are_joined_to_signs_alone() {
        assert_eq!(texts("a += -b..=c".parse().unwrap()), ["a", "+~", "=", "-", "b", ".~", ".~", "=", "c"]);
        let joint = |sign| TokenTree::Punct(Punct::new(sign, Spacing::Joint));
        assert_eq!(texts(['/', '/', '=', '*'].map(joint).into_iter().collect()), ["/", "/~", "=~", "*"]);
    }

    #[test]
    fn inner_and_block_docs_are_comments() {
        assert_eq!(texts("//! inner\n/** block\n comment */ const A".parse().unwrap()), ["/// block\n/// comment ", "const", "A"]);
        assert_eq!(
            texts("#[doc = \"/ a\"] #[doc] #![x]".parse().unwrap()),
            ["/// / a", "#", "[", "doc", "]", "#", "!", "[", "x", "]"]
        );
    }

    #[test]
    fn blocks_are_lines_without_their_frame() {
        for (block, lines) in [
            ("/** One. */", vec![" One. "]),
            ("/**\n * Ä.\n *\n *     code\n */", vec![" Ä.", "", "     code"]),
            ("/** Indented.\n\n       more\n         deeper */", vec![" Indented.", " ", " more", "   deeper "]),
            ("/**\n\t- a\r\n\t* b\n*/", vec![" - a", " * b"]),
            ("/**\n *\n */", vec![]),
            ("/**\n / path\n */", vec![" / path"]),
        ] {
            let [TokenTree::Punct(_), TokenTree::Group(group)] = &Vec::from_iter(block.parse::<TokenStream>().unwrap())[..] else {
                panic!("{block}")
            };
            let found = doc_comment(&TokenTree::Group(group.clone())).unwrap();
            assert_eq!(doc_lines(&found), lines, "{block}");
        }
    }

    #[test]
    fn docs_that_macros_pass_on_are_comments() {
        let invisible = |inner: &str| TokenTree::from(Group::new(Delimiter::None, inner.parse().unwrap()));
        let doc = |inner: TokenTree| -> TokenStream {
            let brackets = Group::new(Delimiter::Bracket, inner.into());
            [TokenTree::Punct(Punct::new('#', Spacing::Alone)), brackets.into()].into_iter().collect()
        };
        assert_eq!(texts(doc(invisible("doc = \" a\""))), ["/// a"]);
        let outer = Group::new(Delimiter::None, invisible("doc = \" b\"").into());
        assert_eq!(texts(doc(outer.into())), ["/// b"]);
        assert_eq!(texts(doc(invisible("inline"))), ["#", "[", "inline", "]"]);
    }

    #[test]
    fn raw_names_are_names() {
        assert_eq!(texts("r#type[i] + r".parse().unwrap()), ["type", "[", "i", "]", "+", "r"]);
    }

    #[test]
    fn groups_may_be_deep() {
        let deep = (0..100_000).fold(TokenStream::new(), |inner, _| TokenTree::Group(Group::new(Delimiter::Bracket, inner)).into());
        assert_eq!(leaves(deep).len(), 200_000);
    }
}
