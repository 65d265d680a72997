//! GPU architectures: names, what each can do, and the limits that plans respect.

use std::fmt;

/// A compute capability, `a` for the architecture-specific feature set (`sm_90a`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Target {
    /// 75, 80, 86, 87, 89, 90, 100, 103, 110, 120, 121 …
    pub capability: u32,
    /// Whether architecture-specific instructions may be used.
    pub specific: bool,
}

impl Target {
    /// The architectures that every emitted text is compiled for in the tests.
    pub const TESTED: [Target; 7] = [
        Target { capability: 75, specific: false },
        Target { capability: 80, specific: false },
        Target { capability: 86, specific: false },
        Target { capability: 89, specific: false },
        Target { capability: 90, specific: true },
        Target { capability: 100, specific: false },
        Target { capability: 120, specific: false },
    ];

    /// The first with [dependent launches](Target::has_dependent_launches). The emitted text and the launcher of a project compare
    /// `__CUDA_ARCH__` with ten times as much.
    pub const DEPENDENT_LAUNCHES: u32 = 90;

    /// Parses `sm_90` or `sm_90a`.
    pub fn parse(name: &str) -> Option<Target> {
        let digits = name.strip_prefix("sm_")?;
        let (digits, specific) = digits.strip_suffix('a').map_or((digits, false), |d| (d, true));
        if digits.len() < 2 || digits.len() > 3 || digits.starts_with('0') || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        let capability = digits.parse().ok()?;
        // Architecture-specific features begin with Hopper.
        ((if specific { 90 } else { 50 })..=999).contains(&capability).then_some(Target { capability, specific })
    }

    /// Shared memory that a block may ask for, in bytes (CUDA C++ programming guide, table of technical specifications per
    /// compute capability).
    pub fn shared_bytes(self) -> i64 {
        let kilobytes = match self.capability {
            80 | 87 => 163,
            86 | 89 | 120 | 121 => 99,
            90 | 100 | 103 | 110 => 227,
            75 => 64,
            _ => 48,
        };
        kilobytes * 1024
    }

    /// Whether a launch can wait for the one in front of it by itself (programmatic dependent launch: CUDA C++ programming guide,
    /// PTX's `griddepcontrol`).
    pub fn has_dependent_launches(self) -> bool {
        self.capability >= Target::DEPENDENT_LAUNCHES
    }

    /// Whether the hardware adds packs of floats to global memory (`atomicAdd` of `float4`: CUDA C++ programming guide, atomic functions).
    pub fn has_vector_atomics(self) -> bool {
        self.capability >= 90
    }

    /// The target of a device of compute capability `major.minor`: on Hopper the architecture-specific one.
    pub fn of_device(major: u32, minor: u32) -> Target {
        Target { capability: major * 10 + minor, specific: major == 9 && minor == 0 }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.capability, if self.specific { "a" } else { "" })
    }
}
