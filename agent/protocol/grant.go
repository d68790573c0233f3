package protocol

// Grant is the slots that a job has in a queue instance.
type Grant struct {
	Queue string `json:"queue"`
	Host  string `json:"host"`
	Slots int    `json:"slots"`
	// Names are the elements of resource maps that the job has been given, by complex.
	Names map[string][]string `json:"names,omitempty"`
}
