// Package agentclient is what is asked of the agent of this host by those who are on it:
// execd status, jobs, attach, drain and resume. It says what the agent answers; who may ask for
// what the agent knows, and how jobs are run, too.
package agentclient
