//! Problems as rustc errors. rustc lets a macro point at several tokens by the first's and the last's span. It lets none warn, so
//! warnings are left to `gpukc check`.

use gpukc_dsl::diagnostic::{Diagnostic, Severity, json};
use gpukc_dsl::source::{Source, Span as Place};
use proc_macro2::{Delimiter, Group, Ident, Literal, Punct, Spacing, Span, TokenStream, TokenTree};

/// Errors among the problems, each under the tokens that it is about.
pub fn errors(source: &Source, problems: &[Diagnostic], tokens_of: impl Fn(Place) -> (Span, Span)) -> TokenStream {
    let errors = problems.iter().filter(|problem| problem.severity == Severity::Error);
    errors.flat_map(|problem| error(&message(source, problem), tokens_of(problem.span()))).collect()
}

/// `::core::compile_error! { "message" }`, underlined from one token to another.
pub fn error(message: &str, (first, last): (Span, Span)) -> TokenStream {
    let sign = |sign, spacing| {
        let mut punct = Punct::new(sign, spacing);
        punct.set_span(first);
        TokenTree::from(punct)
    };
    let path = |name| [sign(':', Spacing::Joint), sign(':', Spacing::Alone), Ident::new(name, first).into()];
    let mut text = Literal::string(message);
    text.set_span(last);
    let mut group = Group::new(Delimiter::Brace, TokenTree::from(text).into());
    group.set_span(last);
    path("core").into_iter().chain(path("compile_error")).chain([sign('!', Spacing::Alone), group.into()]).collect()
}

/// All that a diagnostic says, in lines.
fn message(source: &Source, problem: &Diagnostic) -> String {
    let mut lines = vec![format!("{} [{}]", problem.message, problem.code)];
    for (nth, label) in problem.labels.iter().enumerate().filter(|(_, label)| !label.text.is_empty()) {
        let code = source.slice(label.span).lines().next().unwrap_or("").trim_end();
        match nth {
            0 => lines.push(label.text.clone()),
            _ => lines.push(format!("`{code}`: {}", label.text)),
        }
    }
    lines.extend(problem.help.iter().map(|help| format!("help: {help}")));
    lines.extend(problem.suggestions.iter().map(|suggestion| format!("help: {}", json::suggestion(source, suggestion))));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_has_labels_help_and_suggestions() {
        let source = Source::new("t", "kernel k(x: f32[n]) -> y: f32[n] { y[i] = x[i - 1]; }");
        let problems = gpukc_dsl::check(&source).problems;
        let text = message(&source, &problems[0]);
        assert!(text.starts_with("`x[i - 1]` reads x[-1] when i = 0"), "{text}");
        assert!(text.contains("[GK02") && text.contains("\nhelp: "), "{text}");
        let tokens = errors(&source, &problems, |_| (Span::call_site(), Span::call_site()));
        assert!(tokens.to_string().starts_with(":: core :: compile_error ! {"), "{tokens}");
    }

    #[test]
    fn warnings_are_no_errors() {
        let source = Source::new("t", "kernel k(x: f32[n]) -> f32 { sum[k] x[k] / 9.0 }");
        let problems = gpukc_dsl::check(&source).problems;
        assert_eq!(problems.len(), 1);
        assert!(errors(&source, &problems, |_| (Span::call_site(), Span::call_site())).is_empty());
    }
}
