package job

// Arch returns the name that Grid Engine has for an architecture of Go (GOARCH) on Linux, as
// in the variable SGE_ARCH: lx-amd64.
func Arch(goarch string) string {
	switch goarch {
	case "386":
		return "lx-x86"
	default:
		return "lx-" + goarch
	}
}
