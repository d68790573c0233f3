// Package agent tests execd agent as a whole: the built executables, through their interface, while
// any of the processes may be killed.
package agent
