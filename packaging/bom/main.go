// Command bom writes the software bill of materials of an executable: which modules of
// which version it links, as the Go toolchain has recorded them in it.
//
//	bom -version VERSION EXECUTABLE >FILE
//
// The output is CycloneDX 1.6 in JSON. The same executable and version give the same
// output, byte for byte.
package main

import (
	"debug/buildinfo"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

func main() {
	version := flag.String("version", "", "version of the executable")
	flag.Parse()
	if flag.NArg() != 1 || *version == "" {
		fmt.Fprintln(os.Stderr, "usage: bom -version VERSION EXECUTABLE >FILE")
		os.Exit(2)
	}
	if err := write(os.Stdout, flag.Arg(0), *version); err != nil {
		fmt.Fprintln(os.Stderr, "bom:", err)
		os.Exit(1)
	}
}

func write(w io.Writer, path, version string) error {
	info, err := buildinfo.ReadFile(path)
	if err != nil {
		return err
	}
	b, err := bill(info, filepath.Base(path), version)
	if err != nil {
		return fmt.Errorf("cannot list the modules of %q: %w", path, err)
	}
	return cdx.NewBOMEncoder(w, cdx.BOMFileFormatJSON).SetPretty(true).EncodeVersion(b, cdx.SpecVersion1_6)
}

// bill lists what an executable links: the modules, and the standard library as a
// module of the toolchain's version.
func bill(info *debug.BuildInfo, name, version string) (*cdx.BOM, error) {
	main := component(cdx.ComponentTypeApplication, info.Main.Path, version)
	main.Name = name
	b := cdx.NewBOM()
	b.Metadata = &cdx.Metadata{Component: &main}
	std := component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))
	components := []cdx.Component{std}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		if m.Sum == "" {
			return nil, fmt.Errorf("module %s has no checksum: it comes from a directory", m.Path)
		}
		c := component(cdx.ComponentTypeLibrary, m.Path, m.Version)
		c.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
		components = append(components, c)
	}
	refs := make([]string, len(components))
	for i, c := range components {
		refs[i] = c.BOMRef
	}
	b.Components = &components
	b.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &refs}}
	return b, nil
}

// component describes a module. Its package URL is what databases of vulnerabilities
// look it up by (the type golang of the purl specification).
func component(kind cdx.ComponentType, path, version string) cdx.Component {
	url := "pkg:golang/" + path + "@" + strings.ReplaceAll(version, "+", "%2B")
	return cdx.Component{BOMRef: url, Type: kind, Name: path, Version: version, PackageURL: url}
}
