// Package gpu finds the GPUs of a host, and determines the settings for a job that has some of
// them: their numbers in the resource map "gpu", the variables that show them to CUDA, ROCm and
// Level Zero, and the device nodes that the job may not open.
//
// Other projects should not import this package: it may change at any time.
//
// Detect reads /proc and /sys below a root that the caller names. It starts no program and opens no
// device, so it takes some milliseconds and cannot hang. Two values are not available from the
// kernel: the memory of an NVIDIA GPU, and its UUID before its first use. Query gets them from
// nvidia-smi, with a deadline and a limit for its output.
//
// A Register gives each GPU a permanent number. It stores the numbers in a file, so that the
// numbers of other GPUs do not change when a GPU disappears, even after a restart.
//
// An Inventory is not changed after it was made. A Register may be used from several goroutines.
package gpu
