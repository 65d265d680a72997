//! `gpukc --version`: the version, and the NVRTC and driver found.

use gpukc_runtime::locate::{self, Located};
use gpukc_runtime::{driver, error::Error};

use crate::failure::Failure;
use crate::output;

/// `13.0`, as far as it is known.
pub fn of_nvrtc(located: &Located) -> String {
    let minor = located.version.1.map_or("x".to_owned(), |minor| minor.to_string());
    format!("{}.{minor}", located.version.0)
}

pub fn run() -> Result<(), Failure> {
    let nvrtc = locate::locate().map_or("none".to_owned(), |located| format!("{} ({})", of_nvrtc(&located), located.path.display()));
    let driver = match driver::driver().and_then(|driver| driver.version()) {
        Ok((major, minor)) => format!("CUDA {major}.{minor}"),
        Err(Error::Missing(_)) => "none".to_owned(),
        Err(error) => error.to_string(),
    };
    output::result(format!("gpukc {}\nNVRTC: {nvrtc}\ndriver: {driver}\n", env!("CARGO_PKG_VERSION")));
    Ok(())
}
