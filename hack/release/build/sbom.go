package build

import (
	"bytes"
	"debug/buildinfo"
	"fmt"
	"runtime/debug"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
)

// SBOM creates the CycloneDX document of a program from its own build info: the modules that it links, and Go.
func SBOM(program, version string, at time.Time) ([]byte, error) {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the build information of the program: %w", err)
	}
	main := component(cdx.ComponentTypeApplication, info.Main.Path, version)
	libraries := []cdx.Component{component(cdx.ComponentTypeLibrary, "std", strings.TrimPrefix(info.GoVersion, "go"))}
	for _, dep := range info.Deps {
		libraries = append(libraries, library(dep, version))
	}
	linked := make([]string, 0, len(libraries))
	for _, l := range libraries {
		linked = append(linked, l.BOMRef)
	}
	document := cdx.NewBOM()
	document.Metadata = &cdx.Metadata{Timestamp: at.Format(time.RFC3339), Component: &main}
	document.Components = &libraries
	document.Dependencies = &[]cdx.Dependency{{Ref: main.BOMRef, Dependencies: &linked}}
	var text bytes.Buffer
	err = cdx.NewBOMEncoder(&text, cdx.BOMFileFormatJSON).SetPretty(true).Encode(document)
	return text.Bytes(), err
}

// library is a module, or its replacement. A module of the workspace is part of this repository, and has its version.
func library(m *debug.Module, version string) cdx.Component {
	if m.Version == "(devel)" {
		return component(cdx.ComponentTypeLibrary, m.Path, version)
	}
	if m.Replace != nil {
		m = m.Replace
	}
	l := component(cdx.ComponentTypeLibrary, m.Path, m.Version)
	if m.Sum != "" {
		l.Properties = &[]cdx.Property{{Name: "go.sum", Value: m.Sum}}
	}
	return l
}

func component(kind cdx.ComponentType, name, version string) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", name, version)
	return cdx.Component{Type: kind, BOMRef: url, Name: name, Version: version, PackageURL: url}
}
