//! A failing input made smaller: pieces are left out as long as it still fails.

use std::time::{Duration, Instant};

/// The smallest input found that `fails`, within some seconds.
pub fn shrink(input: &[u8], fails: impl Fn(&[u8]) -> bool) -> Vec<u8> {
    let until = Instant::now() + Duration::from_secs(5);
    let mut best = input.to_vec();
    let mut size = best.len() / 2;
    while size > 0 && Instant::now() < until {
        let mut at = 0;
        let mut shorter = false;
        while at < best.len() && Instant::now() < until {
            let mut candidate = best.clone();
            candidate.drain(at..(at + size).min(best.len()));
            if fails(&candidate) {
                best = candidate;
                shorter = true;
            } else {
                at += size;
            }
        }
        if !shorter {
            size /= 2;
        }
    }
    best
}
