// Package version holds the version of this program. The file VERSION is the only place that names
// the release: executables, packages and the HTTP interface read it.
package version

import (
	_ "embed" // for VERSION
	"strings"
)

//go:embed VERSION
var release string

// build is the semantic-versioning build metadata ("12.gabcdef") of a build that is not of a tagged
// release. The Makefile sets it at link time.
var build string

// String returns the version of this build: "0.2.0" for a release, "0.2.0+12.gabcdef" for any other
// commit.
func String() string {
	v := strings.TrimSpace(release)
	if build != "" {
		v += "+" + build
	}
	return v
}
