// CUDA C++ peers and the ceilings.
// Every entry point: pointers, long long integers, float scalars, then the stream; returns a cudaError_t.
#include <cuda_fp16.h>
#include <cuda_runtime.h>

typedef long long ll;
typedef cudaStream_t Stream;
#define API extern "C" int
#define TRY(x) do { cudaError_t e_ = (x); if (e_ != cudaSuccess) return (int)e_; } while (0)

static int last() { return (int)cudaGetLastError(); }
static int sms() {
  static int n = 0;
  if (!n) cudaDeviceGetAttribute(&n, cudaDevAttrMultiProcessorCount, 0);
  return n;
}
static unsigned cdiv(ll a, ll b) { return (unsigned)((a + b - 1) / b); }

__device__ __forceinline__ float gelu(float v) { return 0.5f * v * (1.0f + erff(v * 0.70710678f)); }

// ------------------------------------------------------------------ elementwise
// OP 0: x+y   1: a*x+y   2: gelu(a*x+y)*z
template <int OP> __device__ __forceinline__ float ew_op(float x, float y, float z, float a) {
  return OP == 0 ? x + y : OP == 1 ? a * x + y : gelu(a * x + y) * z;
}

template <class T, int OP> __global__ void ew_plain(const T* x, const T* y, const T* z, T* o, float a, ll n) {
  for (ll i = blockIdx.x * (ll)blockDim.x + threadIdx.x; i < n; i += (ll)gridDim.x * blockDim.x)
    o[i] = (T)ew_op<OP>((float)x[i], (float)y[i], OP == 2 ? (float)z[i] : 0.f, a);
}

template <class T> struct alignas(16) Vec { T v[16 / sizeof(T)]; };

// one 16-byte vector a thread; n must be a multiple of the vector length, except for the tail done scalar
template <class T, int OP> __global__ void ew_vec(const T* x, const T* y, const T* z, T* o, float a, ll n) {
  constexpr int W = 16 / sizeof(T);
  ll i = (blockIdx.x * (ll)blockDim.x + threadIdx.x) * W;
  if (i + W <= n) {
    Vec<T> vx = *(const Vec<T>*)(x + i), vy = *(const Vec<T>*)(y + i), vz, vo;
    if (OP == 2) vz = *(const Vec<T>*)(z + i);
#pragma unroll
    for (int j = 0; j < W; j++)
      vo.v[j] = (T)ew_op<OP>((float)vx.v[j], (float)vy.v[j], OP == 2 ? (float)vz.v[j] : 0.f, a);
    *(Vec<T>*)(o + i) = vo;
  } else {
    for (; i < n; i++) o[i] = (T)ew_op<OP>((float)x[i], (float)y[i], OP == 2 ? (float)z[i] : 0.f, a);
  }
}

template <class T, int OP>
static int ew_go(const void* x, const void* y, const void* z, void* o, float a, ll n, ll vec, Stream s) {
  if (vec) {
    ew_vec<T, OP><<<cdiv(n, 256 * (16 / sizeof(T))), 256, 0, s>>>((const T*)x, (const T*)y, (const T*)z, (T*)o, a, n);
  } else {
    unsigned want = cdiv(n, 256), most = 32 * sms();
    ew_plain<T, OP><<<want < most ? want : most, 256, 0, s>>>((const T*)x, (const T*)y, (const T*)z, (T*)o, a, n);
  }
  return last();
}

API ew(const void* x, const void* y, const void* z, void* o, float a, ll n, ll half, ll op, ll vec, Stream s) {
  switch (half * 3 + op) {
    case 0: return ew_go<float, 0>(x, y, z, o, a, n, vec, s);
    case 1: return ew_go<float, 1>(x, y, z, o, a, n, vec, s);
    case 2: return ew_go<float, 2>(x, y, z, o, a, n, vec, s);
    case 3: return ew_go<__half, 0>(x, y, z, o, a, n, vec, s);
    case 4: return ew_go<__half, 1>(x, y, z, o, a, n, vec, s);
    case 5: return ew_go<__half, 2>(x, y, z, o, a, n, vec, s);
  }
  return 1;
}

// ------------------------------------------------------------------ ceilings
// n4 counts float4s; `per` float4s a thread are in flight at once
template <int U> __global__ void copy4(const float4* x, float4* o, ll n4) {
  ll i = blockIdx.x * (ll)(blockDim.x * U) + threadIdx.x;
  float4 v[U];
#pragma unroll
  for (int j = 0; j < U; j++) if (i + j * 256 < n4) v[j] = __ldcs(x + i + j * 256);
#pragma unroll
  for (int j = 0; j < U; j++) if (i + j * 256 < n4) __stcs(o + i + j * 256, v[j]);
}
API copyk(const void* x, void* o, ll n4, ll u, Stream s) {
  if (u == 1) copy4<1><<<cdiv(n4, 256), 256, 0, s>>>((const float4*)x, (float4*)o, n4);
  else if (u == 2) copy4<2><<<cdiv(n4, 512), 256, 0, s>>>((const float4*)x, (float4*)o, n4);
  else copy4<4><<<cdiv(n4, 1024), 256, 0, s>>>((const float4*)x, (float4*)o, n4);
  return last();
}

// reads everything, adds it up and stores one float a block (no atomics): the read ceiling
template <int U> __global__ void read4(const float4* x, float* part, ll n4) {
  float s = 0;
  ll step = (ll)gridDim.x * blockDim.x, i = blockIdx.x * (ll)blockDim.x + threadIdx.x;
  for (; i + (U - 1) * step < n4; i += U * step) {
    float4 v[U];
#pragma unroll
    for (int j = 0; j < U; j++) v[j] = x[i + j * step];
#pragma unroll
    for (int j = 0; j < U; j++) s += v[j].x + v[j].y + v[j].z + v[j].w;
  }
  for (; i < n4; i += step) { float4 v = x[i]; s += v.x + v.y + v.z + v.w; }
  for (int d = 16; d; d >>= 1) s += __shfl_down_sync(~0u, s, d);
  __shared__ float w[32];
  if (threadIdx.x % 32 == 0) w[threadIdx.x / 32] = s;
  __syncthreads();
  if (threadIdx.x == 0) {
    for (int k = 1; k < blockDim.x / 32; k++) s += w[k];
    part[blockIdx.x] = s;
  }
}
API readk(const void* x, void* part, ll n4, ll blocks_per_sm, ll u, Stream s) {
  unsigned g = (unsigned)blocks_per_sm * sms();
  if (u == 4) read4<4><<<g, 256, 0, s>>>((const float4*)x, (float*)part, n4);
  else read4<8><<<g, 256, 0, s>>>((const float4*)x, (float*)part, n4);
  return last();
}

__global__ void fill4(float4* o, float v, ll n4) {
  ll i = blockIdx.x * (ll)blockDim.x + threadIdx.x;
  if (i < n4) o[i] = make_float4(v, v + 1, v + 2, v + 3);
}
API fillk(void* o, float v, ll n4, Stream s) {
  fill4<<<cdiv(n4, 256), 256, 0, s>>>((float4*)o, v, n4);
  return last();
}

API memsetk(void* o, ll value, ll bytes, Stream s) { return (int)cudaMemsetAsync(o, (int)value, bytes, s); }

// ------------------------------------------------------------------ transpose [batch][rows][cols] -> [batch][cols][rows]
template <class T> __global__ void tr_tile(const T* x, T* o, int R, int C) {
  __shared__ T t[32][33];
  x += blockIdx.z * (ll)R * C; o += blockIdx.z * (ll)R * C;
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) if (r + j < R && c < C) t[threadIdx.y + j][threadIdx.x] = x[(ll)(r + j) * C + c];
  __syncthreads();
  c = blockIdx.y * 32 + threadIdx.x; r = blockIdx.x * 32 + threadIdx.y;  // now in the output
  for (int j = 0; j < 32; j += 8) if (r + j < C && c < R) o[(ll)(r + j) * R + c] = t[threadIdx.x][threadIdx.y + j];
}
// f16 with even R and C: a warp moves two elements a thread, on both sides
__global__ void tr_pairs(const __half* x, __half* o, int R, int C) {
  __shared__ __half t[64][66];
  x += blockIdx.z * (ll)R * C; o += blockIdx.z * (ll)R * C;
  int c = blockIdx.x * 64 + 2 * threadIdx.x, r = blockIdx.y * 64 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 64; j += 8)
    if (r + j < R && c < C) *(__half2*)&t[threadIdx.y + j][2 * threadIdx.x] = *(const __half2*)&x[(ll)(r + j) * C + c];
  __syncthreads();
  c = blockIdx.y * 64 + 2 * threadIdx.x; r = blockIdx.x * 64 + threadIdx.y;
#pragma unroll
  for (int j = 0; j < 64; j += 8)
    if (r + j < C && c < R)
      *(__half2*)&o[(ll)(r + j) * R + c] = __halves2half2(t[2 * threadIdx.x][threadIdx.y + j], t[2 * threadIdx.x + 1][threadIdx.y + j]);
}
// v 0: 32x32 tiles; 1: f16 by pairs
API transpose(const void* x, void* o, ll B, ll R, ll C, ll half, ll v, Stream s) {
  dim3 b(32, 8);
  if (v == 1 && (!half || R % 2 || C % 2)) return 1;
  dim3 g(cdiv(C, v ? 64 : 32), cdiv(R, v ? 64 : 32), (unsigned)B);
  if (v == 1) tr_pairs<<<g, b, 0, s>>>((const __half*)x, (__half*)o, (int)R, (int)C);
  else if (half) tr_tile<__half><<<g, b, 0, s>>>((const __half*)x, (__half*)o, (int)R, (int)C);
  else tr_tile<float><<<g, b, 0, s>>>((const float*)x, (float*)o, (int)R, (int)C);
  return last();
}

// ------------------------------------------------------------------ stencils
__global__ void jacobi5_k(const float* x, float* o, int H, int W) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (r < 1 || r >= H - 1 || c < 1 || c >= W - 1) return;
  const float* p = x + r * W + c;
  o[r * W + c] = 0.25f * (p[-W] + p[W] + p[-1] + p[1]);
}
API jacobi5(const void* x, void* o, ll H, ll W, Stream s) {
  jacobi5_k<<<dim3(cdiv(W, 32), cdiv(H, 8)), dim3(32, 8), 0, s>>>((const float*)x, (float*)o, (int)H, (int)W);
  return last();
}
__device__ __forceinline__ void blur_store(float* o, float s) { *o = s * (1.0f / 9.0f); }
__device__ __forceinline__ void blur_store(unsigned char* o, int s) { *o = (unsigned char)((s + 4) / 9); }
template <class T, class A> __global__ void blur3_k(const T* x, T* o, int H, int W) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y;
  if (r >= H || c >= W) return;
  A s = 0;
  for (int dr = -1; dr <= 1; dr++)
    for (int dc = -1; dc <= 1; dc++) s += x[min(max(r + dr, 0), H - 1) * W + min(max(c + dc, 0), W - 1)];
  blur_store(o + r * W + c, s);
}
API blur3(const void* x, void* o, ll H, ll W, ll u8, Stream s) {
  dim3 g(cdiv(W, 32), cdiv(H, 8)), b(32, 8);
  if (u8) blur3_k<unsigned char, int><<<g, b, 0, s>>>((const unsigned char*)x, (unsigned char*)o, (int)H, (int)W);
  else blur3_k<float, float><<<g, b, 0, s>>>((const float*)x, (float*)o, (int)H, (int)W);
  return last();
}
__global__ void heat7_k(const float* x, float* o, int D, int H, int W, float k) {
  int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 8 + threadIdx.y, d = blockIdx.z;
  if (d < 1 || d >= D - 1 || r < 1 || r >= H - 1 || c < 1 || c >= W - 1) return;
  int i = (d * H + r) * W + c, P = H * W;
  o[i] = x[i] + k * (x[i - P] + x[i + P] + x[i - W] + x[i + W] + x[i - 1] + x[i + 1] - 6.0f * x[i]);
}
API heat7(const void* x, void* o, ll D, ll H, ll W, float k, Stream s) {
  heat7_k<<<dim3(cdiv(W, 32), cdiv(H, 8), (unsigned)D), dim3(32, 8), 0, s>>>((const float*)x, (float*)o, (int)D, (int)H,
                                                                            (int)W, k);
  return last();
}

// ------------------------------------------------------------------ gather and scatter-add
template <class I> __global__ void gather_k(const float* t, const I* idx, float* o, ll n) {
  ll i = blockIdx.x * (ll)blockDim.x + threadIdx.x;
  if (i < n) o[i] = t[idx[i]];
}
template <class I> __global__ void scatter_k(float* t, const I* idx, const float* v, ll n) {
  ll i = blockIdx.x * (ll)blockDim.x + threadIdx.x;
  if (i < n) atomicAdd(t + idx[i], v[i]);
}
API gather(const void* t, const void* idx, void* o, ll n, ll i64, Stream s) {
  if (i64) gather_k<ll><<<cdiv(n, 256), 256, 0, s>>>((const float*)t, (const ll*)idx, (float*)o, n);
  else gather_k<int><<<cdiv(n, 256), 256, 0, s>>>((const float*)t, (const int*)idx, (float*)o, n);
  return last();
}
API scatter_add(void* t, const void* idx, const void* v, ll n, ll i64, Stream s) {
  if (i64) scatter_k<ll><<<cdiv(n, 256), 256, 0, s>>>((float*)t, (const ll*)idx, (const float*)v, n);
  else scatter_k<int><<<cdiv(n, 256), 256, 0, s>>>((float*)t, (const int*)idx, (const float*)v, n);
  return last();
}

