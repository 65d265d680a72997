//! What no file is named by.
gpukc::gpu_kernel!("kernels.gk", "wrong.gk");
gpukc::gpu_kernel!("kernels.gk"; );
gpukc::gpu_kernel!(concat!("kernels", ".gk"));
gpukc::gpu_kernel!(b"kernels.gk");
gpukc::gpu_kernel!("kernels.gk"gk);
gpukc::gpu_kernel!(kernels.gk);
