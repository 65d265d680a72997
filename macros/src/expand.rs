//! A kernel's signature to Rust: a function of its name, and a module of its name with the other ways to call it.
//!
//! Each module is complete in itself, for the macro may stand in a function's body, where a module can't be named from inside of
//! another. All paths are absolute or start at the crate `gpukc`, whatever it is called; names of ours that stand among the
//! user's are hygienic.

use gpukc_dsl::types::Type;
use proc_macro2::{Ident, Literal, Span, TokenStream};
use quote::quote;

use crate::attributes;
use crate::signature::{Signature, Value};

/// Where kernels come from: expressions for the text, the file's name and made binaries; the text's first line in the file.
pub struct Origin {
    /// The text.
    pub code: TokenStream,
    /// The name of the file it stands in.
    pub file: TokenStream,
    /// On which line it starts: an expression too.
    pub line: TokenStream,
    /// A bundle of binaries.
    pub binaries: TokenStream,
}

/// All that Rust sees of a kernel.
pub fn kernel(root: &TokenStream, signature: &Signature, origin: &Origin) -> TokenStream {
    let Origin { code, file, line, binaries } = origin;
    let (name, ident) = (&signature.name, &signature.ident);
    let expand = Expand { root, signature };
    let (main, on) = (expand.returning(true), expand.returning(false));
    let (into, on_into) = (expand.existing(true), expand.existing(false));
    let in_place: TokenStream = signature.in_place.iter().map(|(at, refusal)| expand.in_place(*at, refusal.as_deref())).collect();
    let prepare = expand.prepare(None);
    let results = expand.results_struct();
    let about = format!("Further ways to call the kernel `{name}`, and what it is compiled to.\n\n```text\n{}\n```", signature.header);
    quote! {
        #main

        #[doc = #about]
        #[allow(dead_code, non_camel_case_types, non_snake_case, unreachable_pub, clippy::all, clippy::pedantic)]
        pub mod #ident {
            static KERNEL: #root::__private::Kernel = #root::__private::Kernel::new(#name, #code, #file, #line, #binaries);

            #results
            #on
            #into
            #on_into
            #in_place
            #prepare

            /// The CUDA text that serves every call of this kernel; where it can't run on a GPU yet, a comment that says why.
            pub fn cuda() -> #root::__private::String {
                KERNEL.cuda()
            }

            /// The plan of [`cuda`]'s text: loops, memory, barriers, launches.
            pub fn plan() -> #root::__private::String {
                KERNEL.plan()
            }

            /// For measurements of ours.
            #[doc(hidden)]
            pub fn kernel() -> &'static #root::__private::Kernel {
                &KERNEL
            }
        }
    }
}

struct Expand<'a> {
    root: &'a TokenStream,
    signature: &'a Signature,
}

/// A name of ours among the user's.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

impl Expand<'_> {
    /// The call that gives new arrays: the kernel's own function, or `on` a stream.
    fn returning(&self, main: bool) -> TokenStream {
        let (root, signature) = (self.root, self.signature);
        let (first, target) = self.target(main);
        let parameters = self.parameters(None);
        let result = self.result_type(main);
        let doc = if main { self.documentation() } else { format!("{} on a stream.", signature.link()) };
        let ident = &signature.ident;
        if main {
            let arguments = signature.parameters.iter().map(|value| &value.variable);
            return quote! {
                #[doc = #doc]
                #[allow(dead_code, non_snake_case, unreachable_pub, clippy::all, clippy::pedantic)]
                pub fn #ident(#first #(#parameters),*) -> ::core::result::Result<#result, #root::Error> {
                    #ident::on(#target, #(#arguments),*)
                }
            };
        }
        let (scalars, arrays) = (self.scalars(), self.arrays(None));
        let count = Literal::usize_unsuffixed(signature.results.len());
        let names: Vec<Ident> = (0..signature.results.len()).map(|at| own(&format!("result_{at}"))).collect();
        let value = match signature.results.as_slice() {
            [_] => quote!(#root::__private::typed(#(#names)*)?),
            several => {
                let fields = several.iter().map(|value| &value.ident);
                quote!(Results { #(#fields: #root::__private::typed(#names)?),* })
            }
        };
        quote! {
            #[doc = #doc]
            pub fn on(#first #(#parameters),*) -> ::core::result::Result<#result, #root::Error> {
                let [#(#names),*] = KERNEL.call::<#count>(#target, &[#(#scalars),*], &[#(#arrays),*])?;
                ::core::result::Result::Ok(#value)
            }
        }
    }

    /// The call that writes into existing arrays.
    fn existing(&self, gpu: bool) -> TokenStream {
        let (root, signature) = (self.root, self.signature);
        let (first, target) = self.target(gpu);
        let parameters = self.parameters(None);
        let names: Vec<&Ident> = signature.results.iter().map(|value| &value.variable).collect();
        let types = signature.results.iter().map(|value| self.trait_of(value, "Output"));
        let (scalars, arrays) = (self.scalars(), self.arrays(None));
        let (name, doc) = match gpu {
            true => {
                (own_call("into"), format!("{} into existing arrays, whose shapes must be those of the results.", signature.link()))
            }
            false => (own_call("on_into"), "[`into`] on a stream.".to_owned()),
        };
        quote! {
            #[doc = #doc]
            pub fn #name(#first #(#parameters,)* #(#names: &mut impl #types),*) -> ::core::result::Result<(), #root::Error> {
                KERNEL.call_into(#target, &[#(#scalars),*], &[#(#arrays),*], &[#(#root::__private::taken(#names)),*])
            }
        }
    }

    /// The calls that leave the result in the memory of parameter `at`. Where that is refused they have a bound that no array meets,
    /// so that rustc says why.
    fn in_place(&self, at: usize, refusal: Option<&str>) -> TokenStream {
        let (root, signature) = (self.root, self.signature);
        let (name, parameter) = (&signature.name, &signature.parameters[at].name);
        let bound = refusal.map(|_| own(&format!("InPlace_{parameter}")));
        let parameters = self.parameters(Some((at, bound.as_ref())));
        let (scalars, arrays) = (self.scalars(), self.arrays(Some(at)));
        let number = self.number(at);
        let functions = [true, false].map(|gpu| {
            let (first, target) = self.target(gpu);
            let (function, doc) = match gpu {
                true => (
                    own_call(&format!("in_place_{parameter}")),
                    format!("{} in place: the result is left in `{parameter}`.", signature.link()),
                ),
                false => (own_call(&format!("on_in_place_{parameter}")), format!("[`in_place_{parameter}`] on a stream.")),
            };
            let doc = if refusal.is_some() { quote!(#[doc(hidden)]) } else { quote!(#[doc = #doc]) };
            quote! {
                #doc
                pub fn #function(#first #(#parameters),*) -> ::core::result::Result<(), #root::Error> {
                    KERNEL.call_in_place(#target, &[#(#scalars),*], &[#(#arrays),*], #number)
                }
            }
        });
        let besides = match (refusal, bound) {
            (Some(why), Some(bound)) => {
                let message = format!("`{name}` can't be computed in place of `{parameter}`: {why}");
                let note = format!("`{0}(…)` gives a new array, `{0}::into(…)` writes into another one", signature.ident);
                let label = "this array can't take the result";
                let said = attributes::has_diagnostics()
                    .then(|| quote!(#[diagnostic::on_unimplemented(message = #message, label = #label, note = #note)]));
                quote! {
                    #[doc(hidden)]
                    #said
                    #[doc = #message]
                    pub trait #bound {}
                }
            }
            _ => self.prepare(Some(at)),
        };
        functions.into_iter().chain([besides]).collect()
    }

    /// What makes calls ready, perhaps those in place of a parameter.
    fn prepare(&self, in_place: Option<usize>) -> TokenStream {
        let (root, signature) = (self.root, self.signature);
        let gpu = own("gpu");
        let (function, call) = match in_place.map(|at| &signature.parameters[at].name) {
            None => (own_call("prepare"), format!("{} and [`into`]", signature.link())),
            Some(parameter) => (own_call(&format!("prepare_in_place_{parameter}")), format!("[`in_place_{parameter}`]")),
        };
        let doc = format!(
            "Makes the kernel ready for {call} with arrays of these shapes: compiles and loads it, so that the first call need not.\n\n\
             Arrays must start at multiples of 16 bytes, as all do but some views. A scalar matters where shapes depend on it.\n\n\
             # Errors\n\nIf the shapes or scalars don't suit the signature, or the kernel can't be compiled here."
        );
        let parameters = signature.parameters.iter().map(|value| {
            let ident = &value.variable;
            match value.rank {
                None => {
                    let scalar = self.element(value.element);
                    quote!(#ident: #scalar)
                }
                Some(rank) => {
                    let rank = Literal::usize_unsuffixed(rank);
                    quote!(#ident: [::core::primitive::usize; #rank])
                }
            }
        });
        let scalars = self.scalars();
        let arrays = signature.parameters.iter().filter(|value| value.rank.is_some()).map(|value| &value.variable);
        let number = match in_place.map(|at| self.number(at)) {
            None => quote!(::core::option::Option::None),
            Some(number) => quote!(::core::option::Option::Some(#number)),
        };
        quote! {
            #[doc = #doc]
            pub fn #function(#gpu: &#root::Gpu, #(#parameters),*) -> ::core::result::Result<(), #root::Error> {
                KERNEL.prepare(#gpu, &[#(#scalars),*], &[#(&#arrays),*], #number)
            }
        }
    }

    /// The number of a parameter among those that are arrays.
    fn number(&self, at: usize) -> Literal {
        Literal::usize_unsuffixed(self.signature.parameters[..at].iter().filter(|value| value.rank.is_some()).count())
    }

    /// `gpu: &Gpu,` or `stream: &Stream,`, and the stream.
    fn target(&self, gpu: bool) -> (TokenStream, TokenStream) {
        let root = self.root;
        if gpu {
            let gpu = own("gpu");
            (quote!(#gpu: &#root::Gpu,), quote!(#gpu.stream()))
        } else {
            let stream = own("stream");
            (quote!(#stream: &#root::Stream,), quote!(#stream))
        }
    }

    /// Parameters in order; the one that is computed in place is `&mut`, and may have a bound of its own.
    fn parameters(&self, in_place: Option<(usize, Option<&Ident>)>) -> Vec<TokenStream> {
        let parameter = |(at, value): (usize, &Value)| {
            let ident = &value.variable;
            let taken = in_place.filter(|(place, _)| *place == at);
            let ty = self.trait_of(value, if taken.is_some() { "Output" } else { "Input" });
            match (value.rank, taken) {
                (None, _) => {
                    let scalar = self.element(value.element);
                    quote!(#ident: #scalar)
                }
                (Some(_), Some((_, Some(bound)))) => quote!(#ident: &mut (impl #ty + #bound)),
                (Some(_), Some((_, None))) => quote!(#ident: &mut impl #ty),
                (Some(_), None) => quote!(#ident: &impl #ty),
            }
        };
        self.signature.parameters.iter().enumerate().map(parameter).collect()
    }

    fn scalars(&self) -> Vec<TokenStream> {
        let root = self.root;
        let scalars = self.signature.parameters.iter().filter(|value| value.rank.is_none());
        scalars.map(|Value { variable, .. }| quote!(#root::__private::bits(#variable))).collect()
    }

    /// The parameters that are arrays; the one that is computed in place is taken.
    fn arrays(&self, in_place: Option<usize>) -> Vec<TokenStream> {
        let root = self.root;
        let arrays = self.signature.parameters.iter().enumerate().filter(|(_, value)| value.rank.is_some());
        let array = |(at, Value { variable, .. }): (usize, &Value)| match in_place == Some(at) {
            true => quote!(#root::__private::taken(#variable)),
            false => quote!(#root::__private::given(#variable)),
        };
        arrays.map(array).collect()
    }

    fn element(&self, element: Type) -> TokenStream {
        let root = self.root;
        match element {
            Type::F16 => quote!(#root::half::f16),
            Type::Bf16 => quote!(#root::half::bf16),
            other => {
                let name = Ident::new(other.name(), Span::mixed_site());
                quote!(::core::primitive::#name)
            }
        }
    }

    /// What an array must be to be read or written.
    fn trait_of(&self, value: &Value, name: &str) -> TokenStream {
        let (root, element) = (self.root, self.element(value.element));
        let (name, rank) = (own(name), Literal::usize_unsuffixed(value.rank.unwrap_or(0)));
        quote!(#root::#name<#element, #rank>)
    }

    /// The Rust type of an array; a scalar result is an array without dims.
    fn array(&self, value: &Value) -> TokenStream {
        let (root, element) = (self.root, self.element(value.element));
        let rank = Literal::usize_unsuffixed(value.rank.unwrap_or(0));
        quote!(#root::DeviceArray<#element, #rank>)
    }

    /// What a call gives, seen from outside of the module or from inside.
    fn result_type(&self, outside: bool) -> TokenStream {
        let ident = &self.signature.ident;
        match (self.signature.results.as_slice(), outside) {
            ([only], _) => self.array(only),
            (_, true) => quote!(#ident::Results),
            (_, false) => quote!(Results),
        }
    }

    /// The struct of several results.
    fn results_struct(&self) -> TokenStream {
        let signature = self.signature;
        if signature.results.len() == 1 {
            return TokenStream::new();
        }
        let root = self.root;
        let fields = signature.results.iter().map(|value| {
            let (ident, ty) = (&value.ident, self.array(value));
            let doc = format!("The result `{}`.", value.name);
            quote!(#[doc = #doc] pub #ident: #ty)
        });
        let doc = format!("What {} gives.", signature.link());
        let derive = quote!(#[derive(#root::__private::Debug)]);
        quote! {
            #[doc = #doc]
            #derive
            #[must_use = "results that nobody uses were computed for nothing"]
            pub struct Results {
                #(#fields),*
            }
        }
    }

    /// The documentation of the kernel's function.
    fn documentation(&self) -> String {
        let signature = self.signature;
        let mut doc = signature.doc.join("\n");
        if !doc.is_empty() {
            doc.push_str("\n\n");
        }
        doc.push_str(&format!("```text\n{}\n```\n", signature.header));
        if signature.results.iter().any(|value| value.rank.is_none()) {
            doc.push_str("\nA result that is a scalar is an array without dims; its `value` waits for it.\n");
        }
        doc.push_str(
            "\n# Errors\n\nIf the shapes or scalars don't suit the signature, if the device lacks memory, or if something that the device was \
             asked for before has failed.",
        );
        doc
    }
}

/// A function of ours that users call.
fn own_call(name: &str) -> Ident {
    Ident::new(name, Span::call_site())
}
