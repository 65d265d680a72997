//! `gpukc cache path|list|clear|verify`.

use std::time::SystemTime;

use clap::ValueEnum;
use gpukc_runtime::cache::Cache;
use gpukc_runtime::error::bytes_text;

use crate::args::{self, CacheAction};
use crate::failure::Failure;
use crate::output;

pub fn run(args: &args::Cache) -> Result<(), Failure> {
    let Some(action) = args.action else {
        let actions = CacheAction::value_variants().iter().filter_map(|action| action.to_possible_value());
        let actions: Vec<String> = actions.map(|action| action.get_name().to_owned()).collect();
        return Err(Failure::usage(format!("say what to do with the cache: {}", actions.join(", "))));
    };
    // What is on disk can be looked at and removed even while `GPUKC_CACHE=off`.
    let folder = Cache::folder_of_environment()
        .ok_or_else(|| Failure::environment("there is no cache folder: HOME is not set", Some("set GPUKC_CACHE_DIR")))?;
    let cache = Cache::at(&folder);
    let trouble = |error: std::io::Error| Failure::environment(format!("{}: {error}", folder.display()), None);
    match action {
        CacheAction::Path => output::result(format!("{}\n", folder.display())),
        CacheAction::List => {
            let list = cache.list(false).map_err(trouble)?;
            let total = list.iter().map(|listed| listed.bytes).sum();
            let mut text = String::new();
            for listed in &list {
                let notes = listed.notes.as_ref().map_or_else(|why| format!("({why})"), Clone::clone);
                text.push_str(&format!("{:>10}  {:>8}  {notes}\n", bytes_text(listed.bytes), age(listed.used)));
            }
            output::result(text);
            output::note(&format!("{}, {}, in {}", entries(list.len()), bytes_text(total), folder.display()));
        }
        CacheAction::Clear => {
            let count = cache.clear().map_err(trouble)?;
            output::result(format!("{} removed\n", entries(count)));
        }
        CacheAction::Verify => {
            let list = cache.list(true).map_err(trouble)?;
            let mut damaged = 0;
            for listed in &list {
                if let Err(why) = &listed.notes {
                    damaged += 1;
                    output::result(format!("{}: {why}\n", listed.path.display()));
                }
            }
            output::result(format!("{}, {damaged} damaged\n", entries(list.len())));
            if damaged > 0 {
                return Err(Failure::environment(
                    format!("damaged: {}", entries(damaged)),
                    Some("they are replaced when next needed; or `gpukc cache clear`"),
                ));
            }
        }
    }
    Ok(())
}

/// So many of them, in words.
pub(super) fn entries(count: usize) -> String {
    format!("{count} {}", if count == 1 { "entry" } else { "entries" })
}

fn age(time: SystemTime) -> String {
    let seconds = time.elapsed().map_or(0, |age| age.as_secs());
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}
