// Package sensor is the command execd sensor, for authors of load sensors. It runs a sensor like
// the agent, through all its states, and prints the values and errors. Package loadsensor/external
// runs the sensor.
package sensor
