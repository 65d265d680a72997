//! `gpu_kernel!`: gk text in Rust source to Rust functions, checked while rustc runs.
//!
//! Tokens → `text`: gk text that remembers its tokens → `gpukc_dsl::check` → `report`: problems under those tokens, and
//! `expand`: functions, from the `signature`s. Problems don't keep the functions from being made, so that a wrong kernel
//! gives its own errors and no further ones where it is called.
//!
//! Users write `gpukc::gpu_kernel!`, which puts the path of the crate `gpukc`, whatever it is called there, before the tokens.

mod attributes;
mod bundle;
mod expand;
mod file;
mod report;
mod signature;
mod text;

use gpukc_dsl::source::Source;
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use quote::quote;

use expand::Origin;
use signature::Signature;

/// `[path of gpukc] gk items…` or `[path of gpukc] "file.gk"`.
#[proc_macro]
#[doc(hidden)]
pub fn gpu_kernel(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    let mut tokens = TokenStream::from(input).into_iter();
    let root = match tokens.next() {
        Some(TokenTree::Group(group)) if group.delimiter() == Delimiter::Bracket => group.stream(),
        _ => quote!(::gpukc),
    };
    let tokens: Vec<TokenTree> = tokens.collect();
    let expanded = match file::named(&tokens) {
        Some(Ok(named)) => file::expand(&root, &named),
        Some(Err(error)) => error,
        None => inline(&root, tokens.into_iter().collect()),
    };
    expanded.into()
}

/// Kernels that stand in the macro's braces.
fn inline(root: &TokenStream, tokens: TokenStream) -> TokenStream {
    let (text, file) = text::of(tokens);
    let source = Source::new("gpu_kernel!", text.text.as_str());
    let checked = gpukc_dsl::check(&source);
    let errors = report::errors(&source, &checked.problems, |span| text.tokens_of(span));
    let code = &text.code;
    // `file!()` and `line!()` in what a macro makes are where the user called it.
    let (file, line) = match (file, text.line) {
        (Some(file), Some(line)) => (quote!(#file), quote!(#line)),
        _ => (quote!(::core::file!()), quote!(::core::line!() as ::core::primitive::usize)),
    };
    let origin = Origin { code: quote!(#code), file, line, binaries: quote!(&[]) };
    let signatures = Signature::all(&source, checked.program.as_ref(), |span| text.tokens_of(span).0);
    let functions = signatures.iter().map(|signature| expand::kernel(root, signature, &origin));
    quote!(#(#functions)* #errors)
}
