//! Files that are wrong, or not there.
gpukc::gpu_kernel!("wrong.gk");
gpukc::gpu_kernel!("nowhere.gk");

pub fn call(gpu: &gpukc::Gpu, x: &gpukc::DeviceArray<f32, 1>) -> Result<gpukc::DeviceArray<f32, 1>, gpukc::Error> {
    shifted(gpu, x)
}
