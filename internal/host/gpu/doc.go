// Package gpu finds the GPUs of a host and says what a job that has some of them needs: their
// numbers in the resource map "gpu", the variables that show them to CUDA, ROCm and Level Zero,
// and the device nodes that the job may not open.
//
// Other projects should not import this package: it may change at any time.
//
// Detect reads /proc and /sys below a root that the caller names. It starts no program and opens
// no device, so it takes some milliseconds and cannot hang. What the kernel does not tell is
// absent: the memory of a GPU of NVIDIA, and its UUID before its first use, come from
// nvidia-smi, which Query asks with a deadline and a limit of its output.
//
// A Register gives each GPU a number that stays its own: it is kept in a file, so that a GPU that
// disappears does not shift the numbers of the others, also not by a restart.
//
// An Inventory is not changed after it was made. A Register may be used from several goroutines.
package gpu
