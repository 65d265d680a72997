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

/// The line of a doc comment; `/** … */` is none in gk.
fn comment(doc: &str, span: Span) -> Option<Leaf> {
    // Four slashes begin no doc comment.
    let blank = if doc.starts_with('/') { " " } else { "" };
    (!doc.contains('\n')).then(|| Leaf { doc: true, ..leaf(&format!("///{blank}{doc}"), span) })
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
        assert_eq!(texts("//! inner\n/** block\n comment */ const A".parse().unwrap()), ["const", "A"]);
        assert_eq!(
            texts("#[doc = \"/ a\"] #[doc] #![x]".parse().unwrap()),
            ["/// / a", "#", "[", "doc", "]", "#", "!", "[", "x", "]"]
        );
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
