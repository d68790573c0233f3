// Package agentclient implements the commands execd status, jobs, attach, drain and resume, which ask
// the agent of this host. They print the agent's answer. The agent decides what each caller may see
// and do.
package agentclient
