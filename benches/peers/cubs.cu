// CUB peers. Compiled with -DPART=0..5, so that the build runs in parallel.
// Each call: (temp, &temp_bytes, in, out..., n, stream); with temp == null it only fills temp_bytes.
#include <cub/cub.cuh>
#include <cuda_fp16.h>

typedef long long ll;
typedef cudaStream_t Stream;
#define API extern "C" int
#define DONE(x) return (int)(x)

#if PART == 0
API cub_sum_f32(void* t, size_t* b, const float* x, float* o, ll n, Stream s) { DONE(cub::DeviceReduce::Sum(t, *b, x, o, (int)n, s)); }
API cub_sum_f64(void* t, size_t* b, const double* x, double* o, ll n, Stream s) { DONE(cub::DeviceReduce::Sum(t, *b, x, o, (int)n, s)); }
struct AddF {  // f16 in, f32 accumulate
  __device__ float operator()(float a, float b) const { return a + b; }
};
API cub_sum_f16(void* t, size_t* b, const __half* x, float* o, ll n, Stream s) {
  DONE(cub::DeviceReduce::Reduce(t, *b, x, o, (int)n, AddF(), 0.0f, s));
}
#elif PART == 1
API cub_max_f32(void* t, size_t* b, const float* x, float* o, ll n, Stream s) { DONE(cub::DeviceReduce::Max(t, *b, x, o, (int)n, s)); }
API cub_max_f64(void* t, size_t* b, const double* x, double* o, ll n, Stream s) { DONE(cub::DeviceReduce::Max(t, *b, x, o, (int)n, s)); }
API cub_max_f16(void* t, size_t* b, const __half* x, __half* o, ll n, Stream s) { DONE(cub::DeviceReduce::Max(t, *b, x, o, (int)n, s)); }
#elif PART == 2
API cub_argmax_f32(void* t, size_t* b, const float* x, float* o, ll* i, ll n, Stream s) {
  DONE(cub::DeviceReduce::ArgMax(t, *b, x, o, i, n, s));
}
API cub_argmax_f64(void* t, size_t* b, const double* x, double* o, ll* i, ll n, Stream s) {
  DONE(cub::DeviceReduce::ArgMax(t, *b, x, o, i, n, s));
}
#elif PART == 3
API cub_argmax_f16(void* t, size_t* b, const __half* x, __half* o, ll* i, ll n, Stream s) {
  DONE(cub::DeviceReduce::ArgMax(t, *b, x, o, i, n, s));
}
#elif PART == 4
API cub_scan_f32(void* t, size_t* b, const float* x, float* o, ll n, Stream s) { DONE(cub::DeviceScan::InclusiveSum(t, *b, x, o, (int)n, s)); }
API cub_scan_i32(void* t, size_t* b, const int* x, int* o, ll n, Stream s) { DONE(cub::DeviceScan::InclusiveSum(t, *b, x, o, (int)n, s)); }
#else
API cub_hist_u8(void* t, size_t* b, const unsigned char* x, int* o, ll n, Stream s) {
  DONE(cub::DeviceHistogram::HistogramEven(t, *b, x, o, 257, 0, 256, (int)n, s));
}
API cub_hist_f32(void* t, size_t* b, const float* x, int* o, ll n, Stream s) {
  DONE(cub::DeviceHistogram::HistogramEven(t, *b, x, o, 1025, 0.0f, 1.0f, (int)n, s));
}
#endif
