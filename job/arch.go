package job

// Arch converts the name of an architecture from Go's (GOARCH) to Grid Engine's name on Linux, such as
// lx-amd64. The variable SGE_ARCH of jobs contains it.
func Arch(goarch string) string {
	switch goarch {
	case "386":
		return "lx-x86"
	default:
		return "lx-" + goarch
	}
}
