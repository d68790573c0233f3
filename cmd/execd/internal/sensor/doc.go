// Package sensor is the command execd sensor: for those who write load sensors. It runs
// one as the agent does, through its whole life, and says what was understood and what
// was wrong. How sensors are run, package loadsensor/external knows.
package sensor
