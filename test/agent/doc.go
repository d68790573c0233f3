// Package agent has the tests of execd agent as a whole: the built executables, driven
// through their interface, with everything killed that can be.
package agent
