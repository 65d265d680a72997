//! `gpu_kernel!("file.gk")`: kernels in a file of their own, relative to the folder of the crate's `Cargo.toml`.

use std::path::{Path, PathBuf};

use gpukc_dsl::diagnostic::{Severity, render};
use gpukc_dsl::source::Source;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;

use crate::expand::{self, Origin};
use crate::signature::Signature;
use crate::{bundle, report};

/// Where a file was named.
pub struct Named {
    path: String,
    span: Span,
}

/// The file, if the macro was given one; or the error, if it was given something that no gk text begins with.
pub fn named(tokens: &[TokenTree]) -> Option<Result<Named, TokenStream>> {
    let (first, rest) = tokens.split_first()?;
    let wrong = |from: &TokenTree, to: &TokenTree| {
        let message = "a file is named by its path alone, in quotes: `gpu_kernel!(\"src/kernels.gk\")`";
        Some(Err(report::error(message, (from.span(), to.span()))))
    };
    match (syn::parse2::<syn::Lit>(first.clone().into()), rest) {
        (Ok(syn::Lit::Str(path)), [] | [TokenTree::Punct(_)]) if path.suffix().is_empty() && rest.iter().all(is_comma) => {
            Some(Ok(Named { path: path.value(), span: first.span() }))
        }
        (Ok(syn::Lit::Str(path)), [next, ..]) if path.suffix().is_empty() => wrong(next, rest.last().unwrap_or(next)),
        (Ok(_), _) => wrong(first, first),
        // `concat!(…)` and the like, which nobody expands for a macro.
        (Err(_), [TokenTree::Punct(sign), last, ..]) if sign.as_char() == '!' && matches!(first, TokenTree::Ident(_)) => {
            wrong(first, last)
        }
        _ => None,
    }
}

fn is_comma(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',')
}

/// The functions of a file's kernels.
pub fn expand(root: &TokenStream, named: &Named) -> TokenStream {
    let here = (named.span, named.span);
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from).unwrap_or_default();
    let path = folder.join(&named.path);
    let (Some(absolute), text) = (path.to_str(), read(&path)) else {
        return report::error("the path of this file is no UTF-8", here);
    };
    let text = match text {
        Ok(text) => text,
        Err(why) => return report::error(&format!("{absolute} can't be read: {why}"), here),
    };
    let source = Source::new(named.path.as_str(), text);
    let checked = gpukc_dsl::check(&source);
    let mut errors = TokenStream::new();
    if checked.failed() {
        let wrong: Vec<_> = checked.problems.iter().filter(|problem| problem.severity == Severity::Error).cloned().collect();
        errors = report::error(&format!("{} is refused\n{}", named.path, render::human(&source, &wrong, false)), here);
    }
    let (name, text) = (&named.path, source.text());
    let binaries = bundle::find(text).map_or(quote!(&[]), |bundle| quote!(::core::include_bytes!(#bundle)));
    let origin = Origin { code: quote!(#text), file: quote!(#name), line: quote!(1), binaries };
    let signatures = Signature::all(&source, checked.program.as_ref(), |_| named.span);
    let functions = signatures.iter().map(|signature| expand::kernel(root, signature, &origin));
    quote! {
        // The only way for a macro to tell cargo that it depends on a file.
        const _: &[::core::primitive::u8] = ::core::include_bytes!(#absolute);
        #(#functions)*
        #errors
    }
}

fn read(path: &Path) -> Result<String, String> {
    let bytes = std::fs::read(path).map_err(|error| error.to_string())?;
    String::from_utf8(bytes).map_err(|error| format!("it is no UTF-8 text: {error}"))
}
