//! Room for arrays of the host, and what they are called.

use gpukc_cpu::Tensor;
use gpukc_dsl::types::Type;
use gpukc_runtime::error::bytes_text;

/// `f32[3, 4]`, or `f32` for a scalar.
pub fn kind(element: Type, shape: &[i64]) -> String {
    if shape.is_empty() {
        return element.to_string();
    }
    let extents: Vec<String> = shape.iter().map(i64::to_string).collect();
    format!("{element}[{}]", extents.join(", "))
}

/// Zeros for an input, if this machine has the memory.
pub fn room(element: Type, shape: &[i64], name: &str) -> Result<Tensor, String> {
    let count = shape.iter().try_fold(element.size() as u64, |bytes, &extent| bytes.checked_mul(u64::try_from(extent).ok()?));
    let bytes = if shape.contains(&0) { Some(0) } else { count };
    let bytes = bytes.ok_or_else(|| format!("`{name}`: {} is larger than any memory", kind(element, shape)))?;
    if let Some(available) = lacking(bytes) {
        let (wanted, there) = (bytes_text(bytes), bytes_text(available));
        return Err(format!("`{name}`: {} takes {wanted}, and {there} of memory are available", kind(element, shape)));
    }
    Tensor::zeros(element, shape).ok_or_else(|| format!("`{name}`: no memory for {}", bytes_text(bytes)))
}

/// How much memory there is, if it is less than so many bytes. The system promises more than it has, and ends processes that
/// take its word.
pub fn lacking(bytes: u64) -> Option<u64> {
    let available = if bytes > 1 << 28 { available_memory() } else { None };
    available.filter(|available| bytes > *available)
}

/// What the system says can be had, where it says so: of the machine's memory, and of what a container may take.
fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let machine = line.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)?;
    let number = |name: &str| std::fs::read_to_string(format!("/sys/fs/cgroup/{name}")).ok()?.trim().parse::<u64>().ok();
    let container = number("memory.max").zip(number("memory.current")).map(|(most, taken)| most.saturating_sub(taken));
    Some(container.map_or(machine, |container| container.min(machine)))
}
